import JSONTree
public import Tokens

/// A sign-in that is written down; its ID token is yet to be signed.
struct OpenedSession: Sendable {
    let account: Account
    let session: AccountSession
    let refreshToken: String
}

/// The tokens that a device gets for a sign-in (accounts contract §5).
struct IssuedTokens: Sendable {
    let uid: String
    let idToken: String
    let refreshToken: String
    let lifetime: Int

    /// In the words of the sign-in endpoints.
    var members: [JSONValue.Member] {
        [.init("idToken", .string(idToken)), .init("refreshToken", .string(refreshToken)), .init("expiresIn", .string(String(lifetime)))]
    }
}

// MARK: Beginning

extension AccountWrite {
    /// Writes down that a user is signed in on a device: the account as it was given, with the times of the sign-in, and a session.
    /// - Parameters:
    ///   - claims: a JSON object of claims that the session's tokens carry.
    ///   - former: the session that this one continues: its moment of sign-in and its claims stay, and the user has not signed in anew.
    func open(
        _ account: Account, provider: String, claims: String? = nil, continuing former: AccountSession? = nil
    ) throws -> OpenedSession {
        let now = now()
        var account = account
        if former == nil { account.lastLoginAt = now }
        account.lastRefreshAt = max(account.lastRefreshAt ?? 0, clock.seen)
        // What was revoked before has ended. A time in the future was written by a clock that was ahead, or ours is behind: either would
        // keep this session from counting.
        account.validSince = min(account.validSince, now / 1000)
        var session = AccountSession(
            id: RandomName.sessionID(), uid: account.id, provider: provider, claims: former.map(\.claims) ?? claims,
            authTime: former?.authTime ?? now / 1000, now: now, userAgent: call?.userAgent, peer: peer)
        session.lastUsedAt = clock.seen
        try transaction.save(account)
        // This transaction may have changed it.
        account.tokenGeneration = try transaction.tokenGeneration(of: account.id)
        let opened = OpenedSession(account: account, session: session, refreshToken: RandomName.secret())
        try transaction.add(session, tokenHash: SecretHash.of(opened.refreshToken))
        for ended in try transaction.endSessions(of: account.id, beyond: max(1, settings.sessionsOfAccount) - 1, beside: session.id) {
            try audit(.sessionEnded, account.id, "for a newer one")
            try announce(account.id, .sessionEnded(ended))
        }
        return opened
    }

    /// Writes a new account down with its first session.
    func begin(_ account: Account, provider: String, claims: String? = nil) throws -> OpenedSession {
        let opened = try open(account, provider: provider, claims: claims)
        try audit(.signUp, account.id, provider)
        return opened
    }
}

extension AccountService {
    var nowSeconds: Int64 { now() / 1000 }

    /// Signs the ID token of a session. Off the service's queue: it takes most of a millisecond.
    nonisolated func issue(_ opened: OpenedSession) async throws -> IssuedTokens {
        let claims = IdentityClaims(opened.account, opened.session, now: now() / 1000, lifetime: settings.tokenSeconds)
        return IssuedTokens(
            uid: opened.account.id, idToken: try tokens.keys.sign(claims.payload(project: settings.project)),
            refreshToken: opened.refreshToken, lifetime: settings.tokenSeconds)
    }
}

// MARK: Proving

/// The user of an ID token: account and session as they are in the transaction that looked.
struct TokenUser {
    var account: Account
    let session: AccountSession

    /// For changes after which another person could be in possession of the account (accounts contract §6.4). Guests have nothing
    /// to prove themselves with.
    /// - Parameter now: ms since the epoch.
    /// - Throws: CREDENTIAL_TOO_OLD_LOGIN_AGAIN.
    func requireRecentSignIn(_ settings: AccountSettings, now: Int64) throws(AccountError) {
        guard settings.recentLoginSeconds > 0, account.hasCredential else { return }
        let age = now / 1000 - session.authTime
        // In the future by a clock that was ahead: how long ago it was is not known.
        guard age <= Int64(settings.recentLoginSeconds), age >= -TokenExpectations.skewSeconds else {
            throw AccountError("CREDENTIAL_TOO_OLD_LOGIN_AGAIN")
        }
    }
}

extension Account {
    /// Whether there is any way to sign in to it again.
    var hasCredential: Bool { hasPasswordProvider || !providers.isEmpty || phoneNumber != nil || hasCustomAuth }
}

extension AccountService {
    /// The call's ID token, looked at without its account.
    /// - Throws: MISSING_ID_TOKEN, INVALID_ID_TOKEN.
    func idToken(_ call: AccountCall) throws(AccountError) -> VerifiedToken {
        guard let text = try call.filled("idToken") else { throw AccountError("MISSING_ID_TOKEN") }
        do throws(TokenFault) { return try tokens.check(text, leeway: settings.tokenLeewaySeconds) } catch { throw error.idTokenError }
    }
}

extension TokenFault {
    /// The error of the account endpoints for an ID token like that (accounts contract §3.2, §5.2).
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
    /// The account and session of an ID token (accounts contract §5.2). One without a session of ours is of no use here. A superseded one
    /// is taken: of a token the account endpoints believe the session alone, and read the account, so that a withdrawn claim is worth
    /// nothing here. A refusal would sign users out whose claims were changed while their app was closed: JS begins with a `lookup`.
    /// - Throws: USER_NOT_FOUND, USER_DISABLED, TOKEN_EXPIRED for one that is revoked.
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
    /// Ends all sessions of an account: its refresh tokens from now on, its ID tokens and connections at once
    /// (accounts contract §5.4). The session of the user who made the change is begun behind this.
    /// - Parameters:
    ///   - account: is given the new `validSince`; the caller saves it.
    ///   - author: see `AccountChange.author`.
    func revoke(_ account: inout Account, by author: AccountSession? = nil) throws {
        account.validSince = max(account.validSince, now() / 1000)
        try transaction.endSessions(of: account.id)
        // A revoked user must not return through a change of address that they requested before.
        try transaction.removeCodes(of: account.id, .verifyAndChangeEmail)
        try audit(.revoked, account.id)
        try announce(account.id, .revoked, by: author)
    }

    /// Ends one session: its refresh token, its ID tokens and its connections at once. The account's other sessions stay.
    /// - Parameter detail: of the event that is written down.
    /// - Returns: false when it had ended before.
    @discardableResult
    func end(_ session: AccountSession, _ detail: String? = nil) throws -> Bool {
        guard try transaction.endSession(session.id) else { return false }
        try audit(.sessionEnded, session.uid, detail)
        try announce(session.uid, .sessionEnded(session.id))
        return true
    }
}
