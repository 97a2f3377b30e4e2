import JSONTree
import SecurityRules
import Testing

/// The additional output of a traced decision.
@Suite(.timeLimit(.minutes(30))) struct RuleTraceTests {
    private static let text = """
        {
          "rules": {
            "n": {
              "$k": {
                ".write": "auth.uid == $k && (newData.val() > 3 || $k.length * 2 == 6)",
                ".validate": "newData.val().length < 3
                              || false"
              }
            }
          }
        }
        """

    private func parts(_ step: RuleTrace.Step) -> [String] { step.parts.map { String(repeating: " ", count: $0.depth) + $0.description } }

    @Test func explanation_tellsEveryPartThatWasEvaluated_withItsPlaceInTheFile() throws {
        let rules = try RuleSet(parsing: Self.text)
        let trace = rules.explainWrite(["/n/ada"], old: .null, new: ["n": ["ada": 5]], auth: ["uid": "ada"], now: 0)
        #expect(!trace.isAllowed)
        #expect(trace.steps.map(\.kind) == [.write, .validate])
        #expect(
            parts(trace.steps[0]) == [
                "auth.uid == $k && (newData.val() > 3 || $k.length * 2 == 6) = true (5:20)", " auth.uid == $k = true (5:20)",
                "  auth.uid = \"ada\" (5:20)", "  $k = \"ada\" (5:32)", " (newData.val() > 3 || $k.length * 2 == 6) = true (5:38)",
                "  newData.val() > 3 = true (5:39)", "   newData.val() = 5 (5:39)",
            ])
        #expect(trace.refusal?.kind == .validate)
        #expect(
            parts(trace.steps[1]) == [
                "newData.val().length < 3 || false = failed: value is not a string (6:23)",
                " newData.val().length < 3 = failed: value is not a string (6:23)",
                "  newData.val().length = failed: value is not a string (6:23)", "   newData.val() = 5 (6:23)",
            ])
        #expect(trace.description.contains("        newData.val().length < 3 || false = failed"))
    }

    @Test func shortCircuits_leaveOut_whatWasNotEvaluated() throws {
        let rules = try RuleSet(parsing: Self.text)
        let trace = rules.explainWrite(["/n/ada"], old: .null, new: ["n": ["ada": 5]], auth: .null, now: 0)
        #expect(parts(trace.steps[0]).count == 4)
        #expect(parts(trace.steps[0])[2] == "  auth.uid = null (5:20)")
        #expect(trace.refusal == nil)
    }

    @Test func columns_leadThroughEscapes_ofTheFile() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":"'\u00e9\n' != null && auth != null"}}"#.replacing("\\n", with: "\\\\n"))
        let trace = rules.explainRead("/", root: .null, auth: .null, now: 0)
        #expect(trace.steps[0].parts.contains { $0.text == "auth != null" && $0.column == 43 })
    }

    @Test(arguments: [
        ("data.child('o').val() != null", "data.child('o').val() = (object) (1:20)"),
        ("root.child('t').exists()", "root.child('t').exists() = true (1:20)"),
        ("now + 1 == 2", "now = 1 (1:20)"), ("query.limitToFirst == null", "query.limitToFirst = null (1:20)"),
        ("data.child('s').val().replace('a', 'b') == 'b'", "data.child('s').val().replace('a', 'b') = \"b\" (1:20)"),
        ("(auth == null ? data.child('n').val() : 2) == 1.5", "data.child('n').val() = 1.5 (1:36)"),
        ("!data.hasChild('x')", "data.hasChild('x') = false (1:21)"),
    ]) func part_isShown_asItIsWritten(_ expression: String, _ part: String) throws {
        let rules = try RuleSet(parsing: "{\"rules\":{\".read\":\(quoted(expression))}}")
        let trace = rules.explainRead("/", root: ["o": ["p": 1], "t": 1, "s": "a", "n": 1.5], auth: .null, now: 1)
        #expect(trace.isAllowed)
        #expect(trace.steps[0].parts.map(\.description).contains(part), "\(trace)")
    }

    /// A wide write evaluates a rule for each child: the trace stays bounded and contains the rule that refused.
    @Test func steps_areBounded_andEndWithTheRefusal() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".write":true,"$k":{".validate":"newData.val() < 2000"}}}"#)
        let wide = Node.object((0..<3000).map { (Key("k\(10_000 + $0)"), Node.int(Int64($0))) })
        let trace = rules.explainWrite(["/"], old: .null, new: wide, auth: .null, now: 0)
        #expect(trace.steps.count == RuleTrace.maxSteps)
        #expect(trace.refusal?.path == "/k12000")
    }
}
