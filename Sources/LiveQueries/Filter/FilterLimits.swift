/// Limits of one `where`. A request over a limit is refused without other effects.
public struct FilterLimits: Sendable {
    /// Number of conditions, before canonicalization. Default 16.
    package var conditions = 16
    /// Values of one `in`. Default 100.
    package var values = 100
    /// Bytes of all paths, texts and keys together. Default 8 KiB, like the bounds of a query.
    package var bytes = 8 << 10

    public init() {}
}

/// Why a `where`, a `near` or a `within` is refused. The description names the member and the condition, counted from 0: `where[1]: …`.
public struct QueryFault: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Reason: Sendable, Equatable {
        /// The form is wrong.
        case malformed
        /// A limit is exceeded.
        case tooBig
    }

    /// The member of the request, with the position in it: `where`, `where[1]`, `near.radius`.
    public let member: String
    public let reason: Reason
    /// The error, as the rest of a sentence after the member.
    public let text: String

    public var description: String { "\(member): \(text)" }

    static func malformed(_ member: String, _ text: String) -> QueryFault { QueryFault(member: member, reason: .malformed, text: text) }
    static func tooBig(_ member: String, _ text: String) -> QueryFault { QueryFault(member: member, reason: .tooBig, text: text) }
}
