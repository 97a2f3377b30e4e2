/// Why a request of the observe protocol is refused. The codes are stable; the message is for people.
public enum ObserveCode: String, Sendable, Hashable {
    /// Not JSON, no `id`, an unknown `op`, or a member that is missing or of the wrong type.
    case badRequest = "bad_request"
    /// A path that names no place.
    case badPath = "bad_path"
    /// Data that cannot be stored.
    case badData = "bad_data"
    /// A member or event that this server does not know (yet).
    case notSupported = "not_supported"
    /// The order of the query needs a line in the rules file, which the message names.
    case missingIndex = "missing_index"
    /// The place does not have the value that a transaction rests on.
    case stale
    /// The rules refuse it.
    case permissionDenied = "permission_denied"
    /// The token is not valid, or no longer.
    case invalidToken = "invalid_token"
    /// The request or its answer is over a limit.
    case tooBig = "too_big"
    /// `sub` names no running observe.
    case unknownSub = "unknown_sub"
    /// An `id` that a running observe of this connection already has.
    case duplicateID = "duplicate_id"
    /// More was asked for in a minute than the rules allow those who have no account.
    case tooMany = "too_many"
    /// Try again later.
    case unavailable
    /// The user writes too often. Try again later.
    case overBudget = "over_budget"
}

/// A refusal: `{"code":…,"message":…}` on the wire, with `"member":…` where one of the request is at fault, and `"messages":[…]` where
/// rules say something.
public struct ObserveFault: Error, Sendable, Hashable {
    public var code: ObserveCode
    public var message: String
    /// The member of the request that is at fault, such as `path` or `query.orderBy`; nil when none is.
    public var member: String?
    /// What the violated rules say to the client.
    public var messages: [String]
    /// When the same may be asked again; nil where that is not known.
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

/// Why an observe connection is closed: its next messages cannot be interpreted.
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
