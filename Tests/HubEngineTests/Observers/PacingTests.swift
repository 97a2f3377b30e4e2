import HubEngine
import JSONTree
import Testing
import TestSupport

/// `maxHz`: values are sent at a limited rate, and the newest is sent.
@Suite(.timeLimit(.minutes(30))) struct PacingTests {
    private func observe(_ path: Path, _ query: TreeQuery? = nil, id: Int64 = 1, _ kinds: EventKinds = .value, every ms: Int32) -> Request {
        .observe(path, query: query, style: .events(id: id, kinds: kinds, pace: ms), hash: "")
    }

    @Test func values_comeAtTheirPace_andTheNewestIsTold() {
        let hub = EngineHarness()
        let (slow, fast, writer) = (Client.make(), Client.make(), Client.make())
        #expect(hub.ask(slow, observe("a", every: 500)) == ["ok 0", "initial 1 null"])
        _ = hub.ask(fast, .events("a", .value))
        for number in 1...3 { _ = hub.ask(writer, .put("a", .int(Int64(number)))) }
        #expect(hub.take(slow) == ["value 1 1"], "the first change at once")
        #expect(hub.take(fast) == ["value 1 1", "value 1 2", "value 1 3"])
        hub.time.advance(ms: 499)
        #expect(hub.take(slow).isEmpty)
        hub.time.advance(ms: 1)
        #expect(hub.take(slow) == ["value 1 3"])
        hub.time.advance(ms: 5_000)
        #expect(hub.take(slow).isEmpty, "what was told is not told again")
        _ = hub.ask(writer, .put("a", 4))
        #expect(hub.take(slow) == ["value 1 4"], "after a quiet time at once")
        _ = hub.ask(writer, .put("a", 5))
        _ = hub.ask(slow, .unobserveID(1))
        hub.time.advance(ms: 500)
        #expect(hub.take(slow).isEmpty)
    }

    @Test func queriesAndCounts_comeAtTheirPace() {
        let hub = EngineHarness(root: ["a": ["x": 1, "y": 2]])
        let client = Client.make()
        _ = hub.ask(client, observe("a", TreeQuery(index: .key, limit: 1, viewFrom: .last), every: 100))
        for number in 3...9 { _ = hub.ask(.make(), .put(Path(["a", Key("z\(number)")]), .int(Int64(number)))) }
        #expect(hub.take(client) == [#"value 1 {"z3":3}"#])
        hub.time.advance(ms: 100)
        #expect(hub.take(client) == [#"value 1 {"z9":9}"#])
    }

    /// The cost of a commit does not grow with the number of waiting observers.
    @Test func commitsBetween_areNotLookedAtForEachObserver() {
        let hub = EngineHarness(lanes: 1)
        let clients = (0..<1_000).map { _ in Client.make() }
        for client in clients { hub.database.submit(observe("a", every: 1_000), from: client) }
        let writer = Client.make()
        _ = hub.ask(writer, .put("a", 0))
        let before = (hub.sharedFrames, hub.database.counters.conflated)
        for number in 1...50 { _ = hub.ask(writer, .put("a", .int(Int64(number)))) }
        #expect(hub.sharedFrames == before.0 && hub.database.counters.conflated - before.1 == 50, "one look for each commit")
        hub.time.advance(ms: 1_000)
        #expect(hub.sharedFrames == before.0 + 1)
        for client in clients { #expect(hub.take(client).last == "value 1 50") }
    }

    /// Observers of a value whose batch the log refuses are sent the restored value, even if nothing changes any more.
    @Test func refusedBatch_leavesNobodyBehind() {
        let log = FlakyLog()
        let hub = EngineHarness(log: log, limits: .patient)
        let (client, writer) = (Client.make(), Client.make())
        _ = hub.ask(client, observe("a", every: 100))
        func put(_ number: Int64) {
            hub.database.submit(.put("a", .int(number)), from: writer)
            hub.settle()
        }
        put(1)
        log.completeAll()
        put(2)
        log.completeAll()
        #expect(hub.take(client).last == "value 1 1")
        hub.time.advance(ms: 100)
        hub.settle()
        put(3)
        log.refuse()
        #expect(hub.take(client).last == "value 1 2")
    }

    /// A client that does not read when its value is due gets it when it reads.
    @Test func slowReader_isToldWhatItWasOwed() {
        let hub = EngineHarness()
        let client = Client.make()
        _ = hub.ask(client, observe("a", every: 100))
        for number in 1...2 { _ = hub.ask(.make(), .put("a", .int(Int64(number)))) }
        #expect(hub.take(client) == ["value 1 1"])
        _ = hub.ask(client, .congested)
        hub.time.advance(ms: 100)
        #expect(hub.take(client).filter { $0 != "probe" }.isEmpty)
        #expect(hub.ask(client, .drained).filter { $0 != "probe" } == ["value 1 2"])
    }
}
