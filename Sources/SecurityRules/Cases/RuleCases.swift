public import JSONTree

/// The expected decisions of a rules file: operations on small trees, each with its verdict.
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
/// The text has the dialect of rules files, with comments and trailing commas.
public struct RuleCases: Sendable {
    public let cases: [RuleCase]
    /// Rules behind others that refuse the same before them, such as `/users/$uid/name.validate`: no case can find
    /// them other than true.
    public let neverFalse: [String]
}

/// One operation with its verdict.
public struct RuleCase: Sendable {
    public enum Operation: Sendable {
        case read(Path, QueryVariables)
        case count(Path, QueryVariables)
        /// A set, or each path of an update; null removes.
        case write([(path: Path, value: Node)])
        /// The deletion of an account, by its id. Nobody has to allow it.
        case accountDeletion(String)
    }

    public enum Expectation: Sendable, Equatable {
        case allowed
        /// Refused; by this rule, such as `/users/$uid/name.validate`, or because no `.read` or `.write` grants.
        case denied(by: String?)
    }

    public let name: String
    /// Where the case begins in its file; 1-based.
    public let line: Int
    public let column: Int
    public let operation: Operation
    public let expectation: Expectation
    /// What is at these places after an allowed write, null for nothing; empty when the case does not say.
    public let then: [(path: Path, value: Node)]
    /// The tree before the operation.
    public let data: Node
    public let auth: Node
    public let now: Int64
    /// The clock when `then` is looked at, ms since the epoch: what is due by then has ended. Nil: at once, and nothing has.
    public let until: Int64?
}
