package import Cryptography
import JSONTree
import Synchronization

/// The keys of this service's tokens: the current signing key, and older ones, whose tokens are accepted until the last of them expires. From
/// any thread.
///
/// A new key signs immediately: the hub that signs also verifies and publishes. Other verifiers with an older key set fetch the new one when
/// they meet the new `kid`.
public final class SigningKeys: Sendable {
    private struct State {
        /// The signing key first, then older ones.
        var keys: [SigningKey]
        /// The cached result of `jwks`, and how long it is valid (ms since the epoch).
        var published: (bytes: [UInt8], until: Int64)?
    }

    private let state: Mutex<State>
    /// Milliseconds for which tokens of a retired key are still valid.
    private let lifetimeMs: Int64
    private let now: @Sendable () -> Int64

    /// - Parameters:
    ///   - keys: exactly one of them is not retired.
    ///   - lifetimeSeconds: the lifetime of an ID token, including leeway.
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

    /// When a key's last token expires, in ms since the epoch; nil for the signing key.
    package func end(of key: SigningKey) -> Int64? { key.retiredAt.map { $0 + lifetimeMs } }

    private func isLive(_ key: SigningKey, _ now: Int64) -> Bool { end(of: key).map { now < $0 } ?? true }

    /// The id (`kid`) of the signing key: its thumbprint (RFC 7638).
    public var currentID: String { state.withLock { $0.keys[0].verifying.id } }

    /// Signs with the current key.
    /// - Returns: a compact JWS.
    public func sign(_ payload: [UInt8]) throws -> String {
        // Outside the lock, as it takes most of a millisecond.
        try state.withLock { $0.keys[0] }.sign(payload)
    }

    /// The payload of a token signed by one of these keys. Checks only the signature.
    public func payload(of token: String) throws(TokenFault) -> [UInt8] {
        try token.readCompact { token throws(TokenFault) in try token.payload(by: try key(of: token)) }
    }

    /// The valid key that matches the token's header.
    package func key(of token: CompactToken) throws(TokenFault) -> VerifyingKey {
        let keys = state.withLock { $0.keys }
        let now = now()
        // All tokens of one key have the same header text, so it need not be parsed.
        let header = token.headerText
        if let key = keys.first(where: { $0.headerText.withUnsafeBytes { $0.elementsEqual(header) } }) {
            guard isLive(key, now) else { throw .unknownKey }
            return key.verifying
        }
        return try token.header().key(in: keys.lazy.filter { self.isLive($0, now) }.map(\.verifying))
    }

    /// The public keys as a JSON Web Key Set (accounts contract §5.2), including older ones until they expire.
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

/// A row of the table `signing_key`. A secret: store it only in the account store, whose file only its owner can read.
package struct StoredSigningKey: Sendable {
    package let algorithm: SignatureAlgorithm
    /// PKCS #8, DER.
    package let privateKey: SecretBytes
    /// ms since the epoch.
    package let createdAt: Int64
    /// When it was replaced, in ms since the epoch; nil for the signing key.
    package var retiredAt: Int64?

    package init(algorithm: SignatureAlgorithm, privateKey: SecretBytes, createdAt: Int64, retiredAt: Int64? = nil) {
        self.algorithm = algorithm
        self.privateKey = privateKey
        self.createdAt = createdAt
        self.retiredAt = retiredAt
    }

    /// Creates a key; RSA of 2048 bits takes some tenths of a second.
    package static func generate(_ algorithm: SignatureAlgorithm, now: Int64) throws -> StoredSigningKey {
        StoredSigningKey(algorithm: algorithm, privateKey: try PrivateKey.make(algorithm.keyKind).der(), createdAt: now)
    }
}

/// A private key that is ready for use.
package struct SigningKey: Sendable {
    package let verifying: VerifyingKey
    /// The text with which every token of this key begins, up to and including the first dot: `eyJ….`
    package let headerText: [UInt8]
    /// The public half, for a key set.
    package let jwk: [UInt8]
    /// ms since the epoch; see `StoredSigningKey`.
    package let retiredAt: Int64?
    private let key: PrivateKey

    /// - Throws: if the bytes are not a private key of that algorithm.
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

    /// Signs a payload as a compact JWS. Takes about 0.7 ms with RSA.
    package func sign(_ payload: [UInt8]) throws -> String {
        var text = headerText
        payload.withUnsafeBytes { Base64.appendURL($0, to: &text) }
        let signature = try text.withUnsafeBytes { try key.sign($0) }
        text.append(UInt8(ascii: "."))
        signature.withUnsafeBytes { Base64.appendURL($0, to: &text) }
        return String(decoding: text, as: UTF8.self)
    }
}
