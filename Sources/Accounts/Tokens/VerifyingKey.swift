import Crypto
import CryptoExtras
import Foundation
import JSONTree

/// How tokens are signed. No other algorithm exists for this service, `none` and the symmetric ones least of all.
public enum SignatureAlgorithm: String, Sendable, CaseIterable {
    /// RSASSA-PKCS1-v1_5 with SHA-256: what drop-in verifiers expect.
    case rs256 = "RS256"
    /// ECDSA on P-256 with SHA-256.
    case es256 = "ES256"
}

/// A public key with its name and the one algorithm that it is for.
struct VerifyingKey: Sendable {
    private enum Material: Sendable {
        case rsa(_RSA.Signing.PublicKey)
        case p256(P256.Signing.PublicKey)
    }

    /// `kid`
    let id: String
    private let material: Material

    var algorithm: SignatureAlgorithm {
        switch material {
        case .rsa: .rs256
        case .p256: .es256
        }
    }

    /// - Parameter id: `kid`; nil for the key's thumbprint.
    init(_ key: _RSA.Signing.PublicKey, id: String? = nil) throws {
        material = .rsa(key)
        self.id = try id ?? Self.thumbprint(material)
    }

    init(_ key: P256.Signing.PublicKey, id: String? = nil) throws {
        material = .p256(key)
        self.id = try id ?? Self.thumbprint(material)
    }

    /// Whether this key's owner signed `bytes`. An RSA signature of 2048 bits takes about 25 µs.
    func isSignature(_ signature: [UInt8], of bytes: UnsafeRawBufferPointer) -> Bool {
        let digest = SHA256.hash(bytes)
        switch material {
        case .rsa(let key): return key.isValidSignature(_RSA.Signing.RSASignature(rawRepresentation: signature), for: digest, padding: .insecurePKCS1v1_5)
        case .p256(let key):
            guard let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature) else { return false }
            return key.isValidSignature(signature, for: digest)
        }
    }

    // MARK: JSON Web Key

    /// The key for a key set (RFC 7517).
    func jwk() throws -> [UInt8] {
        var writer = JSONWriter()
        writer.raw("{\"use\":\"sig\",\"alg\":")
        writer.string(algorithm.rawValue)
        writer.raw(",\"kid\":")
        writer.string(id)
        for (name, value) in try Self.required(material) {
            writer.raw(",\"")
            writer.raw(name.utf8)
            writer.raw("\":")
            writer.string(value)
        }
        writer.raw("}")
        return writer.bytes
    }

    /// SHA-256 of the key's required members in lexicographic order (RFC 7638), base64url.
    private static func thumbprint(_ material: Material) throws -> String {
        let members = try required(material).map { "\"\($0)\":\"\($1)\"" }.joined(separator: ",")
        return Base64.encodeURL(SHA256.hash(data: Data("{\(members)}".utf8)))
    }

    /// The members that make the key, by name.
    private static func required(_ material: Material) throws -> [(String, String)] {
        switch material {
        case .rsa(let key):
            let numbers = try key.getKeyPrimitives()
            return [("e", Base64.encodeURL(numbers.publicExponent)), ("kty", "RSA"), ("n", Base64.encodeURL(numbers.modulus))]
        case .p256(let key):
            let point = key.rawRepresentation
            return [("crv", "P-256"), ("kty", "EC"), ("x", Base64.encodeURL(point.prefix(32))), ("y", Base64.encodeURL(point.suffix(32)))]
        }
    }
}

extension SHA256 {
    /// Of bytes that are nobody's `Data`.
    static func hash(_ bytes: UnsafeRawBufferPointer) -> SHA256Digest {
        var hash = SHA256()
        hash.update(bufferPointer: bytes)
        return hash.finalize()
    }
}
