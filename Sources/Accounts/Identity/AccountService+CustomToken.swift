extension AccountService {
    /// `accounts:signInWithCustomToken`: by a token of one of the app's own servers (accounts contract §5.6).
    func signInWithCustomToken(_ call: AccountCall) async throws -> AccountAnswer {
        let verifier = CustomTokens(
            issuers: settings.customTokenIssuers, project: settings.project, isDev: settings.isDev, claimsLength: settings.claimsLength)
        let token = try verifier.verify(try call.text("token") ?? "", now: nowSeconds)
        guard Account.isName(token.uid) else { throw AccountError("INVALID_CUSTOM_TOKEN", "The custom token is refused: its uid has control characters.") }
        let claims = token.claims.isEmpty ? nil : token.claims.json
        let (opened, isNew) = try commit { transaction, _ -> (OpenedSession, Bool) in
            guard var account = try transaction.account(.id(token.uid)) else {
                var account = Account(id: token.uid, createdAt: now())
                account.hasCustomAuth = true
                return (try begin(account, provider: "custom", claims: claims, call, in: transaction), true)
            }
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            account.hasCustomAuth = true
            try transaction.audit(.signIn, account.id, peer: call.peer, at: now(), "custom")
            return (try open(account, provider: "custom", claims: claims, call, in: transaction), false)
        }
        let tokens = try await issue(opened)
        return AccountAnswer(
            kind: "VerifyCustomTokenResponse", [.init("localId", .string(opened.account.id)), .init("isNewUser", .bool(isNew))] + tokens.members)
    }
}
