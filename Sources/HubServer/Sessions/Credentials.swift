import HubEngine
import JSONTree

/// Turns a credential into an identity (contract §8.1).
///
/// Until accounts exist nobody but a development server can check a token: there the constant `owner` is the administrator
/// and unsigned tokens are trusted, as the SDKs' emulator mode sends them.
struct Credentials {
    let isDev: Bool

    static let badToken = Failure(.invalidToken, "Could not parse auth token.")

    /// - Parameters:
    ///   - override: the identity that an administrator wants rules applied as; `.some(.null)` for nobody.
    func identity(for credential: String, override: Node? = nil) throws(Failure) -> Identity {
        if credential == "owner" {
            guard isDev else { throw Self.badToken }
            return override.map { Identity(auth: $0) } ?? .admin
        }
        let parts = credential.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.json(parts[0]), let claims = Self.json(parts[1]) else { throw Self.badToken }
        if header.child("alg") == "none" || parts[2].isEmpty {
            guard isDev, parts[2].isEmpty else { throw Self.badToken }
            return try Self.identity(claims)
        }
        // A signed token of somebody else's service. An error would send the SDK into reconnecting for ever (contract §2.4),
        // trust is out of the question: the client stays anonymous.
        return .anonymous
    }

    private static func identity(_ claims: Node) throws(Failure) -> Identity {
        let subject = claims.child("sub").exists ? claims.child("sub") : claims.child("user_id")
        guard case .string = subject else { throw badToken }
        let provider = claims.child("firebase").child("sign_in_provider")
        let auth: Node = ["uid": subject, "provider": provider.exists ? provider : "custom", "token": claims]
        return Identity(auth: auth)
    }

    /// The JSON object in a base64url part of a token.
    private static func json(_ part: Substring) -> Node? {
        guard let bytes = decode(part.utf8) else { return nil }
        return bytes.withUnsafeBytes { buffer in
            var reader = JSONReader(buffer)
            return try? reader.claims()
        }
    }

    /// Base64url without padding (RFC 7515 §2).
    private static func decode(_ text: Substring.UTF8View) -> [UInt8]? {
        var out: [UInt8] = []
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
