internal import COpenSSL
internal import Glibc

/// One end of a TLS connection as a state machine over bytes: no socket, no clock, no queue.
///
/// ```
///              ┌──────────── handshake done ───────────┐
/// handshaking ─┤                                       ├─► open ── sendCloseNotify ─► closing
///              └─ bad certificate, no common protocol ─┴─► failed ◄─ a record that was changed in transit
/// ```
/// The records to send are in the wire's `outgoing` after each call.
final class TLSEngine {
    enum State: UInt8 {
        /// The handshake is in progress; no application data yet.
        case handshaking
        /// Application data goes both ways; after the peer's close_notify only ours.
        case open
        /// Our close_notify was created: nothing more is encrypted; the peer's data is still decrypted (RFC 8446 §6.1).
        case closing
        /// A protocol or certificate error; the last record is the alert.
        case failed
    }

    /// The result of processing some of the peer's bytes.
    struct Step {
        /// The handshake has just been completed.
        var opened = false
        /// Decrypted bytes in the wire's memory, valid until the next call for any connection of the loop.
        var plaintext = UnsafeMutableRawBufferPointer(start: nil, count: 0)
        var end: End?
    }

    enum End: Equatable {
        /// The peer's close_notify: all its data has been received.
        case finished
        /// The peer spoke HTTP without TLS.
        case plainHTTP
        /// A TLS error, with OpenSSL's text.
        case failed(String)
    }

    private(set) var state = State.handshaking
    private let tls: OpaquePointer
    /// Outlives the connection's use of it.
    private let context: TLSContext

    /// - Parameter host: for a client, the name that the server's certificate must have.
    init(_ context: TLSContext, expecting host: String? = nil, through wire: TLSWire) throws(NetError) {
        guard let tls = vigla_tls_new(context.raw, wire.raw, context.isServer) else { throw .system(call: "SSL_new", errno: ENOMEM) }
        self.tls = tls
        self.context = context
        guard let host else { return }
        let isAddress = (try? SocketAddress.resolve(host, port: 0, numericOnly: true)) != nil
        guard vigla_tls_expect_host(tls, host, isAddress) else { throw .tlsFailed(peer: host, reason: "this is no host name") }
    }

    deinit { vigla_tls_free(tls) }

    /// Begins a client's handshake.
    func start(through wire: TLSWire) -> Step {
        receive(UnsafeRawBufferPointer(start: nil, count: 0), through: wire)
    }

    /// Processes received bytes, split anywhere; at most as many as the wire's buffer has.
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

    /// Encrypts the bytes of the vectors in order, small frames joined, until about `limit` bytes are consumed.
    /// - Returns: the plaintext bytes consumed; nil when the connection has failed.
    func encrypt(_ vectors: UnsafePointer<iovec>, _ count: Int, limit: Int, through wire: TLSWire) -> Int? {
        guard state == .open else { return nil }
        let taken = vigla_tls_write(tls, wire.raw, vectors, count, limit)
        guard taken >= 0 else {
            _ = fail()
            return nil
        }
        return taken
    }

    /// Creates the close_notify alert (RFC 8446 §6.1), once.
    func sendCloseNotify() {
        guard state == .open else { return }
        state = .closing
        vigla_tls_send_close_notify(tls)
    }

    /// Whether the handshake resumed an earlier session, without a certificate.
    var isResumed: Bool { vigla_tls_is_resumed(tls) }

    private func fail() -> End {
        state = .failed
        let failure = vigla_tls_take_failure(tls)
        if failure.is_plain_http { return .plainHTTP }
        return .failed(failure.text.map { String(cString: $0) } ?? "the records cannot be read")
    }
}
