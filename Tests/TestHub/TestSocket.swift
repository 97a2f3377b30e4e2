import Dispatch
import Glibc
package import HubServer
package import Journal
package import JSONTree
import Logging
package import Scheduling
import SecurityRules
import SQLiteJournal
import Testing
import TestSupport
import WireProtocols

/// A blocking TCP client that sees exactly the peer's bytes. Every wait is bounded; a timeout is a failure.
package final class TestSocket {
    package struct Closed: Error { package init() {} }
    package struct TimedOut: Error {}

    /// Kept alive as long as the socket.
    package var server: TestServer?
    private let fd: Int32
    private var unread: [UInt8] = []
    private var decoder = WebSocketDecoder(role: .client, maxMessageBytes: 1 << 30)
    private var events: [Event] = []
    /// The server's answer to an offer of extensions.
    package private(set) var extensions: String?
    /// The text of the received close frame.
    package private(set) var closeReason: String?
    /// Total bytes received.
    package private(set) var bytesRead = 0

    package enum Event: Equatable {
        case text(String)
        case ping([UInt8])
        case close(UInt16?)
    }

    /// - Parameter receiveBuffer: bytes that the system buffers for a client that does not read.
    package init(port: UInt16, receiveBuffer: Int32? = nil) throws {
        let isConnected: Bool
        (fd, isConnected) = Loopback.connect(port: port, receiveBuffer: receiveBuffer)
        guard isConnected else { throw Closed() }
    }

    deinit { Glibc.close(fd) }

    package func send(_ bytes: [UInt8]) throws {
        guard Loopback.send(bytes, to: fd) else { throw Closed() }
    }

    package func send(_ text: String) throws { try send(Array(text.utf8)) }

    /// Ends the sending direction, and continues reading.
    package func finishSending() throws {
        guard shutdown(fd, Int32(SHUT_WR)) == 0 else { throw Closed() }
    }

    /// Reads the available bytes, waiting for at least one.
    private func readSome() throws -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = recv(fd, &buffer, buffer.count, 0)
        if count < 0, errno == EAGAIN { throw TimedOut() }
        guard count > 0 else { throw Closed() }
        bytesRead += count
        return Array(buffer[..<count])
    }

    // MARK: HTTP

    package struct Response {
        package var status: Int
        package var head: String
        package var body: String
    }

    /// Reads one response with a Content-Length, or a head without body.
    package func response() throws -> Response {
        while true {
            if let end = unread.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound {
                let head = String(decoding: unread[..<end], as: UTF8.self)
                if head.lowercased().contains("\r\ntransfer-encoding: chunked") {
                    unread.removeFirst(end)
                    // A chunk may end inside a character.
                    var body: [UInt8] = []
                    while let piece = try chunkBytes() { body += piece }
                    return Response(
                        status: Int(head.split(separator: " ")[1]) ?? 0, head: head, body: String(decoding: body, as: UTF8.self))
                }
                let length = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
                    .flatMap { Int($0.split(separator: ":")[1].filter { $0 != " " }) } ?? 0
                while unread.count < end + length { unread += try readSome() }
                let body = String(decoding: unread[end..<end + length], as: UTF8.self)
                unread.removeFirst(end + length)
                return Response(status: Int(head.split(separator: " ")[1]) ?? 0, head: head, body: body)
            }
            unread += try readSome()
        }
    }

    /// Reads only a head, whatever body it announces.
    package func head() throws -> Response {
        while true {
            if let end = unread.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound {
                let head = String(decoding: unread[..<end], as: UTF8.self)
                unread.removeFirst(end)
                return Response(status: Int(head.split(separator: " ")[1]) ?? 0, head: head, body: "")
            }
            unread += try readSome()
        }
    }

    /// Reads one chunk of a chunked body; nil for the last, empty one.
    package func chunk() throws -> String? { try chunkBytes().map { String(decoding: $0, as: UTF8.self) } }

    private func chunkBytes() throws -> [UInt8]? {
        while true {
            if let line = unread.firstRange(of: Array("\r\n".utf8)),
                let size = Int(String(decoding: unread[..<line.lowerBound], as: UTF8.self), radix: 16),
                unread.count >= line.upperBound + size + 2
            {
                let bytes = Array(unread[line.upperBound..<line.upperBound + size])
                unread.removeFirst(line.upperBound + size + 2)
                return size == 0 ? nil : bytes
            }
            unread += try readSome()
        }
    }

    /// Reads and discards up to this many bytes; returns 0 at the end.
    package func discard(_ count: Int) throws -> Int {
        if !unread.isEmpty {
            let taken = min(count, unread.count)
            unread.removeFirst(taken)
            return taken
        }
        var buffer = [UInt8](repeating: 0, count: count)
        return max(0, recv(fd, &buffer, count, 0))
    }

    /// Reads until the peer ends the connection.
    package func rest() throws -> String {
        do { while true { unread += try readSome() } } catch is Closed { return String(decoding: unread, as: UTF8.self) }
    }

    package func get(_ target: String, host: String = "localhost") throws -> Response {
        try send("GET \(target) HTTP/1.1\r\nHost: \(host)\r\n\r\n")
        return try response()
    }

    // MARK: WebSocket

    /// Upgrades; the answer must be 101.
    /// - Parameter offer: the offered extensions; the answer is in `extensions` afterwards.
    package func upgrade(_ target: String, host: String = "localhost:9000", offer: String? = nil) throws {
        let offer = offer.map { "Sec-WebSocket-Extensions: \($0)\r\n" } ?? ""
        try send(
            "GET \(target) HTTP/1.1\r\nHost: \(host)\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\(offer)\r\n")
        let answer = try response()
        guard answer.status == 101 else { throw Closed() }
        extensions = answer.head.split(separator: "\r\n").first { $0.hasPrefix("Sec-WebSocket-Extensions:") }.map {
            String($0.dropFirst(26))
        }
        guard extensions != nil else { return }
        let alone = DeflateAgreement.Direction(takesOverContext: false)
        decoder = WebSocketDecoder(role: .client, maxMessageBytes: 1 << 30, deflate: DeflateAgreement(server: alone, client: alone))
    }

    package func sendText(_ text: String) throws {
        var generator = SystemRandomNumberGenerator()
        try send(WebSocketFrame.text(Array(text.utf8), mask: .random(using: &generator)))
    }

    /// The next event; pings are not answered.
    package func next() throws -> Event {
        while events.isEmpty {
            var bytes = unread.isEmpty ? try readSome() : unread
            unread = []
            bytes.withUnsafeMutableBytes { buffer in
                decoder.receive(buffer) { event in
                    switch event {
                    case .text(let text): events.append(.text(String(decoding: text, as: UTF8.self)))
                    case .ping(let payload): events.append(.ping(Array(payload)))
                    case .close(let code, let reason):
                        closeReason = String(decoding: reason, as: UTF8.self)
                        events.append(.close(code))
                    default: break
                    }
                }
            }
        }
        return events.removeFirst()
    }

    /// The next text, which must come before the connection ends.
    package func text() throws -> String {
        guard case .text(let text) = try next() else { throw Closed() }
        return text
    }

    /// Reads until the peer ends the connection.
    /// - Returns: the close code, if the peer sent one.
    package func closeCode() throws -> UInt16? {
        var code: UInt16?
        do {
            while true { if case .close(let sent) = try next() { code = sent } }
        } catch is Closed {
            return code
        }
    }
}

