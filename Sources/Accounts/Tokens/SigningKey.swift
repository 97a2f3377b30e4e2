import Crypto
import CryptoExtras
import Foundation
import JSONTree

/// A row of the table `signing_key`. A secret: it goes into the store, whose file only its owner can read, and nowhere else.
struct StoredSigningKey: Sendable {
    let algorithm: SignatureAlgorithm
    /// PKCS #8, DER.
    let privateKey: [UInt8]
    /// ms since the epoch.
    let createdAt: Int64
    /// When another took its place, ms since the epoch; nil for the one that signs.
    var retiredAt: Int64?

    /// Makes a key; RSA of 2048 bits takes some tenths of a second.
    static func generate(_ algorithm: SignatureAlgorithm, now: Int64) throws -> StoredSigningKey {
        let bytes: Data = switch algorithm {
        case .rs256: try _RSA.Signing.PrivateKey(keySize: .bits2048).pkcs8DERRepresentation
        case .es256: P256.Signing.PrivateKey().derRepresentation
        }
        return StoredSigningKey(algorithm: algorithm, privateKey: [UInt8](bytes), createdAt: now)
    }
}

/// A private key that is ready for use.
struct SigningKey: Sendable {
    private enum Material: Sendable {
        case rsa(_RSA.Signing.PrivateKey)
        case p256(P256.Signing.PrivateKey)
    }

    let verifying: VerifyingKey
    /// The text that every token of this key begins with, up to the first dot: `eyJ….`
    let headerText: [UInt8]
    /// The public half for a key set.
    let jwk: [UInt8]
    /// ms since the epoch; see `StoredSigningKey`.
    let retiredAt: Int64?
    private let material: Material

    /// - Throws: when the bytes are not a private key of that algorithm.
    init(_ stored: StoredSigningKey) throws {
        switch stored.algorithm {
        case .rs256:
            let key = try _RSA.Signing.PrivateKey(derRepresentation: stored.privateKey)
            material = .rsa(key)
            verifying = try VerifyingKey(key.publicKey)
        case .es256:
            let key = try P256.Signing.PrivateKey(derRepresentation: stored.privateKey)
            material = .p256(key)
            verifying = try VerifyingKey(key.publicKey)
        }
        jwk = try verifying.jwk()
        retiredAt = stored.retiredAt
        var header = JSONWriter()
        header.raw("{\"alg\":")
        header.string(verifying.algorithm.rawValue)
        header.raw(",\"kid\":")
        header.string(verifying.id)
        header.raw(",\"typ\":\"JWT\"}")
        headerText = Array((Base64.encodeURL(header.bytes) + ".").utf8)
    }

    /// A compact JWS. About 0.7 ms with RSA.
    func sign(_ payload: [UInt8]) throws -> String {
        var text = headerText
        payload.withUnsafeBytes { Base64.appendURL($0, to: &text) }
        let digest = text.withUnsafeBytes { SHA256.hash($0) }
        let signature: Data = switch material {
        case .rsa(let key): try key.signature(for: digest, padding: .insecurePKCS1v1_5).rawRepresentation
        case .p256(let key): try key.signature(for: digest).rawRepresentation
        }
        text.append(UInt8(ascii: "."))
        signature.withUnsafeBytes { Base64.appendURL($0, to: &text) }
        return String(decoding: text, as: UTF8.self)
    }
}
