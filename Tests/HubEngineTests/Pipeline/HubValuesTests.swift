import Glibc
import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import Testing
import TestSupport

/// Values that the hub stores itself: which observers are notified, and that no client can corrupt them.
@Suite(.timeLimit(.minutes(30))) struct HubValuesTests {
    /// The content of a place, with its priority.
    private func content(_ hub: EngineHarness, _ path: Path) -> String {
        hub.ask(.make(), .identify(.admin), .get(path)).last.map { String($0.dropFirst("value 1 ".count)) } ?? ""
    }

    private func hub(_ rules: String, _ root: Node) throws -> EngineHarness {
        EngineHarness(rules: try RuleSet(parsing: #"{"rules":\#(rules)}"#), root: root)
    }

    private static let votes = #"{".read":true,".write":true,"e":{"$e":{".counts":{"n":"count(v/$e)","sum":"sum(v/$e)"}}}}"#
    private static let voted: Node = ["e": ["x": ["t": 1, "n": 2, "sum": 5000]], "v": ["x": ["a": 4000, "b": 1000]]]

    @Test func placeAndItsPriority_besideAMember_countItOnce() throws {
        let hub = try hub(Self.votes, Self.voted)
        let writes = [TreeWrite("v/x/c", 1), TreeWrite("v/x", part: .priority, WriteValue("p"))]
        #expect(hub.ask(.make(), .write(writes)) == ["ok 0"])
        #expect(content(hub, "e/x") == #"{"n":3,"sum":5001,"t":1}"#)
    }

    @Test(arguments: [.double(1e300), .int(.max), .double(-0x1p54)] as [Node]) func hugeNumber_leavesASumAsItIs(_ number: Node) throws {
        let hub = try hub(Self.votes, Self.voted)
        let one = Client.make()
        #expect(hub.ask(one, .put("v/x/c", number), .put("v/x/d", number)) == ["ok 0", "ok 1"])
        #expect(content(hub, "e/x") == #"{"n":4,"sum":5000,"t":1}"#)
        #expect(hub.ask(one, .put("v/x/c", .null), .put("v/x/d", .int(1 << 53))) == ["ok 0", "ok 1"])
        #expect(content(hub, "e/x/sum") == "\(5000 + (1 << 53))")
    }

    @Test func counter_isWrittenWhereItsRulesAreOnly() throws {
        let rules = #"{".read":true,".write":true,"e":{"special":{},"$e":{".counts":{"n":"count(v/$e)"}}}}"#
        let hub = try hub(rules, ["e": ["special": ["t": 1], "x": ["t": 1, "n": 0]]])
        #expect(hub.ask(.make(), .put("v/special/a", 1), .put("v/x/a", 1)) == ["ok 0", "ok 1"])
        #expect(content(hub, "e") == #"{"special":{"t":1},"x":{"n":1,"t":1}}"#)
    }

    @Test func priorityAlone_dropsNothing_andPutsNoDefault() throws {
        let rules = #"{".read":true,".write":true,"u":{"$u":{"email":{".drop":true},"role":{".default":"'none'"}}}}"#
        let hub = try hub(rules, ["u": ["ada": ["email": "ada@example.org"]]])
        let priority = TreeWrite("u/ada", part: .priority, WriteValue(1))
        #expect(hub.ask(.make(), .write([priority])) == ["ok 0"])
        #expect(content(hub, "u/ada") == #"{"email":"ada@example.org",".priority":1}"#)
        #expect(hub.ask(.make(), .write([priority, TreeWrite("u/bo", ["t": 1])])) == ["ok 0"])
        #expect(content(hub, "u/bo") == #"{"role":"none","t":1}"#)
    }

    /// The cost of a removal on the queue is bounded in advance, also where several counters evaluate each member. Beyond the bound they are counted
    /// again in the background.
    @Test(arguments: [(5_000, true), (5_001, false)])
    func removalOfCountedMembers_isBoundedByKeysAndCounters(_ count: Int, _ fits: Bool) throws {
        let counts = #"{"a":"count(v/$e, each.val() > 5)","b":"count(v/$e, each.val() < 5)"}"#
        let rules = #"{".read":true,".write":true,"e":{"$e":{".counts":\#(counts)}}}"#
        let members = Node.object((0..<count).map { (Key("k\($0)"), .int(Int64($0 % 10))) })
        let hub = try hub(rules, ["e": ["x": ["t": 1]], "v": ["x": members]])
        hub.settle()
        let before = hub.database.counters.countings
        #expect(hub.ask(.make(), .put("v/x", .null)) == ["ok 0"])
        hub.settle()
        #expect(content(hub, "e/x") == #"{"a":0,"b":0,"t":1}"#)
        #expect(hub.database.counters.countings - before == (fits ? 0 : 1))
    }

    /// Writes under rules with consequences run on the queue, however small the request.
    @Test(arguments: [true, false]) func rulesWithConsequences_areNotCarriedOutByTheThreadThatAsks(_ isFollowed: Bool) throws {
        let hub = try hub(isFollowed ? Self.votes : #"{".write":true}"#, Self.voted)
        let client = Client.make()
        hub.settle()
        let thread = Mutex<pthread_t?>(nil)
        hub.onDelivery.withLock { $0.body = { thread.withLock { $0 = pthread_self() } } }
        _ = hub.database.enqueue(.put("v/x/c", 1), from: client)
        hub.database.start(mayRunHere: true)
        #expect(hub.take(client) == ["ok 0"])
        #expect((thread.withLock { $0 } == pthread_self()) == !isFollowed)
    }
}
