import JSONTree

/// Claims that an administrator gives an account, or a custom token a session: members of a JSON object that become the ID
/// token's (accounts contract §5.1).
struct CustomClaims: Sendable, Equatable {
    /// Name and JSON text of each, in the order they were written; of a name given twice, the last.
    private(set) var members: [(name: String, json: [UInt8])] = []

    static let none = CustomClaims()

    private init() {}

    /// Names that tokens use themselves.
    static let forbidden: Set<String> = [
        "acr", "amr", "at_hash", "aud", "auth_time", "azp", "c_hash", "cnf", "exp", "firebase", "iat", "iss", "jti", "nbf", "nonce", "sub",
    ]

    /// Claims that somebody wants to set.
    /// - Parameters:
    ///   - json: a JSON object.
    ///   - length: most Unicode scalars of its text (`AccountSettings.claimsLength`).
    /// - Throws: INVALID_CLAIMS, CLAIMS_TOO_LARGE, `FORBIDDEN_CLAIM : name`.
    init(json: String, length: Int) throws(AccountError) {
        guard json.utf8.count <= length || json.unicodeScalars.count <= length else { throw AccountError("CLAIMS_TOO_LARGE") }
        guard let claims = CustomClaims(stored: json) else { throw AccountError("INVALID_CLAIMS") }
        if let name = claims.members.first(where: { Self.forbidden.contains($0.name) })?.name {
            throw AccountError("FORBIDDEN_CLAIM", name)
        }
        self = claims
    }

    /// Claims that were accepted before; nil for a text that is no JSON object, or nests deeper than any token may.
    init?(stored json: String) {
        let bytes = Array(json.utf8)
        let members: [(String, [UInt8])]? = bytes.withUnsafeBytes { buffer in
            do throws(JSONError) {
                // Looked at once as a whole: what is not within a token's depth would make the token unreadable.
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
    init(column: String?) { self = column.flatMap { CustomClaims(stored: $0) } ?? .none }

    /// These, and for the same name those of `other`.
    func merged(with other: CustomClaims) -> CustomClaims {
        guard !other.members.isEmpty else { return self }
        var merged = self
        merged.members.removeAll { member in other.members.contains { $0.name == member.name } }
        merged.members += other.members
        return merged
    }

    var isEmpty: Bool { members.isEmpty }

    var json: String {
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

    static func == (a: CustomClaims, b: CustomClaims) -> Bool { a.json == b.json }
}
