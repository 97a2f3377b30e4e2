import JSONTree
public import Tokens

/// A stored sign-in whose ID token is not signed yet.
struct OpenedSession: Sendable {
    let account: Account
    let session: AccountSession
    let refreshToken: String
}

/// The tokens that a device receives for a sign-in (accounts contract §5).
struct IssuedTokens: Sendable {
    let uid: String
    let idToken: String
    let refreshToken: String
    let lifetime: Int

    /// The members of a sign-in response.
    var members: [JSONValue.Member] {
        [.init("idToken", .string(idToken)), .init("refreshToken", .string(refreshToken)), .init("expiresIn", .string(String(lifetime)))]
    }
}

// MARK: Beginning

extension AccountWrite {
    /// Stores that a user is signed in on a device: the given account with the times of the sign-in, and a new session.
    /// - Parameters:
    ///   - claims: a JSON object of claims for the session's tokens.
    ///   - former: the session that this one continues. Its sign-in time and claims stay, as the user has not signed in again.
    func open(
        _ account: Account, provider: String, claims: String? = nil, continuing former: AccountSession? = nil
    ) throws -> OpenedSession {
        let now = now()
        var account = account
        if former == nil { account.lastLoginAt = now }
        account.lastRefreshAt = max(account.lastRefreshAt ?? 0, clock.seen)
        // Sessions revoked before have ended. A time in the future comes from a clock that was ahead, or ours is behind; either would invalidate this
        // session.
        account.validSince = min(account.validSince, now / 1000)
        var session = AccountSession(
            id: RandomName.sessionID(), uid: account.id, provider: provider, claims: former.map(\.claims) ?? claims,
            authTime: former?.authTime ?? now / 1000, now: now, userAgent: call?.userAgent, peer: peer)
        session.lastUsedAt = clock.seen
        try transaction.save(account)
        // This transaction may have changed the generation.
        account.tokenGeneration = try transaction.tokenGeneration(of: account.id)
        let opened = OpenedSession(account: account, session: session, refreshToken: RandomName.secret())
        try transaction.add(session, tokenHash: SecretHash.of(opened.refreshToken))
        for ended in try transaction.endSessions(of: account.id, beyond: max(1, settings.sessionsOfAccount) - 1, beside: session.id) {
            try audit(.sessionEnded, account.id, "for a newer one")
            try announce(account.id, .sessionEnded(ended))
        }
        return opened
    }

    /// Stores a new account with its first session.
    func begin(_ account: Account, provider: String, claims: String? = nil) throws -> OpenedSession {
        let opened = try open(account, provider: provider, claims: claims)
        try audit(.signUp, account.id, provider)
        return opened
    }
}

extension AccountService {
    var nowSeconds: Int64 { now() / 1000 }

    /// Signs the ID token of a session. Off the service's queue, as it takes most of a millisecond.
    nonisolated func issue(_ opened: OpenedSession) async throws -> IssuedTokens {
        let claims = IdentityClaims(opened.account, opened.session, now: now() / 1000, lifetime: settings.tokenSeconds)
        return IssuedTokens(
            uid: opened.account.id, idToken: try tokens.keys.sign(claims.payload(project: settings.project)),
            refreshToken: opened.refreshToken, lifetime: settings.tokenSeconds)
    }
}

// MARK: Authenticating

/// The user of an ID token: account and session at the time of the transaction that read them.
struct TokenUser {
    var account: Account
    let session: AccountSession

    /// Required for changes after which another person could control the account (accounts contract §6.4). Guests are exempt, as they have no
    /// credential to authenticate with.
    /// - Parameter now: ms since the epoch.
    /// - Throws: CREDENTIAL_TOO_OLD_LOGIN_AGAIN.
    func requireRecentSignIn(_ settings: AccountSettings, now: Int64) throws(AccountError) {
        guard settings.recentLoginSeconds > 0, account.hasCredential else { return }
        let age = now / 1000 - session.authTime
        // A time in the future comes from a clock that was ahead: the age is unknown.
        guard age <= Int64(settings.recentLoginSeconds), age >= -TokenExpectations.skewSeconds else {
            throw AccountError("CREDENTIAL_TOO_OLD_LOGIN_AGAIN")
        }
    }
}

extension Account {
    /// Whether the user can sign in to it again.
    var hasCredential: Bool { hasPasswordProvider || !providers.isEmpty || phoneNumber != nil || hasCustomAuth }
}

extension AccountService {
    /// The request's ID token, checked without its account.
    /// - Throws: MISSING_ID_TOKEN, INVALID_ID_TOKEN.
    func idToken(_ call: AccountCall) throws(AccountError) -> VerifiedToken {
        guard let text = try call.filled("idToken") else { throw AccountError("MISSING_ID_TOKEN") }
        do throws(TokenFault) { return try tokens.check(text, leeway: settings.tokenLeewaySeconds) } catch { throw error.idTokenError }
    }
}

extension TokenFault {
    /// The error of the account endpoints for such an ID token (accounts contract §3.2, §5.2).
    public var idTokenError: AccountError {
        switch self {
        case .revoked, .superseded: AccountError("TOKEN_EXPIRED")
        case .disabled: AccountError("USER_DISABLED")
        case .noAccount: AccountError("USER_NOT_FOUND")
        default: AccountError("INVALID_ID_TOKEN")
        }
    }
}

extension AccountTransaction {
    /// The account and session of an ID token (accounts contract §5.2). A token without a session of this service is refused. A superseded token is
    /// accepted: the account endpoints trust only its session and read the account, so withdrawn claims have no effect here. Refusing it would sign
    /// out users whose claims changed while their app was closed, as the JS SDK starts with a `lookup`.
    /// - Throws: USER_NOT_FOUND, USER_DISABLED, TOKEN_EXPIRED if it is revoked.
    func user(of token: VerifiedToken) throws -> TokenUser {
        if let fault = try fault(of: token), fault != .superseded { throw fault.idTokenError }
        guard let account = try account(.id(token.uid)), let id = token.sessionID, let session = try session(id: id) else {
            throw TokenFault.revoked.idTokenError
        }
        return TokenUser(account: account, session: session)
    }
}

// MARK: Ending

extension AccountWrite {
    /// Ends all sessions of an account at once, with its refresh tokens, ID tokens and connections (accounts contract §5.4). A new session of the
    /// user who made the change begins afterwards.
    /// - Parameters:
    ///   - account: gets the new `validSince`; the caller saves it.
    ///   - author: see `AccountChange.author`.
    func revoke(_ account: inout Account, by author: AccountSession? = nil) throws {
        account.validSince = max(account.validSince, now() / 1000)
        try transaction.endSessions(of: account.id)
        // A revoked user must not regain access through a change of address requested before.
        try transaction.removeCodes(of: account.id, .verifyAndChangeEmail)
        try audit(.revoked, account.id)
        try announce(account.id, .revoked, by: author)
    }

    /// Ends one session: its refresh token, its ID tokens and its connections at once. The account's other sessions stay.
    /// - Parameter detail: the detail of the audit event.
    /// - Returns: false if it had already ended.
    @discardableResult
    func end(_ session: AccountSession, _ detail: String? = nil) throws -> Bool {
        guard try transaction.endSession(session.id) else { return false }
        try audit(.sessionEnded, session.uid, detail)
        try announce(session.uid, .sessionEnded(session.id))
        return true
    }
}
