/// What one `where` may hold. A request over a limit is refused, with no other effect.
public struct FilterLimits: Sendable {
    /// Conditions, counted as they are written. Default 16.
    public var conditions = 16
    /// Values of one `in`. Default 100.
    public var values = 100
    /// Bytes of all paths, texts and keys together. Default 8 KiB, as those of a query's bounds.
    public var bytes = 8 << 10

    public init() {}
}

/// Why a `where` or a `near` cannot be carried out. The description names the member and the condition, counted from 0:
/// `where[1]: …`.
public struct QueryFault: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Reason: Sendable, Equatable {
        /// It has another form than it must have.
        case malformed
        /// It is more than a limit allows.
        case tooBig
    }

    /// The member of the request with the place in it: `where`, `where[1]`, `near.radius`.
    public let member: String
    public let reason: Reason
    /// What is wrong, as the rest of a sentence.
    public let text: String

    public var description: String { "\(member): \(text)" }

    static func malformed(_ member: String, _ text: String) -> QueryFault { QueryFault(member: member, reason: .malformed, text: text) }
    static func tooBig(_ member: String, _ text: String) -> QueryFault { QueryFault(member: member, reason: .tooBig, text: text) }
}
