import JSONTree
import Testing

@testable import SecurityRules

/// Each limit from both sides.
@Suite(.timeLimit(.minutes(30))) struct RulesLimitsTests {
    private func nested(_ open: String, _ count: Int, _ close: String) -> [RuleError] {
        let expression = String(repeating: open, count: count) + "true" + String(repeating: close, count: count)
        return faults("{\"rules\":{\".read\":\"\(expression)\"}}")
    }

    @Test(
        arguments: [("(", ")"), ("!", ""), ("true ? true : ", "")]
    ) func expression_isRefused_whenItNestsTooDeeply(_ open: String, _ close: String) {
        #expect(nested(open, RulesLimits.expressionHeight - 1, close) == [])
        #expect(nested(open, RulesLimits.expressionHeight, close).map(\.message) == ["Expression is nested deeper than 256 levels."])
    }

    @Test func longChain_isNoDeepExpression() throws {
        let rules = try RuleSet(parsing: "{\"rules\":{\".read\":\"\(String(repeating: "data.exists() || ", count: 20_000))auth == null\"}}")
        #expect(rules.allowsRead("/", root: .null, auth: .null, now: 0))
        #expect(!rules.allowsRead("/", root: .null, auth: ["uid": "a"], now: 0))
    }

    @Test func regularExpression_isRefused_whenItsTableIsTooLarge() throws {
        _ = try Regex("^a{2000}$", ignoresCase: false)
        #expect(throws: RegexError.self) { try Regex("^a{2100}$", ignoresCase: false) }
        #expect(throws: RegexError.self) { try Regex("^a{5100}$", ignoresCase: false) }
    }

    /// A text too long for a simulated pattern fails the rule: the rule does not grant, not even under a `!`.
    @Test func ruleFails_whenATextIsTooLong_forASimulatedPattern() throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":"!data.val().matches(/(a|b)*a(a|b){13}c/)"}}"#)
        let states = try Regex("(a|b)*a(a|b){13}c", ignoresCase: false).unitWork / RulesLimits.regexStateWork
        #expect((40...RulesLimits.regexSimulatedStates).contains(states))
        let longest = String(repeating: "a", count: RulesLimits.textWork / (states * RulesLimits.regexStateWork))
        #expect(rules.allowsRead("/", root: .string(longest), auth: .null, now: 0))
        #expect(!rules.allowsRead("/", root: .string(longest + "a"), auth: .null, now: 0))
        guard case .failed(.textTooLong, _) = rules.explainRead(
            "/", root: .string(longest + "a"), auth: .null, now: 0
        ).steps[0].outcome else {
            return #expect(Bool(false), "explained otherwise")
        }
    }

    private func children(_ count: Int, _ text: String, besides: [(Key, Node)] = []) -> Node {
        .object((0..<count).map { (Key("c\($0)"), .string(text)) } + besides)
    }

    /// The texts of one write have a common bound: the first text beyond it fails its rule, and with it the write.
    @Test(arguments: [
        ("newData.val().matches(/^((a|b)*a(a|b){13}c|a*)$/)", 320), ("newData.val().matches(/^a*$/)", 1),
        ("newData.val().contains('b') == false", 1),
        ("newData.val().replace('a', '') == ''", 1), ("newData.val().toLowerCase() != 'b'", 1), ("newData.val() + '' != 'b'", 1),
    ]) func write_isRefused_whenItsTextsAreTooMuchWorkTogether(_ rule: String, _ costOfByte: Int) throws {
        let length = 1_000
        let text = String(repeating: "a", count: length)
        let fits = 20
        // A little more than the text's own cost: names and parts are visited as well.
        let rules = try RuleSet(
            parsing: #"{"rules":{".write":true,"$c":{".validate":"\#(rule)"}}}"#, textWork: try cost(
                of: rule, length, atLeast: costOfByte) * fits)
        func isAllowed(_ count: Int) -> Bool { rules.allowsWrite(["/"], old: .null, new: children(count, text), auth: .null, now: 0) }
        #expect(isAllowed(fits) && !isAllowed(fits + 1))
        let refused = rules.explainWrite(["/"], old: .null, new: children(fits + 1, text), auth: .null, now: 0)
        #expect(!refused.isAllowed && refused.refusal?.outcome.isTooMuchWork == true && refused.steps.count == 1 + fits + 1, "\(refused)")
        #expect(rules.explainWrite(["/"], old: .null, new: children(fits, text), auth: .null, now: 0).isAllowed)
        // Several locations are one operation as well.
        let paths = (0...fits).map { Path([Key("c\($0)")]) }
        #expect(rules.allowsWrite(Array(paths.dropLast()), old: .null, new: children(fits + 1, text), auth: .null, now: 0))
        #expect(!rules.allowsWrite(paths, old: .null, new: children(fits + 1, text), auth: .null, now: 0))
    }

    /// The least bound under which one text of this many bytes passes, by bisection.
    private func cost(of rule: String, _ length: Int, atLeast costOfByte: Int) throws -> Int {
        let value = children(1, String(repeating: "a", count: length))
        var (low, high) = (0, 1 << 24)
        while high - low > 1 {
            let middle = (low + high) / 2
            let rules = try RuleSet(parsing: #"{"rules":{".write":true,"$c":{".validate":"\#(rule)"}}}"#, textWork: middle)
            if rules.allowsWrite(["/"], old: .null, new: value, auth: .null, now: 0) { high = middle } else { low = middle }
        }
        #expect(high >= length * costOfByte && high <= length * costOfByte * 3, "\(rule) costs \(high)")
        return high
    }

    /// A write of 13 MB whose texts are each short enough: only two of them are matched.
    @Test func manyTextsForASimulatedPattern_areRefused_atTheFirstThatIsTooMuch() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{".write":true,"$c":{".validate":"newData.val().matches(/^((a|b)*a(a|b){13}c|a*)$/)"}}}"#)
        let new = children(200, String(repeating: "a", count: 65_536))
        let trace = rules.explainWrite(["/"], old: .null, new: new, auth: .null, now: 0)
        #expect(!trace.isAllowed && trace.steps.count <= 4 && trace.refusal?.outcome.isTooMuchWork == true, "\(trace)")
    }

    /// A rule of each child that reads one text is charged for the text for each child.
    @Test func write_isRefused_whenManyChildrenLookAtOneText() throws {
        func rules(_ rule: String) throws -> RuleSet {
            try RuleSet(parsing: #"{"rules":{".write":true,"$c":{".validate":"\#(rule)"}}}"#, textWork: 100_000)
        }
        let big: [(Key, Node)] = [("big", .string(String(repeating: "a", count: 1_000)))]
        let searched = try rules("newData.parent().child('big').val().contains('x') == false")
        #expect(searched.allowsWrite(["/"], old: .null, new: children(90, "", besides: big), auth: .null, now: 0))
        #expect(!searched.allowsWrite(["/"], old: .null, new: children(100, "", besides: big), auth: .null, now: 0))
        // A comparison is work as well, a sixteenth of that.
        let compared = try rules("newData.parent().child('big').val() == root.child('big').val()")
        #expect(compared.allowsWrite(["/"], old: .object(big), new: children(1_500, "", besides: big), auth: .null, now: 0))
        #expect(!compared.allowsWrite(["/"], old: .object(big), new: children(1_700, "", besides: big), auth: .null, now: 0))
    }

    /// A rule that fails for too much work grants nothing; rules without such work still apply.
    @Test func ruleWithoutTexts_stillGrants_whenAnotherWasTooMuchWork() throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{".write":"newData.child('t').val().contains('x') == false || auth.token.t.contains('x') == false","#
                + #""open":{".write":true}}}"#,
            textWork: 1_000)
        let new: Node = ["t": .string(String(repeating: "a", count: 1_000)), "open": 1]
        #expect(rules.allowsWrite(["/open"], old: .null, new: new, auth: .null, now: 0))
        #expect(!rules.allowsWrite(["/other"], old: .null, new: new, auth: .null, now: 0))
        // With other data the rule might have needed less work, so the write may be allowed.
        let auth: Node = ["uid": "a", "token": ["t": .string(String(repeating: "a", count: 1_000))]]
        #expect(rules.mayAllowWrite(["/other"], auth: auth, now: 0))
    }

    @Test func work_hasTheDocumentedBound() throws {
        #expect(
            RulesLimits.textWork == 67_108_864
            && RulesLimits.textWork / RulesLimits.regexStateWork / RulesLimits.regexSimulatedStates == 32_768)
        let rules = try RuleSet(parsing: #"{"rules":{".read":"data.val() + '' != 'b'"}}"#)
        #expect(rules.program.textWork == RulesLimits.textWork)
    }

    /// When the file is checked, each is compared with each other to find circles.
    @Test func countersAndCopies_areBounded_together() throws {
        func rules(_ counters: Int, _ copies: Int) -> String {
            let counts = (0..<counters).map { "\"n\($0)\":\"count(z/$k)\"" }.joined(separator: ",")
            let copied = (0..<copies).map { "\"c\($0)/$k\"" }.joined(separator: ",")
            return "{\"rules\":{\"x\":{\"$k\":{\".counts\":{\(counts)},\n\".copy\":[\(copied)]}}}}"
        }
        _ = try RuleSet(parsing: rules(600, 400))
        do throws(RulesErrors) {
            _ = try RuleSet(parsing: rules(600, 401))
            Issue.record("not refused")
        } catch { #expect(error.errors.map(\.description) == ["2:\(rules(600, 400).split(separator: "\n")[1].utf8.count - 3): At most 1000 counters, copies, inboxes and watches."]) }
    }

    @Test func upperCase_isBounded_asOtherComputedStrings() throws {
        // Each of these characters grows from two bytes to six.
        let rules = try RuleSet(parsing: #"{"rules":{".read":"data.val().toUpperCase().length > 0"}}"#)
        #expect(rules.allowsRead("/", root: .string(String(repeating: "ΐ", count: 1_000_000)), auth: .null, now: 0))
        #expect(!rules.allowsRead("/", root: .string(String(repeating: "ΐ", count: 2_000_000)), auth: .null, now: 0))
    }
}

extension RuleTrace.Outcome {
    fileprivate var isTooMuchWork: Bool { if case .failed(.tooMuchWork, _) = self { true } else { false } }
}
