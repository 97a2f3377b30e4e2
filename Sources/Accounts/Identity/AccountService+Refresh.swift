import JSONTree

extension AccountService {
    /// The token endpoint: a fresh ID token for a session's refresh token, which stays the same as long as the session lives, so that
    /// neither tabs that share it nor answers that were lost do harm (accounts contract §5.4, §5.5).
    func refresh(_ call: AccountCall) async throws -> AccountAnswer {
        guard let grant = try call.filled("grantType") else { throw AccountError("MISSING_GRANT_TYPE") }
        guard grant == "refresh_token" else { throw AccountError("INVALID_GRANT_TYPE") }
        guard let refreshToken = try call.filled("refreshToken") else { throw AccountError("MISSING_REFRESH_TOKEN") }
        let tokens = try await issue(try resume(refreshToken, call))
        return AccountAnswer([
            .init("access_token", .string(tokens.idToken)), .init("expires_in", .string(String(tokens.lifetime))),
            .init("token_type", "Bearer"),
            .init("refresh_token", .string(tokens.refreshToken)), .init("id_token", .string(tokens.idToken)),
            .init("user_id", .string(tokens.uid)), .init("project_id", .string(settings.projectNumber)),
        ])
    }

    /// A use within so many ms of the last one that was written down, from the same address, is not written down.
    private static let useGrainMs: Int64 = 60_000

    /// Finds the session of a refresh token and writes its use down.
    /// - Throws: USER_NOT_FOUND for a deleted account's, USER_DISABLED, TOKEN_EXPIRED for a session that is over: these sign the user
    ///   out on the device, and are meant to. INVALID_REFRESH_TOKEN for what never was one.
    func resume(_ refreshToken: String, _ call: AccountCall) throws -> OpenedSession {
        let hash = SecretHash.of(refreshToken)
        let now = clock.seen
        return try store.transaction { transaction in
            guard let (found, hasEnded) = try transaction.session(tokenHash: hash),
                let account = try transaction.account(.id(found.uid))
            else {
                throw AccountError(try transaction.isDeparted(tokenHash: hash) ? "USER_NOT_FOUND" : "INVALID_REFRESH_TOKEN")
            }
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            var session = found
            let isIdle = settings.idleDays > 0 && clock.cautious - session.lastUsedAt > Int64(settings.idleDays) * 86_400_000
            guard !hasEnded, !isIdle, session.createdAt / 1000 >= account.validSince else { throw AccountError("TOKEN_EXPIRED") }
            // Nothing is written for a device that asks again and again: each write waits for the disk.
            if session.peer != call.peer || now - session.lastUsedAt >= Self.useGrainMs {
                // Never an earlier time: a clock that is behind for a while would end the session when it is corrected.
                session.lastUsedAt = max(session.lastUsedAt, now)
                session.peer = call.peer
                try transaction.use(session)
                try transaction.markRefreshed(account.id, at: now)
            }
            return OpenedSession(account: account, session: session, refreshToken: refreshToken)
        }
    }
}
