internal import COpenSSL
internal import Glibc

/// One end of a TLS connection as a state machine over bytes: no socket, no clock, no queue.
///
/// ```
///              ┌──────────── handshake done ───────────┐
/// handshaking ─┤                                       ├─► open ── sayGoodbye ─► closing
///              └─ bad certificate, no common protocol ─┴─► failed ◄─ a record that was changed on its way
/// ```
/// What it wants to send is in the wire's `outgoing` after each call.
final class TLSEngine {
    enum State: UInt8 {
        /// Keys are being agreed on; nothing of the application's may leave or come yet.
        case handshaking
        /// Records go both ways (after the peer's close_notify: only ours).
        case open
        /// Our close_notify has been made: nothing more is encrypted; what the peer still says is heard (RFC 8446 §6.1).
        case closing
        /// The peer broke the protocol or was not who it should be; the alert that says so was the last thing made.
        case failed
    }

    /// What came of some of the peer's bytes.
    struct Step {
        /// The handshake has just been completed.
        var opened = false
        /// In the wire's memory, until the next call for any connection of the loop.
        var plaintext = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        var end: End?
    }

    enum End: Equatable {
        /// The peer's close_notify: everything it wanted to say has come.
        case finished
        /// The peer spoke HTTP without TLS.
        case plainHTTP
        /// OpenSSL's words.
        case failed(String)
    }

    private(set) var state = State.handshaking
    private let tls: OpaquePointer
    /// Outlives the connection's use of it.
    private let context: TLSContext

    /// - Parameter host: for a client, whose certificate is expected.
    init(_ context: TLSContext, expecting host: String? = nil, through wire: TLSWire) throws(NetError) {
        guard let tls = vigla_tls_new(context.raw, wire.raw, context.isServer) else { throw .system(call: "SSL_new", errno: ENOMEM) }
        self.tls = tls
        self.context = context
        guard let host else { return }
        let isAddress = (try? SocketAddress.resolve(host, port: 0, numericOnly: true)) != nil
        guard vigla_tls_expect_host(tls, host, isAddress) else { throw .tlsFailed(peer: host, reason: "this is no host name") }
    }

    deinit { vigla_tls_free(tls) }

    /// For the client, which speaks first.
    func start(through wire: TLSWire) -> Step {
        receive(UnsafeRawBufferPointer(start: nil, count: 0), through: wire)
    }

    /// Takes bytes as they came from the peer, whole records or not; at most as many as the wire is made for.
    func receive(_ records: UnsafeRawBufferPointer, through wire: TLSWire) -> Step {
        wire.raw.pointee.in = records.baseAddress?.assumingMemoryBound(to: UInt8.self)
        wire.raw.pointee.in_count = records.count
        defer { wire.raw.pointee.in_count = 0 }
        var step = Step()
        if state == .handshaking {
            switch vigla_tls_handshake(tls) {
            case 1:
                state = .open
                step.opened = true
            case 0: return step
            default:
                step.end = fail()
                return step
            }
        }
        guard state == .open || state == .closing else { return step }
        var filled = 0
        while step.end == nil {
            let count = vigla_tls_read(tls, wire.plaintext.baseAddress.map { $0 + filled }, wire.plaintext.count - filled)
            if count > 0 { filled += count; continue }
            if count == 0 { break }
            step.end = count == -1 ? .finished : fail()
        }
        step.plaintext = UnsafeMutableRawBufferPointer(rebasing: wire.plaintext[..<filled])
        return step
    }

    /// Makes records of the vectors' bytes from the first on, small frames joined, until about `limit` bytes are taken.
    /// - Returns: the plaintext bytes taken; nil when the connection is beyond use.
    func encrypt(_ vectors: UnsafePointer<iovec>, _ count: Int, limit: Int, through wire: TLSWire) -> Int? {
        guard state == .open else { return nil }
        let taken = vigla_tls_write(tls, wire.raw, vectors, count, limit)
        guard taken >= 0 else {
            _ = fail()
            return nil
        }
        return taken
    }

    /// Says that nothing more will come, once.
    func sayGoodbye() {
        guard state == .open else { return }
        state = .closing
        vigla_tls_say_goodbye(tls)
    }

    /// An earlier session was taken up again: no certificate was needed.
    var isResumed: Bool { vigla_tls_is_resumed(tls) }

    private func fail() -> End {
        state = .failed
        let failure = vigla_tls_take_failure(tls)
        if failure.is_plain_http { return .plainHTTP }
        return .failed(failure.text.map { String(cString: $0) } ?? "the records cannot be read")
    }
}
