import Limits
import Logging
public import Tokens

extension AccountService {
    // MARK: Verifying

    /// The user of an ID token that was verified before and is still valid; nil if it must be verified. O(length), from any thread.
    /// - Parameter leeway: seconds after expiry for which the token is still accepted.
    public nonisolated func remembered(_ token: String, leeway: Int) -> VerifiedToken? { tokens.remembered(token, leeway: leeway) }

    /// Verifies an ID token: signature, claims, account and session (accounts contract §5.2). From any thread that may block for about 100 µs, the
    /// cost of a signature.
    /// - Parameters:
    ///   - leeway: seconds after expiry for which the token is still accepted.
    ///   - done: called once. Called immediately for a cached or an invalid token, otherwise on the service's queue. So it runs before the
    ///     effects of a later change of the account.
    public nonisolated func verify(
        _ token: String, leeway: Int, _ done: @escaping @Sendable (Result<VerifiedToken, TokenFault>) -> Void
    ) {
        if let known = tokens.remembered(token, leeway: leeway) { return done(.success(known)) }
        do throws(TokenFault) {
            let found = try tokens.check(token, leeway: leeway)
            perform { $0.admit(token, found, done) }
        } catch {
            guard let issuer = tokens.external(token) else {
                // Another hub may have just created a new key.
                guard isShared, error == .unknownKey else { return done(.failure(error)) }
                return perform { await $0.verifyUpToDate(token, leeway: leeway, done) }
            }
            verify(token, of: issuer, leeway: leeway, done)
        }
    }

    /// Verifies a token of another issuer: it has no account, but its keys may have to be fetched.
    private nonisolated func verify(
        _ token: String, of issuer: ExternalTokens, leeway: Int, _ done: @escaping @Sendable (Result<VerifiedToken, TokenFault>) -> Void
    ) {
        if let result = issuer.verify(token, leeway: leeway) { return done(keep(token, result)) }
        perform { service in done(service.keep(token, await issuer.verify(token, leeway: leeway))) }
    }

    private nonisolated func keep(_ text: String, _ result: Result<VerifiedToken, TokenFault>) -> Result<VerifiedToken, TokenFault> {
        if case .success(let token) = result { tokens.remember(text, token) }
        return result
    }

    /// Verifies signature and account again, after this hub has caught up with the others.
    private func verifyUpToDate(
        _ text: String, leeway: Int, _ done: @escaping @Sendable (Result<VerifiedToken, TokenFault>) -> Void
    ) async {
        do { try await catchUpWithLog() } catch { return done(.failure(.unavailable)) }
        do throws(TokenFault) { admit(text, try tokens.check(text, leeway: leeway), isUpToDate: true, done) } catch {
            done(.failure(error))
        }
    }

    /// Checks account and session, after the signature.
    func admit(
        _ text: String, _ token: VerifiedToken, isUpToDate: Bool = false,
        _ done: @escaping @Sendable (Result<VerifiedToken, TokenFault>) -> Void
    ) {
        do {
            // The keys may have changed since the signature was checked; they change only on this queue.
            if let fault = try tokens.keyFault(of: text) ?? store.read({ try $0.fault(of: token) }) {
                guard isShared, !isUpToDate else { return done(.failure(fault)) }
                // The session may have just begun on another hub.
                return perform { service in
                    do { try await service.catchUpWithLog() } catch { return done(.failure(.unavailable)) }
                    service.admit(text, token, isUpToDate: true, done)
                }
            }
        } catch AccountStoreFault.closed {
            return done(.failure(.unavailable))
        } catch {
            faults.log("an ID token could not be checked", ["error": "\(error)"])
            return done(.failure(.unavailable))
        }
        tokens.remember(text, token)
        done(.success(token))
    }

    /// Only signature and claims of an ID token, and only the signing: for benchmarks.
    package nonisolated func check(_ token: String) throws(TokenFault) -> VerifiedToken { try tokens.check(token, leeway: 0) }
    package nonisolated func sign(_ payload: [UInt8]) throws -> String { try tokens.keys.sign(payload) }

