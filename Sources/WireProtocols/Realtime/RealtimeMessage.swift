public import JSONTree

/// One message from a realtime client (contract §1.4, §2).
public enum RealtimeMessage: Sendable {
    case control(RealtimeControl)
    case request(RealtimeRequest)
}

extension RealtimeInbound {
    /// Parses an inbound event; nil for a keep-alive. A request over the limit becomes `RealtimeAction.invalid`.
    /// - Throws: `RealtimeError` if the connection must be closed.
    public func message(limits: RealtimeLimits) throws(RealtimeError) -> RealtimeMessage? {
        switch self {
        case .keepAlive: return nil
        case .message(let bytes): return try Self.parsed(bytes, limits)
        case .blocks(let blocks):
            let bytes = blocks.joined()
            var result = Result<RealtimeMessage, RealtimeError>.failure(.malformed(offset: 0))
            bytes.withUnsafeBytes { bytes in
                do throws(RealtimeError) { result = .success(try Self.parsed(bytes, limits)) } catch { result = .failure(error) }
            }
            return try result.get()
        case .oversized(let number): return .request(RealtimeRequest(number: number, action: .invalid(action: "", .writeTooBig)))
        case .failure(let error): throw error
        }
    }

    private static func parsed(_ bytes: UnsafeRawBufferPointer, _ limits: RealtimeLimits) throws(RealtimeError) -> RealtimeMessage {
        let message = try RealtimeMessage.parse(bytes, limits: limits)
        guard case .request(var request) = message else { return message }
        request.bytes = bytes.count
        return .request(request)
    }
}

/// A client's control message (contract §1.4).
public enum RealtimeControl: Sendable, Hashable {
    /// Respond with `RealtimeReply.pong`.
    case ping
    /// `a`: the client has switched to this transport (contract §1.8).
    case switchAck
    /// `n`: the last message on this transport (contract §1.8).
    case endTransmission
    /// Ignored.
    case unknown(String)
}

/// A request; each gets exactly one response, in order of arrival (contract §2.2, §2.5).
public struct RealtimeRequest: Sendable {
    /// `r`: repeated in the response. 0 is a valid number.
    public var number: Int64
    public var action: RealtimeAction
    /// The size of its message in bytes, or of its values in memory if that is larger.
    public var bytes = 0
    /// The budget's hold for the memory of the values, for the request's lifetime.
    public var hold: (any MemoryReservation)?

    public init(number: Int64, action: RealtimeAction) {
        self.number = number
        self.action = action
    }
}

/// Cases with a query are indirect: messages are passed by value, and most are writes.
public enum RealtimeAction: Sendable {
    /// `s`: statistics of SDK use; respond with ok.
    case stats
    /// `q`, and `l` of very old clients. `query` is present if the client sent one, even if `isDefault`. `hash` is that of the client's cached
    /// value; nil without one. `ch` (contract §4.7) is ignored: a full response is always correct.
    indirect case listen(path: Path, query: TreeQuery?, tag: Int64?, hash: String?)
    /// `n`, and `u` of very old clients.
    indirect case unlisten(path: Path, query: TreeQuery?, tag: Int64?)
    /// `g` without a query, as most are.
    case get(path: Path)
    /// `g` with a query, even if it `isDefault`.
    indirect case select(path: Path, TreeQuery)
    /// `p`. A hash makes it compare-and-set (contract §4.6).
    case put(TreeWrite, hash: String?)
    /// `m`: paths of the writes are relative to `path` and do not overlap.
    case merge(path: Path, [TreeWrite], hash: String?)
    /// `o`
    case onDisconnectPut(TreeWrite)
    /// `om`: paths as in `merge`.
    case onDisconnectMerge(path: Path, [TreeWrite])
    /// `oc`
    case onDisconnectCancel(path: Path)
    case auth(RealtimeCredential)
    /// `gauth`: an admin secret or token, `owner` in development (contract §8.1).
    case gauth(RealtimeCredential)
    case unauth
    case appCheck(token: String)
    case unappCheck
    /// Respond with a status other than ok, and continue.
    case unknown(String)
    /// A known action with an invalid body: respond with the refusal, and continue.
    case invalid(action: String, RealtimeRefusal)
}

/// Body of `auth` and `gauth`.
public struct RealtimeCredential: Sendable, Equatable {
    public var credential: String
    /// Act as a client that is not signed in (admin credentials only, contract §8.4).
    public var noauth: Bool
    /// Act as this user (admin credentials only). `.null` if sent empty, nil if not sent. Its names need not be legal keys.
    public var authvar: Node?
}
