public import Cryptography
import JSONTree
import Synchronization

/// The key by which push services recognise this hub (RFC 8292). A browser binds each subscription to it: keep it with the data, for with
/// another key every device must subscribe again. A secret.
public struct VAPIDKey: Sendable {
    let key: PrivateKey
    /// The public half as base64 with the URL alphabet: `applicationServerKey` in a browser.
    public let publicText: String

    /// Creates a key.
    /// - Throws: `refused`, if out of memory.
    public static func make() throws(CryptographyError) -> VAPIDKey { try VAPIDKey(PrivateKey.make(.p256)) }

    /// - Parameter text: the result of `text`, or the 32 bytes of a private key in base64 with the URL alphabet, as other senders store it:
    ///   so a product that moves in keeps its subscriptions.
    /// - Throws: `malformedKey`, `unsupportedKey`.
    public init(text: String) throws(CryptographyError) {
        guard let bytes = Base64.decodeURL(text) else { throw .malformedKey }
        // SEC 1, appendix C.4, without the optional public key.
        let prefix: [UInt8] = [0x30, 0x31, 2, 1, 1, 4, 0x20], suffix: [UInt8] = [0xA0, 0x0A, 6, 8, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 3, 1, 7]
        try self.init(PrivateKey(der: SecretBytes(bytes.count == 32 ? prefix + bytes + suffix : bytes)))
    }

    init(_ key: PrivateKey) throws(CryptographyError) {
        guard let point = key.publicKey.point else { throw .unsupportedKey }
        self.key = key
        publicText = Base64.encodeURL(point)
    }

    /// The key to store: PKCS #8 in base64 with the URL alphabet.
    public func text() throws(CryptographyError) -> String { try key.der().withUnsafeBytes { Base64.encodeURL($0) } }
}

/// Signs the tokens that identify this hub to push services (RFC 8292 §2), and keeps each for hours, as services check a token once and
/// remember it. From any thread.
public final class VAPIDSigner: Sendable {
    private struct Issued {
        let header: String
        /// ms since the epoch.
        let renewAt: Int64
    }

    /// A token is valid for 12 hours, of the 24 allowed, and renewed after 6: so both clocks may be wrong by hours.
    static let lifeMs: Int64 = 12 * 3_600_000, renewalMs: Int64 = 6 * 3_600_000
    /// Most origins whose tokens are kept. There are about five services; users can name others.
    static let origins = 1_024

    public let key: VAPIDKey
    private let subject: String
    private let issued = Mutex<[String: Issued]>([:])

    /// - Parameter subject: how the push service reaches the operator: `mailto:ops@example.org`, or an https URL.
    public init(_ key: VAPIDKey, subject: String) {
        self.key = key
        self.subject = subject
    }

    /// The value of `Authorization` for a push service.
    /// - Parameters:
    ///   - origin: `https://push.example`.
    ///   - now: ms since the epoch.
    /// - Throws: if libcrypto refuses.
    func authorization(for origin: String, now: Int64) throws(CryptographyError) -> String {
        let known = issued.withLock { $0[origin] }
        // A clock that was set back must not keep a token that is valid for too long.
        if let known, now < known.renewAt, known.renewAt - now <= Self.renewalMs { return known.header }
        // Outside the lock: signing takes about 30 µs.
        // No space after the comma: not every parser accepts it.
        let header = "vapid t=\(try token(for: origin, now: now)),k=\(key.publicText)"
        issued.withLock { issued in
            if issued.count >= Self.origins { issued.removeAll() }
            issued[origin] = Issued(header: header, renewAt: now + Self.renewalMs)
        }
        return header
    }

    private func token(for origin: String, now: Int64) throws(CryptographyError) -> String {
        let header: JSONValue = ["typ": "JWT", "alg": "ES256"]
        let claims: JSONValue = ["aud": .string(origin), "exp": .int((now + Self.lifeMs) / 1000), "sub": .string(subject)]
        let signed = "\(Base64.encodeURL(header.bytes)).\(Base64.encodeURL(claims.bytes))"
        return "\(signed).\(Base64.encodeURL(try key.key.sign(signed.utf8)))"
    }
}
