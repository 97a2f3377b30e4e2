import HubEngine
import JSONTree
import Testing
import TestSupport

/// Keys and bytes of the data, for metrics: counted on request, in the background, and rarely.
@Suite(.timeLimit(.minutes(30))) struct DataCountTests {
    private func hub(_ change: (inout EngineLimits) -> Void = { _ in }) -> EngineHarness {
        var limits = EngineLimits()
        change(&limits)
        let hub = EngineHarness(root: ["a": ["b": 1, "c": "text"]], limits: limits)
        hub.work.close()
        return hub
    }

    /// Asks for the counts, and lets a count run that takes this long. Returns how many counts ran.
    private func count(_ hub: EngineHarness, takingMs ms: Int64 = 0) -> Int {
        _ = hub.database.extent
        hub.database.queue.sync {}
        let count = hub.work.waiting
        hub.time.advance(ms: ms)
        hub.work.step(count)
        return count
    }

    @Test func extent_isCountedBesideTheQueue_andToldWhenItIsKnown() {
        let hub = hub()
        #expect(hub.database.extent == nil)
        let client = Client.make()
        #expect(hub.ask(client, .put("d", true)) == ["ok 0"], "others are served while it is counted")
        #expect(hub.database.extent == nil && hub.work.waiting == 1, "once, however often it is asked for")
        hub.work.step()
        let found = hub.database.extent
        #expect(found?.keys == 3 && found?.bytes == #"{"a":{"b":1,"c":"text"}}"#.utf8.count, "of the tree when it was begun")
    }

    @Test func extent_isCountedAgain_whenSomethingWasWritten_andTheTimeHasCome() {
        let hub = hub()
        let client = Client.make()
        #expect(count(hub) == 1)
        #expect(hub.ask(client, .put("d", true)) == ["ok 0"])
        hub.time.advance(ms: 9_999)
        #expect(count(hub) == 0, "too early")
        hub.time.advance(ms: 1)
        #expect(count(hub) == 1 && hub.database.extent?.keys == 4)
        hub.time.advance(ms: 600_000)
        #expect(count(hub) == 0, "nothing was written since")
        #expect(hub.ask(client, .put("a", .null)) == ["ok 0"])
        #expect(count(hub) == 1 && hub.database.extent?.keys == 1)
    }

    @Test func rest_isAHundredTimesAsLongAsTheCountTook_orAsTheLimitsSay() {
        for (factor, restMs) in [(Int64(100), Int64(200_000)), (40, 80_000), (1, 10_000)] {
            let hub = hub { $0.dataCountRestFactor = factor }
            let client = Client.make()
            #expect(count(hub, takingMs: 2_000) == 1)
            #expect(hub.ask(client, .put("b", 1)) == ["ok 0"])
            hub.time.advance(ms: restMs - 1)
            #expect(count(hub) == 0, "factor \(factor)")
            hub.time.advance(ms: 1)
            #expect(count(hub) == 1, "factor \(factor)")
        }
    }
}
