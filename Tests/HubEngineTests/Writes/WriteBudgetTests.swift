import JSONTree
import Scheduling
import SecurityRules
import Synchronization
import Testing
import TestSupport

@testable import HubEngine

/// How often each user may write: `EngineLimits.writeRate` and the rules' `.rate`.
@Suite(.timeLimit(.minutes(30))) struct WriteBudgetTests {
    private static let rules = #"""
        {"rules":{".read":true,"free":{".write":true},"shut":{},
          "rooms":{"$room":{".write":true,".rate":{"perSecond":2,"burst":3},"texts":{".rate":{"perSecond":1,"burst":1}}}}}}
        """#

    private func hub(
        _ rules: String = rules, refusals: (any RefusalListener)? = nil, _ configure: (inout EngineLimits) -> Void = { _ in }
    ) throws -> EngineHarness {
        var limits = EngineLimits()
        configure(&limits)
        return EngineHarness(rules: try RuleSet(parsing: rules), limits: limits, refusals: refusals)
    }

    private func user(_ uid: String?, _ address: String? = nil) -> Client {
        let auth: Node = uid.map { ["uid": .string($0)] } ?? .null
        let client = Client(lane: 0, dialect: .realtime, identity: Identity(auth: auth))
        client.address = address
        return client
    }

    // MARK: A place of the rules

    @Test func burst_isStored_andWhatIsOverItIsNot_untilItFillsUp() throws {
        let hub = try hub()
        let ada = user("ada")
        func put(_ value: Node) -> String { hub.ask(ada, .put("rooms/r/a", value))[0] }
        #expect((1...3).map { put(.int($0)) } == ["ok 0", "ok 0", "ok 0"])
        #expect(put(4).contains("over_budget") && put(5).contains("over_budget"))
        #expect(hub.ask(ada, .get("rooms/r/a")) == ["value 0 3"], "what was refused changes nothing")
        // Two per second: the next one fits after 500 ms, and the refused one was not charged.
        hub.time.advance(ms: 499)
        #expect(put(6).contains("over_budget"))
        hub.time.advance(ms: 1)
        #expect(put(7) == "ok 0" && put(8).contains("over_budget"))
        hub.time.advance(seconds: 3600)
        #expect((1...3).map { put(.int($0)) } == ["ok 0", "ok 0", "ok 0"], "it never holds more than its burst")
        #expect(put(9).contains("over_budget"))
    }

    @Test func budgets_areOfOneUser_andOfOnePlace() throws {
        let hub = try hub()
        let (ada, again, bo) = (user("ada"), user("ada"), user("bo"))
        func put(_ client: Client, _ path: Path) -> Bool { hub.ask(client, .put(path, 1))[0] == "ok 0" }
        #expect(put(ada, "rooms/r/a") && put(again, "rooms/r/b/c") && put(ada, "rooms/r"))
        #expect(!put(again, "rooms/r/d"), "all connections of a user have one budget")
        #expect(put(ada, "rooms/s/a") && put(bo, "rooms/r/a"), "another room, another user")
        #expect(put(ada, "free/a"), "what no rate counts")
    }

    @Test func whoHasNoAccount_isCountedByAddress() throws {
        let hub = try hub()
        func puts(_ client: Client) -> Int { (0..<5).count { _ in hub.ask(client, .put("rooms/r/a", 1))[0] == "ok 0" } }
        #expect(puts(user(nil, "192.0.2.1")) == 3)
        #expect(puts(user(nil, "192.0.2.1")) == 0 && puts(user(nil, "192.0.2.2")) == 3)
        #expect(puts(user(nil)) == 3 && puts(user(nil)) == 0, "this machine is one")
        #expect(puts(user("192.0.2.1", "192.0.2.1")) == 3, "an account is never taken for an address")
    }

    /// Anyone can create any number of anonymous accounts.
    @Test func anonymousAccount_isCountedByAddress() throws {
        let hub = try hub()
        func guest(_ uid: String, _ address: String?, provider: String = "anonymous") -> Client {
            let auth: Node = ["uid": .string(Text(uid)), "provider": .string(Text(provider))]
            let client = Client(lane: 0, dialect: .realtime, identity: Identity(auth: auth))
            client.address = address
            return client
        }
        func puts(_ client: Client) -> Int { (0..<5).count { _ in hub.ask(client, .put("rooms/r/a", 1))[0] == "ok 0" } }
        #expect(puts(guest("a", "192.0.2.1")) == 3)
        #expect(puts(guest("b", "192.0.2.1")) == 0 && puts(user(nil, "192.0.2.1")) == 0, "another account is no other budget")
        #expect(puts(guest("a", "192.0.2.2")) == 3)
        #expect(puts(guest("c", "192.0.2.1", provider: "password")) == 3)
    }

    @Test func budgetAbove_countsWhatIsBelow_andARefusalTakesNothing() throws {
        let hub = try hub()
        let ada = user("ada")
        func put(_ path: Path) -> Bool { hub.ask(ada, .put(path, 1))[0] == "ok 0" }
        #expect(put("rooms/r/texts/a"))
        #expect(!put("rooms/r/texts/b") && !put("rooms/r/texts/b"), "one at once")
        // The refused writes were not charged to the budget of the room.
        #expect(put("rooms/r/a") && put("rooms/r/b") && !put("rooms/r/c"))
        hub.time.advance(ms: 500)
        #expect(!put("rooms/r/texts/b"), "half a second is enough for the room, not for its texts")
        #expect(put("rooms/r/c"))
    }

    @Test func update_countsEachPlaceThere_andOneAboveTheBurstIsTooBig() throws {
        let hub = try hub()
        let ada = user("ada")
        let many = hub.ask(ada, .merge(["rooms/r/a": 1, "rooms/r/b": 1, "rooms/r/c": 1, "rooms/r/d": 1, "free/x": 1]))
        #expect(many == ["error 0 too_big"], "waiting would not help")
        #expect(hub.ask(ada, .merge(["rooms/r/a": 1, "rooms/r/b": 1, "rooms/s/a": 1, "free/x": 1])) == ["ok 0"])
        #expect(hub.ask(ada, .merge(["rooms/r/a": 2, "rooms/r/b": 2]))[0].contains("over_budget"))
        #expect(hub.ask(ada, .merge(["rooms/r/a": 2, "rooms/s/b": 2])) == ["ok 0"])
        // All or nothing: the full budget of one place refuses the whole write, which is not charged to the other place either.
        #expect(hub.ask(ada, .merge(["rooms/r/a": 3, "rooms/s/b": 3]))[0].contains("over_budget"))
        #expect(hub.ask(ada, .put("rooms/s/b", 4)) == ["ok 0"])
    }

    @Test func everyWayOfWriting_isCounted_andReadingIsNot() throws {
        let write = TreeWrite("rooms/r/a", WriteValue(1))
        let ways: [(String, Request)] = [
            ("set", .put("rooms/r/a", 1)), ("removal", .put("rooms/r/a", .null)), ("update", .merge(["rooms/r/a": 1])),
            ("push", .push("rooms/r", WriteValue(1))), ("transaction", .write([write], condition: Condition("rooms/r/a", hash: "x"))),
            ("REST", .exchange(Exchange("rooms/r/a", .write([write])))),
            ("REST push", .exchange(Exchange("rooms/r", .push(WriteValue(1))))),
            ("priority", .write([TreeWrite("rooms/r/a", part: .priority, WriteValue(1))])), ("onDisconnect", .onDisconnect([write])),
        ]
        for (name, request) in ways {
            let hub = try hub()
            let ada = user("ada")
            for _ in 0..<3 { #expect(!hub.ask(ada, request)[0].contains("over_budget"), "\(name)") }
            #expect(hub.ask(ada, request)[0].contains("over_budget"), "\(name)")
            #expect(!hub.ask(ada, .get("rooms/r")).isEmpty && hub.ask(ada, .cancelOnDisconnect("rooms/r/a")) == ["ok 0"])
        }
    }

    @Test func administrators_theHub_andWhatASessionLeaves_areNotCounted() throws {
        let hub = try hub(#"{"rules":{".read":true,".write":true,".rate":{"perSecond":1,"burst":1}}}"#) {
            $0.writeRate = WriteRate(perSecond: 1, burst: 1)
        }
        let (admin, ada, watcher) = (user("root"), user("ada"), user("eve"))
        #expect(hub.ask(admin, .identify(.admin)).count == 1)
        for _ in 0..<5 { #expect(hub.ask(admin, .put("a", 1)) == ["ok 0"]) }
        for _ in 0..<5 { #expect(hub.ask(ada, .system([TreeWrite("b", WriteValue(1))], .accountDeletion)) == ["ok 0"]) }
        #expect(hub.ask(ada, .onDisconnect([TreeWrite("gone", WriteValue(1))])) == ["ok 0"])
        #expect(hub.ask(ada, .put("c", 1))[0].contains("over_budget"))
        _ = hub.ask(ada, .end)
        #expect(hub.ask(watcher, .get("gone")) == ["value 0 1"])
    }

    @Test func writesThatTheRulesRefuse_areCounted() throws {
        let hub = try hub(#"{"rules":{"a":{".write":"newData.val() == 1",".rate":{"perSecond":1,"burst":2}}}}"#)
        let ada = user("ada")
        #expect(hub.ask(ada, .put("a", 2))[0].contains("permission_denied"))
        #expect(hub.ask(ada, .put("a", 2))[0].contains("permission_denied"))
        #expect(hub.ask(ada, .put("a", 1))[0].contains("over_budget"))
    }

    // MARK: The rate of everything

    @Test func settingOfTheHub_countsRequests_whereverTheyWrite() throws {
        let hub = try hub { $0.writeRate = WriteRate(perSecond: 10, burst: 4) }
        let (ada, bo) = (user("ada"), user("bo"))
        #expect(hub.ask(ada, .merge(["free/a": 1, "free/b": 1, "free/c": 1, "free/d": 1, "free/e": 1])) == ["ok 0"], "one request is one")
        #expect((0..<5).map { _ in hub.ask(ada, .put("free/a", 1))[0] == "ok 0" } == [true, true, true, false, false])
        #expect(hub.ask(bo, .put("free/a", 1)) == ["ok 0"])
        hub.time.advance(ms: 100)
        #expect(hub.ask(ada, .put("free/a", 1)) == ["ok 0"])
        #expect(hub.ask(ada, .put("rooms/r/a", 1))[0].contains("over_budget"))
    }

    @Test func byDefault_nothingIsCounted() throws {
        let hub = try hub()
        let ada = user("ada")
        for _ in 0..<2000 { #expect(hub.ask(ada, .put("free/a", 1)) == ["ok 0"]) }
        #expect(EngineLimits().writeRate == nil)
    }

    // MARK: Reports

    private final class RefusalRecorder: RefusalListener {
        let lines = Mutex<[String]>([])
        func wantsRefusal(now: Int64) -> Bool { true }
        func refused(_ request: RuledRequest, _ question: RuleQuestion) {
            lines.withLock { $0.append("\(request.rawValue) \(question.operation): \(question.budget ?? "–")") }
        }
    }

    @Test func refusal_isReported_withItsBudget_andCounted() throws {
        let recorder = RefusalRecorder()
        let hub = try hub(refusals: recorder)
        let ada = user("ada")
        for _ in 0..<5 { _ = hub.ask(ada, .put("rooms/r/texts/a", 1)) }
        let lines = recorder.lines.withLock { $0 }
        #expect(lines.count == 4 && lines.allSatisfy { $0.contains("write over budget") && $0.contains("at once at /rooms/r") })
        #expect(hub.database.counters.overBudget == 4)
        #expect(hub.database.refusals.reading.map { "\($0.request.rawValue) \($0.pattern) \($0.count)" } == [
            "write over budget /rooms/$room/texts 4",
        ])
    }

    @Test func failure_saysWhenToTryAgain() throws {
        var budgets = WriteBudgets(EngineLimits())
        let rules = try RuleSet(parsing: Self.rules)
        func admit(_ now: Int64) -> Failure? {
            budgets.admit([TreeWrite("rooms/r/texts", WriteValue(1))], of: user("ada"), rules, now: now)?.failure
        }
        #expect(admit(0) == nil)
        #expect(admit(0)?.retryAfterMs == 1000 && admit(400_000_000)?.retryAfterMs == 600 && admit(999_999_999)?.retryAfterMs == 1)
        #expect(admit(1_000_000_000) == nil)
    }

    // MARK: Bounds

    @Test func budgetsOfManyUsers_areBound_andFullOnesAreLetGo() throws {
        var budgets = WriteBudgets({
            var limits = EngineLimits()
            (limits.writeRate, limits.writeBudgets) = (WriteRate(perSecond: 1, burst: 2), 100)
            return limits
        }())
        func admit(_ number: Int, _ now: Int64) -> Bool {
            budgets.admit([TreeWrite("a", WriteValue(1))], of: user("u\(number)"), .allowAll, now: now) == nil
        }
        for number in 0..<1000 { #expect(admit(number, 0)) }
        #expect(budgets.count == 100)
        // A second later all have refilled, so new ones find room and old ones are dropped.
        for number in 0..<50 { #expect(admit(5000 + number, 2_000_000_000)) }
        #expect(budgets.count <= 100)
        for number in 0..<50 { #expect(admit(6000 + number, 3_900_000_000)) }
        #expect(budgets.count <= 100)
        // The users counted last stay counted.
        #expect(admit(6049, 3_900_000_000) && !admit(6049, 3_900_000_000))
    }

    @Test func placesThatRatesCount_areBoundInOneRequest() throws {
        func answer(rooms: Int, each: Int, free: Int = 0) throws -> [String] {
            let hub = try hub {
                ($0.ratedPlaces, $0.ratedBudgets) = (6, 4)
            }
            var values: [Path: Node] = [:]
            for room in 0..<rooms { for text in 0..<each { values[Path(stringLiteral: "rooms/r\(room)/t\(text)")] = 1 } }
            for number in 0..<free { values[Path(stringLiteral: "free/f\(number)")] = 1 }
            return hub.ask(user("ada"), .write(values.map { TreeWrite($0.key, WriteValue($0.value)) }))
        }
        #expect(try answer(rooms: 2, each: 3, free: 20) == ["ok 0"], "what no rate counts is free")
        #expect(try answer(rooms: 3, each: 3) == ["error 0 too_big"], "nine places")
        #expect(try answer(rooms: 4, each: 1) == ["ok 0"])
        #expect(try answer(rooms: 5, each: 1) == ["error 0 too_big"], "five budgets")
        #expect(EngineLimits().ratedPlaces == 1_000 && EngineLimits().ratedBudgets == 100)
    }

    @Test func walk_endsAtTheFirstPlaceThatIsOneTooMany() throws {
        var budgets = WriteBudgets(EngineLimits())
        let rules = try RuleSet(parsing: Self.rules)
        let writes = (0..<100_000).map { TreeWrite(Path(stringLiteral: "rooms/r/t\($0)"), WriteValue(1)) }
        let refused = budgets.admit(writes, of: user("ada"), rules, now: 0)
        let excess = try #require(refused)
        #expect(excess.failure.code == .tooBig && excess.failure.message.contains("At most 3 places"))
        #expect(budgets.count == 0)
    }

    @Test func deployedRules_countFromThenOn() throws {
        let hub = try hub(#"{"rules":{".write":true}}"#)
        let ada = user("ada")
        for _ in 0..<5 { #expect(hub.ask(ada, .put("rooms/r/a", 1)) == ["ok 0"]) }
        #expect(!hub.database.countsWrites)
        hub.database.replace(try RuleSet(parsing: Self.rules))
        #expect((0..<5).count { _ in hub.ask(ada, .put("rooms/r/a", 1))[0] == "ok 0" } == 3)
        #expect(hub.database.countsWrites)
    }
}
