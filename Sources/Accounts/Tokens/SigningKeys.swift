import JSONTree
import Synchronization

/// The keys of this service's tokens: the one that signs, and older ones, whose tokens are accepted until the last of them has
/// run out. From any thread.
///
/// A new key signs from its first moment on: the one hub that signs is also the one that verifies and publishes. Somebody else's
/// verifier that holds an older key set fetches the new one when it meets the new `kid`.
public final class SigningKeys: Sendable {
    private struct State {
        /// The one that signs first, then older ones.
        var keys: [SigningKey]
        /// What `jwks` last said, and until when it is right (ms since the epoch).
        var published: (bytes: [UInt8], until: Int64)?
    }

    private let state: Mutex<State>
    /// ms that the tokens of a retired key are still good for.
    private let lifetimeMs: Int64
    private let now: @Sendable () -> Int64

    /// - Parameters:
    ///   - keys: exactly one of them not retired.
    ///   - lifetimeSeconds: how long an ID token lives, with the leeway that it is given.
    ///   - now: the wall clock in ms since the epoch.
    init(_ keys: [SigningKey], lifetimeSeconds: Int, now: @escaping @Sendable () -> Int64) throws {
        lifetimeMs = Int64(lifetimeSeconds) * 1000
        self.now = now
        state = Mutex(State(keys: try Self.ordered(keys)))
    }

    /// There is no key to sign with.
    struct NoCurrentKey: Error {}

    private static func ordered(_ keys: [SigningKey]) throws -> [SigningKey] {
        guard keys.count(where: { $0.retiredAt == nil }) == 1 else { throw NoCurrentKey() }
        return keys.sorted { ($0.retiredAt ?? .max) > ($1.retiredAt ?? .max) }
    }

    /// Puts others in their place.
    func replace(by keys: [SigningKey]) throws {
        let keys = try Self.ordered(keys)
        state.withLock { $0 = State(keys: keys) }
    }

    /// When a key's last token has run out, ms since the epoch; nil for the one that signs.
    func end(of key: SigningKey) -> Int64? { key.retiredAt.map { $0 + lifetimeMs } }

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

    /// The live key that a token of ours begins with the header of.
    func key(of token: CompactToken) throws(TokenFault) -> VerifyingKey {
        let keys = state.withLock { $0.keys }
        let now = now()
        // Ours all begin alike, so that the header need not be read.
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
