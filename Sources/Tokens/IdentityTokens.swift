import JSONTree
import Synchronization

/// Verifies ID tokens, from any thread. Signature and claims are checked on the caller's thread. Verified tokens are cached, so that the same
/// token costs only a lookup the next time.
///
///     token ─► cached? ─► known key, signature, claims ─► account and session (on the service's actor) ─► cached
///
/// The cache follows the accounts: the actor announces each change of an account (`forget(uid:)`) after the store's transaction. Insertions come
/// from the actor as well, so that no result from before a change is cached after it.
package final class IdentityTokens: Sendable {
    package let keys: SigningKeys
    private let expectations: TokenExpectations
    private let lifetimeSeconds: Int64
    private let externals: [ExternalTokens]
    private let cache: Mutex<VerifiedTokenCache>
    /// ms since the epoch.
    private let now: @Sendable () -> Int64
    /// ms of the clock by which key sets expire.
    private let steady: @Sendable () -> Int64

    /// - Parameters:
    ///   - project: `aud`, and part of `iss`.
    ///   - lifetimeSeconds: the longest lifetime of this service's tokens. A token with a longer lifetime was not issued here, even if the key
    ///     matches.
    ///   - externals: other accepted issuers.
    ///   - limit: most cached tokens, an even number; 0 for none.
    ///   - steady: the clock of the externals' key sets; nil: the same.
    package init(
        keys: SigningKeys, project: String, lifetimeSeconds: Int = 3600, externals: [ExternalTokens], limit: Int,
        now: @escaping @Sendable () -> Int64,
        steady: (@Sendable () -> Int64)? = nil
    ) {
        self.lifetimeSeconds = Int64(lifetimeSeconds)
        self.externals = externals
        self.keys = keys
        self.now = now
        self.steady = steady ?? now
        var expectations = TokenExpectations(issuers: [IdentityClaims.issuer(project)], audiences: [project])
        // The token was signed here, so the clock was ahead then: the session decides, and the user stays signed in.
        expectations.refusesFuture = false
        self.expectations = expectations
        cache = Mutex(VerifiedTokenCache(limit: limit))
    }

    /// A cached token that is still valid.
    /// - Parameter leeway: seconds for which it is accepted after it expires.
    /// - Returns: nil if it must be verified.
    package func remembered(_ token: String, leeway: Int) -> VerifiedToken? {
        guard let (found, _) = cache.withLock({ $0.token(token) }) else { return nil }
        if isLive(found, leeway) { return found }
        cache.withLock { $0.forget(token) }
        return nil
    }

    private func isLive(_ token: VerifiedToken, _ leeway: Int) -> Bool {
        steady() < token.checkedUntil && now() / 1000 < token.expires.addingClamped(Int64(leeway))
    }

    /// Verifies a token of this service, except for its account and session (accounts contract §5.2).
    /// - Parameter leeway: seconds for which it is accepted after it expires.
    package func check(_ token: String, leeway: Int) throws(TokenFault) -> VerifiedToken {
        let claims = try Node(claims: try keys.payload(of: token))
        try expectations.check(claims, now: now() / 1000, leeway: leeway)
        let token = try VerifiedToken(claims, isOwn: true)
        guard token.expires <= token.issuedAt.addingClamped(lifetimeSeconds) else { throw .expired }
        return token
    }

    /// The fault if the token's key was removed since the verification.
    package func keyFault(of token: String) -> TokenFault? {
        do throws(TokenFault) {
            _ = try token.readCompact { token throws(TokenFault) in try keys.key(of: token) }
            return nil
        } catch { return error }
    }

    /// The external issuer named in a token's claims; unverified.
    package func external(_ token: String) -> ExternalTokens? {
        guard !externals.isEmpty else { return nil }
        let claims = try? token.readCompact { token throws(TokenFault) in try Node(claims: try token.unverifiedPayload()) }
        guard let issuer = claims?.text("iss") else { return nil }
        return externals.first { $0.issuer == issuer }
    }

    /// Caches a verified token. Called on the service's actor, in the same step that read the account.
    package func remember(_ text: String, _ token: VerifiedToken) {
        // Dropped tokens are freed outside the lock.
        _ = cache.withLock { $0.insert(text, token) }
    }

    /// Drops the tokens of an account after the account or one of its sessions has changed. Called on the service's actor.
    package func forget(uid: String) { cache.withLock { $0.forget(uid: uid) } }

    /// Drops all tokens, as the keys changed.
    package func forgetAll() { _ = cache.withLock { $0.removeAll() } }

    /// Number of cached tokens.
    package var rememberedCount: Int { cache.withLock { $0.count } }
}
