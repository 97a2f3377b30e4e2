import Dispatch
import DispatchNet
import Testing

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
