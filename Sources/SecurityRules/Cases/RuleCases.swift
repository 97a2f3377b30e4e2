public import JSONTree

/// What a rules file is expected to decide: operations on small trees, each with the verdict it must get.
///
///     {
///       "now": 1790000000000,
///       "users": { "ada": { "uid": "ada", "token": { "email_verified": true } } },
///       "data": { "users": { "ada": { "name": "Ada" } } },
///       "neverFalse": ["/users/$uid/nick.validate"],
///       "cases": [
///         { "name": "a stranger renames Ada", "as": null, "write": "/users/ada/name", "value": "Eve", "expect": "deny" }
///       ]
///     }
///
/// The text is read as rules are: comments and trailing commas are welcome.
public struct RuleCases: Sendable {
    public let cases: [RuleCase]
    /// Rules that stand behind others which refuse the same before them, such as `/users/$uid/name.validate`: no case can see
    /// them other than true.
    public let neverFalse: [String]
}

/// One operation with its verdict.
public struct RuleCase: Sendable {
    public enum Operation: Sendable {
        case read(Path, QueryVariables)
        /// A set, or each path of an update; null removes.
        case write([(path: Path, value: Node)])
        /// When the node at the place ends.
        case expire(Path)
    }

    public enum Expectation: Sendable, Equatable {
        case allowed
        /// Refused; by this rule, such as `/users/$uid/name.validate`, or for want of a `.read` or `.write` that grants.
        case denied(by: String?)
        /// The time in ms at which the node ends; nil for never.
        case expires(Int64?)
    }

    public let name: String
    /// Where the case begins in its file; 1-based.
    public let line: Int
    public let column: Int
    public let operation: Operation
    public let expectation: Expectation
    /// The tree before the operation.
    public let data: Node
    public let auth: Node
    public let now: Int64
}
