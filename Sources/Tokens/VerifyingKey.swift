package import Cryptography
import JSONTree

/// The supported signature algorithms; `none` and symmetric ones are never accepted.
public enum SignatureAlgorithm: String, Sendable, CaseIterable {
    /// RSASSA-PKCS1-v1_5 with SHA-256: the default that most verifiers expect.
    case rs256 = "RS256"
    /// ECDSA on P-256 with SHA-256.
    case es256 = "ES256"

    /// The type of its keys.
    package var keyKind: KeyKind {
        switch self {
        case .rs256: .rsa
        case .es256: .p256
        }
    }
}

/// A public key with its id and its only algorithm.
package struct VerifyingKey: Sendable {
    /// `kid`
    package let id: String
    private let key: PublicKey

    package var algorithm: SignatureAlgorithm {
        switch key.kind {
        case .rsa: .rs256
        case .p256: .es256
        }
    }

    /// - Parameter id: `kid`; nil for the key's thumbprint.
    package init(_ key: PublicKey, id: String? = nil) {
        self.key = key
        self.id = id ?? Self.thumbprint(key.numbers)
    }

    /// Whether this key's owner signed `bytes`. An RSA signature of 2048 bits takes about 25 µs.
    package func isSignature(_ signature: [UInt8], of bytes: UnsafeRawBufferPointer) -> Bool {
        key.isSignature(signature, of: bytes)
    }

    // MARK: JSON Web Key

    /// The key for a key set (RFC 7517).
    package func jwk() -> [UInt8] {
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

    /// The key's required members, by name.
    private static func required(_ numbers: KeyNumbers) -> [(String, String)] {
        switch numbers {
        case .rsa(let modulus, let exponent): [("e", Base64.encodeURL(exponent)), ("kty", "RSA"), ("n", Base64.encodeURL(modulus))]
        case .p256(let x, let y): [("crv", "P-256"), ("kty", "EC"), ("x", Base64.encodeURL(x)), ("y", Base64.encodeURL(y))]
        }
    }
}

/// The usable verification keys of a JSON Web Key Set (RFC 7517 §5). Other keys are ignored.
package struct KeySet {
    package let keys: [VerifyingKey]

    /// - Parameter limit: the most keys to parse.
    /// - Throws: if the document is not a key set.
    package init(_ bytes: [UInt8], limit: Int) throws(KeyFetchFault) {
        guard let set = try? JSONValue(bytes), let list = set["keys"]?.elements else { throw .content("the document is no key set") }
        keys = list.prefix(limit).compactMap(Self.key)
    }

    private static func key(_ value: JSONValue) -> VerifyingKey? {
        // A key without an id cannot be looked up, and an encryption key signs nothing.
        guard let id = value["kid"]?.string, value["use"].map({ $0 == "sig" }) ?? true else { return nil }
        func bytes(_ name: String, _ lengths: ClosedRange<Int>) -> [UInt8]? {
            guard let bytes = value[name]?.string.flatMap({ Base64.decodeURL($0) }), lengths.contains(bytes.count) else { return nil }
            return bytes
        }
        let numbers: KeyNumbers
        switch value["kty"]?.string {
        case "RSA":
            // 2,048 to 8,192 bits: shorter keys are weak, and longer ones only cost time.
            guard let n = bytes("n", 256...1024), let e = bytes("e", 1...4) else { return nil }
            numbers = .rsa(modulus: n, exponent: e)
        case "EC" where value["crv"] == "P-256":
            guard let x = bytes("x", 32...32), let y = bytes("y", 32...32) else { return nil }
            numbers = .p256(x: x, y: y)
        default: return nil
        }
        guard let key = (try? PublicKey(numbers)).map({ VerifyingKey($0, id: id) }) else { return nil }
        return value["alg"].map { $0.string == key.algorithm.rawValue } ?? true ? key : nil
    }
}

/// The location of an issuer's keys.
public enum KeyLocation: Sendable, Hashable {
    /// The URL of a JSON Web Key Set.
    case keySet(String)
    /// OpenID Connect Discovery: the URL is in the issuer's `/.well-known/openid-configuration`.
    case discovery(issuer: String)
}
