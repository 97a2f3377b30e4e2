import Dispatch
import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(30))) struct DatabaseTests {
    @Test func listen_sendsDataBeforeOk() {
        let hub = EngineHarness(root: ["a": ["x": 1]])
        #expect(hub.ask(.make(), .listen("a")) == ["d a {\"x\":1}", "ok 0"])
    }

    @Test func listen_sendsOnlyOk_whenEmptyOrHashMatches() {
        let root: Node = ["a": ["x": 1]]
        let hub = EngineHarness(root: root)
        #expect(hub.ask(.make(), .listen("nothing")) == ["ok 0"])
        #expect(hub.ask(.make(), .listen("a", hash: root.child("a").hash)) == ["ok 0"])
        #expect(hub.ask(.make(), .listen("a", hash: "stale")) == ["d a {\"x\":1}", "ok 0"])
        #expect(hub.ask(.make(), .listen("gone", hash: "stale")) == ["d gone null", "ok 0"])
    }

    @Test func write_isEchoedBeforeItsOk() {
        let hub = EngineHarness()
        let client = Client.make()
        #expect(hub.ask(client, .listen("a"), .put("a/b", 5)) == ["ok 0", "d a/b 5", "ok 1"])
    }

    @Test func write_isNotPushed_withoutCoveringListenOrEffect() {
        let hub = EngineHarness(root: ["a": 1])
        let (writer, other) = (Client.make(), Client.make(lane: 1))
        _ = hub.ask(other, .listen("b"))
        #expect(hub.ask(writer, .put("a", 2)) == ["ok 0"])
        #expect(hub.take(other) == [])
        _ = hub.ask(other, .listen("a"))
        _ = hub.ask(writer, .put("a", 2))
        #expect(hub.take(other) == [])
    }

    @Test func update_reachesEachListenAsOneMessage() {
        let hub = EngineHarness(root: ["a": ["x": 1, "y": 2]])
        let watcher = Client.make(lane: 1)
        _ = hub.ask(watcher, .listen("a"), .listen("a/y"), .listen(.root))
        _ = hub.ask(.make(), .merge(["a/x": 5, "a/z/q": 6, "b": 7]))
        let got = hub.take(watcher)
        #expect(got.count == 2)
        #expect(got.contains("m a {\"x\":5,\"z/q\":6}"))
        #expect(got.contains("m  {\"a/x\":5,\"a/z/q\":6,\"b\":7}"))
    }

    @Test func largeAnswers_leaveBeforeTheWholeInboxIsHandled() {
        let hub = EngineHarness(root: ["big": .string(String(repeating: "x", count: 3 << 20))])
        let clients = (0..<8).map { _ in Client.make() }
        // While the queue is held, all requests collect in the inbox and are drained together.
        hub.database.queue.sync {
            for client in clients { hub.database.submit(.get("big"), from: client) }
        }
        for client in clients { #expect(hub.take(client).map { $0.prefix(8) } == ["value 0 ", "probe"]) }
        #expect(hub.largestRelease < 8 << 20)
    }

    @Test func overwriteAbove_pushesTheListenPath() {
        let hub = EngineHarness(root: ["a": ["b": ["c": 1], "d": 2]])
        let watcher = Client.make()
        _ = hub.ask(watcher, .listen("a/b"), .listen("a/d"))
        _ = hub.ask(.make(), .put("a", ["d": 2]))
        #expect(hub.take(watcher) == ["d a/b null"], "a/d did not change")
    }

    @Test func frames_areSharedByAllListensOfALane() {
        let hub = EngineHarness(lanes: 2)
        for i in 0..<10 { _ = hub.ask(.make(lane: i % 2), .listen("a")) }
        _ = hub.ask(.make(), .put("a/x", 1))
        #expect(hub.sharedFrames == 2)
    }

    @Test func unlisten_endsPushes_andUnknownIsOk() {
        let hub = EngineHarness()
        let client = Client.make()
        #expect(hub.ask(client, .listen("a"), .unlisten("a"), .unlisten("never"), .put("a", 1)) == ["ok 0", "ok 1", "ok 2", "ok 3"])
    }

    @Test func childEvents_comeInOrderWithPreviousSibling() {
        let hub = EngineHarness(root: ["t": ["a": 1, "c": 3]])
        let watcher = Client.make()
        #expect(hub.ask(watcher, .events("t")) == ["ok 0", "initial 1 {\"a\":1,\"c\":3}"])
        _ = hub.ask(.make(), .put("t/b", 2))
        #expect(hub.take(watcher) == ["added 1 b 2 a"])
        _ = hub.ask(.make(), .put("t/b/deep", 2))
        #expect(hub.take(watcher) == ["changed 1 b {\"deep\":2} a"])
        _ = hub.ask(.make(), .merge(["t/a": .null, "t/c": 4, "t/d": 5]))
        #expect(hub.take(watcher) == ["removed 1 a 1 -; added 1 d 5 c; changed 1 c 4 b"])
        _ = hub.ask(.make(), .put("t", ["c": 4, "e": 1]))
        #expect(hub.take(watcher) == ["removed 1 b {\"deep\":2} -; removed 1 d 5 -; added 1 e 1 c"])
    }

    @Test func valueEvents_carryTheWholePlace() {
        let hub = EngineHarness()
        let watcher = Client.make()
        _ = hub.ask(watcher, .events("t", id: 9, .value))
        _ = hub.ask(.make(), .put("t/x", 1))
        #expect(hub.take(watcher) == ["value 9 {\"x\":1}"])
    }

    @Test func transaction_comparesTheHashOfTheStoredNode() {
        let hub = EngineHarness(root: ["n": 1])
        func put(_ value: Node, _ hash: String) -> Request {
            .write([TreeWrite("n", WriteValue(value))], condition: Condition("n", hash: hash))
        }
        #expect(hub.ask(.make(), put(2, ""), put(2, Node.int(1).hash), put(3, Node.int(1).hash), .get("n"))
            == ["error 0 datastale", "ok 1", "error 2 datastale", "value 3 2"])
    }

    @Test func rules_refuseWithoutEffect() {
        let hub = EngineHarness(rules: .denyAll, root: ["a": 1])
        let (client, admin) = (Client.make(), Client.make())
        let answers = hub.ask(client, .listen("a"), .get("a"), .put("a", 2), .onDisconnect([TreeWrite("a", WriteValue(3))]))
        #expect(answers.allSatisfy { $0.hasSuffix("permission_denied") })
        #expect(hub.ask(admin, .identify(.admin), .put("a", 2), .get("a")) == ["identified 0 null", "ok 1", "value 2 2"])
    }

    @Test func identity_lossCancelsListensAfterItsAnswer() {
        let hub = EngineHarness(rules: .denyAll, root: ["a": 1])
        let client = Client.make()
        _ = hub.ask(client, .identify(.admin), .listen("a"))
        #expect(hub.ask(client, .identify(.anonymous)) == ["identified 0 null", "cancelled /a"])
        _ = hub.ask(.make(), .identify(.admin), .put("a", 2))
        #expect(hub.take(client) == [])
    }

    @Test func rulesChange_cancelsWhatIsNoLongerPermitted() {
        let hub = EngineHarness(root: ["a": 1])
        let client = Client.make()
        _ = hub.ask(client, .listen("a"))
        hub.database.replace(.denyAll)
        #expect(hub.take(client) == ["cancelled /a"])
    }

    @Test func serverValues_areTheSameNumberAndResolvedForObservers() {
        let hub = EngineHarness(now: 42)
        let watcher = Client.make()
        _ = hub.ask(watcher, .listen("a"))
        var reader = WriteValue(.null)
        Array("{\"x\":{\".sv\":\"timestamp\"},\"y\":{\".sv\":{\"increment\":5}}}".utf8).withUnsafeBytes { bytes in
            var json = JSONReader(bytes)
            reader = (try? json.writeValue()) ?? reader
        }
        _ = hub.ask(.make(), .write([TreeWrite("a", reader)]))
        #expect(hub.take(watcher) == ["d a {\"x\":42,\"y\":5}"])
        _ = hub.ask(.make(), .write([TreeWrite("a", reader)]))
        #expect(hub.take(watcher) == ["d a {\"x\":42,\"y\":10}"])
    }

    @Test func priority_isPushedWithItsNode() {
        let hub = EngineHarness(root: ["a": ["b": 1]])
        let watcher = Client.make()
        _ = hub.ask(watcher, .listen("a"))
        _ = hub.ask(.make(), .write([TreeWrite("a/b", part: .priority, WriteValue(7))]))
        #expect(hub.take(watcher) == ["d a/b {\".value\":1,\".priority\":7}"])
    }

    @Test func push_makesAscendingKeys() {
        let hub = EngineHarness()
        let keys = hub.ask(.make(), .push("l", WriteValue(1)), .push("l", WriteValue(2))).map { String($0.split(separator: " ")[2]) }
        #expect(keys.count == 2 && keys[0].utf8.count == 20 && Key(keys[0]) < Key(keys[1]))
    }
}

