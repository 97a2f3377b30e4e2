import JSONTree

/// What the claims of a token must say to be accepted (accounts contract §5.2). Checks no signature.
struct TokenExpectations: Sendable {
    /// `iss` is one of these, to the letter.
    var issuers: [String]
    /// `aud` is one of these; a list holds one of them, and then `azp` is one of them too.
    var audiences: [String]
    /// Whether `azp`, where there is one, must be one of the audiences.
    var checksAuthorizedParty = false

    /// Whether a time of issue or sign-in that is still to come is a reason to refuse.
    var refusesFuture = true

    /// Most characters of `sub`.
    var subjectLength = 128

    /// Seconds that clocks may be ahead of ours.
    static let skewSeconds: Int64 = 60

    /// - Parameters:
    ///   - now: seconds since the epoch.
    ///   - leeway: seconds after its end that the token still counts.
    func check(_ claims: Node, now: Int64, leeway: Int) throws(TokenFault) {
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
        switch claims.child("aud") {
        case .string(let audience):
            guard isAudience(audience) else { throw .audience }
            guard checksAuthorizedParty, claims.child("azp").exists else { return }
        case .object(let list):
            // A list of several without `azp` says nothing of who asked for the token (OpenID Connect §3.1.3.7).
            guard list.children.contains(where: { if case .string(let audience) = $0.node { isAudience(audience) } else { false } }) else {
                throw .audience
            }
            guard list.children.count > 1 || claims.child("azp").exists else { return }
        default: throw .audience
        }
        guard case .string(let party) = claims.child("azp"), isAudience(party) else { throw .audience }
    }

    private func isAudience(_ text: Text) -> Bool { audiences.contains { Text($0) == text } }

    /// `sub`: a string that is not empty.
    static func subject(_ claims: Node, length: Int = 128) throws(TokenFault) -> String {
        guard case .string(let subject) = claims.child("sub"), isSubject(subject.string, length: length) else { throw .subject }
        return subject.string
    }

    /// - Parameter length: most characters.
    static func isSubject(_ text: String, length: Int = 128) -> Bool {
        !text.isEmpty && (text.utf8.count <= length || text.unicodeScalars.count <= length)
    }
}

extension Node {
    /// A time in seconds since the epoch; fractions are dropped (RFC 7519 §2).
    func seconds(_ name: Key) -> Int64? {
        switch child(name) {
        case .int(let seconds): seconds
        case .double(let seconds): Int64(exactly: seconds.rounded(.down))
        default: nil
        }
    }

    func text(_ name: Key) -> String? { if case .string(let text) = child(name) { text.string } else { nil } }
}

extension Int64 {
    /// The sum, or the end of the range.
    func addingClamped(_ other: Int64) -> Int64 {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? (other < 0 ? .min : .max) : sum
    }
}
