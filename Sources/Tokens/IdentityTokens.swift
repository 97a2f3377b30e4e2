import JSONTree
import Synchronization

/// Tells whose ID token it is, from any thread: signature and claims are checked where the caller is, and tokens that were good
/// are remembered, so that the same token costs a look-up the next time.
///
///     token ─► remembered? ─► known key, signature, claims ─► account and session (on the service's actor) ─► remembered
///
/// What is remembered is only as good as the account: a change of one is announced (`forget(uid:)`) on the
/// actor and behind the store's transaction. Insertions come from there as well, so that no look at an older state is remembered after a
/// change.
package final class IdentityTokens: Sendable {
    package let keys: SigningKeys
    private let expectations: TokenExpectations
    private let lifetimeSeconds: Int64
    private let externals: [ExternalTokens]
    private let cache: Mutex<VerifiedTokenCache>
    /// ms since the epoch.
    private let now: @Sendable () -> Int64
    /// ms of the clock by which key sets age.
    private let steady: @Sendable () -> Int64

    /// - Parameters:
    ///   - project: `aud`, and part of `iss`.
    ///   - lifetimeSeconds: how long a token of ours may live. One that says more was not made here, although the key fits.
    ///   - externals: other issuers whose tokens count.
    ///   - limit: most tokens that are remembered, an even number; 0 for none.
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
        // Signed here, so our clock was ahead: the session tells whether it counts, and no user is to be signed out for that.
        expectations.refusesFuture = false
        self.expectations = expectations
        cache = Mutex(VerifiedTokenCache(limit: limit))
    }

    /// A token that was good before, and still is.
    /// - Parameter leeway: seconds after its end that it still counts.
    /// - Returns: nil when it must be checked.
    package func remembered(_ token: String, leeway: Int) -> VerifiedToken? {
        guard let (found, _) = cache.withLock({ $0.token(token) }) else { return nil }
        if isLive(found, leeway) { return found }
        cache.withLock { $0.forget(token) }
        return nil
    }

    private func isLive(_ token: VerifiedToken, _ leeway: Int) -> Bool {
        steady() < token.checkedUntil && now() / 1000 < token.expires.addingClamped(Int64(leeway))
    }

    /// Checks a token of this service, but for its account and its session (accounts contract §5.2).
    /// - Parameter leeway: seconds after its end that it still counts.
    package func check(_ token: String, leeway: Int) throws(TokenFault) -> VerifiedToken {
        let claims = try Node(claims: try keys.payload(of: token))
        try expectations.check(claims, now: now() / 1000, leeway: leeway)
        let token = try VerifiedToken(claims, isOwn: true)
        guard token.expires <= token.issuedAt.addingClamped(lifetimeSeconds) else { throw .expired }
        return token
    }

    /// Whether the key of a token of ours has ended since it was checked.
    package func keyFault(of token: String) -> TokenFault? {
        do throws(TokenFault) {
            _ = try token.readCompact { token throws(TokenFault) in try keys.key(of: token) }
            return nil
        } catch { return error }
    }

    /// The issuer that a token is said to be of; says nothing of the signature.
    package func external(_ token: String) -> ExternalTokens? {
        guard !externals.isEmpty else { return nil }
        let claims = try? token.readCompact { token throws(TokenFault) in try Node(claims: try token.unverifiedPayload()) }
        guard let issuer = claims?.text("iss") else { return nil }
        return externals.first { $0.issuer == issuer }
    }

    /// Keeps a token that is good in every respect. On the service's actor, in the same step that looked at the account.
    package func remember(_ text: String, _ token: VerifiedToken) {
        // The lock is left before what is dropped is freed.
        _ = cache.withLock { $0.insert(text, token) }
    }

    /// The account changed, or one of its sessions is over: its tokens are looked at again. On the service's actor.
    package func forget(uid: String) { cache.withLock { $0.forget(uid: uid) } }

    /// The keys changed.
    package func forgetAll() { _ = cache.withLock { $0.removeAll() } }

    /// Tokens that are remembered.
    package var rememberedCount: Int { cache.withLock { $0.count } }
}
