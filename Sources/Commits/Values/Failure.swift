/// Why a request was refused. Nothing of it was carried out.
public struct Failure: Error, Sendable, Equatable {
    /// Statuses of the wire protocols (contract §2.4).
    public enum Code: String, Sendable {
        case permissionDenied = "permission_denied"
        case dataStale = "datastale"
        case invalidToken = "invalid_token"
        case expiredToken = "expired_token"
        case tooBig = "too_big"
        case unavailable
        /// The user writes too often.
        case overBudget = "over_budget"
        case failure
        /// No `.indexOn` of the rules declares the query's order.
        case missingIndex = "missing_index"
        /// Observe protocol: no observer has the id, or one has it already.
        case unknownObserver = "unknown_sub"
        case duplicateObserver = "duplicate_id"
        /// A caller without an account asked for more in a minute than the rules allow.
        case tooMany = "too_many"
    }

    public var code: Code
    public var message: String
    /// The messages of the violated rules for the client; empty for all other failures.
    public var ruleMessages: [String]
    /// ms after which the request may be repeated; nil if unknown.
    public var retryAfterMs: Int64?

    public init(_ code: Code, _ message: String, ruleMessages: [String] = []) {
        self.code = code
        self.message = message
        self.ruleMessages = ruleMessages
    }

    public static let permissionDenied = Failure(.permissionDenied, "Permission denied")
    public static let dataStale = Failure(.dataStale, "Transaction hash does not match")
}
