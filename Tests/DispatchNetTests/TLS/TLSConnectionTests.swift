import Dispatch
@testable import DispatchNet
import Glibc
import Synchronization
import TestCertificates
import Testing
import TestSupport

/// Connections with TLS over real sockets.
@Suite(.timeLimit(.minutes(30))) struct TLSConnectionTests {
    @Test func echo_ofAllSizes_comesBackWhole() throws {
        let (server, _) = try tlsServer()
        let peer = try TLSPeer(port: server.port)
        peer.handshake()
        for size in [1, 100, 16_384, 16_385, 300_000] {
            let bytes = pattern(size, seed: UInt64(size))
            peer.write(bytes)
            #expect(peer.read(size) == bytes)
        }
        let counters = server.counters()
        #expect(counters.handshakes == 1)
        #expect(counters.resumedHandshakes == 0)
    }

    @Test func handler_isMadeAfterTheHandshake() throws {
        let (server, _) = try tlsServer()
        let silent = try TLSPeer(port: server.port)
        let peer = try TLSPeer(port: server.port)
        peer.handshake()
        peer.write([1])
        #expect(peer.read(1) == [1])
        #expect(server.connections.waiting.count == 1)
        #expect(server.counters().connections == 2)
        _ = silent
    }

    @Test func handshakes_areSpreadOverTurns_soThatOthersHaveTheirs() throws {
        let (server, _) = try tlsServer()
        let peers = try (0..<40).map { _ in try TLSPeer(port: server.port) }
        while server.counters().connections < 40 { usleep(1000) }
        let before = server.counters().bytesSent
        let (gate, held) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        server.loop.execute {
            held.signal()
            gate.wait()
        }
        held.wait()
        for peer in peers { peer.sayHello() }
        let turns = Turns(server.loop, from: before)
        server.loop.execute { turns.look() }
        gate.signal()
        for peer in peers { peer.finishHandshake() }
        turns.end()
        #expect(server.counters().handshakes == 40)
        // Each answer to a hello has the certificate and a signature: more than 500 bytes. All other records in this test are smaller.
        #expect(turns.most > 500 && turns.most < 8 * 4000, "\(turns.most) bytes in one turn")
        let whole = server.counters().bytesSent - before
        #expect(turns.most <= whole / 4, "\(turns.most) of \(whole) bytes in one turn")
    }

    /// The most bytes sent in one turn of a loop.
    private final class Turns: Sendable {
        private struct State {
            var last: Int
            var most = 0
            var isOver = false
        }
        private let state: Mutex<State>
        private let loop: EventLoop

        init(_ loop: EventLoop, from bytes: Int) {
            self.loop = loop
            state = Mutex(State(last: bytes))
        }

        var most: Int { state.withLock { $0.most } }
        func end() { state.withLock { $0.isOver = true } }

        /// Called on the loop, in each of its turns.
        func look() {
            let sent = loop.counters.bytesSent
            let goesOn = state.withLock { state in
                state.most = max(state.most, sent - state.last)
                state.last = sent
                return !state.isOver
            }
            if goesOn { loop.execute { [self] in look() } }
        }
    }

    @Test func sendsOfOneTurn_leaveInOneRecordAndOneSystemCall() throws {
        let (server, _) = try tlsServer()
        let peer = try TLSPeer(port: server.port)
        peer.handshake()
        let connection = try #require(server.connections.next())
        // The session ticket has left.
        peer.write([1])
        #expect(peer.read(1) == [1])
        let before = server.counters()
        server.loop.execute {
            for i in 0..<50 {
                connection.send([UInt8](repeating: UInt8(i), count: 10))
                // So that the frames are not adjacent.
                _ = connection.loop.stage([0])
            }
        }
        #expect(peer.read(500) == (0..<50).flatMap { [UInt8](repeating: UInt8($0), count: 10) })
        let after = server.counters()
        #expect(after.writes - before.writes == 1)
        // One record: 5 bytes of header, 1 of type, 16 of tag (RFC 8446 §5.2).
        #expect(after.bytesSent - before.bytesSent == 522)
    }

    @Test func broadcast_overPlainAndSecure_reachesBoth() throws {
        let (server, _) = try tlsServer()
        let plain = try TestServer(group: server.group)
        let peer = try TLSPeer(port: server.port)
        peer.handshake()
        let open = TestPeer(port: plain.port)
        let connections = [try #require(server.connections.next()), try #require(plain.connections.next())]
        let frame = pattern(40_000)
        server.loop.execute { connections[0].loop.broadcast(frame, to: connections) }
        #expect(peer.reads(frame))
        #expect(open.reads(frame))
    }

    @Test func slowReader_isBufferedAsPlaintext_thenDrainedInOrder() throws {
        let drained = Log<Bool>()
        let (server, _) = try tlsServer { $0.onDrained = { _ in drained.append(true) } }
        let peer = try TLSPeer(port: server.port, receiveBuffer: 4096)
        peer.handshake()
        let connection = try #require(server.connections.next())
        let expected = server.sendOverManyTurns(connection)
        let (waiting, records) = try #require(server.onLoop { (connection.bufferedBytes, connection.tls?.unsentBytes ?? 0) })
        #expect(waiting > 0 && waiting < expected.count)
        // Everything except the last portion waits unencrypted.
        #expect(records < 2 * TLSChannel.portionBytes)
        #expect(peer.reads(expected))
        #expect(drained.next() == true)
        #expect(server.onLoop { connection.bufferedBytes } == 0)
    }

    @Test func stalledReader_holdsUpNobody_andOverflowClosesOnlyIt() throws {
        var settings = NetSettings()
        settings.outboundHardBytes = 1 << 20
        let (server, _) = try tlsServer(settings: settings)
        let slow = try TLSPeer(port: server.port, receiveBuffer: 4096)
        slow.handshake()
        let slowConnection = try #require(server.connections.next())
        let good = try TLSPeer(port: server.port)
        good.handshake()
        let goodConnection = try #require(server.connections.next())
        let frame = pattern(64_000)
        var turns = 0
        while server.onLoop({ slowConnection.isOpen }) == true, turns < 1000 {
            turns += 1
            server.loop.execute { goodConnection.loop.broadcast(frame, to: [slowConnection, goodConnection]) }
            #expect(good.reads(frame))
        }
        #expect(server.ends.next() == .writeOverflow)
        good.write([1, 2])
        #expect(good.read(2) == [1, 2])
        #expect(server.counters().connections == 1)
    }

    @Test func stalledReader_isToldOnce_countsItsRecords_andIsClosedByTime() throws {
        let told = Log<Int>()
        var settings = NetSettings()
        settings.outboundSoftBytes = 200_000
        settings.outboundSoftMs = 100
        settings.sendBufferBytes = 16 << 10
        let (server, _) = try tlsServer(settings: settings) { handler in handler.onCongested = { told.append($0.backlogBytes) } }
        let slow = try TLSPeer(port: server.port, receiveBuffer: 4096)
        slow.handshake()
        let connection = try #require(server.connections.next())
        let (waiting, counted, records) = try #require(
            server.onLoop {
                connection.send(pattern(16 << 20))
                connection.loop.settleIfLarge()
                return (connection.backlogBytes, connection.loop.counting.backlogBytes, connection.tls?.unsentBytes ?? 0)
            })
        #expect(records > 0 && waiting == counted, "ciphertext waits, too")
        #expect(try #require(told.next()) > 200_000)
        #expect(server.ends.next() == .writeStalled)
        #expect(told.waiting.isEmpty)
        let counters = server.counters()
        #expect(counters.congestions == 1 && counters.backlogBytes == 0)
    }

    @Test func slowButSteadyReader_getsEverything_andIsDrainedAfterEachCongestion() throws {
        let notes = Log<String>()
        var settings = NetSettings()
        // Less than a portion: encrypted records alone are congestion, too.
        settings.outboundSoftBytes = 1000
        let (server, _) = try tlsServer(settings: settings) { handler in
            handler.onCongested = { _ in notes.append("congested") }
            handler.onDrained = { _ in notes.append("drained") }
        }
        let peer = try TLSPeer(port: server.port, receiveBuffer: 4096)
        peer.handshake()
        let connection = try #require(server.connections.next())
        for round in 0..<3 {
            let bytes = pattern(8 << 20, seed: UInt64(round + 1))
            server.loop.execute { connection.send(bytes) }
            #expect(notes.next() == "congested")
            #expect(peer.reads(bytes))
            #expect(notes.next() == "drained")
            #expect(server.onLoop { connection.isCongested || connection.backlogBytes > 0 } == false)
        }
        #expect(notes.waiting.isEmpty && server.counters().backlogBytes == 0)
    }

    @Test func handshakesThatFailOrStall_giveTheirPlacesBack() throws {
        var limits = AdmissionLimits()
        limits.connectionsPerAddress = 2
        limits.countsLoopback = true
        let admission = Admission(limits)
        var settings = NetSettings()
        // Long enough for every handshake that continues, on a busy machine.
        settings.handshakeTimeoutMs = 2000
        settings.lingerTimeoutMs = 50
        let files = try TestCertificates.get()
        let tls = try TLSServer(certificate: files.certificate("server"), key: files.key("server"), plainHTTPAnswer: [1])
        let server = try TestServer(settings: settings, tls: tls, admission: admission)
        // Garbage, a silent peer, HTTP, one that leaves in the middle, one that does not trust the server.
        for round in 0..<3 {
            for hello in [[UInt8](repeating: 0xEE, count: 100), [], Array("GET / HTTP/1.1\r\n\r\n".utf8)] {
                let peer = TestPeer(port: server.port)
                peer.write(hello)
                while let some = peer.readSome(1000), !some.isEmpty {}
            }
            do {
                let leaver = try TLSPeer(port: server.port)
                _ = leaver.engine.start(through: leaver.wire)
                leaver.socket.write(Array(leaver.dequeueOutgoing().prefix(100 + round)))
                leaver.socket.reset()
            }
            let stranger = try TLSPeer(port: server.port, host: "other.example")
            stranger.handshake()
            #expect(stranger.engine.state == .failed)
            stranger.socket.finishWriting()
            while let some = stranger.socket.readSome(1000), !some.isEmpty {}
            try #require(becomes { admission.connections == 0 })
        }
        #expect(admission.refusals.isEmpty && server.counters().connections == 0)
        let peers = try (0..<2).map { _ in try TLSPeer(port: server.port) }
        for peer in peers {
            peer.handshake()
            peer.write([7])
            #expect(peer.read(1) == [7])
        }
        #expect(admission.connections == 2)
    }

    @Test func close_deliversEverything_thenSaysGoodbye() throws {
        let (server, _) = try tlsServer()
        let peer = try TLSPeer(port: server.port, receiveBuffer: 4096)
        peer.handshake()
        let connection = try #require(server.connections.next())
        let bytes = pattern(6_000_000)
        server.loop.execute {
            connection.send(bytes)
            connection.close(.finished)
        }
        #expect(server.ends.next() == .finished)
        #expect(peer.reads(bytes))
        #expect(peer.readsGoodbye())
    }

    @Test func goodbyeOfThePeer_isARegularEnd_andIsAnswered() throws {
        let (server, _) = try tlsServer()
        let peer = try TLSPeer(port: server.port)
        peer.handshake()
        peer.write([1])
        peer.sendCloseNotify()
        #expect(server.ends.next() == .peerClosed)
        #expect(peer.read(1) == [1])
        #expect(peer.readsGoodbye())
        #expect(becomes { server.counters().connections == 0 })
    }

    @Test func halfClose_whenTheHandlerKeepsWriting_stillGetsTheAnswer() throws {
        let (server, _) = try tlsServer { handler in
            handler.onBytes = { _, _ in }
            handler.answerLate()
        }
        let peer = try TLSPeer(port: server.port)
        peer.handshake()
        peer.write([1])
        peer.sendCloseNotify()
        #expect(peer.read(11) == Array("late answer".utf8))
        #expect(peer.readsGoodbye())
        #expect(server.ends.next() == .finished)
    }

    @Test func finWithoutGoodbye_isATruncation() throws {
        let asked = Log<Bool>()
        let (server, _) = try tlsServer { handler in
            handler.onHalfClose = { _ in
                asked.append(true)
                return .keepWriting
            }
        }
        let peer = try TLSPeer(port: server.port)
        peer.handshake()
        peer.write([1])
        #expect(peer.read(1) == [1])
        peer.socket.finishWriting()
        #expect(server.ends.next() == .truncated)
        #expect(server.counters().ends(.truncated) == 1)
        #expect(asked.waiting.isEmpty)
    }

    @Test func stalledHandshake_isEnded_andCounted() throws {
        var settings = NetSettings()
        settings.handshakeTimeoutMs = 1
        let (server, _) = try tlsServer(settings: settings)
        let silent = TestPeer(port: server.port)
        #expect(silent.readSome(1) == nil || !silent.isConnected)
        #expect(becomes { server.counters().ends(.handshakeTimeout) == 1 })
        #expect(becomes { server.counters().connections == 0 })
        #expect(server.connections.waiting.isEmpty)
    }

    @Test func handshakeInTime_outlivesItsDeadline() throws {
        var settings = NetSettings()
        settings.handshakeTimeoutMs = 3000
        let (server, _) = try tlsServer(settings: settings)
        let peer = try TLSPeer(port: server.port)
        peer.handshake()
        let passed = Log<Bool>()
        server.loop.schedule(afterMs: 3020, everyMs: nil) { passed.append(true) }
        #expect(passed.next() == true)
        peer.write([1])
        #expect(peer.read(1) == [1])
    }

    @Test func garbage_insteadOfAClientHello_isAnsweredByAnAlert() throws {
        let (server, _) = try tlsServer()
        for seed in 1...40 {
            let peer = TestPeer(port: server.port)
            peer.write(pattern(200, seed: UInt64(seed)))
            peer.finishWriting()
            let answer = peer.read(1000)
            // Nothing, or a record of type alert (RFC 8446 §5.1).
            #expect(answer.first == nil || answer.first == 21)
        }
        #expect(becomes { server.counters().connections == 0 })
        #expect(server.counters().handshakes == 0)
        #expect(server.connections.waiting.isEmpty)
    }

    @Test func http_isToldToUseHTTPS() throws {
        let (server, _) = try tlsServer(plainHTTPAnswer: Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        let peer = TestPeer(port: server.port)
        peer.write(Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
        #expect(peer.read(1000) == Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        #expect(peer.readsEnd())
        peer.finishWriting()
        #expect(becomes { server.counters().connections == 0 })
        #expect(server.counters().ends(.protocolError(400)) == 1)
    }

    @Test func handshake_cutAtAnyByte_endsWithoutAHandler() throws {
        let (server, _) = try tlsServer()
        let (first, second) = try Self.flights(port: server.port)
        #expect(first.count > 100 && second.count > 30)
        for length in 0..<first.count {
            let peer = TestPeer(port: server.port)
            peer.write(Array(first[..<length]))
            peer.finishWriting()
            #expect(peer.readsEnd())
        }
        for length in 0..<second.count {
            let peer = try TLSPeer(port: server.port)
            _ = peer.engine.start(through: peer.wire)
            peer.socket.write(peer.dequeueOutgoing())
            let answer = try #require(peer.socket.readSome(64 << 10))
            _ = answer.withUnsafeBytes { peer.engine.receive($0, through: peer.wire) }
            peer.socket.write(Array(peer.dequeueOutgoing().prefix(length)))
            peer.socket.finishWriting()
            #expect(peer.socket.readsEnd())
        }
        #expect(becomes { server.counters().connections == 0 })
        #expect(server.counters().handshakes == 1)  // the one in `flights`
        #expect(server.ends.waiting.count <= 1)
    }

    /// The client's first flight, and the one after the server's answer.
    private static func flights(port: UInt16) throws -> ([UInt8], [UInt8]) {
        let peer = try TLSPeer(port: port)
        _ = peer.engine.start(through: peer.wire)
        let first = peer.dequeueOutgoing()
        peer.socket.write(first)
        let answer = peer.socket.readSome(64 << 10) ?? []
        _ = answer.withUnsafeBytes { peer.engine.receive($0, through: peer.wire) }
        let second = peer.dequeueOutgoing()
        peer.socket.write(second)
        peer.write([1])
        #expect(peer.read(1) == [1])
        return (first, second)
    }

    @Test func twoHundredConnections_atOnce_areAllServed() throws {
        let (server, _) = try tlsServer(loops: 2)
        let client = try TLSClient(authorities: TestCertificates.get().authority)
        let answers = Log<(Int, [UInt8])>()
        for i in 0..<200 {
            connect(to: "localhost", port: server.port, on: server.group.next(), tls: client) { connection in
                connection.send([UInt8(i)] + pattern(20_000, seed: UInt64(i)))
                let parts = Mutex<[UInt8]>([])
                return Scripted(connection) { handler in
                    handler.onBytes = { connection, bytes in
                        let all = parts.withLock { parts in
                            parts += bytes
                            return parts
                        }
                        if all.count < 20_001 { return }
                        answers.append((i, all))
                        connection.close(.finished)
                    }
                }
            } failed: { error in
                answers.append((i, Array("\(error)".utf8)))
            }
        }
        var seen: Set<Int> = []
        for _ in 0..<200 {
            let (i, bytes) = try #require(answers.next())
            #expect(bytes == [UInt8(i)] + pattern(20_000, seed: UInt64(i)))
            seen.insert(i)
        }
        #expect(seen.count == 200)
    }

    @Test(arguments: [
        ("server", "127.0.0.1", true, nil), ("server", "localhost", true, nil), ("elsewhere", "localhost", true, "another host"),
        ("expired", "localhost", true, "certificate has expired"), ("server", "localhost", false, "not trusted"),
    ] as [(String, String, Bool, String?)])
    func connect_believesOnlyTheRightCertificate(_ certificate: String, _ host: String, _ trusts: Bool, _ reason: String?) throws {
        let (server, _) = try tlsServer(certificate: certificate)
        let outcome = Log<String>()
        let client = try TLSClient(authorities: trusts ? TestCertificates.get().authority : nil)
        connect(to: host, port: server.port, on: server.loop, tls: client) { connection in
            connection.send([9])
            return Scripted(connection) { $0.onBytes = { _, bytes in outcome.append("\(bytes)") } }
        } failed: { outcome.append("\($0)") }
        let said = try #require(outcome.next())
        if let reason {
            #expect(said.hasPrefix("no secure connection to localhost:\(server.port): "))
            #expect(said.contains(reason))
        } else {
            #expect(said == "[9]")
        }
    }

    @Test func connect_toAServerWithoutTLS_fails() throws {
        let server = try TestServer { $0.onBytes = { connection, _ in connection.send(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8)) } }
        let outcome = Log<String>()
        connect(to: "127.0.0.1", port: server.port, on: server.loop, tls: try TLSClient()) { Scripted($0) } failed: {
            outcome.append("\($0)")
        }
        #expect(outcome.next() == "no secure connection to 127.0.0.1:\(server.port): it does not speak TLS")
    }

    @Test func connect_toASilentServer_failsInTime() throws {
        var settings = NetSettings()
        settings.handshakeTimeoutMs = 1
        let group = try EventLoopGroup(count: 1, settings: settings)
        defer { group.shutdownAndWait(graceMs: 0) }
        let silent = try TestServer { $0.onBytes = { _, _ in } }
        let outcome = Log<String>()
        connect(to: "127.0.0.1", port: silent.port, on: group.next(), tls: try TLSClient()) { Scripted($0) } failed: {
            outcome.append("\($0)")
        }
        #expect(outcome.next() == "no secure connection to 127.0.0.1:\(silent.port): no answer in time")
    }

    @Test func shutdown_duringHandshakes_endsThem() throws {
        let (server, _) = try tlsServer()
        let silent = TestPeer(port: server.port)
        let open = try TLSPeer(port: server.port)
        open.handshake()
        #expect(server.connections.next() != nil)
        let closed = Log<Bool>()
        server.group.shutdown(graceMs: 20_000) { closed.append(true) }
        #expect(silent.readsEnd())
        silent.finishWriting()
        #expect(open.readsGoodbye())
        open.socket.finishWriting()
        #expect(closed.next() == true)
    }

    @Test func plainConnection_isNoLargerForIt() throws {
        let server = try TestServer()
        typealias Size = @convention(c) (UnsafeMutableRawPointer) -> Int
        let size = unsafeBitCast(try #require(dlsym(nil, "malloc_usable_size")), to: Size.self)
        let loop = server.loop
        // The allocator gives 16 bytes more where a rest would be of no use to it, so the smallest counts.
        let peers = (0..<8).map { _ in TestPeer(port: server.port) }
        let connections = try peers.map { _ in try #require(server.connections.next()) }
        #expect(try #require(connections.map { size(Unmanaged.passUnretained($0).toOpaque()) }.min()) <= 184)
        #expect(server.onLoop { loop.tlsWire == nil } == true)
        _ = peers
    }
}
