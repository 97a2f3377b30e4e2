import HubEngine
import JSONTree
import Synchronization
import Testing

/// Each engine limit from both sides.
@Suite(.timeLimit(.minutes(30))) struct LimitTests {
    private func limits(_ change: (inout EngineLimits) -> Void) -> EngineLimits {
        var limits = EngineLimits()
        change(&limits)
        return limits
    }

    @Test func read_overTheLimit_isTooBig_andObservesNothing() {
        let line = "d a \"\(String(repeating: "x", count: 40))\""
        let root: Node = ["a": .string(String(repeating: "x", count: 40))]
        let at = EngineHarness(root: root, limits: limits { $0.readBytes = line.utf8.count })
        #expect(at.ask(.make(), .listen("a")) == [line, "ok 0"])
        let over = EngineHarness(root: root, limits: limits { $0.readBytes = line.utf8.count - 1 })
        let client = Client.make()
        #expect(over.ask(client, .listen("a"), .get("a")) == ["error 0 too_big", "error 1 too_big"])
        _ = over.ask(.make(), .put("a", 1))
        #expect(over.take(client) == [])
        #expect(over.ask(client, .get("a")) == ["value 0 1"])
    }

    @Test func pendingWrites_overTheLimit_areRefused_andTheOthersStay() {
        let hub = EngineHarness(limits: limits { $0.pendingWrites = 2 })
        let client = Client.make()
        func pending(_ path: Path) -> Request { .onDisconnect([TreeWrite(path, WriteValue(1))]) }
        #expect(hub.ask(client, pending("a"), pending("b"), pending("c")) == ["ok 0", "ok 1", "error 2 failure"])
        _ = hub.ask(client, .end)
        #expect(hub.ask(.make(), .get(.root)) == [#"value 0 {"a":1,"b":1}"#])
    }

    @Test func lostClient_isReadForNoMore_butItsWritesCount() {
        let hub = EngineHarness(root: ["a": 1])
        let client = Client.make()
        client.isGone.store(true, ordering: .relaxed)
        #expect(hub.ask(client, .get("a"), .listen("a"), .put("b", 2)) == ["ok 2"])
        #expect(hub.ask(.make(), .get("b")) == ["value 0 2"])
    }
}
