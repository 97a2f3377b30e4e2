import Dispatch
import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import Testing

/// What a database reports about rule decisions: refusals to listeners, and answers to questions.
@Suite(.timeLimit(.minutes(30))) struct RuleQuestionTests {
    private final class Listener: RefusalListener {
        let wants: Bool
        private let heard = Mutex<[String]>([])

        init(wants: Bool = true) { self.wants = wants }

        func wantsRefusal(now: Int64) -> Bool { wants }

        func refused(_ request: RuledRequest, _ question: RuleQuestion) {
            let trace = question.explained()
            heard.withLock {
                let steps = trace.steps.map { "\($0.pattern)\($0.kind.rawValue)" }
                $0.append("\(request.rawValue) \(trace.isAllowed) \(steps.joined(separator: " "))")
            }
        }

        func take() -> [String] {
            heard.withLock { heard in
                defer { heard = [] }
                return heard
            }
        }
    }

    private static let rules = """
        {"rules":{"a":{".read":"data.child('open').val() == true",".write":"auth.uid == 'ada'",
        ".validate":"newData.child('n').val() != 5"},"w":{".write":true}}}
        """

    @Test func everyRefusal_isHeardOfOnce_withTheReasonToBeFound() throws {
        let listener = Listener()
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), root: ["a": ["open": true]], refusals: listener)
        let client = Client.make()
        _ = hub.ask(client, .listen("a"), .get("a"), .put("w", 1))
        #expect(listener.take() == [])
        _ = hub.ask(client, .get("b"))
        #expect(listener.take() == ["get false "])
        _ = hub.ask(client, .put("a/n", 1))
        #expect(listener.take() == ["write false /a.write"])
        _ = hub.ask(client, .onDisconnect([TreeWrite("a/n", WriteValue(1))]))
        #expect(listener.take() == ["onDisconnect false /a.write"])
        _ = hub.ask(client, .listen("b/c"))
        #expect(listener.take() == ["listen false "])
        let admin = Client.make()
        _ = hub.ask(admin, .identify(.admin), .get("b"), .put("a/open", false))
        #expect(listener.take() == ["cancelled listen false /a.read"])
        let ada = Client.make()
        _ = hub.ask(ada, .identify(Identity(auth: ["uid": "ada"])), .put("a/n", 5))
        #expect(listener.take() == ["write false /a.write /a.validate"])
    }

    @Test func refusals_areNotMadeUp_forListenersThatDoNotWantThem() throws {
        let listener = Listener(wants: false)
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), refusals: listener)
        #expect(hub.ask(.make(), .get("a")) == ["error 0 permission_denied"])
        #expect(listener.take() == [])
    }

    @Test func questions_areAboutTheContentAsItIs_andChangeNothing() throws {
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), root: ["a": ["open": true, "n": 4]])
        let answers = Mutex<[Bool]>([])
        let note: @Sendable (RuleQuestion) -> Void = { question in answers.withLock { $0.append(question.explained().isAllowed) } }
        hub.database.pose(readOf: "a", query: .none, auth: .null, now: nil, note)
        let increment = try Array(#"{".sv":{"increment":1}}"#.utf8).withUnsafeBytes { bytes in
            var reader = JSONReader(bytes)
            return try reader.writeValue()
        }
        for uid in ["ada", "bo"] {
            hub.database.pose([TreeWrite("a/n", increment)], auth: ["uid": .string(uid)], now: 5) {
                if case .success(let question) = $0 { note(question) }
            }
            hub.settle()
        }
        hub.database.pose([TreeWrite("a/x", WriteValue(1))], auth: ["uid": "ada"], now: 5) {
            if case .success(let question) = $0 { note(question) }
        }
        hub.settle()
        // The increment would result in 5, which the rules refuse.
        #expect(answers.withLock { $0 } == [true, false, false, true])
        #expect(hub.ask(.make(), .get("a")) == [#"value 0 {"n":4,"open":true}"#])
        let deep = Path((0..<32).map { _ in Key("k") })
        let failures = Mutex(0)
        hub.database.pose([TreeWrite(deep, WriteValue(["k": 1]))], auth: .null, now: nil) {
            if case .failure = $0 { failures.withLock { $0 += 1 } }
        }
        hub.settle()
        #expect(failures.withLock { $0 } == 1)
    }

    /// An administrator may ask about a write of any size: it is evaluated in the background.
    @Test func writesInQuestion_areNotMadeOnTheQueue() throws {
        let it = try GatedHarness(Self.rules)
        let answers = Mutex(0)
        it.hub.database.pose([TreeWrite("a/x", WriteValue(1))], auth: .null, now: nil) { _ in answers.withLock { $0 += 1 } }
        it.hub.settle()
        #expect(answers.withLock { $0 } == 0 && it.gate.count == 1)
        it.finish()
        #expect(answers.withLock { $0 } == 1)
    }
}
