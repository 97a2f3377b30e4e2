@testable import DispatchNet
import Glibc
import Synchronization
import Testing
import TestSupport

/// The loop that a new connection is assigned to.
@Suite(.timeLimit(.minutes(30))) struct PlacementTests {
    private static let second: UInt64 = 1_000_000_000

    @Test func loopsAreFilled_oneAfterTheOther_thenEvenly() {
        let placement = Placement(room: 3, loops: 3, nowNs: 0)
        var connections = [0, 0, 0]
        var order: [Int] = []
        for _ in 0..<12 {
            let chosen = placement.choose(connections)
            connections[chosen] += 1
            order.append(chosen)
        }
        #expect(order == [0, 0, 0, 1, 1, 1, 2, 2, 2, 0, 1, 2])
        connections[1] = 2
        #expect(placement.choose(connections) == 1, "room again")
    }

    @Test func busyLoop_isPassedOver_whileAnotherIsNot() {
        var placement = Placement(room: 3, loops: 2, nowNs: 7 * Self.second)
        func read(_ busyMs: [UInt64], second: UInt64) { placement.read(busyMs.map { $0 * 1_000_000 }, nowNs: second * Self.second) }
        read([499, 0], second: 8)
        #expect(placement.choose([1, 0]) == 0)
        read([999, 499], second: 9)
        #expect(placement.choose([1, 0]) == 1, "half of the second")
        #expect(placement.choose([1, 3]) == 1, "one that is full is better than one that is busy")
        read([1_498, 499], second: 10)
        #expect(placement.choose([1, 3]) == 0)
        read([1_998, 999], second: 11)
        #expect(placement.choose([2, 1]) == 1, "both are busy")
    }

    @Test func connections_goToTheNextLoop_whenOneHasItsNumber_andBackWhenItHasRoom() throws {
        var settings = NetSettings()
        settings.connectionsPerLoop = 2
        let server = try TestServer(loops: 2, settings: settings)
        func accept() throws -> (peer: TestPeer, loop: Int) {
            let peer = TestPeer(port: server.port)
            return (peer, try #require(server.connections.next()).loop.index)
        }
        let peers = try (0..<5).map { _ in try accept() }
        #expect(peers.map(\.loop) == [0, 0, 1, 1, 0])
        for peer in peers.prefix(3) {
            peer.peer.finishWriting()
            _ = try #require(server.ends.next())
        }
        // The end is reported before the descriptor is closed, which is what counts.
        while server.group.loops.map({ $0.population.load(ordering: .relaxed) }) != [1, 1] {
            server.settle()
            usleep(1_000)
        }
        let next = try (0..<3).map { _ in try accept() }
        #expect(next.map(\.loop) == [0, 1, 0], "one each has room, then they are alike")
        withExtendedLifetime((peers, next)) {}
    }

    @Test func refusedAndEndedConnections_areCountedOff() throws {
        let group = try EventLoopGroup(count: 2)
        let server = try TestServer(group: group)
        let peers = (0..<4).map { _ in TestPeer(port: server.port) }
        for _ in peers { _ = try #require(server.connections.next()) }
        #expect(group.loops.map { $0.population.load(ordering: .relaxed) } == [2, 2])
        group.shutdownAndWait(graceMs: 0)
        #expect(group.loops.map { $0.population.load(ordering: .relaxed) } == [0, 0])
        // A connection handed to a closed loop.
        let refused = Log<Bool>()
        let (loop, address) = (group.loops[1], server.listener.localAddress)
        loop.placed()
        loop.execute {
            let fd = open("/dev/null", O_RDONLY)
            refused.append(!loop.adopt(Listener.Accepted(fd: fd, peer: address), nil, nil) { Scripted($0) })
        }
        #expect(refused.next() == true)
        #expect(loop.population.load(ordering: .relaxed) == 0)
        withExtendedLifetime(peers) {}
    }

    @Test func readings_areTaken_andABusyLoopGetsNoMore() throws {
        var settings = NetSettings()
        settings.connectionsPerLoop = 100
        let server = try TestServer(loops: 2, settings: settings)
        let first = TestPeer(port: server.port)
        #expect(try #require(server.connections.next()).loop.index == 0)
        // Repeated work of 50 ms.
        let isOver = Mutex(false)
        let loop = server.loop
        @Sendable func work() {
            usleep(50_000)
            if !isOver.withLock({ $0 }) { loop.execute(work) }
        }
        loop.execute(work)
        defer { isOver.withLock { $0 = true } }
        var peers: [TestPeer] = []
        var placed = 0
        while placed == 0 {
            peers.append(TestPeer(port: server.port))
            placed = try #require(server.connections.next()).loop.index
            usleep(50_000)
        }
        #expect(placed == 1)
        withExtendedLifetime((first, peers)) {}
    }

    @Test func outgoingConnections_count_andAreGivenBack() throws {
        let server = try TestServer()
        let client = try EventLoopGroup(count: 1)
        defer { client.shutdownAndWait() }
        let opened = Log<Connection>()
        connect(to: "127.0.0.1", port: server.port, on: client.loops[0]) { connection in
            opened.append(connection)
            return Scripted(connection)
        } failed: { _ in }
        let connection = try #require(opened.next())
        #expect(client.loops[0].population.load(ordering: .relaxed) == 1)
        client.loops[0].execute { connection.close(.finished) }
        while client.loops[0].population.load(ordering: .relaxed) > 0 { usleep(1_000) }
    }
}

extension TestServer {
    /// Lets its loops run a turn.
    fileprivate func settle() { _ = onLoop {} }
}
