import Dispatch
@testable import DispatchNet
import Testing

@Suite(.timeLimit(.minutes(30))) struct ListenerTests {
    @Test func port0_isChosenBySystem_andConnectionsKnowTheirAddresses() throws {
        let server = try TestServer()
        #expect(server.port != 0)
        #expect(server.listener.localAddress.description == "127.0.0.1:\(server.port)")
        #expect(server.listener.localAddress.isLoopback)
        let peer = TestPeer(port: server.port)
        let connection = try #require(server.connections.next())
        #expect(connection.remoteAddress.host == "127.0.0.1")
        #expect(server.onLoop { connection.localAddress?.port } == server.port)
        _ = peer
    }

    @Test func bind_ofATakenPort_saysSo() throws {
        let first = try Listener.bind(host: "127.0.0.1", port: 0)
        #expect(throws: NetError.bindFailed(address: "127.0.0.1:\(first.port)", errno: 98)) {
            try Listener.bind(host: "127.0.0.1", port: first.port)
        }
    }

    @Test func bind_byName_isReachable() throws {
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdownAndWait(graceMs: 0) }
        let listener = try Listener.bind(host: "localhost", port: 0)
        listener.start(on: group) { Scripted($0) }
        let answers = Log<[UInt8]>()
        connect(to: "localhost", port: listener.port, on: group.next()) { connection in
            connection.send([3])
            return Scripted(connection) { $0.onBytes = { answers.append($1) } }
        } failed: { _ in answers.append([]) }
        #expect(answers.next() == [3])
    }

    @Test(arguments: ["localhost", "LocalHost", "localhost.", "city.localhost", "a.b.LOCALHOST."])
    func localhost_isLoopback_whateverTheResolverKnows(_ name: String) throws {
        #expect(SocketAddress.isLocalhost(name))
        #expect(try SocketAddress.resolve(name, port: 9000).map(\.description) == ["127.0.0.1:9000", "[::1]:9000"])
        #expect(try SocketAddress.resolve(name, port: 9000, passive: true).map(\.description) == ["127.0.0.1:9000", "[::1]:9000"])
        // It is still a name: a certificate has to prove it as one.
        #expect(throws: NetError.self) { try SocketAddress.resolve(name, port: 9000, numericOnly: true) }
    }

    @Test(arguments: ["localhost.example", "notlocalhost", "localhost..", ".", "", "127.0.0.1"])
    func otherNames_areLeftToTheResolver(_ name: String) {
        #expect(!SocketAddress.isLocalhost(name))
    }

    @Test func connections_areDealtToAllLoops() throws {
        let server = try TestServer(loops: 2)
        let peers = (0..<10).map { _ in TestPeer(port: server.port) }
        let loops = try peers.map { _ in try #require(server.connections.next()).loop.index }
        #expect(loops.filter { $0 == 0 }.count == 5)
        #expect(loops.filter { $0 == 1 }.count == 5)
    }

    @Test func twoThousandConnections_areAllServed() throws {
        let server = try TestServer(loops: 2)
        let peers = (0..<2000).map { _ in TestPeer(port: server.port) }
        let connected = peers.filter(\.isConnected).count
        #expect(connected == 2000)
        for (i, peer) in peers.enumerated() { peer.write([UInt8(i & 255), UInt8(i >> 8)]) }
        var wrong = 0
        for (i, peer) in peers.enumerated() where peer.read(2) != [UInt8(i & 255), UInt8(i >> 8)] { wrong += 1 }
        #expect(wrong == 0)
        let opened = server.group.loops.map { loop in loop.queue.sync { loop.counters.opened } }
        #expect(opened == [1000, 1000])
    }

    @Test func stop_refusesNewPeers_andKeepsTheOld() throws {
        let server = try TestServer()
        let peer = TestPeer(port: server.port)
        #expect(server.connections.next() != nil)
        server.listener.stop()
        #expect(server.onLoop {} != nil)
        #expect(!TestPeer(port: server.port).isConnected)
        peer.write([1])
        #expect(peer.read(1) == [1])
    }

    @Test func connect_toAClosedPort_fails() throws {
        let group = try EventLoopGroup(count: 1)
        defer { group.shutdownAndWait() }
        let closed = try Listener.bind(host: "127.0.0.1", port: 0)
        closed.stop()
        let failures = Log<NetError>()
        connect(to: "127.0.0.1", port: closed.port, on: group.next()) { Scripted($0) } failed: { failures.append($0) }
        #expect(failures.next() == .connectFailed(address: "127.0.0.1:\(closed.port)", errno: 111))
    }

    @Test func shutdown_endsEveryConnection_andRefusesNewWork() throws {
        let group = try EventLoopGroup(count: 2)
        let listener = try Listener.bind(host: "127.0.0.1", port: 0)
        let ends = Log<CloseReason>()
        let opened = Log<Bool>()
        listener.start(on: group) { connection in
            opened.append(true)
            return Scripted(connection) { handler in
                handler.onEnd = { reason in
                    ends.append(reason)
                }
            }
        }
        let peers = (0..<6).map { _ in TestPeer(port: listener.port) }
        for _ in peers { #expect(opened.next() == true) }
        let closed = Log<Bool>()
        group.shutdown { closed.append(true) }
        for peer in peers {
            #expect(peer.readsEnd())
            peer.finishWriting()
        }
        #expect(closed.next() == true)
        #expect((0..<6).map { _ in ends.next() } == Array(repeating: .serverShutdown, count: 6))
        #expect(!TestPeer(port: listener.port).isConnected)

        let after = Log<String>()
        group.next().execute { after.append("ran") }
        #expect(after.next() == "ran")
        connect(to: "127.0.0.1", port: listener.port, on: group.next()) { Scripted($0) }
            failed: { after.append("\($0)") }
        #expect(after.next() == NetError.loopClosed.description)
        group.shutdownAndWait()
    }
}
