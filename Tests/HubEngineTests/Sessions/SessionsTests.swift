@testable import HubEngine
import JSONTree
import Synchronization
import Testing

/// Sessions by their ids, and that each change of one can be undone.
@Suite(.timeLimit(.minutes(30))) struct SessionsTests {
    /// Undoes the changes recorded by the batch, newest first.
    private static func undoAll(_ bench: Bench) {
        bench.run {
            for change in bench.batch.end().history.changes.reversed() { bench.sessions.undo(change) }
            bench.batch.forgetHistory()
        }
    }

    @Test func newerConnection_takesOverASession() {
        let bench = Bench()
        let (old, new) = (Client.make(), Client.make(lane: 1))
        bench.run { bench.sessions.begin(old, "s1", replacing: nil) }
        bench.observe(Observation("a"), by: old)
        bench.run { bench.sessions.begin(new, "s2", replacing: "s1") }
        #expect(old.hasEnded && old.observations.count == 0 && !new.hasEnded)
        bench.endBatch()
        bench.log.completeAll()
        #expect(bench.lines(to: old) == ["close"] && bench.lines(to: new).isEmpty)
        _ = bench.lines()
        bench.run { bench.sessions.begin(.make(), "s3", replacing: "unknown") }
        #expect(bench.finish().isEmpty, "the one before is gone already")
    }

    @Test func end_writesWhatIsLeftBehind_whenTheObserversAreGone() {
        for removalsAtOnce in [2, 1] {
            var limits = EngineLimits()
            limits.removalsAtOnce = removalsAtOnce
            let bench = Bench(limits: limits)
            let client = Client.make()
            bench.run { bench.sessions.begin(client, "s", replacing: nil) }
            bench.observe(Observation("a"), by: client)
            bench.observe(Observation("b"), by: client)
            bench.run {
                _ = bench.disconnects.keep([TreeWrite("a", 1)], client)
                let spent = bench.context.meter.work
                bench.sessions.end(client)
                #expect(bench.content.root == ["a": 1] && client.hasEnded && client.pendingID == nil)
                // Few observers are removed first: two removals, and a write without a view. Many are removed later: a write, and one view.
                #expect(bench.context.meter.work - spent == (removalsAtOnce == 2 ? 3 : 2))
            }
            bench.settle()
            #expect(client.observations.count == 0 && bench.places.count == 1)
            _ = bench.finish()
        }
    }

    @Test func everyChange_isUndone() {
        let bench = Bench()
        let (client, other) = (Client.make(), Client.make())
        bench.run { bench.sessions.begin(client, "s", replacing: nil) }
        bench.observe(Observation("a"), by: client)
        bench.run { _ = bench.disconnects.keep([TreeWrite("gone", 1)], client) }
        _ = bench.finish()
        _ = bench.run { bench.batch.end() }
        bench.run {
            bench.sessions.identify(client, as: Identity(auth: ["uid": "u"]))
            bench.registry.insert(Observation("b"), of: client, showing: nil)
            bench.registry.remove(Observation("a"), of: client)
            _ = bench.disconnects.cancel("gone", of: client)
            bench.sessions.begin(other, "t", replacing: "s")
        }
        #expect(client.hasEnded && other.sessionID == "t")
        Self.undoAll(bench)
        #expect(!client.hasEnded && client.identity == .anonymous && other.sessionID == nil)
        #expect(client.observations.contains(Observation("a")) && !client.observations.contains(Observation("b")))
        #expect(bench.places.existingView(of: Observation("a")) != nil && bench.places.existingPlace(at: "b") == nil)
        #expect(bench.disconnects.pendingSessions.map(\.id) == ["s"] && client.pending.writes == [TreeWrite("gone", 1)])
        // The id belongs to the client again, so it can be taken over.
        bench.run { bench.sessions.begin(other, "u", replacing: "s") }
        #expect(client.hasEnded)
    }

    @Test func idOfAnEarlierSession_isRestored() {
        let bench = Bench()
        let (first, second, third) = (Client.make(), Client.make(), Client.make())
        bench.run { bench.sessions.begin(first, "s", replacing: nil) }
        _ = bench.run { bench.batch.end() }
        bench.run { bench.sessions.begin(second, "s", replacing: nil) }
        Self.undoAll(bench)
        bench.run { bench.sessions.begin(third, "t", replacing: "s") }
        #expect(first.hasEnded && !second.hasEnded)
    }

    @Test func endOfRights_leavesTheSession_andNoObserver() {
        let bench = Bench()
        let client = Client.make()
        bench.run { bench.sessions.begin(client, "s", replacing: nil) }
        bench.observe(Observation("a"), by: client)
        _ = bench.run { bench.batch.end() }
        bench.run { bench.sessions.endRights(of: client) }
        #expect(client.isRevoked && !client.hasEnded && client.isGone.load(ordering: .relaxed) && client.observations.count == 0)
        Self.undoAll(bench)
        #expect(client.observations.count == 0, "its rights are over whatever the log says")
    }
}
