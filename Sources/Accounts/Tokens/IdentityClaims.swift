import JSONTree

/// What an ID token says (accounts contract §5.1).
///
/// Who may say what, from the weakest to the strongest: name and picture, the account's custom claims, the session's, and then
/// everything that the service itself vouches for, which no custom claim replaces.
struct IdentityClaims: Sendable {
    /// Of 1 to 128 characters.
    var uid: String
    /// Seconds since the epoch: when the user last proved who they are, in this session; when the token is made; when it ends.
    var authTime: Int64
    var issuedAt: Int64
    var expires: Int64
    /// `password`, `anonymous`, `google.com`, `custom`, …
    var provider: String
    /// The session that the token belongs to: the standard claim `sid` of OpenID Connect.
    var sessionID: String
    var email: String?
    var isEmailVerified = false
    var phoneNumber: String?
    var name: String?
    var picture: String?
    /// The account's identities at other services, by provider: `("google.com", "1099…")`.
    var identities: [(provider: String, subject: String)] = []
    var accountClaims = CustomClaims.none
    var sessionClaims = CustomClaims.none

    /// The claims of an account's session.
    /// - Parameters:
    ///   - now: seconds since the epoch.
    ///   - lifetime: seconds.
    init(_ account: Account, _ session: AccountSession, now: Int64, lifetime: Int) {
        uid = account.id
        authTime = session.authTime
        issuedAt = now
        expires = now + Int64(lifetime)
        provider = session.provider
        sessionID = session.id
        email = account.email
        isEmailVerified = account.isEmailVerified
        phoneNumber = account.phoneNumber
        name = account.displayName
        picture = account.photoURL
        identities = account.providers.map { ($0.id, $0.rawID) }
        accountClaims = CustomClaims(column: account.customClaims)
        sessionClaims = CustomClaims(column: session.claims)
    }

    init(uid: String, provider: String, sessionID: String, authTime: Int64, issuedAt: Int64, expires: Int64) {
        self.uid = uid
        self.provider = provider
        self.sessionID = sessionID
        self.authTime = authTime
        self.issuedAt = issuedAt
        self.expires = expires
    }

    /// Names that custom claims never replace, whether the token has them or not.
    private static let reserved: Set<String> = CustomClaims.forbidden.union([
        "user_id", "email", "email_verified", "phone_number", "provider_id", "sid",
    ])

    /// `iss` of a project's tokens; the admin SDKs accept no other.
    static func issuer(_ project: String) -> String { "https://securetoken.google.com/\(project)" }

    /// The payload of the token.
    /// - Parameter issuer: nil for an ID token's.
    func payload(project: String, issuer: String? = nil) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 640)
        writer.raw("{\"iss\":")
        writer.string(issuer ?? Self.issuer(project))
        writer.raw(",\"aud\":")
        writer.string(project)
        writer.raw(",\"auth_time\":")
        writer.int(authTime)
        writer.raw(",\"user_id\":")
        writer.string(uid)
        writer.raw(",\"sub\":")
        writer.string(uid)
        writer.raw(",\"iat\":")
        writer.int(issuedAt)
        writer.raw(",\"exp\":")
        writer.int(expires)
        writer.raw(",\"sid\":")
        writer.string(sessionID)
        if provider == "anonymous" { writer.raw(",\"provider_id\":\"anonymous\"") }
        if let email {
            writer.raw(",\"email\":")
            writer.string(email)
            writer.raw(isEmailVerified ? ",\"email_verified\":true" : ",\"email_verified\":false")
        }
        if let phoneNumber {
            writer.raw(",\"phone_number\":")
            writer.string(phoneNumber)
        }
        let custom = accountClaims.merged(with: sessionClaims)
        for (claim, value) in [("name", name), ("picture", picture)] {
            guard let value, !custom.members.contains(where: { $0.name == claim }) else { continue }
            writer.raw(",")
            writer.string(claim)
            writer.raw(":")
            writer.string(value)
        }
        for member in custom.members where !Self.reserved.contains(member.name) {
            writer.raw(",")
            writer.string(member.name)
            writer.raw(":")
            writer.raw(member.json)
        }
        writer.raw(",\"firebase\":{\"identities\":{")
        writeIdentities(&writer)
        writer.raw("},\"sign_in_provider\":")
        writer.string(provider)
        writer.raw("}}")
        return writer.bytes
    }

    private func writeIdentities(_ writer: inout JSONWriter) {
        // The contract's guests have none.
        var all = identities
        if let email { all.append(("email", email)) }
        for (i, identity) in all.enumerated() {
            if i > 0 { writer.raw(",") }
            writer.string(identity.provider)
            writer.raw(":[")
            writer.string(identity.subject)
            writer.raw("]")
        }
    }
}
