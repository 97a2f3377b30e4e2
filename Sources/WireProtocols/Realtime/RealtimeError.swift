/// Why a realtime connection is closed. A fault of one request is a `RealtimeRefusal` instead.
public enum RealtimeError: Error, Sendable, Hashable {
    /// A message is not JSON (contract check 13). The offset counts bytes from its start.
    case malformed(offset: Int)
    /// JSON, but not the envelope of contract §1.4 or §2.1: there is no request to respond to.
    case notAnEnvelope(offset: Int)
    /// A chunk count of zero (contract §1.6).
    case badChunkCount
    /// A message over the limit whose request number could not be found.
    case messageTooBig

    /// A plain sentence for the log and the close frame; at most 123 bytes.
    public var reason: String {
        switch self {
        case .malformed(let offset): "message is not JSON at byte \(offset)"
        case .notAnEnvelope: "message is not a protocol envelope"
        case .badChunkCount: "impossible chunk count"
        case .messageTooBig: "message too big"
        }
    }

    /// The WebSocket close code sent to the client.
    public var closeCode: UInt16 {
        switch self {
        case .messageTooBig: WebSocketCloseCode.messageTooBig
        default: WebSocketCloseCode.policyViolation
        }
    }
}

/// Statuses of a response (contract §2.4).
public enum RealtimeStatus: String, Sendable, Hashable {
    case ok
    case permissionDenied = "permission_denied"
    case dataStale = "datastale"
    case expiredToken = "expired_token"
    case invalidToken = "invalid_token"
    case unavailable
    case tooBig = "too_big"
    case failure
}

/// The response to a refused request: a status and a sentence (contract §2.4: never an object).
public struct RealtimeRefusal: Error, Sendable, Hashable {
    public var status: RealtimeStatus
    public var text: String

    public init(_ status: RealtimeStatus, _ text: String) {
        self.status = status
        self.text = text
    }

    init(_ fault: RequestFault) {
        self.init(fault == .denied ? .permissionDenied : fault.isTooBig ? .tooBig : .failure, fault.text)
    }

    public static let permissionDenied = RealtimeRefusal(.permissionDenied, "Permission denied")
    public static let dataStale = RealtimeRefusal(.dataStale, "Transaction hash does not match")
    /// The data of one write is over the limit (contract §7.5).
    public static let writeTooBig = RealtimeRefusal(
        .tooBig, "Data to write exceeds the maximum size that can be modified with a single request.")
}

/// Limits of one realtime message.
public struct RealtimeLimits: Sendable {
    /// Most bytes of one message, with chunks joined; a longer one is refused with `too_big`. Default 16 MiB (contract §1.6).
    package var messageBytes = 16 * 1024 * 1024
    package var write = TreeWriteLimits()

    public init() {}
}
