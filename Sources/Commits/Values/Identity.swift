public import JSONTree

/// The identity of a client, for the rules.
public struct Identity: Sendable, Equatable {
    /// The rules' `auth` variable: null when signed out, else an object with `uid`, `provider` and `token`.
    public var auth: Node
    /// Administrators bypass rules, not data validity (contract §8.1).
    public var isAdmin: Bool
    /// When the credential expires, seconds since the epoch; nil for never. The session then ends.
    public var expires: Int64?

    public init(auth: Node, isAdmin: Bool = false, expires: Int64? = nil) {
        self.auth = auth
        self.isAdmin = isAdmin
        self.expires = expires
    }

    public static let anonymous = Identity(auth: .null)
    public static let admin = Identity(auth: .null, isAdmin: true)
}

extension Identity {
    /// The signed-in user; nil for none.
    package var user: String? { if case .string(let text) = auth.child("uid") { text.string } else { nil } }
}
