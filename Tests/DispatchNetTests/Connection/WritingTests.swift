import Dispatch
import DispatchNet
import Testing

@Suite(.timeLimit(.minutes(30))) struct WritingTests {
    @Test func sendsOfOneTurn_leaveInOneSystemCall() throws {
        let server = try TestServer()
        let peer = TestPeer(port: server.port)
        let connection = try #require(server.connections.next())
        let before = server.counters()
        server.loop.execute { for i in 0..<50 { connection.send([UInt8](repeating: UInt8(i), count: 10)) } }
        let expected: [UInt8] = (0..<50).flatMap { [UInt8](repeating: UInt8($0), count: 10) }
        #expect(peer.read(500) == expected)
        let after = server.counters()
        #expect(after.writes - before.writes == 1)
        #expect(after.deliveries - before.deliveries == 50)
    }

    @Test func sendsInterleavedBetweenConnections_keepEachOrderAndOneCallEach() throws {
        let server = try TestServer()
        let peers = (0..<3).map { _ in TestPeer(port: server.port) }
        let connections = try peers.map { _ in try #require(server.connections.next()) }
        let before = server.counters()
        server.loop.execute {
            for i in 0..<40 {
                connections[i % 3].send([UInt8(i)])
                connections[0].loop.broadcast([200, UInt8(i)], to: connections)
            }
        }
        for (n, peer) in peers.enumerated() {
            let expected: [UInt8] = (0..<40).flatMap { i -> [UInt8] in (i % 3 == n ? [UInt8(i)] : []) + [200, UInt8(i)] }
            #expect(peer.reads(expected))
        }
        #expect(server.counters().writes - before.writes == 3)
    }

    @Test func moreSegmentsThanOneCallTakes_arriveWholeAndInOrder() throws {
        let server = try TestServer()
        let peers = (0..<2).map { _ in TestPeer(port: server.port) }
        let connections = try peers.map { _ in try #require(server.connections.next()) }
        server.loop.execute {
            // Alternating, so that no two frames of a connection are neighbours.
            for i in 0..<5000 { for connection in connections { connection.send([UInt8(i % 251), 1]) } }
        }
        let expected: [UInt8] = (0..<5000).flatMap { [UInt8($0 % 251), 1] }
        for peer in peers { #expect(peer.read(10_000) == expected) }
    }

    @Test func stagedFrame_mixedWithOwnPrefixes_keepsOrder() throws {
        let server = try TestServer()
        let peers = (0..<2).map { _ in TestPeer(port: server.port) }
        let connections = try peers.map { _ in try #require(server.connections.next()) }
        server.loop.execute {
            let shared = connections[0].loop.stage(Array("shared".utf8))
            for (i, connection) in connections.enumerated() {
                connection.send([UInt8(ascii: "0") + UInt8(i)])
                connection.send(shared)
            }
        }
        #expect(peers[0].read(7) == Array("0shared".utf8))
        #expect(peers[1].read(7) == Array("1shared".utf8))
    }

    @Test func broadcastOverReceivers_skipsThoseWithoutConnection() throws {
        struct Receiver: Sendable { let connection: Connection? }
        let server = try TestServer()
        let peer = TestPeer(port: server.port)
        let connection = try #require(server.connections.next())
        let receivers = [Receiver(connection: nil), Receiver(connection: connection)]
        let loop = server.loop
        loop.execute { loop.broadcast([5, 6], to: receivers) { $0.connection } }
        #expect(peer.read(2) == [5, 6])
    }

    @Test func slowReader_isBuffered_thenDrainedInOrder() throws {
        let drained = Log<Bool>()
        let server = try TestServer { $0.onDrained = { _ in drained.append(true) } }
        let peer = TestPeer(port: server.port, receiveBuffer: 4096)
        let connection = try #require(server.connections.next())
        let expected = server.sendOverManyTurns(connection)
        let waiting = try #require(server.onLoop { connection.bufferedBytes })
        #expect(waiting > 0 && waiting < expected.count)
        #expect(peer.reads(expected))
        #expect(drained.next() == true)
        #expect(server.onLoop { connection.bufferedBytes } == 0)
    }

    @Test func closeOfASlowReader_stillDeliversEverything() throws {
        let server = try TestServer()
        let peer = TestPeer(port: server.port, receiveBuffer: 4096)
        let connection = try #require(server.connections.next())
        let bytes = pattern(8_000_000)
        server.loop.execute {
            connection.send(bytes)
            connection.close(.finished)
        }
        #expect(server.ends.next() == .finished)
        #expect(peer.reads(bytes))
        #expect(peer.readsEnd())
    }

    @Test func overflow_closesOnlyThatConnection() throws {
        var settings = NetSettings()
        settings.outboundHardBytes = 1 << 20
        let server = try TestServer(settings: settings)
        let slow = TestPeer(port: server.port, receiveBuffer: 4096)
        let slowConnection = try #require(server.connections.next())
        let good = TestPeer(port: server.port)
        let goodConnection = try #require(server.connections.next())
        let frame = pattern(64_000)
        var turns = 0
        while server.onLoop({ slowConnection.isOpen }) == true, turns < 1000 {
            turns += 1
            server.loop.execute {
                goodConnection.loop.broadcast(frame, to: [slowConnection, goodConnection])
            }
            #expect(good.reads(frame))
        }
        #expect(server.ends.next() == .writeOverflow)
        good.write([1, 2])
        #expect(good.read(2) == [1, 2])
        #expect(server.counters().ends(.writeOverflow) == 1)
        #expect(server.counters().connections == 1)
        _ = slow
    }

    @Test func limitCountsOnlyWhatRemains_notWhatThePeerTakes() throws {
        var settings = NetSettings()
        settings.outboundHardBytes = 1000
        let server = try TestServer(settings: settings)
        let peer = TestPeer(port: server.port)
        let connection = try #require(server.connections.next())
        for _ in 0..<50 {
            let bytes = pattern(5000)
            server.loop.execute { connection.send(bytes) }
            #expect(peer.read(5000) == bytes)
        }
        #expect(server.ends.waiting.isEmpty)
    }

    @Test func sendFromOutsideAnyTurn_stillLeaves() throws {
        let server = try TestServer()
        let peer = TestPeer(port: server.port)
        let connection = try #require(server.connections.next())
        server.loop.queue.async { connection.send([4, 2]) }
        #expect(peer.read(2) == [4, 2])
    }
}
