import Dispatch
import DispatchNet
import Glibc
import Synchronization
import TestHub
import Testing
import WireProtocols
@testable import HubServer

/// How much work one connection may cause on its loop before the others get their turn.
@Suite(.timeLimit(.minutes(30))) struct TurnTests {
    private func observe(_ server: TestServer, offer: String? = nil) throws -> TestSocket {
        let socket = try TestSocket(port: server.port)
        socket.server = server
        try socket.upgrade("/.observe?ns=test", offer: offer)
        return socket
    }

    /// Holds the loop until the test releases it.
    private func hold(_ server: TestServer) -> DispatchSemaphore {
        let (gate, held) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        server.server.lanes[0].loop.execute {
            held.signal()
            gate.wait()
        }
        held.wait()
        return gate
    }

    private func frames(_ count: Int, _ text: (Int) -> String) -> [UInt8] {
        (0..<count).flatMap { WebSocketFrame.text(Array(text($0).utf8), mask: WebSocketMask(bigEndian: 0x0102_0304)) }
    }

    private func set(_ id: Int, _ value: String = "1") -> String { #"{"id":\#(id),"op":"set","path":"/a","value":\#(value)}"# }

    /// The commit number in the answer to a set.
    private func sequence(_ answer: String) throws -> Int {
        guard let start = answer.firstRange(of: "\"seq\":")?.upperBound, let number = Int(answer[start...].prefix { $0.isNumber }) else {
            throw TestSocket.Closed()
        }
        return number
    }

    @Test func manySmallMessages_letOthersPass_andAreAllAnswered() throws {
        let server = try TestServer { $0.loops = 1 }
        let (busy, other) = (try observe(server), try observe(server))
        let gate = hold(server)
        try busy.send(frames(1000) { set($0) })
        try other.send(frames(1) { _ in set(1) })
        gate.signal()
        let place = try sequence(try other.text())
        #expect(place <= 130, "two turns of the busy one are fewer than 128 messages; it was number \(place)")
        for number in 0..<1000 { #expect(try busy.text().hasPrefix(#"{"id":\#(number),"ok""#)) }
    }

    @Test func messagesThatGrow_countAsWhatTheyAre() throws {
        let server = try TestServer { $0.loops = 1 }
        let offer = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
        let (busy, other) = (try observe(server, offer: offer), try observe(server))
        let encoder = WebSocketEncoder(.init(takesOverContext: false))
        // 20 KB of blanks around a number: two of them are a turn.
        var messages: [UInt8] = []
        for number in 0..<100 {
            let text = Array(set(number, String(repeating: " ", count: 20_000) + "1").utf8)
            let frame = text.withUnsafeBytes { encoder.frame(.text, $0) }
            let payload = Array(frame[WebSocketFrame.headerLength(payloadLength: frame.count - 2)...])
            var bytes: [UInt8] = []
            WebSocketFrame.appendHeader(.text, payloadLength: payload.count, mask: WebSocketMask(bigEndian: 0), to: &bytes)
            bytes[0] |= 0x40
            messages += bytes + payload
        }
        #expect(messages.count < 16_000, "all of them are one read")
        let gate = hold(server)
        try busy.send(messages)
        try other.send(frames(1) { _ in set(1) })
        gate.signal()
        let place = try sequence(try other.text())
        #expect(place <= 6, "it was number \(place)")
        for number in 0..<100 { #expect(try busy.text().hasPrefix(#"{"id":\#(number),"ok""#)) }
    }

    @Test func whatIsLeftOfARead_isHeldInTheBudget_andReadBehindWhatHolds() throws {
        let server = try TestServer {
            $0.loops = 1
            $0.limits.net.sharedReadBytes = 128 << 10
        }
        let socket = try observe(server)
        // The large one is read on another thread, and everything that arrived with it waits.
        try socket.send(frames(1) { _ in set(0, #""\#(String(repeating: "x", count: 50_000))""#) } + frames(900) { set($0 + 1) })
        for number in 0...900 { #expect(try socket.text().hasPrefix(#"{"id":\#(number),"ok""#)) }
        #expect(try server.metric(#"vigla_memory_held_bytes{purpose="incoming"}"#, becomes: { $0 == 0 }))
    }

    @Test func stop_endsTheHub_whileMuchIsLeftOfReads() throws {
        let server = try TestServer { $0.loops = 1 }
        let sockets = try (0..<10).map { _ in try observe(server) }
        let gate = hold(server)
        for socket in sockets { try socket.send(frames(2000) { set($0) }) }
        gate.signal()
        server.stop()
        for socket in sockets { _ = try? socket.closeCode() }
    }

    /// The most bytes sent in one turn of the loop, until a given total.
    private final class Turns: Sendable {
        private struct State {
            var last = 0
            var most = 0
            var isOver = false
        }
        private let state = Mutex(State())
        private let loop: EventLoop
        init(_ loop: EventLoop) { self.loop = loop }

        var most: Int { state.withLock { $0.most } }
        func end() { state.withLock { $0.isOver = true } }

        /// Called on the loop, in each of its turns.
        func look() {
            let sent = loop.counters.bytesSent
            let goesOn = state.withLock { state in
                if state.last > 0 { state.most = max(state.most, sent - state.last) }
                state.last = sent
                return !state.isOver
            }
            if goesOn { loop.execute { [self] in look() } }
        }
    }

    @Test func pipelinedRequests_areAnswered_someInATurn() throws {
        let server = try TestServer { $0.loops = 1 }
        let socket = try TestSocket(port: server.port)
        #expect(try socket.get("/.health").status == 200)
        let one = socket.bytesRead
        let loop = server.server.lanes[0].loop
        let turns = Turns(loop)
        let gate = hold(server)
        try socket.send(String(repeating: "GET /.health HTTP/1.1\r\nHost: localhost\r\n\r\n", count: 500))
        loop.execute { turns.look() }
        gate.signal()
        for _ in 0..<500 { #expect(try socket.response().status == 200) }
        turns.end()
        #expect(turns.most >= one && turns.most <= 64 * one, "\(turns.most / max(1, one)) answers in one turn")
        #expect(try socket.get("/.health").status == 200)
    }

    @Test func pipelinedRequests_ofWhoHasFinishedSending_areAllAnswered() throws {
        let server = try TestServer()
        let socket = try TestSocket(port: server.port)
        let request = "GET /.health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /a.json?ns=test HTTP/1.1\r\nHost: localhost\r\n\r\n"
        try socket.send(String(repeating: request, count: 100))
        try socket.finishSending()
        for _ in 0..<200 { #expect(try socket.response().status == 200) }
        #expect(throws: TestSocket.Closed.self) { _ = try socket.response() }
    }

    @Test func upgrade_withMessagesInTheSameRead_keepsAll() throws {
        let server = try TestServer { $0.loops = 1 }
        let socket = try TestSocket(port: server.port)
        let gate = hold(server)
        let upgrade = "GET /.observe?ns=test HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        let before = String(repeating: "GET /.health HTTP/1.1\r\nHost: localhost\r\n\r\n", count: 40)
        try socket.send(Array((before + upgrade).utf8) + frames(200) { set($0) })
        gate.signal()
        for _ in 0..<40 { #expect(try socket.response().status == 200) }
        #expect(try socket.response().status == 101)
        for number in 0..<200 { #expect(try socket.text().hasPrefix(#"{"id":\#(number),"ok""#)) }
    }
}
