import JSONTree

/// The unverified content of a token.
enum TokenParts {
    /// The claims of a token with three parts. Its signature is not checked.
    static func claims(of token: String) -> Node? {
        parts(of: token).flatMap { json($0[1]) }
    }

    /// Bytes of the longest token: as much as a request line carries. A longer credential is refused unread.
    static let maxBytes = 16 << 10

    /// The three parts of a token; nil if it has more or fewer, or is too long. O(length), and O(1) beyond `maxBytes`.
    static func parts(of token: String) -> [Substring.UTF8View]? {
        guard token.utf8.count <= maxBytes else { return nil }
        let parts = token.utf8.split(separator: UInt8(ascii: "."), maxSplits: 3, omittingEmptySubsequences: false)
        return parts.count == 3 ? parts : nil
    }

    /// The token's user: `sub`, else `user_id`.
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
