import Cryptography
import JSONTree

/// How tokens are signed. No other algorithm exists for this service, `none` and the symmetric ones least of all.
public enum SignatureAlgorithm: String, Sendable, CaseIterable {
    /// RSASSA-PKCS1-v1_5 with SHA-256: what drop-in verifiers expect.
    case rs256 = "RS256"
    /// ECDSA on P-256 with SHA-256.
    case es256 = "ES256"

    /// What its keys are.
    var keyKind: KeyKind {
        switch self {
        case .rs256: .rsa
        case .es256: .p256
        }
    }
}

/// A public key with its name and the one algorithm that it is for.
struct VerifyingKey: Sendable {
    /// `kid`
    let id: String
    private let key: PublicKey

    var algorithm: SignatureAlgorithm {
        switch key.kind {
        case .rsa: .rs256
        case .p256: .es256
        }
    }

    /// - Parameter id: `kid`; nil for the key's thumbprint.
    init(_ key: PublicKey, id: String? = nil) {
        self.key = key
        self.id = id ?? Self.thumbprint(key.numbers)
    }

    /// Whether this key's owner signed `bytes`. An RSA signature of 2048 bits takes about 25 µs.
    func isSignature(_ signature: [UInt8], of bytes: UnsafeRawBufferPointer) -> Bool {
        key.isSignature(signature, of: bytes)
    }

    // MARK: JSON Web Key

    /// The key for a key set (RFC 7517).
    func jwk() -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"use\":\"sig\",\"alg\":")
        writer.string(algorithm.rawValue)
        writer.raw(",\"kid\":")
        writer.string(id)
        for (name, value) in Self.required(key.numbers) {
            writer.raw(",\"")
            writer.raw(name.utf8)
            writer.raw("\":")
            writer.string(value)
        }
        writer.raw("}")
        return writer.bytes
    }

    /// SHA-256 of the key's required members in lexicographic order (RFC 7638), base64url.
    private static func thumbprint(_ numbers: KeyNumbers) -> String {
        let members = required(numbers).map { "\"\($0)\":\"\($1)\"" }.joined(separator: ",")
        return Base64.encodeURL(HashFunction.sha256.hash("{\(members)}".utf8))
    }

    /// The members that make the key, by name.
    private static func required(_ numbers: KeyNumbers) -> [(String, String)] {
        switch numbers {
        case .rsa(let modulus, let exponent): [("e", Base64.encodeURL(exponent)), ("kty", "RSA"), ("n", Base64.encodeURL(modulus))]
        case .p256(let x, let y): [("crv", "P-256"), ("kty", "EC"), ("x", Base64.encodeURL(x)), ("y", Base64.encodeURL(y))]
        }
    }
}