/// A server on a free port that stops with the test.
package final class TestServer {
    package let server: Server
    package var port: UInt16 { server.port }

    /// - Parameters:
    ///   - scheduler: uses the system's clocks by default.
    ///   - storage: replaces the storage in the data folder, or in memory without a folder.
    package init(
        scheduler: Scheduler = .system(), storage: (any JournalStorage)? = nil,
        _ configure: (inout ServerSettings) -> Void = { _ in }
    ) throws {
        var settings = ServerSettings()
        settings.port = 0
        settings.loops = 2
        settings.isDev = true
        settings.rules = .allowAll
        configure(&settings)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        server = try Server(settings, scheduler: scheduler, logger: logger) { () throws(JournalError) in
            if let storage { return storage }
            guard let folder = settings.dataFolder else { return MemoryStorage() }
            return try JournalStore.open(folder: folder, scheduler: scheduler)
        }
    }

    deinit { server.stop {} }

    /// Stops now and waits for the end.
    package func stop() {
        let stopped = DispatchSemaphore(value: 0)
        server.stop { stopped.signal() }
        if stopped.wait(timeout: .now() + 20) != .success { Issue.record("the server does not stop") }
    }

    /// A value of `/.metrics`, by its name with labels.
    package func metric(_ name: String) throws -> Int {
        let page = try TestSocket(port: port).get("/.metrics")
        guard page.status == 200, let line = page.body.split(separator: "\n").first(where: { $0.hasPrefix(name + " ") }) else {
            throw TestSocket.Closed()
        }
        return Int(line.split(separator: " ").last ?? "") ?? -1
    }

    /// Polls until the value is as wanted; false after 20 s.
    package func metric(_ name: String, becomes wanted: (Int) -> Bool) throws -> Bool {
        for _ in 0..<2000 {
            if wanted(try metric(name)) { return true }
            usleep(10_000)
        }
        return false
    }

    /// A realtime client after hello, with its assigned session id.
    package func realtime(
        _ query: String = "v=5&ns=test", host: String = "localhost:9000", receiveBuffer: Int32? = nil
    ) throws -> (socket: TestSocket, hello: Node) {
        let socket = try TestSocket(port: port, receiveBuffer: receiveBuffer)
        socket.server = self
        try socket.upgrade("/.ws?\(query)", host: host)
        return (socket, try Node(json: socket.text()))
    }
}
