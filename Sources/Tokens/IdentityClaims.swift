import JSONTree

/// The claims of an ID token (accounts contract §5.1).
///
/// Precedence of claims, from weakest to strongest: name and picture, the account's custom claims, the session's claims, the service's own
/// claims. No custom claim replaces the service's own.
package struct IdentityClaims: Sendable {
    /// 1 to 128 characters.
    package var uid: String
    /// Seconds since the epoch: when the user last authenticated in this session; when the token is issued; when it expires.
    package var authTime: Int64
    package var issuedAt: Int64
    package var expires: Int64
    /// `password`, `anonymous`, `google.com`, `custom`, …
    package var provider: String
    /// The session that the token belongs to: the standard claim `sid` of OpenID Connect.
    package var sessionID: String
    /// See `VerifiedToken.generation`.
    package var generation: Int64 = 0
    package var email: String?
    package var isEmailVerified = false
    package var phoneNumber: String?
    package var name: String?
    package var picture: String?
    /// The account's identities at other services, by provider: `("google.com", "1099…")`.
    package var identities: [(provider: String, subject: String)] = []
    package var accountClaims = CustomClaims.none
    package var sessionClaims = CustomClaims.none

    package init(uid: String, provider: String, sessionID: String, authTime: Int64, issuedAt: Int64, expires: Int64) {
        self.uid = uid
        self.provider = provider
        self.sessionID = sessionID
        self.authTime = authTime
        self.issuedAt = issuedAt
        self.expires = expires
    }

    /// Names that custom claims never replace, even if the token lacks them.
    private static let reserved: Set<String> = CustomClaims.forbidden.union([
        "user_id", "email", "email_verified", "phone_number", "provider_id", "sid",
    ])

    /// `iss` of a project's tokens; the admin SDKs accept no other.
    package static func issuer(_ project: String) -> String { "https://securetoken.google.com/\(project)" }

    /// The payload of the token.
    /// - Parameter issuer: nil uses that of ID tokens.
    package func payload(project: String, issuer: String? = nil) -> [UInt8] {
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
        if generation > 0 {
            writer.raw(",\"generation\":")
            writer.int(generation)
        }
        writer.raw("}}")
        return writer.bytes
    }

    private func writeIdentities(_ writer: inout JSONWriter) {
        // The contract gives guests no such claim.
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

/// Claims that an administrator gives an account, or a custom token a session: members of a JSON object that are added to ID tokens (accounts
/// contract §5.1).
package struct CustomClaims: Sendable, Equatable {
    /// Name and JSON text of each claim, in order; the last of equal names.
    private(set) var members: [(name: String, json: [UInt8])] = []

    package static let none = CustomClaims()

    private init() {}

    /// Names reserved for tokens.
    package static let forbidden: Set<String> = [
        "acr", "amr", "at_hash", "aud", "auth_time", "azp", "c_hash", "cnf", "exp", "firebase", "iat", "iss", "jti", "nbf", "nonce", "sub",
    ]

    /// Validates claims before they are set.
    /// - Parameters:
    ///   - json: a JSON object.
    ///   - length: the most Unicode scalars of the text, per account or session.
    package init(checking json: String, length: Int) throws(Fault) {
        guard json.utf8.count <= length || json.unicodeScalars.count <= length else { throw .tooLong }
        guard let claims = CustomClaims(stored: json) else { throw .malformed }
        if let name = claims.members.first(where: { Self.forbidden.contains($0.name) })?.name {
            throw .forbidden(name)
        }
        self = claims
    }

    /// Why claims may not be set.
    package enum Fault: Error, Equatable {
        case malformed
        case tooLong
        /// A name reserved for tokens.
        case forbidden(String)
    }

    /// Parses stored claims; nil if the text is not a JSON object, or is nested deeper than a token may be.
    package init?(stored json: String) {
        let bytes = Array(json.utf8)
        let members: [(String, [UInt8])]? = bytes.withUnsafeBytes { buffer in
            do throws(JSONError) {
                // Checked as a whole: claims nested too deeply would make the token unreadable.
                var whole = JSONReader(buffer)
                guard try whole.peek() == .object else { return nil }
                _ = try whole.claims(nesting: 1)
                try whole.expectEnd()
                var members: [(String, [UInt8])] = []
                var reader = JSONReader(buffer)
                try reader.beginObject()
                while let name = try reader.nextName() {
                    let text = try reader.skipValue()
                    members.removeAll { $0.0 == name }
                    members.append((name, Array(buffer[text])))
                }
                return members
            } catch { return nil }
        }
        guard let members else { return nil }
        self.members = members
    }

    /// The claims of a stored column; none for nil.
    package init(column: String?) { self = column.flatMap { CustomClaims(stored: $0) } ?? .none }

    /// Merges the claims; for equal names those of `other` win.
    package func merged(with other: CustomClaims) -> CustomClaims {
        guard !other.members.isEmpty else { return self }
        var merged = self
        merged.members.removeAll { member in other.members.contains { $0.name == member.name } }
        merged.members += other.members
        return merged
    }

    package var isEmpty: Bool { members.isEmpty }

    package var json: String {
        var writer = JSONWriter()
        writer.raw("{")
        for (i, member) in members.enumerated() {
            if i > 0 { writer.raw(",") }
            writer.string(member.name)
            writer.raw(":")
            writer.raw(member.json)
        }
        writer.raw("}")
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    package static func == (a: CustomClaims, b: CustomClaims) -> Bool { a.json == b.json }
}