    // MARK: Keys

    /// The public keys of ID tokens as a JSON Web Key Set, for `/.well-known/jwks.json`.
    public nonisolated var jwks: [UInt8] { tokens.keys.jwks }

    /// The id of the current signing key.
    public nonisolated var signingKeyID: String { tokens.keys.currentID }

    /// Creates a new key, which is published and signs at once. The previous key still verifies until its last token has expired, and is then
    /// removed.
    /// - Parameter keepsOlder: false removes all older keys now, and so invalidates all existing ID tokens: for a stolen key. Sessions stay: their
    ///   devices fetch new tokens.
    /// - Returns: the new key's id (`kid`).
    /// - Throws: the store's error; then nothing has changed.
    @discardableResult
    public func rotateSigningKey(keepsOlder: Bool = true) async throws -> String {
        let made = try await Self.makeKey(settings.signingAlgorithm, now())
        let now = now()
        let ended = keepsOlder ? now - Int64(settings.signingKeyTailSeconds) * 1000 : .max
        let stored = try store.transaction { transaction in
            try transaction.setSigningKey(made.stored, id: made.key.verifying.id, now: now, ended: ended)
            return try transaction.signingKeys()
        }
        try tokens.keys.replace(by: stored.map { try SigningKey($0) })
        if !keepsOlder { tokens.forgetAll() }
        logger.notice("ID tokens are signed by a new key", metadata: ["kid": "\(made.key.verifying.id)"])
        return made.key.verifying.id
    }

    /// Takes some tenths of a second of CPU time, but not on the actor.
    @concurrent
    private static func makeKey(_ algorithm: SignatureAlgorithm, _ now: Int64) async throws -> (stored: StoredSigningKey, key: SigningKey) {
        let stored = try StoredSigningKey.generate(algorithm, now: now)
        return (stored, try SigningKey(stored))
    }
}

extension IdentityTokens {
    /// Loads the keys of the store. The first start creates one; so does a start with another algorithm than before. Blocks.
    convenience init(
        _ store: AccountStore, _ settings: AccountSettings, fetcher: any KeyFetching, logger: Logger, _ clock: AccountClock
    ) throws {
        var stored = try store.read { try $0.signingKeys() }
        if stored.first(where: { $0.retiredAt == nil })?.algorithm != settings.signingAlgorithm {
            let now = clock.wall()
            let made = try StoredSigningKey.generate(settings.signingAlgorithm, now: now)
            let id = try SigningKey(made).verifying.id
            stored = try store.transaction { transaction in
                // Another hub of the cluster may have created one at the same time.
                let known = try transaction.signingKeys()
                if known.first(where: { $0.retiredAt == nil })?.algorithm == settings.signingAlgorithm { return known }
                try transaction.setSigningKey(made, id: id, now: now, ended: now - Int64(settings.signingKeyTailSeconds) * 1000)
                return try transaction.signingKeys()
            }
        }
        let keys = try SigningKeys(stored.map { try SigningKey($0) }, lifetimeSeconds: settings.signingKeyTailSeconds, now: clock.wall)
        let externals = settings.externalIssuers.map { issuer in
            let keys = RemoteKeys(issuer.keys, fetcher: fetcher, settings: settings.keyFetching, logger: logger, now: clock.steady)
            return ExternalTokens(issuer, keys, now: clock.wall)
        }
        self.init(
            keys: keys, project: settings.project, lifetimeSeconds: settings.tokenSeconds, externals: externals,
            limit: settings.rememberedTokens,
            now: clock.wall, steady: clock.steady)
    }
}

extension AccountSettings {
    /// Seconds for which a retired key still verifies: the lifetime of a token signed in its last moment.
    var signingKeyTailSeconds: Int { tokenSeconds + tokenLeewaySeconds }
}
