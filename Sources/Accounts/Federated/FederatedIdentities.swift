import Cryptography
import JSONTree
import Logging
import Tokens

/// Verifies ID tokens of other services (accounts contract §7.2). The sign-in with a verified identity is decided elsewhere.
public actor FederatedIdentities {
    private struct Service {
        let provider: IdentityProvider
        let verifier: IssuerVerifier
    }

    private let services: [String: Service]
    private let isDev: Bool
    /// ms since the epoch.
    private let now: @Sendable () -> Int64
    private var replays: ReplayMemory

    /// - Parameters:
    ///   - isDev: also accepts unsigned tokens and bare JSON of any provider, like the stock emulator.
    ///   - replayLimit: the most tokens with a nonce to remember as used.
    ///   - steady: the clock by which key sets age; nil: the same.
    init(
        _ providers: [IdentityProvider], isDev: Bool, replayLimit: Int, fetcher: any KeyFetching, settings: KeyFetchSettings,
        logger: Logger, now: @escaping @Sendable () -> Int64, steady: (@Sendable () -> Int64)? = nil
    ) {
        self.isDev = isDev
        self.now = now
        replays = ReplayMemory(limit: replayLimit)
        services = Dictionary(
            providers.map { provider in
                let keys = RemoteKeys(provider.keys, fetcher: fetcher, settings: settings, logger: logger, now: steady ?? now)
                var expectations = TokenExpectations(issuers: provider.issuers, audiences: provider.clientIDs)
                expectations.checksAuthorizedParty = true
                expectations.subjectLength = 255
                let verifier = IssuerVerifier(expectations: expectations, algorithms: provider.algorithms, keys: keys, now: now)
                return (provider.id, Service(provider: provider, verifier: verifier))
            }, uniquingKeysWith: { $1 })
    }

    /// The configured providers.
    public nonisolated var providers: Set<String> { Set(services.keys) }

    /// Verifies a token that an app received from another service.
    ///
    /// A token with a nonce is valid once: call `release` if no user was signed in with it.
    /// - Parameters:
    ///   - provider: in lower case.
    ///   - nonce: the nonce that the app requested, before hashing.
    /// - Throws: OPERATION_NOT_ALLOWED for a provider that is not configured; `INVALID_IDP_RESPONSE : …`; `MISSING_OR_INVALID_NONCE : …`.
    public func verify(provider: String, idToken: String, nonce: String?) async throws(AccountError) -> FederatedIdentity {
        if isDev, let payload = UnsignedToken.payload(idToken) { return try Self.unsigned(payload, provider) }
        guard let service = services[provider] else {
            throw AccountError("OPERATION_NOT_ALLOWED", "The identity provider \(provider.prefix(64)) is not configured.")
        }
        let found: (payload: [UInt8], claims: Node)
        do {
            let id = try service.verifier.keyID(of: idToken)
            let key = try await service.verifier.key(id)
            found = try service.verifier.verify(idToken, by: key, leeway: 0)
        } catch {
            throw Self.refused(error.text)
        }
        if let domain = service.provider.hostedDomain, found.claims.text("hd")?.lowercased() != domain.lowercased() {
            throw Self.refused("it is not of the organisation \(domain)")
        }
        let replayKey = try checkNonce(nonce, found.claims, service.provider, idToken)
        do {
            return try FederatedIdentity(
                found.claims, payload: found.payload, provider: provider, domains: service.provider.authoritativeDomains,
                replayKey: replayKey)
        } catch { throw Self.refused(error.text) }
    }

    /// Makes the token usable again, as no user was signed in with it.
    public func release(_ identity: FederatedIdentity) {
        if let key = identity.replayKey { replays.release(key) }
    }

    private static func refused(_ why: String) -> AccountError { AccountError("INVALID_IDP_RESPONSE", "The ID token is refused: \(why).") }

    // MARK: Nonce

    /// - Returns: the key under which the token was recorded as used; nil if it has no nonce.
    private func checkNonce(
        _ nonce: String?, _ claims: Node, _ provider: IdentityProvider, _ token: String
    ) throws(AccountError) -> [UInt8]? {
        let nonce = nonce.flatMap { $0.isEmpty ? nil : $0 }
        let claim = claims.child("nonce")
        guard nonce != nil || claim.exists || provider.needsNonce else { return nil }
        guard let nonce, case .string(let claim) = claim else {
            throw AccountError("MISSING_OR_INVALID_NONCE", "Token and request must both have a nonce.")
        }
        guard claim == Text(Self.hash(nonce)) || (provider.acceptsPlainNonce && claim == Text(nonce)) else {
            throw AccountError("MISSING_OR_INVALID_NONCE", "The nonce of the request is not the token's.")
        }
        // Only the signed part, as some algorithms allow several signatures of the same token.
        let parts = token.utf8.split(separator: UInt8(ascii: "."), maxSplits: 2, omittingEmptySubsequences: false)
        let signed = parts.prefix(2).joined()
        let key = HashFunction.sha256.hash(signed)
        guard replays.use(key, until: claims.seconds("exp") ?? 0, now: now() / 1000) else {
            throw AccountError("MISSING_OR_INVALID_NONCE", "The token was used before; ask the provider for another.")
        }
        return key
    }

    private static func hash(_ nonce: String) -> String {
        let digits = Array("0123456789abcdef".utf8)
        let hash = HashFunction.sha256.hash(nonce.utf8)
        return String(decoding: hash.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }

    // MARK: Development

    private static func unsigned(_ payload: [UInt8], _ provider: String) throws(AccountError) -> FederatedIdentity {
        do {
            return try FederatedIdentity(
                try Node(claims: payload), payload: payload, provider: provider, domains: provider == "google.com" ? ["gmail.com"] : [],
                replayKey: nil)
        } catch { throw refused(error.text) }
    }
}

/// The development hub's substitute for a signed token: bare JSON, or a token with the algorithm `none`.
enum UnsignedToken {
    /// Nil if it has a signature, or is neither.
    static func payload(_ text: String) -> [UInt8]? {
        if text.utf8.first(where: { $0 != 0x20 && $0 != 0x0A && $0 != 0x0D && $0 != 0x09 }) == UInt8(ascii: "{") { return Array(text.utf8) }
        return try? text.readCompact { token throws(TokenFault) in
            guard !token.isSigned, try token.header().algorithm == "none" else { throw .algorithm }
            return try token.unverifiedPayload()
        }
    }
}

/// Used tokens with a nonce, until they expire. A pure value; the time is a parameter.
struct ReplayMemory {
    /// By hash of the token: when it expires, in seconds since the epoch.
    private var used: [[UInt8]: Int64] = [:]
    private let limit: Int

    /// - Parameter limit: the most tokens; beyond it those that expire first are removed.
    init(limit: Int) { self.limit = max(1, limit) }

    var count: Int { used.count }

    /// - Returns: false if it was used before.
    mutating func use(_ key: [UInt8], until end: Int64, now: Int64) -> Bool {
        if let known = used[key], now < known { return false }
        if used.count >= limit {
            used = used.filter { now < $0.value }
            // Removes half at once, so that not every further token sorts them all.
            if used.count >= limit {
                used = Dictionary(uniqueKeysWithValues: used.sorted { $0.value > $1.value }.prefix(limit / 2).map { ($0.key, $0.value) })
            }
        }
        used[key] = end
        return true
    }

    mutating func release(_ key: [UInt8]) { used[key] = nil }
}
