import Cryptography
import JSONTree

/// Encryption of a push message (RFC 8291) in one record of `aes128gcm` (RFC 8188):
///
///     salt (16) │ record size (4) │ 65 │ our public key (65) │ ciphertext, tag (16)
enum WebPushEncryption {
    /// The longest message: services must accept bodies of 4,096 bytes (RFC 8030 §7.2), of which 86 are the header, 16 the tag and one the
    /// delimiter (RFC 8291 §4).
    static let maxBytes = 3_993
    /// The record size of the header: larger than every record.
    private static let recordSize: UInt32 = 4_096

    /// - Parameters:
    ///   - ephemeral: a new key for each message.
    ///   - salt: 16 random bytes.
    /// - Throws: if libcrypto refuses.
    static func encrypt(
        _ message: [UInt8], for subscription: PushSubscription, ephemeral: PrivateKey, salt: [UInt8]
    ) throws(CryptographyError) -> [UInt8] {
        guard message.count <= maxBytes, let theirs = subscription.key.point, let ours = ephemeral.publicKey.point else { throw .refused }
        let shared = try ephemeral.sharedSecret(with: subscription.key)
        // RFC 8291 §3.4
        let secret = KeyDerivation.hkdfSHA256(
            secret: shared, salt: subscription.authentication.copy, info: info("WebPush: info") + theirs + ours, count: 32)
        // RFC 8188 §2.2, §2.3
        let key = KeyDerivation.hkdfSHA256(secret: secret, salt: salt, info: info("Content-Encoding: aes128gcm"), count: 16)
        let nonce = KeyDerivation.hkdfSHA256(secret: secret, salt: salt, info: info("Content-Encoding: nonce"), count: 12).copy
        var body = salt
        body.reserveCapacity(salt.count + 4 + 1 + ours.count + message.count + 17)
        withUnsafeBytes(of: recordSize.bigEndian) { body.append(contentsOf: $0) }
        body.append(UInt8(ours.count))
        body += ours
        // 2 delimits the padding of the last record (RFC 8188 §2).
        body += try KeyDerivation.aes128GCM(message + [2], key: key, nonce: nonce)
        return body
    }

    private static func info(_ text: String) -> [UInt8] { Array(text.utf8) + [0] }
}
