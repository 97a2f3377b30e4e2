@testable import HubEngine
import Journal
import JSONTree
import Synchronization
import TestSupport
import Testing

/// Suspended requests: their order, the memory they hold, whose turn it is, and their fate when the log refuses.
@Suite(.timeLimit(.minutes(30))) struct SuspendedRequestsTests {
    /// A bench whose background work waits for `step`, and a record of events.
    private struct SuspensionBench {
        let bench: Bench
        /// Resumed requests, by token, and the results of their work.
        let seen = ReceivedBox<[String]>([])

        init(limits: EngineLimits = EngineLimits(), budget: Int = 1 << 30) {
            bench = Bench(limits: limits, budget: MemoryBudget(budget))
            bench.work.close()
            bench.suspendedRequests.onResumed = { [seen] items, _ in seen.value += items.map { "\($0.token)" } }
        }

        /// Suspends a request.
        /// - Returns: whether there was room.
        @discardableResult
        func suspend(_ item: SubmittedRequest, holding bytes: Int = 0, follows: SuspendedRequests.Following = .never) -> Bool {
            bench.run {
                bench.suspendedRequests.suspend(item, holding: bytes, follows: follows) { [seen] in
                    seen.value.append("begin \(item.token)")
                    return { item.token }
                } then: { [seen] in seen.value.append("resume \($0)") }
            }
        }

        /// Runs pieces of background work, and their continuations on the queue.
        func step(_ count: Int = 1) {
            for _ in 0..<count {
                bench.work.step()
                for _ in 0..<3 { bench.run {} }
            }
        }

        func wait(_ item: SubmittedRequest) -> Bool { bench.run { bench.suspendedRequests.mustWait(item) } }
        var held: Int { bench.context.budget.used(for: .parsing) }
    }

    private static func get(_ token: Int64, _ client: Client, size: Int = 0) -> SubmittedRequest {
        SubmittedRequest(.get("a"), of: client, token: token, size: size)
    }

    private static func user(_ uid: String) -> Client {
        Client(lane: 0, dialect: .realtime, identity: Identity(auth: ["uid": .string(Text(uid))]))
    }

    @Test func requests_goOnInOrder_behindTheParkedOne() {
        let it = SuspensionBench()
        let (client, other) = (Client.make(), Client.make())
        #expect(!it.wait(Self.get(0, client)))
        it.suspend(Self.get(1, client, size: 5))
        #expect(it.wait(Self.get(2, client, size: 6)) && it.wait(Self.get(3, client)) && !it.wait(Self.get(4, other)))
        #expect(!it.wait(.init(.congested, of: client)) && !it.wait(.init(.drained, of: client)), "these are about its reading")
        #expect(it.bench.context.meter.waitingBytes.load(ordering: .relaxed) == 11)
        it.step()
        #expect(it.seen.value == ["begin 1", "resume 1", "2", "3"] && client.suspendedRequest == nil)
        #expect(!it.wait(Self.get(5, client)))
    }

    @Test func parkedAgain_keepsWhatIsHeld_andHandsItsBytesOn() {
        let it = SuspensionBench(budget: 1_000)
        let client = Client.make()
        let again = Self.get(1, client)
        _ = it.bench.run {
            it.bench.suspendedRequests.suspend(again, holding: 600, follows: .never) { { 0 } } then: { _ in
                // More than the free budget: the request's own lease is passed on.
                #expect(
                    it.bench.suspendedRequests.suspend(again, holding: 900, follows: .never) { { 0 } } then: { _ in
                        it.seen.value.append("done")
                    })
                #expect(it.held == 900)
            }
        }
        #expect(it.held == 600 && it.wait(Self.get(2, client)))
        it.step()
        #expect(it.seen.value.isEmpty && it.held == 900 && client.suspendedRequest?.held.count == 1)
        #expect(!it.suspend(Self.get(3, .make()), holding: 101), "one byte too many")
        #expect(it.suspend(Self.get(3, .make()), holding: 100))
        it.step(4)
        #expect(it.seen.value.contains("done") && it.seen.value.contains("2") && it.held == 0)
    }

    @Test func request_isParkedOnce() {
        let it = SuspensionBench()
        let client = Client.make()
        #expect(it.suspend(Self.get(1, client), holding: 10))
        #expect(!it.suspend(Self.get(2, client), holding: 10) && it.held == 10)
        it.step(3)
    }

    @Test func user_hasSoManyAtTheSameTime() {
        var limits = EngineLimits()
        limits.preparationsOfUser = 1
        let it = SuspensionBench(limits: limits)
        let users = [Self.user("u"), Self.user("u"), Self.user("v")]
        let clients = users + [Client.make(), Client.make(), Client(lane: 0, dialect: .realtime, identity: .admin)]
        for (index, client) in clients.enumerated() { it.suspend(Self.get(Int64(index), client)) }
        #expect(it.seen.value == ["begin 0", "begin 2", "begin 3", "begin 5"], "one of each user, one of all who are nobody")
        it.step()
        #expect(it.seen.value.suffix(2) == ["resume 0", "begin 1"], "on what the one before has written")
        it.step(12)
        #expect(it.seen.value.count { $0.hasPrefix("resume") } == 6)
    }

    @Test func followedCommits_areKeptFromItsTurnOn() throws {
        var limits = EngineLimits()
        limits.preparationsOfUser = 1
        let it = SuspensionBench(limits: limits)
        it.suspend(Self.get(1, Self.user("u")), follows: .sinceItsTurn)
        it.suspend(Self.get(2, Self.user("u")), follows: .sinceItsTurn)
        it.suspend(Self.get(3, Self.user("v")), follows: .never)
        #expect(it.bench.commits.recent.followers == 1)
        it.suspend(Self.get(4, Self.user("u")), follows: .sinceNow)
        #expect(it.bench.commits.recent.followers == 2)
        it.step(12)
        #expect(it.bench.commits.recent.followers == 0)
    }

    @Test func endedClient_getsNothingMoreDone() {
        let it = SuspensionBench()
        let client = Client.make()
        it.suspend(Self.get(1, client), holding: 10)
        _ = it.wait(Self.get(2, client))
        client.hasEnded = true
        it.step()
        #expect(it.seen.value == ["begin 1", "2"] && it.held == 0, "what it asked behind is handed on, and finds it ended")
        it.step(2)
    }

    @Test func revokedClient_losesItsRightsAtOnce() {
        let it = SuspensionBench()
        let client = Client.make()
        it.bench.observe(Observation("a"), by: client)
        it.suspend(Self.get(1, client))
        #expect(it.wait(.init(.revoke(notice: []), of: client, token: 2)))
        #expect(client.isRevoked && client.observations.count == 0 && !client.hasEnded)
        it.step()
        #expect(it.seen.value == ["begin 1", "resume 1", "2"])
        it.step(2)
    }

    @Test func behindAUser_waitsForAllOfItsParkedRequests() {
        let it = SuspensionBench()
        let (one, two, becoming, other, last) = (Self.user("u"), Self.user("u"), Client.make(), Self.user("v"), Client.make())
        for (index, client) in [one, two, becoming, other].enumerated() { it.suspend(Self.get(Int64(index), client)) }
        _ = it.wait(.init(.identify(Identity(auth: ["uid": "u"])), of: becoming, token: 9))
        it.bench.run { it.bench.suspendedRequests.waitBehind("u", .init(.behind(user: "u"), of: last)) }
        #expect(it.wait(Self.get(7, last)))
        // No user has more than two of them at the same time; `other` is of another user.
        it.step(2)
        #expect(!it.seen.value.contains("7"))
        it.step(2)
        it.step(8)
        let position = it.seen.value.firstIndex(of: "7") ?? 0
        for line in ["resume 0", "resume 1", "resume 2"] { #expect(it.seen.value.firstIndex(of: line).map { $0 < position } == true) }
        it.bench.run { it.bench.suspendedRequests.waitBehind("w", .init(.behind(user: "w"), of: last)) }
        #expect(last.suspendedRequest == nil, "of whom nothing is parked")
    }

    @Test func longRequest_givesWayToOthers() {
        let it = SuspensionBench()
        let client = Client.make()
        it.bench.run {
            it.bench.suspendedRequests.yieldTurn(Self.get(1, client), isAnswered: false)
            #expect(it.bench.suspendedRequests.mustWait(Self.get(2, client)))
            #expect(it.seen.value.isEmpty)
        }
        it.bench.run {}
        #expect(it.seen.value == ["2"] && client.suspendedRequest == nil)
        #expect(it.bench.batch.commits.isEmpty)
    }

    @Test func givenUp_isHandledAgain_andItsWorkIsInVain() {
        let it = SuspensionBench()
        let (one, two) = (Client.make(), Client.make())
        it.suspend(Self.get(1, one), holding: 10, follows: .sinceNow)
        _ = it.wait(Self.get(2, one))
        it.suspend(Self.get(3, two))
        it.bench.run {
            it.bench.suspendedRequests.yieldTurn(Self.get(4, Self.user("x")), isAnswered: false)
            let taken = it.bench.suspendedRequests.giveUp()
            #expect(taken.map { $0.items.map(\.token) } == [[1, 2], [3], []], "in the order of suspension; a finished request is not repeated")
            #expect(it.held == 0 && it.bench.commits.recent.followers == 0 && one.suspendedRequest == nil)
            it.bench.suspendedRequests.handleAgain(taken)
        }
        #expect(it.seen.value == ["begin 1", "begin 3", "1", "2", "3"])
        it.step(6)
        #expect(!it.seen.value.contains { $0.hasPrefix("resume") })
    }

    @Test func pinnedIndex_staysUntilItGoesOn() throws {
        var limits = EngineLimits()
        limits.indexIdleMs = 0
        let it = SuspensionBench(limits: limits)
        let client = Client.make()
        let index = ChildIndex("q", .priority, isDeclared: true, over: .null)
        it.bench.run { it.bench.suspendedRequests.pin(index, for: client) }
        #expect(index.pins == 0, "nothing is parked")
        it.suspend(Self.get(1, client))
        it.bench.run { for _ in 0..<2 { it.bench.suspendedRequests.pin(index, for: client) } }
        #expect(index.pins == 1)
        it.step()
        #expect(index.pins == 0)
        it.step(2)
    }
}
