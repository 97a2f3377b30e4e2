import Dispatch
@testable import HubEngine
import JSONTree
import TestSupport
import Testing

/// How requests that wait share the queue: turns and their parts are counted in work. The clock stands still unless a test moves it.
@Suite(.timeLimit(.minutes(30))) struct RequestLoopTests {
    private static func bench(turnWork: Int, lanes: Int = 1) -> Bench {
        var limits = EngineLimits.patient
        limits.turnWork = turnWork
        let bench = Bench(limits: limits, lanes: lanes)
        bench.suspendedRequests.onResumed = { [weak bench] items, client in bench?.loop.resume(items, of: client) }
        bench.durability.onReleased = { [weak bench] in bench?.loop.scheduleTurn() }
        return bench
    }

    /// Creates requests that are answered with their name; each costs one unit of work.
    private static func asks(_ name: String, _ count: Int, of client: Client, bytes: Int = 0, size: Int = 0) -> [SubmittedRequest] {
        (0..<count).map { .init(.answer(Array("\(name)\($0)".padded(to: bytes).utf8)), of: client, size: size) }
    }

    /// Lets all turns run.
    private static func allTurns(_ bench: Bench) { while bench.run({ bench.context.meter.counters.waitingRequests }) > 0 {} }

    /// Handles requests, and lets all turns run.
    private static func handle(_ bench: Bench, _ items: [SubmittedRequest]) -> [String] {
        bench.run { bench.loop.handle(items) }
        Self.allTurns(bench)
        return bench.lines().map { String($0.prefix { $0 != "." }) }
    }

    @Test func little_isHandledInTheOrderOfArrival_asOneBatch() {
        let bench = Self.bench(turnWork: 10)
        let (a, b) = (Client.make(), Client.make())
        let items = [Self.asks("a", 1, of: a), Self.asks("b", 2, of: b), Self.asks("c", 1, of: a)].joined()
        bench.run {
            bench.loop.handle(Array(items))
            #expect(bench.outbox.batchNumber == 1 && bench.context.meter.counters.requests == 4)
        }
        #expect(bench.lines() == ["a0", "b0", "b1", "c0"])
    }

    @Test func whatComesMeanwhile_isPartOfTheBatch_whileTheTurnHasRoom() {
        let bench = Self.bench(turnWork: 5)
        let (a, b) = (Client.make(), Client.make())
        var more = [Self.asks("b", 2, of: b), Self.asks("c", 1, of: a), Self.asks("d", 1, of: b)]
        bench.run {
            bench.loop.handle(Self.asks("a", 2, of: a), more: { more.isEmpty ? [] : more.removeFirst() })
            #expect(bench.outbox.batchNumber == 1 && bench.context.meter.counters.requests == 5)
        }
        #expect(bench.lines() == ["a0", "a1", "b0", "b1", "c0"])
        #expect(more.count == 1, "it waits for the next turn")
    }

    @Test func turn_endsWhenItsTimeIsOver_whateverItsWork() {
        let bench = Self.bench(turnWork: 1_000)
        let client = Client.make()
        var drained = 0
        bench.run {
            bench.loop.handle(Self.asks("a", 1, of: client)) {
                drained += 1
                bench.time.advance(ms: 2)
                return Self.asks("b\(drained)-", 1, of: client)
            }
        }
        // 4 ms
        #expect(drained == 2 && bench.lines() == ["a0", "b1-0", "b2-0"])
    }

    @Test func much_isSharedEqually_turnByTurn() {
        let bench = Self.bench(turnWork: 4)
        let (a, b) = (Client.make(), Client.make())
        let lines = Self.handle(bench, Self.asks("a", 10, of: a) + Self.asks("b", 3, of: b))
        // A turn of 4; then 2 for each of two; then the remaining requests of both; then the rest.
        #expect(lines == ["a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1", "a6", "a7", "b2", "a8", "a9"])
        #expect(bench.outbox.batchNumber == 4, "a batch ends with its turn")
        #expect(a.requestQueue == nil && b.requestQueue == nil)
    }

    @Test func timeOfATurn_isSharedEqually_whateverItsWork() {
        let bench = Self.bench(turnWork: 1_000)
        let clients = (0..<4).map { _ in Client.make() }
        bench.time.ticksNs = 250_000
        let lines = Self.handle(bench, Array(clients.enumerated().map { Self.asks("\($0)-", 20, of: $1) }.joined()))
        // The first turn serves the first client. The next one has 1 ms for each, about two requests.
        let begun = (1..<4).map { client in lines.firstIndex(of: "\(client)-0")! }
        #expect(begun[0] < begun[1] && begun[1] < begun[2])
        #expect(begun[2] - begun[0] <= 6, "\(lines)")
    }

    @Test func sizeOfARequest_isWork() {
        for (size, batches) in [(2_560 + 127, 2), (2_560 + 2 * 128, 4)] {
            let bench = Self.bench(turnWork: 3)
            let (a, b) = (Client.make(), Client.make())
            let lines = Self.handle(bench, Self.asks("a", 2, of: a, size: size) + Self.asks("b", 1, of: b) + Self.asks("c", 2, of: a))
            #expect(lines == ["a0", "a1", "b0", "c0", "c1"])
            #expect(bench.outbox.batchNumber == batches, "of \(size) bytes each of the first two fills a turn, or none")
        }
    }

    @Test func whatIsEncoded_isWork() {
        for (bytes, isFirst) in [(1_000, true), (3_072, false)] {
            let bench = Self.bench(turnWork: 4)
            let (a, b) = (Client.make(), Client.make())
            let lines = Self.handle(bench, Self.asks("a", 3, of: a, bytes: bytes) + Self.asks("b", 1, of: b))
            #expect((lines.firstIndex(of: "b0") == 3) == isFirst, "\(bytes) bytes: \(lines)")
        }
    }

    @Test func muchOutput_endsTheBatch() {
        for (bytes, batches) in [((2 << 20) - 2, 1), ((2 << 20) + 1, 3)] {
            let bench = Self.bench(turnWork: 1_000_000)
            let (one, other) = (Client.make(), Client.make())
            let lines = Self.handle(bench, Self.asks("a", 1, of: one, bytes: bytes) + Self.asks("b", 1, of: other))
            #expect(lines == ["a0", "probe", "b0"])
            // The large one leaves by itself, which ends its turn.
            #expect(bench.outbox.batchNumber == batches)
        }
    }

    @Test func ends_haveTheirTurn_behindThoseWhoAsk() {
        let bench = Self.bench(turnWork: 4)
        let (asking, leaving) = (Client.make(), (0..<6).map { _ in Client.make() })
        let seen = ReceivedBox<(lines: [String], ended: Int)>(([], 0))
        bench.run {
            bench.loop.handle(Self.asks("a", 4, of: asking) + leaving.map { .init(.end, of: $0) } + Self.asks("b", 4, of: asking))
            #expect(leaving.allSatisfy { !$0.hasEnded })
            // After the next turn, and before the one after it.
            bench.queue.async { seen.value = (bench.lines(), leaving.count { $0.hasEnded }) }
        }
        bench.run {}
        #expect(seen.value.lines == ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"])
        #expect(seen.value.ended == 1, "one of each turn at least")
        Self.allTurns(bench)
        #expect(leaving.allSatisfy { $0.hasEnded })
    }

    @Test func clientsThatWaitForTheLog_getNoTurn_whileItIsBehind() {
        let bench = Self.bench(turnWork: 8)
        let (writer, reader) = (Client.make(), Client.make())
        func puts(_ count: Int) -> [SubmittedRequest] { (0..<count).map { .init(.put("p", .int(Int64($0))), of: writer, token: Int64($0)) } }
        // Two units each: four commits are half of a turn's work.
        bench.run { bench.loop.handle(puts(4)) }
        #expect(bench.durability.waitingCommits == 4)
        bench.run { bench.loop.handle(puts(1)) }
        #expect(bench.durability.waitingCommits == 5 && bench.context.meter.counters.waitingRequests == 0)
        bench.run { bench.loop.handle(puts(2) + Self.asks("r", 1, of: reader)) }
        for _ in 0..<4 { bench.run {} }
        #expect(bench.run { bench.lines() } == ["r0"] && bench.context.meter.counters.waitingRequests == 2)
        bench.log.completeAll()
        for _ in 0..<4 { bench.run {} }
        bench.log.completeAll()
        bench.run {}
        #expect(bench.context.meter.counters.waitingRequests == 0 && bench.durability.waitingCommits == 0)
        #expect(bench.lines(to: writer).count == 7)
    }

    @Test func heldRequests_goOnAtOnceIfTheyAreFew() {
        let bench = Self.bench(turnWork: 64)
        let (client, other) = (Client.make(), Client.make())
        bench.run {
            bench.loop.resume(Self.asks("a", 2, of: client), of: client)
            #expect(bench.outbox.bytes == 4)
            bench.loop.resume(Self.asks("b", 3, of: client), of: client)
            #expect(bench.outbox.bytes == 8, "the rest waits for a turn")
            bench.loop.handle(Self.asks("c", 1, of: client) + Self.asks("d", 1, of: other))
            bench.loop.resume(Self.asks("e", 3, of: client), of: client)
        }
        Self.allTurns(bench)
        #expect(bench.lines(to: client) == ["a0", "a1", "b0", "b1", "e0", "e1", "e2", "b2", "c0"], "before all that waits in its line")
    }

    @Test func idleWaiters_areCalledWhenNoneWaits() {
        let bench = Self.bench(turnWork: 2)
        let seen = ReceivedBox<[String]>([])
        bench.run { bench.loop.whenIdle { seen.value.append("at once") } }
        #expect(seen.value == ["at once"])
        bench.run {
            bench.loop.handle(Self.asks("a", 5, of: .make()))
            bench.loop.whenIdle { seen.value.append("later") }
            #expect(seen.value == ["at once"])
        }
        Self.allTurns(bench)
        #expect(seen.value == ["at once", "later"])
    }

    @Test func turnThatWritesWhatIsOwed_letsRequestsHaveTheNext() {
        let bench = Self.bench(turnWork: 4)
        bench.logGuard.onTaken = { [weak bench] in bench?.loop.handle([]) }
        let reader = Client.make()
        bench.run {
            bench.logGuard.refused(.diskFull)
            for i in 0..<9 { bench.disconnects.applyEnded(PendingSession(id: "s\(i)", isAdmin: true, writes: [TreeWrite("gone/k\(i)", 1)])) }
            bench.logGuard.tryLater()
        }
        bench.time.advance(ms: Int64(bench.context.limits.retryMs))
        bench.run {}
        let seen = ReceivedBox(0)
        bench.run {
            bench.log.complete()
            bench.queue.async {
                bench.loop.handle(Self.asks("r", 1, of: reader))
                seen.value = bench.content.root.child("gone").childCount
            }
        }
        Self.allTurns(bench)
        for _ in 0..<6 { bench.run {} }
        #expect(seen.value == 2, "it did not wait for the rest")
        #expect(bench.content.root.child("gone").childCount == 9)
        bench.log.completeAll()
        bench.run {}
        #expect(bench.lines() == ["r0"])
    }

    @Test func turn_writesWhatIsOwed_whenTheLogTakesIt() {
        let bench = Self.bench(turnWork: 10)
        bench.run {
            bench.logGuard.refused(.diskFull)
            bench.disconnects.applyEnded(PendingSession(id: "s", isAdmin: true, writes: [TreeWrite("gone", 1)]))
            bench.logGuard.tryLater()
            bench.loop.handle([])
        }
        #expect(bench.log.appended == 0 && bench.content.root == .null)
        bench.time.advance(ms: Int64(bench.context.limits.retryMs))
        bench.run {}
        #expect(bench.log.appended == 1)
        bench.log.complete()
        bench.run {}
        bench.run { bench.loop.handle([]) }
        #expect(bench.content.root == ["gone": 1], "what was owed is written first")
    }
}

extension PendingSession {
    init(id: String, isAdmin: Bool, writes: [TreeWrite]) {
        var pending = PendingWrites()
        for write in writes { pending.add(write) }
        self.init(id: id, isAdmin: isAdmin, writes: pending)
    }
}

extension String {
    /// The text, padded with dots to this many bytes.
    fileprivate func padded(to bytes: Int) -> String { self + String(repeating: ".", count: max(0, bytes - utf8.count)) }
}
