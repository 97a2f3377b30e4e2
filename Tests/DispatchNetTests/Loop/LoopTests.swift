import Dispatch
@testable import DispatchNet
import Glibc
import Synchronization
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(30))) struct LoopTests {
    @Test func execute_fromManyThreads_keepsEachThreadsOrder() throws {
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdownAndWait() }
        let loop = group.next()
        let seen = Log<(thread: Int, number: Int)>()
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            for number in 0..<500 { loop.execute { seen.append((thread, number)) } }
        }
        var next = Array(repeating: 0, count: 8)
        for _ in 0..<4000 {
            let item = try #require(seen.next())
            #expect(item.number == next[item.thread])
            next[item.thread] += 1
        }
    }

    @Test func timeAtWork_isCounted_alsoWhileItLasts() throws {
        let server = try TestServer()
        let before = server.counters().busyNs
        _ = server.onLoop { usleep(20_000) }
        #expect(server.counters().busyNs - before >= 20_000_000)
        // One visit.
        let seen = Log<UInt64>()
        let loop = server.loop
        let rounds = Mutex(0)
        @Sendable func work() {
            seen.append(loop.counters.busyNs)
            usleep(20_000)
            let count = rounds.withLock { rounds in
                rounds += 1
                return rounds
            }
            if count < 3 { loop.execute(work) }
        }
        loop.execute(work)
        let (first, second, third) = (try #require(seen.next()), try #require(seen.next()), try #require(seen.next()))
        #expect(second - first >= 20_000_000 && third - second >= 20_000_000)
    }

    @Test func timeOfWaiting_isNotWork() throws {
        var settings = NetSettings()
        settings.stayAwakeMs = 10_000
        let server = try TestServer(settings: settings)
        let peer = TestPeer(port: server.port)
        func echo() {
            peer.write([1])
            #expect(peer.read(1) == [1])
        }
        echo()
        let (begin, before) = (DispatchTime.now().uptimeNanoseconds, server.loop.counters.busyNs)
        usleep(300_000)
        // Two: the counters are those of the previous turn.
        echo()
        echo()
        let elapsed = DispatchTime.now().uptimeNanoseconds - begin
        #expect(server.loop.counters.busyNs - before < elapsed - 200_000_000)
    }

    @Test func execute_onTheLoop_runsAfterTheCurrentWork() throws {
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdownAndWait() }
        let loop = group.next()
        let seen = Log<Int>()
        loop.execute {
            loop.execute { seen.append(2) }
            seen.append(1)
        }
        #expect([seen.next(), seen.next()] == [1, 2])
    }

    @Test func isOnLoop_isTrueOnlyOnThatLoop() throws {
        let group = try EventLoopGroup(count: 2)
        defer { group.shutdownAndWait() }
        let seen = Log<Bool>()
        let (a, b) = (group.loops[0], group.loops[1])
        #expect(!a.isOnLoop)
        a.execute {
            seen.append(a.isOnLoop)
            seen.append(b.isOnLoop)
        }
        #expect(seen.next() == true)
        #expect(seen.next() == false)
    }

    /// - Returns: how often a loop has paused for gathering after receiving from this many peers at once.
    /// - Parameters:
    ///   - asked: the requested pause in µs.
    ///   - isAwaited: whether the test lets the loop become idle after each round, which is when it pauses.
    private func gatherings(_ peers: Int, connections: Int, us: Int, asked: Int = 0, isAwaited: Bool = false) throws -> Int {
        var settings = NetSettings()
        (settings.gatherConnections, settings.gatherUs, settings.stayAwakeMs) = (connections, us, 1_000)
        let server = try TestServer(settings: settings)
        _ = server.onLoop { [loop = server.loop] in loop.beforeWait { asked } }
        let peers = (0..<peers).map { _ in TestPeer(port: server.port) }
        for _ in peers { _ = try #require(server.connections.next()) }
        for round: UInt8 in 1...3 {
            let (begun, written) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            server.loop.execute {
                begun.signal()
                written.wait()
            }
            begun.wait()
            for peer in peers { peer.write([round]) }
            written.signal()
            for peer in peers { #expect(peer.read(1) == [round]) }
            let deadline = ContinuousClock.now + .seconds(20)
            while isAwaited, server.loop.counters.gatherings < Int(round), ContinuousClock.now < deadline { sched_yield() }
        }
        return server.onLoop { [loop = server.loop] in loop.counters.gatherings } ?? -1
    }

    @Test func loopThatServesSeveral_letsThemGather_andNoOther() throws {
        #expect(try gatherings(3, connections: 3, us: 1_000, isAwaited: true) == 3)
        #expect(try gatherings(2, connections: 3, us: 1_000) == 0)
        #expect(try gatherings(3, connections: 3, us: 0) == 0)
    }

    @Test func loopThatIsAskedToPause_doesBehindTwo() throws {
        #expect(try gatherings(2, connections: 9, us: 0, asked: 1_000, isAwaited: true) == 3)
    }

    @Test func pause_isOfSeveralConnections_theLongerOne_onceBehindABatch() {
        var settings = NetSettings()
        (settings.gatherConnections, settings.gatherUs) = (4, 50)
        var gathering = EventLoop.Gathering()
        #expect(gathering.nextPauseMicroseconds(requested: 400, settings) == 0, "none was served")
        for (served, asked, us) in [(1, 400, 0), (2, 0, 0), (2, 400, 400), (3, 400, 400), (4, 0, 50), (4, 20, 50), (4, 400, 400)] {
            gathering.served = served
            #expect(gathering.nextPauseMicroseconds(requested: asked, settings) == us, "\(served) served, \(asked) asked")
            #expect(gathering.nextPauseMicroseconds(requested: asked, settings) == 0, "it has waited behind that batch")
        }
        settings.gatherUs = 0
        gathering.served = 9
        #expect(gathering.nextPauseMicroseconds(requested: 0, settings) == 0)
    }

    @Test func endOfATurn_comesOnce_howeverOftenItIsAskedFor_andBeforeTheFlush() throws {
        let server = try TestServer()
        let peer = TestPeer(port: server.port)
        let connection = try #require(server.connections.next())
        let (loop, writes) = (server.loop, Log<Int>())
        loop.execute {
            var calls: UInt8 = 0
            loop.beforeFlush {
                calls += 1
                connection.send([calls])
            }
            writes.append(loop.counters.writes)
        }
        for call: UInt8 in 1...3 {
            loop.execute {
                for _ in 0..<3 { loop.finishLater() }
                connection.send([0])
            }
            #expect(peer.read(2) == [0, call])
        }
        // Outside of a turn, too.
        loop.queue.async { loop.finishLater() }
        #expect(peer.read(1) == [4])
        // A later turn sees all previous ones.
        loop.execute { writes.append(loop.counters.writes) }
        #expect((writes.next() ?? 0) + 4 == writes.next(), "what a turn and its end send leaves at once")
    }

    @Test func endOfATurn_thatAsksForAnother_needsNoEventForIt() throws {
        var settings = NetSettings()
        // If the loop waited for an event, it would do so for a minute.
        settings.stayAwakeMs = 60_000
        let group = try EventLoopGroup(count: 1, settings: settings)
        defer { group.shutdownAndWait() }
        let (loop, seen) = (group.next(), Log<Int>())
        loop.execute {
            var calls = 0
            loop.beforeFlush {
                calls += 1
                seen.append(calls)
                if calls < 2_500 { loop.finishLater() }
            }
            loop.finishLater()
        }
        for call in 1...2_500 { #expect(seen.next() == call) }
        loop.execute { seen.append(0) }
        #expect(seen.next() == 0)
    }

    @Test func oneIsAsking_whenTheConnectionThatWasReadLast_isReadAgain_andNothingElseIsDone() throws {
        let seen = Log<Bool>()
        let (begun, written) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        var settings = NetSettings()
        // No turn between two of these.
        settings.stayAwakeMs = 60_000
        let server = try TestServer(settings: settings) { handler in
            handler.onBytes = { connection, bytes in
                connection.loop.finishLater()
                guard bytes == [2] else { return }
                begun.signal()
                written.wait()
            }
        }
        server.loop.execute { [loop = server.loop] in loop.beforeFlush { seen.append(loop.hasSingleActivePeer) } }
        let peers = (0..<2).map { _ in TestPeer(port: server.port) }
        for _ in peers { _ = try #require(server.connections.next()) }
        func hasSingleActivePeer(_ peer: Int) -> Bool? {
            peers[peer].write([1])
            return seen.next()
        }
        #expect(hasSingleActivePeer(0) == false)
        #expect(hasSingleActivePeer(0) == true)
        #expect(hasSingleActivePeer(0) == true)
        #expect(hasSingleActivePeer(1) == false, "another one asks")
        #expect(hasSingleActivePeer(0) == false)
        #expect(hasSingleActivePeer(0) == true)
        // Two in one turn; the previously read one is the last of them.
        let blocking = TestPeer(port: server.port)
        _ = try #require(server.connections.next())
        blocking.write([2])
        begun.wait()
        peers[0].write([1])
        blocking.write([1])
        written.signal()
        #expect(seen.next() == false, "another one asks")
        #expect(seen.next() == false, "two ask")
        // Another block's work in the same turn.
        _ = hasSingleActivePeer(0)
        #expect(hasSingleActivePeer(0) == true)
        // Its bytes are in the socket before this turn polls for events.
        server.loop.execute { [fd = peers[0].fd] in _ = Loopback.send([1], to: fd) }
        #expect(seen.next() == false)
        #expect(seen.waiting.isEmpty)
    }

    @Test func timers_fireInOrderOfTheirDeadlines() throws {
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdownAndWait() }
        let loop = group.next()
        let seen = Log<Int>()
        loop.execute {
            for ms in [9, 3, 6, 0, 3] { loop.schedule(afterMs: ms, everyMs: nil) { seen.append(ms) } }
        }
        #expect((0..<5).map { _ in seen.next() } == [0, 3, 3, 6, 9])
    }

    @Test func timer_thatRepeats_firesUntilCancelled() throws {
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdownAndWait() }
        let loop = group.next()
        let seen = Log<Int>()
        let timer = loop.schedule(afterMs: 0, everyMs: 1) { seen.append(1) }
        for _ in 0..<5 { #expect(seen.next() == 1) }
        let cancelled = Log<Int>()
        loop.execute {
            timer.cancel()
            cancelled.append(seen.waiting.count)
        }
        let count = try #require(cancelled.next())
        // A later timer has fired: an uncancelled one of 1 ms would have too.
        let later = Log<Bool>()
        loop.schedule(afterMs: 20, everyMs: nil) { later.append(true) }
        #expect(later.next() == true)
        #expect(seen.waiting.count == count)
    }

    @Test func timer_sends_areFlushed() throws {
        let server = try TestServer()
        let peer = TestPeer(port: server.port)
        let connection = try #require(server.connections.next())
        server.loop.schedule(afterMs: 1, everyMs: nil) { connection.send([8]) }
        #expect(peer.read(1) == [8])
    }
}