@Suite(.timeLimit(.minutes(30))) struct DisconnectTests {
    @Test func pendingPriority_replacesOnlyThePriority() {
        let hub = EngineHarness()
        let gone = Client.make()
        func priority(_ path: Path, _ value: Node) -> TreeWrite { TreeWrite(path, part: .priority, WriteValue(value)) }
        _ = hub.ask(
            gone, .onDisconnect([TreeWrite("a", WriteValue(["x": 1])), TreeWrite("b/y", WriteValue(2))]), .onDisconnect([priority("a", 3)]),
            .onDisconnect([priority("b", 4)]), .onDisconnect([priority("a", 5)]), .end)
        #expect(hub.ask(.make(), .get(.root)) == ["value 0 {\"a\":{\"x\":1,\".priority\":5},\"b\":{\"y\":2,\".priority\":4}}"])
        let other = Client.make()
        _ = hub.ask(other, .onDisconnect([priority("a", 6)]), .onDisconnect([TreeWrite("a", WriteValue(7))]), .end)
        #expect(hub.ask(.make(), .get("a")) == ["value 0 7"], "a value clears the priority")
    }

    @Test func end_firesAllPendingWritesAsOne() {
        let hub = EngineHarness(root: ["p": ["online": true, "here": true]])
        let (gone, watcher) = (Client.make(), Client.make(lane: 1))
        _ = hub.ask(watcher, .listen("p"))
        _ = hub.ask(
            gone, .onDisconnect([TreeWrite("p/online", WriteValue(false))]), .onDisconnect([TreeWrite("p/here", WriteValue(.null))]))
        #expect(hub.take(watcher) == [])
        _ = hub.ask(gone, .end)
        #expect(hub.take(watcher) == ["m p {\"here\":null,\"online\":false}"])
        _ = hub.ask(gone, .end)
        #expect(hub.take(watcher) == [])
    }

    @Test func cancel_keepsSiblings_andParentPutReplacesChildren() {
        let hub = EngineHarness()
        let gone = Client.make()
        _ = hub.ask(
            gone, .onDisconnect([TreeWrite("a/x", WriteValue(1)), TreeWrite("a/y", WriteValue(2))]), .cancelOnDisconnect("a/x"), .end)
        #expect(hub.ask(.make(), .get("a")) == ["value 0 {\"y\":2}"])
        let second = Client.make()
        _ = hub.ask(second, .onDisconnect([TreeWrite("b/x", WriteValue(1))]), .onDisconnect([TreeWrite("b", WriteValue(["z": 1]))]), .end)
        #expect(hub.ask(.make(), .get("b")) == ["value 0 {\"z\":1}"])
    }

    @Test func pendingBelowAPendingAncestor_isAppliedOnTop() {
        let hub = EngineHarness()
        let gone = Client.make()
        _ = hub.ask(
            gone, .onDisconnect([TreeWrite("a", WriteValue(["x": 1, "y": 1]))]), .onDisconnect([TreeWrite("a/x", WriteValue(2))]), .end)
        #expect(hub.ask(.make(), .get("a")) == ["value 0 {\"x\":2,\"y\":1}"])
    }

    @Test func newSession_endsTheOneItReplaces() {
        let hub = EngineHarness()
        let (old, new) = (Client.make(), Client.make())
        _ = hub.ask(old, .begin(sessionID: "s1", replacing: nil), .listen("a"), .onDisconnect([TreeWrite("gone", WriteValue(true))]))
        _ = hub.ask(new, .begin(sessionID: "s2", replacing: "s1"))
        #expect(hub.take(old) == ["close"])
        #expect(hub.ask(new, .get("gone"), .put("a", 1)) == ["value 0 true", "ok 1"])
        #expect(hub.take(old) == [])
    }
}

@Suite(.timeLimit(.minutes(30))) struct DurabilityOrderTests {
    /// Also with a log that stores immediately, where the answer leaves at the end of the request's own turn.
    @Test func writeThatIsAnswered_isInTheCounters() {
        let hub = EngineHarness()
        let seen = Mutex<[Int]>([])
        hub.onDelivery.withLock { $0.body = { [database = hub.database] in seen.withLock { $0.append(database.counters.commits) } } }
        let client = Client.make()
        for i in 0..<3 { _ = hub.ask(client, .put("a", .int(Int64(i)))) }
        #expect(seen.withLock { $0 } == [1, 2, 3])
    }

    @Test func ackAndEvents_waitForTheLog_andNothingOvertakes() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log)
        let (writer, watcher) = (Client.make(), Client.make(lane: 1))
        _ = hub.ask(watcher, .listen("a"))
        #expect(hub.ask(writer, .put("a", 1)) == [])
        #expect(hub.ask(watcher, .get("a")) == [], "a read of a value that is not durable yet waits for it")
        log.complete()
        #expect(hub.take(writer) == ["ok 0"])
        #expect(hub.take(watcher) == ["d a 1", "value 0 1"])
    }
}
