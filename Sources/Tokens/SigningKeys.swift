package import Cryptography
import JSONTree
import Synchronization

/// The keys of this service's tokens: the one that signs, and older ones, whose tokens are accepted until the last of them
/// expires. From any thread.
///
/// A new key signs from its first moment on: the one hub that signs is also the one that verifies and publishes. A foreign
/// verifier that holds an older key set fetches the new one when it meets the new `kid`.
public final class SigningKeys: Sendable {
    private struct State {
        /// The one that signs first, then older ones.
        var keys: [SigningKey]
        /// The last result of `jwks`, and until when it is valid (ms since the epoch).
        var published: (bytes: [UInt8], until: Int64)?
    }

    private let state: Mutex<State>
    /// ms for which the tokens of a retired key are still valid.
    private let lifetimeMs: Int64
    private let now: @Sendable () -> Int64

    /// - Parameters:
    ///   - keys: exactly one of them not retired.
    ///   - lifetimeSeconds: how long an ID token lives, with the leeway that it is given.
    ///   - now: the wall clock in ms since the epoch.
    package init(_ keys: [SigningKey], lifetimeSeconds: Int, now: @escaping @Sendable () -> Int64) throws {
        lifetimeMs = Int64(lifetimeSeconds) * 1000
        self.now = now
        state = Mutex(State(keys: try Self.ordered(keys)))
    }

    /// No key signs.
    package struct NoCurrentKey: Error {}

    private static func ordered(_ keys: [SigningKey]) throws -> [SigningKey] {
        guard keys.count(where: { $0.retiredAt == nil }) == 1 else { throw NoCurrentKey() }
        return keys.sorted { ($0.retiredAt ?? .max) > ($1.retiredAt ?? .max) }
    }

    /// Replaces the keys.
    package func replace(by keys: [SigningKey]) throws {
        let keys = try Self.ordered(keys)
        state.withLock { $0 = State(keys: keys) }
    }

    /// When a key's last token expires, ms since the epoch; nil for the one that signs.
    package func end(of key: SigningKey) -> Int64? { key.retiredAt.map { $0 + lifetimeMs } }

    private func isLive(_ key: SigningKey, _ now: Int64) -> Bool { end(of: key).map { now < $0 } ?? true }

    /// The name of the key that signs (`kid`): its thumbprint (RFC 7638).
    public var currentID: String { state.withLock { $0.keys[0].verifying.id } }

    /// Signs with the current key.
    /// - Returns: a compact JWS.
    public func sign(_ payload: [UInt8]) throws -> String {
        // Outside of the lock: it takes most of a millisecond.
        try state.withLock { $0.keys[0] }.sign(payload)
    }

    /// The content of a token that one of these keys signed. Nothing else is checked.
    public func payload(of token: String) throws(TokenFault) -> [UInt8] {
        try token.readCompact { token throws(TokenFault) in try token.payload(by: try key(of: token)) }
    }

    /// The valid key whose header the token begins with.
    package func key(of token: CompactToken) throws(TokenFault) -> VerifyingKey {
        let keys = state.withLock { $0.keys }
        let now = now()
        // All tokens of one key have the same header, so it need not be parsed.
        let header = token.headerText
        if let key = keys.first(where: { $0.headerText.withUnsafeBytes { $0.elementsEqual(header) } }) {
            guard isLive(key, now) else { throw .unknownKey }
            return key.verifying
        }
        return try token.header().key(in: keys.lazy.filter { self.isLive($0, now) }.map(\.verifying))
    }

    /// The public keys as a JSON Web Key Set (accounts contract §5.2), also of older ones until their end.
    public var jwks: [UInt8] {
        let now = now()
        return state.withLock { state in
            if let published = state.published, now < published.until { return published.bytes }
            let live = state.keys.filter { isLive($0, now) }
            var writer = JSONWriter()
            writer.raw("{\"keys\":[")
            for (i, key) in live.enumerated() {
                if i > 0 { writer.raw(",") }
                writer.raw(key.jwk)
            }
            writer.raw("]}")
            state.published = (writer.bytes, live.compactMap(end).min() ?? .max)
            return writer.bytes
        }
    }
}

/// A row of the table `signing_key`. A secret: it goes into the store, whose file only its owner can read, and nowhere else.
package struct StoredSigningKey: Sendable {
    package let algorithm: SignatureAlgorithm
    /// PKCS #8, DER.
    package let privateKey: SecretBytes
    /// ms since the epoch.
    package let createdAt: Int64
    /// When it was replaced, ms since the epoch; nil for the one that signs.
    package var retiredAt: Int64?

    package init(algorithm: SignatureAlgorithm, privateKey: SecretBytes, createdAt: Int64, retiredAt: Int64? = nil) {
        self.algorithm = algorithm
        self.privateKey = privateKey
        self.createdAt = createdAt
        self.retiredAt = retiredAt
    }

    /// Makes a key; RSA of 2048 bits takes some tenths of a second.
    package static func generate(_ algorithm: SignatureAlgorithm, now: Int64) throws -> StoredSigningKey {
        StoredSigningKey(algorithm: algorithm, privateKey: try PrivateKey.make(algorithm.keyKind).der(), createdAt: now)
    }
}

/// A private key that is ready for use.
package struct SigningKey: Sendable {
    package let verifying: VerifyingKey
    /// The text that every token of this key begins with, up to the first dot: `eyJ….`
    package let headerText: [UInt8]
    /// The public half for a key set.
    package let jwk: [UInt8]
    /// ms since the epoch; see `StoredSigningKey`.
    package let retiredAt: Int64?
    private let key: PrivateKey

    /// - Throws: when the bytes are not a private key of that algorithm.
    package init(_ stored: StoredSigningKey) throws {
        key = try PrivateKey(der: stored.privateKey)
        guard key.kind == stored.algorithm.keyKind else { throw CryptographyError.unsupportedKey }
        verifying = VerifyingKey(key.publicKey)
        jwk = verifying.jwk()
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
    package func sign(_ payload: [UInt8]) throws -> String {
        var text = headerText
        payload.withUnsafeBytes { Base64.appendURL($0, to: &text) }
        let signature = try text.withUnsafeBytes { try key.sign($0) }
        text.append(UInt8(ascii: "."))
        signature.withUnsafeBytes { Base64.appendURL($0, to: &text) }
        return String(decoding: text, as: UTF8.self)
    }
}
