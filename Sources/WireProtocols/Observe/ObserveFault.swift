/// Why a request of the observe protocol is refused. The codes are stable; the message is for developers.
public enum ObserveCode: String, Sendable, Hashable {
    /// Not JSON, no `id`, an unknown `op`, or a member that is missing or of the wrong type.
    case badRequest = "bad_request"
    /// A path that is not a valid place.
    case badPath = "bad_path"
    /// Data that cannot be stored.
    case badData = "bad_data"
    /// A member or event that this server does not support (yet).
    case notSupported = "not_supported"
    /// The query's order must be declared in the rules file; the message gives the line to add.
    case missingIndex = "missing_index"
    /// The place does not have the value that the transaction expects.
    case stale
    /// The rules refuse it.
    case permissionDenied = "permission_denied"
    /// The token is invalid or has expired.
    case invalidToken = "invalid_token"
    /// The request or its response exceeds a limit.
    case tooBig = "too_big"
    /// `sub` names no running observe.
    case unknownSub = "unknown_sub"
    /// The `id` of a running observe of this connection.
    case duplicateID = "duplicate_id"
    /// Callers without an account exceeded the rules' limit per minute.
    case tooMany = "too_many"
    /// The hub is temporarily unavailable; try again later.
    case unavailable
    /// The user exceeded the write rate; try again later.
    case overBudget = "over_budget"
}

/// A refusal. On the wire `{"code":…,"message":…}`, with `"member":…` if a member of the request is at fault, and `"messages":[…]` if the
/// violated rules have messages.
public struct ObserveFault: Error, Sendable, Hashable {
    public var code: ObserveCode
    public var message: String
    /// The member of the request at fault, such as `path` or `query.orderBy`; nil if none is.
    public var member: String?
    /// The messages of the violated rules.
    public var messages: [String]
    /// When the client may try again; nil if unknown.
    public var retryAfterMs: Int64?

    public init(_ code: ObserveCode, _ message: String, member: String? = nil, messages: [String] = []) {
        self.code = code
        self.message = message
        self.member = member
        self.messages = messages
    }

    init(_ fault: RequestFault) {
        let code: ObserveCode =
            switch fault {
            case _ where fault.isTooBig: .tooBig
            case .data, .notAnObject, .overlap: .badData
            case .path: .badPath
            case .member, .empty, .repeated, .query, .tooBig: .badRequest
            case .unsupported: .notSupported
            case .denied: .permissionDenied
            }
        self.init(code, fault.text, member: fault.member)
    }

    public static let permissionDenied = ObserveFault(.permissionDenied, "Permission denied")
}

/// Why an observe connection is closed: its further messages cannot be interpreted.
public enum ObserveError: Error, Sendable, Hashable {
    /// A message is not JSON. The offset counts bytes from its start.
    case malformed(offset: Int)
    /// JSON, but not an object with an integer `id` (from a client), or not a message of this protocol (from a server).
    case notAMessage

    /// Send this with `ObserveReply.failed(nil, …)` before closing.
    public var fault: ObserveFault {
        switch self {
        case .malformed(let offset): ObserveFault(.badRequest, "message is not JSON at byte \(offset)")
        case .notAMessage: ObserveFault(.badRequest, "a request is an object with an integer \"id\"")
        }
    }
}
