package import JSONTree

/// The required claims of a token (accounts contract §5.2). Signatures are checked elsewhere.
package struct TokenExpectations: Sendable {
    /// `iss` must be one of these, exactly.
    package var issuers: [String]
    /// `aud` must be one of these. A list must contain one of them, and then `azp` must be one too.
    package var audiences: [String]
    /// Whether `azp`, if present, must be one of the audiences.
    package var checksAuthorizedParty = false

    /// Whether issue or sign-in times in the future are refused.
    package var refusesFuture = true

    /// Most characters of `sub`.
    package var subjectLength = 128

    package init(issuers: [String], audiences: [String]) {
        self.issuers = issuers
        self.audiences = audiences
    }

    /// Seconds by which other clocks may be ahead of ours.
    package static let skewSeconds: Int64 = 60

    /// - Parameters:
    ///   - now: seconds since the epoch.
    ///   - leeway: seconds for which the token is accepted after it expires.
    package func check(_ claims: Node, now: Int64, leeway: Int) throws(TokenFault) {
        guard case .string(let issuer) = claims.child("iss"), issuers.contains(where: { Text($0) == issuer }) else { throw .issuer }
        try checkAudience(claims)
        guard let expires = claims.seconds("exp"), now < expires.addingClamped(Int64(leeway)) else { throw .expired }
        for name: Key in ["iat", "auth_time", "nbf"] {
            let claim = claims.child(name)
            guard claim.exists else { continue }
            guard let time = claims.seconds(name), time <= now + Self.skewSeconds || !refusesFuture && name != "nbf" else {
                throw .notYetValid
            }
        }
        _ = try Self.subject(claims, length: subjectLength)
    }

    private func checkAudience(_ claims: Node) throws(TokenFault) {
        let claim = claims.child("aud")
        if case .string(let audience) = claim {
            guard isAudience(audience) else { throw .audience }
            guard checksAuthorizedParty, claims.child("azp").exists else { return }
        } else {
            // Several audiences without `azp` do not identify the client (OpenID Connect §3.1.3.7).
            guard claim.children.contains(where: { if case .string(let audience) = $0.node { isAudience(audience) } else { false } }) else {
                throw .audience
            }
            guard claim.childCount > 1 || claims.child("azp").exists else { return }
        }
        guard case .string(let party) = claims.child("azp"), isAudience(party) else { throw .audience }
    }

    private func isAudience(_ text: Text) -> Bool { audiences.contains { Text($0) == text } }

    /// `sub`: a non-empty string.
    package static func subject(_ claims: Node, length: Int = 128) throws(TokenFault) -> String {
        guard case .string(let subject) = claims.child("sub"), isSubject(subject.string, length: length) else { throw .subject }
        return subject.string
    }

    /// - Parameter length: most characters.
    package static func isSubject(_ text: String, length: Int = 128) -> Bool {
        !text.isEmpty && (text.utf8.count <= length || text.unicodeScalars.count <= length)
    }
}

extension Node {
    /// A time in seconds since the epoch; fractions are dropped (RFC 7519 §2).
    package func seconds(_ name: Key) -> Int64? {
        switch child(name) {
        case .int(let seconds): seconds
        case .double(let seconds): Int64(exactly: seconds.rounded(.down))
        default: nil
        }
    }

    package func text(_ name: Key) -> String? { if case .string(let text) = child(name) { text.string } else { nil } }
}

extension Int64 {
    /// The sum, clamped on overflow.
    package func addingClamped(_ other: Int64) -> Int64 {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? (other < 0 ? .min : .max) : sum
    }
}

/// Why a token is refused.
public enum TokenFault: Error, Sendable, Hashable {
    /// Not three parts of base64url with JSON objects in the first two, or too long.
    case malformed
    /// Signed with an algorithm other than the key's, or not at all.
    case algorithm
    /// The key is not, or no longer, one of the issuer's.
    case unknownKey
    /// The keys of its issuer cannot be fetched, and none are cached.
    case keysUnavailable
    /// The signature does not match key and content.
    case signature
    /// The issuer is not trusted.
    case issuer
    /// Issued for another audience.
    case audience
    /// The subject is missing or invalid.
    case subject
    /// It has expired, or has no expiry.
    case expired
    /// Issued in the future.
    case notYetValid
    /// Issued before the account's tokens were revoked, or its session is over.
    case revoked
    /// Issued before the account's claims were last changed, or before it was last disabled.
    case superseded
    /// The account is disabled.
    case disabled
    /// The account does not exist (any more).
    case noAccount
    /// The store failed.
    case unavailable

    /// A description for error texts and logs; contains no part of the token.
    public var text: String {
        switch self {
        case .malformed: "it is not a signed token"
        case .algorithm: "it is signed by an algorithm that is not accepted here"
        case .unknownKey: "it is signed by an unknown key"
        case .keysUnavailable: "the keys of its issuer cannot be fetched"
        case .signature: "its signature does not fit"
        case .issuer: "its issuer (iss) is not trusted here"
        case .audience: "it is meant for another audience (aud)"
        case .subject: "it names no subject (sub) of 1 to 128 characters"
        case .expired: "its time (exp) is over"
        case .notYetValid: "it is issued in the future (iat, auth_time)"
        case .revoked: "it is revoked"
        case .superseded: "its account's claims have changed since"
        case .disabled: "its account is disabled"
        case .noAccount: "its account is gone"
        case .unavailable: "the account store does not answer"
        }
    }
}
