/// Why a connection ended. Each reason has a stable ``code`` and ``name`` and a counter per loop (``LoopCounters``).
public enum CloseReason: Sendable, Hashable {
    /// The peer sent FIN and nothing more was expected.
    case peerClosed
    /// The peer reset the connection, or the network lost it.
    case peerReset
    /// More than ``NetSettings/outboundHardBytes`` waited for a peer that reads too slowly.
    case writeOverflow
    /// The peer broke a protocol; the number is that protocol's own (an RFC 6455 close code, an HTTP status).
    case protocolError(UInt16)
    /// This server is stopping.
    case serverShutdown
    /// No bytes came from the peer for too long.
    case idle
    /// The exchange is complete: the regular end.
    case finished
    /// A limit other than the outbound ones was passed (a message's size, requests without an answer).
    case limitExceeded(UInt16)
    /// The application has ended the session: credentials revoked, session replaced, or client asked to leave.
    case dismissed
    /// The kernel reported something else; the number is an errno.
    case systemError(Int32)
    /// The TLS handshake took longer than ``NetSettings/handshakeTimeoutMs``.
    case handshakeTimeout
    /// The TLS handshake was refused by either side, or a record failed authentication.
    case tlsFailed
    /// The TLS connection ended without close_notify, so the data may be truncated (RFC 8446 §6.1).
    case truncated
    /// More than ``NetSettings/outboundSoftBytes`` waited for ``NetSettings/outboundSoftMs``, and the peer read too little.
    case writeStalled
    /// All slow readers together had more than ``NetSettings/outboundTotalBytes`` waiting, and this was one of them.
    case outputMemory
    /// A request was incomplete after its timeout, or came too slowly.
    case requestTimeout
    /// The peer's incomplete input would have exceeded the memory budget of the process or of its address.
    case memoryBudget
    /// More than ``NetSettings/handshakesWaiting`` TLS handshakes waited for their loop, most of them of the peer's network.
    case handshakeOverload

    /// Stable: written to logs and metrics. 1… in the order above.
    public var code: Int {
        switch self {
        case .peerClosed: 1
        case .peerReset: 2
        case .writeOverflow: 3
        case .protocolError: 4
        case .serverShutdown: 5
        case .idle: 6
        case .finished: 7
        case .limitExceeded: 8
        case .dismissed: 9
        case .systemError: 10
        case .handshakeTimeout: 11
        case .tlsFailed: 12
        case .truncated: 13
        case .writeStalled: 14
        case .outputMemory: 15
        case .requestTimeout: 16
        case .memoryBudget: 17
        case .handshakeOverload: 18
        }
    }

    /// Stable: the label in metrics.
    public var name: String { Self.names[code] }

    /// The names by code; index 0 is unused.
    public static let names = [
        "", "peer_closed", "peer_reset", "write_overflow", "protocol_error", "server_shutdown", "idle", "finished",
        "limit_exceeded", "dismissed", "system_error", "handshake_timeout", "tls_failed", "truncated", "write_stalled", "output_memory",
        "request_timeout", "memory_budget", "handshake_overload",
    ]
}

extension CloseReason: CustomStringConvertible {
    /// The name, with the case's associated number: `protocol_error(1002)`.
    public var description: String {
        switch self {
        case .protocolError(let number), .limitExceeded(let number): "\(name)(\(number))"
        case .systemError(let number): "\(name)(\(number))"
        default: name
        }
    }
}
