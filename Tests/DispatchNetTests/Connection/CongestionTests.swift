@testable import DispatchNet
import Glibc
import Testing

/// Peers that read too slowly: the soft limit, its seconds, the hard limit, and the common limit of all peers.
@Suite(.timeLimit(.minutes(30))) struct CongestionTests {
    private func settings(_ change: (inout NetSettings) -> Void) -> NetSettings {
        var settings = NetSettings()
        change(&settings)
        return settings
    }

    /// More than the system's buffers take for a peer that does not read.
    private static let much = 16 << 20

    @Test func stalledReader_isToldOnce_thenClosedByTime_andOthersGoOn() throws {
        let told = Log<Int>()
        let server = try TestServer(settings: settings { $0.outboundSoftBytes = 100_000; $0.outboundSoftMs = 50 }) { handler in
            handler.onCongested = { told.append($0.backlogBytes) }
        }
        let slow = TestPeer(port: server.port, receiveBuffer: 4096)
        let connection = try #require(server.connections.next())
        let good = TestPeer(port: server.port)
        _ = try #require(server.connections.next())
        server.loop.execute { connection.send(pattern(Self.much)) }
        #expect(try #require(told.next()) > 100_000)
        server.loop.execute { if connection.isOpen { connection.send([1]) } }
        #expect(server.ends.next() == .writeStalled)
        #expect(told.waiting.isEmpty)
        good.write([1, 2])
        #expect(good.read(2) == [1, 2])
        let counters = server.counters()
        #expect(counters.ends(.writeStalled) == 1 && counters.congestions == 1)
        #expect(counters.backlogBytes == 0, "its bytes are let go")
        _ = slow
    }

    @Test func slowButSteadyReader_getsEverything() throws {
        // The intervals end on the test's command: in each of them the peer reads more than the soft limit.
        let drained = Log<Bool>()
        let server = try TestServer(
            settings: settings { $0.outboundSoftBytes = 1 << 20; $0.outboundHardBytes = 64 << 20; $0.outboundSoftMs = 3_600_000 }
        ) { handler in
            handler.onDrained = { _ in drained.append(true) }
        }
        let peer = TestPeer(port: server.port, receiveBuffer: 4096)
        let connection = try #require(server.connections.next())
        let bytes = pattern(3 * Self.much)
        server.loop.execute { connection.send(bytes) }
        // The system's buffers had taken some megabytes before the peer read.
        for interval in 0..<2 {
            #expect(peer.reads(bytes[interval * Self.much..<(interval + 1) * Self.much]))
            #expect(server.onLoop { connection.checkCongestion() } == true)
        }
        #expect(peer.reads(bytes[(2 * Self.much)...]))
        #expect(drained.next() == true)
        #expect(server.ends.waiting.isEmpty)
    }

    @Test func backlogAtTheSoftLimit_isNotCongestion() throws {
        let server = try TestServer(
            settings: settings { $0.outboundSoftBytes = 64 << 20; $0.outboundHardBytes = 65 << 20; $0.outboundSoftMs = 1 })
        let peer = TestPeer(port: server.port, receiveBuffer: 4096)
        let connection = try #require(server.connections.next())
        let bytes = pattern(Self.much)
        server.loop.execute { connection.send(bytes) }
        #expect(server.counters().congestions == 0)
        #expect(peer.reads(bytes))
    }

    @Test func framesThatWereTaken_areLetGo_thoughSomeAlwaysWait() {
        var backlog = Backlog()
        weak var first: Block?
        do {
            let block = Block(capacity: 1 << 20, isReused: false)
            first = block
            backlog.append(block, offset: 0, count: block.capacity)
        }
        for _ in 0..<3 { backlog.append(Block(capacity: 1 << 20, isReused: false), offset: 0, count: 1 << 20) }
        #expect(first != nil)
        backlog.consume((3 << 20) - 1)
        #expect(first == nil && backlog.bytes == (1 << 20) + 1)
    }

    @Test func smallFramesBetweenLargeOnes_shareABlock() {
        var backlog = Backlog()
        let small = Block(capacity: 64, isReused: true)
        pattern(64).withUnsafeBytes { small.append($0) }
        let large = Block(capacity: 16 << 10, isReused: false)
        pattern(16 << 10, seed: 2).withUnsafeBytes { large.append($0) }
        var expected: [UInt8] = []
        for _ in 0..<20 {
            backlog.append(small, offset: 0, count: 64)
            backlog.append(large, offset: 0, count: large.capacity)
            expected += pattern(64) + pattern(16 << 10, seed: 2)
        }
        let vectors = UnsafeMutablePointer<iovec>.allocate(capacity: 64)
        defer { vectors.deallocate() }
        let filled = backlog.fill(vectors, limit: 64)
        let found = (0..<filled.vectors).flatMap { Array(UnsafeRawBufferPointer(start: vectors[$0].iov_base, count: vectors[$0].iov_len)) }
        #expect(found == expected && filled.bytes == backlog.bytes)
        // Neighbours in one block of 4 KB.
        for i in stride(from: 2, to: filled.vectors, by: 2) { #expect(vectors[i].iov_base == vectors[i - 2].iov_base + 64) }
    }

    @Test func manyReaders_belowTheSoftLimit_areBoundedTogether_thoseWithLittleStay() throws {
        let server = try TestServer(settings: settings {
            $0.outboundSoftBytes = 64 << 20
            $0.outboundTotalBytes = 16 << 20
            $0.outboundCrowdedBytes = 1 << 20
        })
        let peers = (0..<4).map { _ in TestPeer(port: server.port, receiveBuffer: 4096) }
        let connections = try peers.map { _ in try #require(server.connections.next()) }
        let (large, small) = (pattern(Self.much), pattern(512 << 10, seed: 3))
        for connection in connections.prefix(2) { server.loop.execute { connection.send(large) } }
        for connection in connections.suffix(2) { server.loop.execute { connection.send(small) } }
        #expect(server.ends.next() == .outputMemory)
        #expect(peers[2].reads(small) && peers[3].reads(small), "who has little waiting stays")
        #expect(server.counters().ends(.outputMemory) <= 2)
    }

    @Test func slowReaders_ofTwoLoops_areBoundedTogether() throws {
        let server = try TestServer(loops: 2, settings: settings { $0.outboundSoftBytes = 64 << 20; $0.outboundTotalBytes = 24 << 20 })
        let peers = (0..<2).map { _ in TestPeer(port: server.port, receiveBuffer: 4096) }
        let connections = try peers.map { _ in try #require(server.connections.next()) }
        #expect(connections[0].loop !== connections[1].loop)
        // Less than the limit each; the system takes a part of it.
        let bytes = pattern(20 << 20)
        for connection in connections { connection.loop.execute { connection.send(bytes) } }
        #expect(server.ends.next() == .outputMemory)
        withExtendedLifetime(peers) {}
    }

    @Test func allSlowReadersTogether_areBounded() throws {
        let server = try TestServer(settings: settings { $0.outboundSoftBytes = 1 << 20; $0.outboundTotalBytes = 40 << 20 })
        let peers = (0..<4).map { _ in TestPeer(port: server.port, receiveBuffer: 4096) }
        let connections = try peers.map { _ in try #require(server.connections.next()) }
        let bytes = pattern(Self.much)
        for connection in connections { server.loop.execute { connection.send(bytes) } }
        #expect(server.ends.next() == .outputMemory)
        #expect(server.counters().backlogBytes <= 40 << 20)
        #expect(server.counters().ends(.outputMemory) >= 1)
        #expect(peers[0].reads(bytes), "who came first is served")
    }
}
