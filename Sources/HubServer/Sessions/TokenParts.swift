import JSONTree

/// What a token says of itself, believed or not.
enum TokenParts {
    /// The claims of a token with three parts, without a look at its signature.
    static func claims(of token: String) -> Node? {
        let parts = token.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return parts.count == 3 ? json(parts[1]) : nil
    }

    /// Who the token is of.
    static func subject(_ claims: Node) -> Node {
        let subject = claims.child("sub")
        return subject.exists ? subject : claims.child("user_id")
    }

    /// The JSON object in a base64url part of a token.
    static func json(_ part: Substring.UTF8View) -> Node? {
        guard let bytes = Base64.decodeURL(Substring(part)) else { return nil }
        return bytes.withUnsafeBytes { buffer in
            var reader = JSONReader(buffer)
            return try? reader.claims()
        }
    }
}
