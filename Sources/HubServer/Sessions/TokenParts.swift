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
        guard let bytes = decode(part) else { return nil }
        return bytes.withUnsafeBytes { buffer in
            var reader = JSONReader(buffer)
            return try? reader.claims()
        }
    }

    /// Base64url without padding (RFC 7515 §2).
    private static func decode(_ text: Substring.UTF8View) -> [UInt8]? {
        var out: [UInt8] = []
        out.reserveCapacity(text.count * 3 / 4)
        var (bits, held) = (UInt32(0), 0)
        for byte in text {
            let value: UInt8
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = byte - UInt8(ascii: "A")
            case UInt8(ascii: "a")...UInt8(ascii: "z"): value = byte - UInt8(ascii: "a") + 26
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = byte - UInt8(ascii: "0") + 52
            case UInt8(ascii: "-"), UInt8(ascii: "+"): value = 62
            case UInt8(ascii: "_"), UInt8(ascii: "/"): value = 63
            case UInt8(ascii: "="): continue
            default: return nil
            }
            bits = bits << 6 | UInt32(value)
            held += 6
            if held >= 8 {
                held -= 8
                out.append(UInt8(truncatingIfNeeded: bits >> UInt32(held)))
            }
        }
        return out
    }
}
