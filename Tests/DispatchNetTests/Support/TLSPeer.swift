@testable import DispatchNet
import Glibc
import Synchronization
import TestCertificates

/// A blocking TLS client: an engine over a `TestPeer`, so that a test can cut, hold back and change its output.
final class TLSPeer {
    let socket: TestPeer
    let engine: TLSEngine
    let wire: TLSWire
    private var plaintext: [UInt8] = []
    private(set) var end: TLSEngine.End?
    /// The server's FIN has arrived.
    private(set) var isCut = false

    init(port: UInt16, receiveBuffer: Int32? = nil, host: String = "localhost") throws {
        socket = TestPeer(port: port, receiveBuffer: receiveBuffer)
        wire = try TLSWire(readBufferBytes: 128 << 10)
        engine = try TLSEngine(try TestContexts.client(), expecting: host, through: wire)
    }

    /// The engine's pending output.
    func dequeueOutgoing() -> [UInt8] {
        defer { wire.clearOutgoing() }
        return Array(wire.outgoing)
    }

    func handshake() {
        sayHello()
        finishHandshake()
    }

    func sayHello() {
        _ = engine.start(through: wire)
        socket.write(dequeueOutgoing())
    }

    func finishHandshake() {
        while engine.state == .handshaking, receive() {}
    }

    /// Reads once from the socket; false at its end.
    private func receive() -> Bool {
        guard let bytes = socket.readSome(64 << 10), !bytes.isEmpty else {
            isCut = true
            return false
        }
        let step = bytes.withUnsafeBytes { engine.receive($0, through: wire) }
        plaintext += step.plaintext
        if let found = step.end { end = found }
        socket.write(dequeueOutgoing())
        return end == nil
    }

    /// The records of a text, not sent.
    func records(_ bytes: [UInt8]) -> [UInt8] {
        var copy = bytes
        var at = 0
        while at < bytes.count {
            at += copy.withUnsafeMutableBytes { bytes in
                var vector = iovec(iov_base: bytes.baseAddress.map { $0 + at }, iov_len: bytes.count - at)
                return engine.encrypt(&vector, 1, limit: .max, through: wire) ?? Int.max / 2
            }
        }
        return dequeueOutgoing()
    }

    func write(_ bytes: [UInt8]) { socket.write(records(bytes)) }

    /// Exactly `count` bytes, or fewer when the stream ended.
    func read(_ count: Int) -> [UInt8] {
        while plaintext.count < count, receive() {}
        defer { plaintext.removeFirst(min(count, plaintext.count)) }
        return Array(plaintext.prefix(count))
    }

    /// Whether these bytes come next; see `TestPeer.reads`.
    func reads(_ bytes: some Collection<UInt8>) -> Bool { read(bytes.count).elementsEqual(bytes) }

    func sendCloseNotify() {
        engine.sendCloseNotify()
        socket.write(dequeueOutgoing())
    }

    /// Whether the server sends a close notification and ends.
    func readsGoodbye() -> Bool {
        while end == nil, receive() {}
        return end == .finished && socket.readsEnd()
    }
}

/// Contexts are shared: creating one takes OpenSSL a few milliseconds.
enum TestContexts {
    private static let servers = Mutex<[String: TLSContext]>([:])
    private static let clients = Mutex<TLSContext?>(nil)

    static func server(_ certificate: String) throws -> TLSContext {
        let files = try TestCertificates.get()
        return try servers.withLock { servers in
            if let made = servers[certificate] { return made }
            let made = try TLSServer(certificate: files.certificate(certificate), key: files.key(certificate)).context
            servers[certificate] = made
            return made
        }
    }

    /// Trusts the tests' authority.
    static func client() throws -> TLSContext {
        let files = try TestCertificates.get()
        return try clients.withLock { client in
            if let client { return client }
            let made = try TLSClient(authorities: files.authority).context
            client = made
            return made
        }
    }
}

/// A `TestServer` with a certificate.
func tlsServer(
    loops: Int = 1, settings: NetSettings = NetSettings(), certificate: String = "server", plainHTTPAnswer: [UInt8] = [],
    _ configure: @escaping @Sendable (Scripted) -> Void = { _ in }
) throws -> (server: TestServer, tls: TLSServer) {
    let files = try TestCertificates.get()
    let tls = try TLSServer(certificate: files.certificate(certificate), key: files.key(certificate), plainHTTPAnswer: plainHTTPAnswer)
    return (try TestServer(loops: loops, settings: settings, tls: tls, configure), tls)
}
