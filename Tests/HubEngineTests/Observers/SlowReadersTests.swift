@testable import HubEngine
import JSONTree
import Synchronization
import Testing

/// Clients that read too slowly: which of their requests run, and which messages they are sent or miss.
@Suite(.timeLimit(.minutes(30))) struct SlowReadersTests {
    private static func kind(_ admission: SlowReaders.Admission) -> String {
        switch admission {
        case .carryOut: "carry out"
        case .held: "held"
        case .resume(let items): "resume \(items.map(\.token))"
        }
    }

    private static func text(_ missed: MissedPaths?) -> String {
        switch missed {
        case .at(let places)?: places.map(\.description).sorted().joined(separator: " ")
        case .whole?: "whole"
        case nil: "nothing"
        }
    }

    @Test func requests_areHeld_whileTheClientLags() {
        let bench = Bench()
        let client = Client.make()
        bench.run {
            #expect(Self.kind(bench.slowReaders.admit(.init(.get("a"), of: client, token: 1))) == "carry out")
            bench.slowReaders.suspend(client)
            for request in [Request.congested, .drained] {
                #expect(Self.kind(bench.slowReaders.admit(.init(request, of: client))) == "carry out")
            }
            #expect(Self.kind(bench.slowReaders.admit(.init(.get("a"), of: client, token: 2))) == "held")
            #expect(Self.kind(bench.slowReaders.admit(.init(.put("a", 1), of: client, token: 3))) == "held")
            // The end of the session lets earlier requests run in order; nothing more is read.
            #expect(Self.kind(bench.slowReaders.admit(.init(.end, of: client, token: 4))) == "resume [2, 3, 4]")
            #expect(client.lag == nil && client.isGone.load(ordering: .relaxed))
            #expect(bench.context.meter.counters.suspended == 0 && bench.context.meter.counters.suspensions == 1)
        }
    }

    @Test func end_isCarriedOut_whenNothingIsHeld() {
        let bench = Bench()
        let client = Client.make()
        bench.run {
            bench.slowReaders.suspend(client)
            #expect(Self.kind(bench.slowReaders.admit(.init(.revoke(notice: []), of: client))) == "carry out")
            #expect(client.lag == nil && bench.slowReaders.catchUp(client) == nil)
        }
    }

    @Test func probe_isSent_whenMoreThanAWindowIsUnread() {
        var limits = EngineLimits()
        limits.answerBytes = 10
        let bench = Bench(limits: limits)
        let client = Client.make()
        bench.run {
            bench.outbox.send(Array("0123456789".utf8), to: client)
            bench.slowReaders.probeIfNeeded(client)
            #expect(client.lag == nil, "as much as may be")
            bench.outbox.send([0x21], to: client)
            bench.slowReaders.probeIfNeeded(client)
            bench.slowReaders.probeIfNeeded(client)
            #expect(client.lag?.isSuspended == false)
        }
        #expect(bench.finish() == ["0123456789", "!", "probe"])
        bench.run {
            let held = bench.slowReaders.catchUp(client)
            #expect(held?.missed.isEmpty == true && client.lag == nil && client.unprobedBytes == 0)
        }
    }

    @Test func suspendedObservers_areRemembered_andCaughtUpWith() throws {
        var limits = EngineLimits()
        limits.stalePlaces = 2
        let bench = Bench(limits: limits)
        let client = Client.make()
        let patches = Observation("a")
        let value = Observation("a", style: .events(id: 1, kinds: .value))
        let children = Observation("a", style: .events(id: 2, kinds: .children))
        for observation in [patches, value, children] { bench.observe(observation, by: client) }
        try bench.run {
            let view = try #require(bench.places.existingView(of: Observation("a")))
            bench.slowReaders.suspend(client)
            bench.slowReaders.suspend(client)
            #expect(Set(view.suspended.keys) == [patches.style, value.style], "events of children are told each")
            #expect(Set(view.audiences.keys) == [children.style])
            bench.slowReaders.conflate(view, ["a/b/c"])
            bench.slowReaders.conflate(view, ["a/b"])
            let (missed, held) = try #require(bench.slowReaders.catchUp(client))
            #expect(Self.text(missed[patches]) == "/a/b", "what is below is in it")
            #expect(Self.text(missed[value]) == "whole" && missed[children] == nil && held.isEmpty)
            #expect(view.suspended.isEmpty && view.audiences.count == 3)
            #expect(bench.context.meter.counters.conflated == 4 && bench.context.meter.counters.suspended == 0)
            #expect(bench.batch.end().history.steps.count == 1, "it is told again if the batch is given up")
        }
    }

    @Test func missedPlaces_areRememberedUpToTheirLimit() throws {
        var limits = EngineLimits()
        limits.stalePlaces = 2
        let bench = Bench(limits: limits)
        let client = Client.make()
        bench.observe(Observation("a"), by: client)
        try bench.run {
            let view = try #require(bench.places.existingView(of: Observation("a")))
            func missed(_ places: [Path]...) throws -> String {
                bench.slowReaders.suspend(client)
                for written in places { bench.slowReaders.conflate(view, written[...]) }
                return Self.text(try #require(bench.slowReaders.catchUp(client)).missed[Observation("a")])
            }
            #expect(try missed(["a/x"], ["a/y"]) == "/a/x /a/y")
            #expect(try missed(["a/x"], ["a/y"], ["a/z"]) == "whole")
            #expect(try missed(["a/x", "a/y", "a/z"]) == "whole")
            #expect(try missed([]) == "whole", "the place itself was written")
            #expect(try missed(["a/x"], [], ["a/y"]) == "whole", "and stays so")
            #expect(try missed() == "nothing")
        }
    }

    @Test func largeAnswer_holdsTheClient_untilItIsTaken() {
        let bench = Bench()
        let client = Client.make()
        bench.observe(Observation("a"), by: client)
        bench.run {
            bench.slowReaders.holdUntilReceived(client, suspends: false)
            #expect(client.lag?.isReceivingLarge == true && client.lag?.isSuspended == false)
            bench.slowReaders.holdUntilReceived(client, suspends: false)
            #expect(client.lag?.isSuspended == true, "two at once: from now on it is told the newest alone")
        }
        #expect(bench.finish() == ["probe"], "one for both")
        let lost = Client.make()
        lost.isGone.store(true, ordering: .relaxed)
        bench.run { bench.slowReaders.holdUntilReceived(lost, suspends: true) }
        #expect(lost.lag == nil && bench.finish().isEmpty)
    }

    @Test func heldRequests_areHandedOn_once() {
        let bench = Bench()
        let client = Client.make()
        bench.run {
            #expect(bench.slowReaders.dequeueHeld(of: client).isEmpty)
            bench.slowReaders.suspend(client)
            _ = bench.slowReaders.admit(.init(.get("a"), of: client, token: 7))
            #expect(bench.slowReaders.dequeueHeld(of: client).map(\.token) == [7])
            #expect(bench.slowReaders.dequeueHeld(of: client).isEmpty && client.lag != nil)
        }
    }
}
