public import JSONTree

/// A token that was checked: who it is of, and what rules may know.
public final class VerifiedToken: Sendable {
    /// `sub`, of 1 to 128 characters.
    public let uid: String
    /// `sid`: the session that the token belongs to; nil for tokens of other issuers.
    public let sessionID: String?
    /// Who signed it.
    public let issuer: String
    /// `firebase.sign_in_provider`, else `custom`.
    public let provider: String
    /// Seconds since the epoch; 0 where the token does not say.
    public let authTime: Int64
    public let issuedAt: Int64
    public let expires: Int64
    /// The rules' variable `auth`: an object with `uid`, `provider` and `token`, which holds all claims (contract §8.1).
    public let auth: Node
    /// Whether this service signed it, so that an account and a session stand behind it.
    public let isOwn: Bool
    /// Until when the key that it was checked by is known to be its issuer's, ms of a clock that never steps.
    let checkedUntil: Int64

    /// - Parameter claims: were checked.
    init(_ claims: Node, isOwn: Bool, checkedUntil: Int64 = .max) throws(TokenFault) {
        self.checkedUntil = checkedUntil
        uid = try TokenExpectations.subject(claims)
        issuer = claims.text("iss") ?? ""
        sessionID = isOwn ? claims.text("sid") : nil
        provider = claims.child("firebase").text("sign_in_provider") ?? "custom"
        authTime = claims.seconds("auth_time") ?? 0
        issuedAt = claims.seconds("iat") ?? 0
        guard let expires = claims.seconds("exp") else { throw .expired }
        self.expires = expires
        auth = ["uid": .string(uid), "provider": .string(provider), "token": claims]
        self.isOwn = isOwn
    }

    /// All claims.
    public var claims: Node { auth.child("token") }
}
