import Dispatch
import DispatchNet
import Synchronization
import Testing

/// How much of one connection is read before the others get their turn.
@Suite(.timeLimit(.minutes(30))) struct SharedTurnTests {
    private struct Read: Sendable {
        let from: UInt16
        let count: Int
    }

    /// All reads of a loop after this many peers have each sent this much before it polls.
    private func reads(peers count: Int, bytes: Int) throws -> [Read] {
        let log = Log<Read>()
        var settings = NetSettings()
        settings.stayAwakeMs = 0
        let server = try TestServer(settings: settings) { handler in
            handler.onBytes = { connection, bytes in log.append(Read(from: connection.remoteAddress.port, count: bytes.count)) }
        }
        let peers = (0..<count).map { _ in TestPeer(port: server.port) }
        for _ in peers { #expect(server.connections.next() != nil) }
        let gate = DispatchSemaphore(value: 0)
        server.loop.execute { gate.wait() }
        for peer in peers { peer.write([UInt8](repeating: 1, count: bytes)) }
        gate.signal()
        var reads: [Read] = []
        var left = count * bytes
        while left > 0 {
            let read = try #require(log.next())
            reads.append(read)
            left -= read.count
        }
        return reads
    }

    @Test func connection_isReadALittle_whileOthersAreReady() throws {
        let bytes = 60_000
        let reads = try reads(peers: 4, bytes: bytes)
        // Round by round, until the first of them has nothing left.
        for round in 0..<3 {
            let turn = reads[(round * 4)..<(round * 4 + 4)]
            #expect(Set(turn.map(\.from)).count == 4, "everybody has a turn")
            #expect(turn.allSatisfy { $0.count <= 16 << 10 })
        }
    }

    /// However many peers send a lot, one that sends little is read in the next turn, and all large senders get their turns.
    @Test func littleIsReadFirst_whileManySendMuch() throws {
        let (many, bytes) = (24, 100_000)
        let log = Log<Read>()
        let quiet = Mutex<TestPeer?>(nil)
        let seen = Mutex(0)
        var settings = NetSettings()
        settings.stayAwakeMs = 0
        settings.highVolumeTurnUs = 1_000_000
        let server = try TestServer(settings: settings) { handler in
            handler.onBytes = { connection, bytes in
                log.append(Read(from: connection.remoteAddress.port, count: bytes.count))
                let reads = seen.withLock { reads in
                    reads += 1
                    return reads
                }
                if reads == many + 6 { quiet.withLock { $0 }?.write([2]) }
            }
        }
        let peers = (0..<many).map { _ in TestPeer(port: server.port) }
        quiet.withLock { $0 = TestPeer(port: server.port) }
        for _ in 0...many { #expect(server.connections.next() != nil) }
        let gate = DispatchSemaphore(value: 0)
        server.loop.execute { gate.wait() }
        for peer in peers { peer.write([UInt8](repeating: 1, count: bytes)) }
        gate.signal()
        var (reads, left) = ([Read](), many * bytes + 1)
        while left > 0 {
            let read = try #require(log.next())
            reads.append(read)
            left -= read.count
        }
        let place = try #require(reads.firstIndex { $0.count == 1 })
        // 64 KiB are four reads: the rest of the turn in which it was sent.
        #expect((many + 6...many + 6 + 4).contains(place), "it was read as number \(place)")
        // The first read of each is small, as nothing is known of it yet.
        #expect(reads[..<many].allSatisfy { $0.count == settings.highVolumeReadBytes + 1 })
        let firstDone = try #require(reads[many...].firstIndex { $0.count > 1 && $0.count < 16 << 10 })
        // When the first of the others has nothing left, the last one has had as many turns, less one or two.
        let turns = Dictionary(grouping: reads[..<firstDone].filter { $0.count > 1 }, by: \.from).mapValues(\.count)
        #expect(turns.count == many && turns.values.min()! >= turns.values.max()! - 2, "\(turns.values.sorted())")
    }

    /// Work that connections left for later goes on in part of each turn, so that little never waits for all of it.
    @Test func postponedWork_isDoneAPartInATurn_behindLittle() throws {
        var settings = NetSettings()
        settings.stayAwakeMs = 0
        settings.highVolumeTurnUs = 0
        let log = Log<Int>()
        let server = try TestServer(settings: settings) { handler in handler.onBytes = { _, _ in log.append(-1) } }
        let quiet = Mutex(TestPeer(port: server.port))
        #expect(server.connections.next() != nil)
        server.loop.execute { [loop = server.loop] in
            for piece in 0..<100 {
                loop.postpone {
                    if piece == 3 { quiet.withLock { $0.write([1]) } }
                    log.append(piece)
                }
            }
        }
        var order: [Int] = []
        while order.count < 101 { order.append(try #require(log.next())) }
        // No time is left in a turn but for one piece.
        #expect(order == [0, 1, 2, 3, -1] + Array(4..<100), "\(order.prefix(10))")
    }

    @Test func postponedWork_seesWhatItsTurnHasSent() throws {
        let left = Log<Int>()
        let server = try TestServer { handler in
            handler.onBytes = { connection, _ in
                connection.send([1, 2, 3])
                connection.loop.postpone { left.append(connection.bufferedBytes) }
            }
        }
        TestPeer(port: server.port).write([1])
        #expect(left.next() == 0)
    }

    @Test func backlogs_leaveALittleInATurn_whileSeveralPeersTakeThem() throws {
        let server = try TestServer()
        let peers = (0..<2).map { _ in TestPeer(port: server.port) }
        let connections = try peers.map { _ in try #require(server.connections.next()) }
        let bytes = 12 << 20
        server.loop.execute { for connection in connections { connection.send([UInt8](repeating: 1, count: bytes)) } }
        // The bytes that the system has accepted are in the sockets.
        var seen: [Int] = []
        while seen.count < 20 {
            let sent = server.counters().bytesSent
            if sent == 0 || sent != seen.last { seen = [] }
            seen.append(sent)
        }
        let before = seen[0]
        let taken = try connections.map { connection in bytes - (try #require(server.onLoop { connection.bufferedBytes })) }
        try #require(before == taken.reduce(0, +) && taken.allSatisfy { $0 < bytes })
        let (gate, held) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        server.loop.execute {
            held.signal()
            gate.wait()
        }
        held.wait()
        // Both have room again before the loop polls.
        for (connection, count) in zip(connections, taken) {
            let peer = try #require(peers.first { $0.port == connection.remoteAddress.port })
            #expect(peer.read(count).count == count)
        }
        let first = Log<Int>()
        @Sendable func look(_ loop: EventLoop) {
            let sent = loop.counters.bytesSent - before
            if sent > 0 { first.append(sent) } else { loop.execute { look(loop) } }
        }
        server.loop.execute { [loop = server.loop] in look(loop) }
        gate.signal()
        let sent = try #require(first.next())
        #expect(sent <= 2 * (256 << 10), "\(sent) bytes in a turn")
    }

    @Test func largeFrame_leavesALittleInATurn_whileItGoesToSeveralPeers() throws {
        let server = try TestServer()
        let peers = (0..<4).map { _ in TestPeer(port: server.port) }
        let connections = try peers.map { _ in try #require(server.connections.next()) }
        let bytes = 4 << 20
        let first = Log<Int>()
        @Sendable func look(_ loop: EventLoop) {
            let sent = loop.counters.bytesSent
            if sent > 0 { first.append(sent) } else { loop.execute { look(loop) } }
        }
        server.loop.execute { [loop = server.loop] in
            let frame = loop.stage([UInt8](repeating: 1, count: bytes))
            for connection in connections { connection.send(frame) }
            loop.execute { look(loop) }
        }
        let sent = try #require(first.next())
        #expect(sent <= 4 * (256 << 10), "\(sent) bytes in a turn")
        for peer in peers { #expect(peer.read(bytes).count == bytes) }
    }

    @Test func connection_isReadInLargePieces_whileItIsAlone() throws {
        let reads = try reads(peers: 1, bytes: 60_000)
        #expect(reads.map(\.count) == [60_000])
    }
}
