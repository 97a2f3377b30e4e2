import Dispatch
@testable import DispatchNet
import Glibc
import Testing

/// TLS handshakes by the thousand: how many a turn runs, which ones wait, and which ones end.
@Suite(.timeLimit(.minutes(30))) struct HandshakeTests {
    private func network(_ text: String) throws -> SocketAddress { try #require(SocketAddress.numeric(text)).network }

    @Test func networks_takeTurns_whateverOneOfThemSends() throws {
        var line = HandshakeQueue(capacity: 100)
        let (flood, other) = (try network("10.0.0.1"), try network("10.0.0.2"))
        for tag in 0..<50 { #expect(line.append(UInt64(tag), of: flood, isAnswered: false) == nil) }
        #expect(line.append(100, of: other, isAnswered: false) == nil)
        #expect(line.append(101, of: other, isAnswered: false) == nil)
        #expect((0..<5).map { _ in line.popFirst() } == [0, 100, 1, 101, 2])
        #expect(line.count == 47)
        #expect((0..<47).map { _ in line.popFirst() } == (3..<50).map { UInt64($0) })
        #expect(line.isEmpty && line.popFirst() == nil)
    }

    @Test func answeredHandshakes_comeBeforeNewOnes_ofTheirNetworkOnly() throws {
        var line = HandshakeQueue(capacity: 100)
        let (one, two) = (try network("10.0.0.1"), try network("10.0.0.2"))
        _ = line.append(1, of: one, isAnswered: false)
        _ = line.append(2, of: two, isAnswered: false)
        _ = line.append(3, of: two, isAnswered: true)
        #expect((0..<3).map { _ in line.popFirst() } == [1, 3, 2])
    }

    @Test func fullLine_losesTheLastOfTheLongest_andNoneBefore() throws {
        var line = HandshakeQueue(capacity: 4)
        let (flood, other) = (try network("10.0.0.1"), try network("2001:db8::1"))
        for tag: UInt64 in 1...3 { #expect(line.append(tag, of: flood, isAnswered: false) == nil) }
        #expect(line.append(4, of: other, isAnswered: false) == nil)
        #expect(line.append(5, of: flood, isAnswered: false) == 5, "its own")
        #expect(line.append(6, of: other, isAnswered: false) == 3, "of the longest, for another")
        #expect(line.count == 4)
        #expect((0..<4).map { _ in line.popFirst() } == [1, 4, 2, 6])
        #expect(line.isEmpty)
    }

    /// A server whose loop waits until `begin`, so that everything before arrives in one batch.
    private final class Held {
        let server: TestServer
        private let gate = DispatchSemaphore(value: 0)

        init(_ server: TestServer) {
            self.server = server
            let held = DispatchSemaphore(value: 0)
            server.loop.execute { [gate] in
                held.signal()
                gate.wait()
            }
            held.wait()
        }

        func begin() { gate.signal() }
    }

    private func connected(_ server: TestServer, _ count: Int) throws -> [TLSPeer] {
        let before = server.counters().connections
        let peers = try (0..<count).map { _ in try TLSPeer(port: server.port) }
        while server.counters().connections < before + count { usleep(1000) }
        return peers
    }

    @Test(arguments: [1, 3]) func turn_readsSoManyHandshakes_behindTheEstablished(_ most: Int) throws {
        // Per turn: the number of handshakes waiting at its start, or the byte read from an established connection.
        let log = Log<Int>()
        var settings = NetSettings()
        settings.handshakesPerTurn = most
        let (server, _) = try tlsServer(settings: settings) { handler in
            handler.onBytes = { connection, bytes in log.append(-Int(bytes[0])) }
        }
        let established = try TLSPeer(port: server.port)
        established.handshake()
        established.write([1])
        #expect(log.next() == -1)
        let peers = try connected(server, 12)
        let held = Held(server)
        for peer in peers { peer.sayHello() }
        established.write([2])
        @Sendable func look(_ loop: EventLoop) {
            let waiting = loop.handshakes.count
            log.append(waiting)
            if waiting > 0 { loop.execute { look(loop) } }
        }
        let received = server.loop.counters.bytesReceived
        @Sendable func begin(_ loop: EventLoop) {
            if loop.counting.bytesReceived == received { loop.execute { begin(loop) } } else { look(loop) }
        }
        server.loop.execute { [loop = server.loop] in begin(loop) }
        held.begin()
        // No peer continues its handshake, so the queue only shrinks, by `most` per turn. The first handshake was in the same turn as the established
        // connection's byte, and after it.
        #expect(log.next() == -2, "before the first handshake")
        var left = 12 - most
        while left > 0 {
            #expect(log.next() == left)
            left -= most
        }
        #expect(log.next() == 0)
        for peer in peers { peer.finishHandshake() }
        #expect(server.counters().handshakes == 13)
    }

    @Test func line_holdsSoMany_andOneMoreEndsWithItsReason() throws {
        var settings = NetSettings()
        settings.handshakesWaiting = 5
        for (count, lost) in [(5, 0), (6, 1)] {
            let (server, _) = try tlsServer(settings: settings)
            let peers = try connected(server, count)
            let held = Held(server)
            for peer in peers { peer.sayHello() }
            held.begin()
            for peer in peers { peer.finishHandshake() }
            #expect(peers.count { $0.engine.state == .open } == count - lost)
            let counters = server.counters()
            #expect(counters.handshakes == count - lost && counters.ends(.handshakeOverload) == lost)
            #expect(counters.handshakesWaiting == 0)
        }
    }

    @Test func connectionsThatEnd_leaveTheLine_andNoneWaitsForThem() throws {
        let (server, _) = try tlsServer()
        let peers = try connected(server, 20)
        let held = Held(server)
        for peer in peers { peer.sayHello() }
        for peer in peers.dropLast() { peer.socket.reset() }
        held.begin()
        let last = try #require(peers.last)
        last.finishHandshake()
        #expect(last.engine.state == .open)
        let counters = server.counters()
        #expect(counters.handshakes == 1 && counters.handshakesWaiting == 0)
    }

    @Test func shutdown_endsThoseThatWait() throws {
        let (server, _) = try tlsServer()
        let peers = try connected(server, 10)
        let held = Held(server)
        for peer in peers { peer.sayHello() }
        let done = DispatchSemaphore(value: 0)
        server.group.shutdown(graceMs: 0) { done.signal() }
        held.begin()
        #expect(done.wait(timeout: .now() + 20) == .success)
        #expect(server.loop.counters.connections == 0)
    }
}
