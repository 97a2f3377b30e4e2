import DispatchNet
import Testing
import TestSupport

@Suite(.timeLimit(.minutes(30))) struct ClosingTests {
    @Test func peerFin_withoutAnswerPending_endsWithPeerClosed() throws {
        let server = try TestServer()
        let peer = TestPeer(port: server.port)
        peer.write([1, 2, 3])
        #expect(peer.read(3) == [1, 2, 3])
        peer.finishWriting()
        #expect(server.ends.next() == .peerClosed)
        #expect(peer.readsEnd())
        #expect(server.counters().connections == 0)
    }

    @Test func peerFin_whenHandlerKeepsWriting_stillGetsTheAnswer() throws {
        let server = try TestServer { handler in
            handler.onBytes = { _, _ in }
            handler.answerLate()
        }
        let peer = TestPeer(port: server.port)
        peer.write([1])
        peer.finishWriting()
        #expect(peer.read(100) == Array("late answer".utf8))
        #expect(server.ends.next() == .finished)
    }

    @Test func peerReset_isReportedAsReset() throws {
        let server = try TestServer()
        let peer = TestPeer(port: server.port)
        peer.write([1])
        #expect(peer.read(1) == [1])
        peer.reset()
        #expect(server.ends.next() == .peerReset)
        #expect(server.counters().ends(.peerReset) == 1)
    }

    @Test func peerReset_whileReadingIsPaused_isStillNoticed() throws {
        let server = try TestServer { handler in handler.onBytes = { connection, _ in connection.isReading = false } }
        let peer = TestPeer(port: server.port)
        peer.write([1])
        let connection = try #require(server.connections.next())
        #expect(becomes { server.onLoop({ connection.isReading }) == false })
        peer.reset()
        #expect(server.ends.next() == .peerReset)
    }

    @Test func closeInsideReceived_sendsWhatWasQueuedAndReadsNoMore() throws {
        let received = Log<[UInt8]>()
        let server = try TestServer { handler in
            handler.onBytes = { connection, bytes in
                received.append(bytes)
                connection.send(Array("bye".utf8))
                connection.close(.protocolError(1009))
                connection.send(Array("not this".utf8))
                connection.close(.finished)
            }
        }
        let peer = TestPeer(port: server.port)
        peer.write(pattern(400_000))
        #expect(server.ends.next() == .protocolError(1009))
        // The server discards the unread input, so no reset destroys the answer.
        #expect(peer.read(100) == Array("bye".utf8))
        #expect(received.waiting.count == 1)
        #expect(server.ends.waiting.isEmpty)
    }

    @Test func abortInsideReceived_isSafeAndResets() throws {
        let server = try TestServer { handler in
            handler.onBytes = { connection, _ in
                connection.send([1])
                connection.abort(.dismissed)
                connection.abort(.finished)
                connection.send([2])
            }
        }
        let peer = TestPeer(port: server.port)
        peer.write([9])
        #expect(server.ends.next() == .dismissed)
        #expect(peer.readSome(1) == nil)
        #expect(server.ends.waiting.isEmpty)
        #expect(server.counters().connections == 0)
    }

    @Test func ended_isNeverCalledInsideTheHandlersOwnCall() throws {
        let order = Log<String>()
        let server = try TestServer { handler in
            handler.onBytes = { connection, _ in
                order.append("begin")
                connection.abort(.dismissed)
                order.append("end")
            }
            handler.onEnd = { _ in order.append("ended") }
        }
        let peer = TestPeer(port: server.port)
        peer.write([9])
        #expect([order.next(), order.next(), order.next()] == ["begin", "end", "ended"])
        _ = peer
    }

    @Test func sendFromEnded_toAnotherConnection_leavesInTheSameTurn() throws {
        let others = Log<Connection>()
        let server = try TestServer { handler in
            handler.onEnd = { _ in others.waiting.first?.send(Array("gone".utf8)) }
        }
        let survivor = TestPeer(port: server.port)
        let leaver = TestPeer(port: server.port)
        others.append(try #require(server.connections.next()))
        #expect(server.connections.next() != nil)
        leaver.reset()
        #expect(survivor.read(4) == Array("gone".utf8))
    }

    @Test func lingeringPeer_thatNeverCloses_isDroppedAfterTheLimit() throws {
        var settings = NetSettings()
        settings.lingerTimeoutMs = 1
        let server = try TestServer(settings: settings) { $0.onBytes = { connection, _ in connection.close(.finished) } }
        let peer = TestPeer(port: server.port)
        peer.write([1])
        #expect(server.ends.next() == .finished)
        #expect(peer.readsEnd())
        #expect(becomes { server.counters().connections == 0 })
    }

    @Test func event_forAConnectionThatEndedEarlierInTheBatch_findsNobody() throws {
        // Each connection that receives data closes all the others, whose events are already in the same batch.
        let all = Log<Connection>()
        let server = try TestServer { handler in
            handler.onBytes = { connection, _ in
                for other in all.waiting where other !== connection { other.abort(.dismissed) }
                connection.send([7])
            }
        }
        let peers = (0..<8).map { _ in TestPeer(port: server.port) }
        for _ in peers { all.append(try #require(server.connections.next())) }
        // The loop is kept busy until every peer's byte is in its socket.
        let begun = Log<Bool>()
        let release = Log<Bool>()
        server.loop.execute {
            begun.append(true)
            _ = release.next()
        }
        #expect(begun.next() == true)
        for peer in peers { peer.write([1]) }
        release.append(true)
        for _ in 1..<peers.count { #expect(server.ends.next() == .dismissed) }
        let counters = server.counters()
        #expect(counters.staleEvents == peers.count - 1)
        #expect(counters.connections == 1)
    }
}
