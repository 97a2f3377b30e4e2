public import JSONTree

/// The expected decisions of a rules file: operations on small trees, each with its expected verdict.
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
/// The text uses the syntax of rules files, with comments and trailing commas.
public struct RuleCases: Sendable {
    public let cases: [RuleCase]
    /// Rules that can never be false, such as `/users/$uid/name.validate`, because an earlier rule already refuses those writes.
    public let neverFalse: [String]
}

/// One operation with its expected verdict.
public struct RuleCase: Sendable {
    public enum Operation: Sendable {
        case read(Path, QueryVariables)
        case count(Path, QueryVariables)
        /// A set, or each path of an update; null removes.
        case write([(path: Path, value: Node)])
        /// The deletion of an account, by its id. No rule needs to allow it.
        case accountDeletion(String)
    }

    public enum Expectation: Sendable, Equatable {
        case allowed
        /// Refused by this rule, such as `/users/$uid/name.validate`. Nil: no `.read` or `.write` grants.
        case denied(by: String?)
    }

    public let name: String
    /// Where the case begins in its file; 1-based.
    public let line: Int
    public let column: Int
    public let operation: Operation
    public let expectation: Expectation
    /// The expected values after an allowed write; null for an absent node. Empty when the case does not check them.
    public let then: [(path: Path, value: Node)]
    /// Members of what must be sent, one object for each delivery (`RuleDelivery.summary`); nil when the case does not check it.
    public let sends: [Node]?
    /// The tree before the operation.
    public let data: Node
    public let auth: Node
    public let now: Int64
    /// The time at which `then` is checked, in ms since the epoch: nodes due by then have ended. Nil: directly after the write.
    public let until: Int64?
}
