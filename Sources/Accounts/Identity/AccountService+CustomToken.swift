import JSONTree
import Tokens

extension AccountService {
    /// `accounts:signInWithCustomToken`: by a token of one of the app's own servers (accounts contract §5.6).
    func signInWithCustomToken(_ call: AccountCall) async throws -> AccountAnswer {
        let verifier = CustomTokens(
            issuers: settings.customTokenIssuers, project: settings.project, isDev: settings.isDev, claimsLength: settings.claimsLength)
        let token = try verifier.verify(try call.text("token") ?? "", now: nowSeconds)
        guard Account.isName(token.uid) else {
            throw AccountError("INVALID_CUSTOM_TOKEN", "The custom token is refused: its uid has control characters.")
        }
        let claims = token.claims.isEmpty ? nil : token.claims.json
        let (opened, isNew) = try commit(call) { write -> (OpenedSession, Bool) in
            guard var account = try write.transaction.account(.id(token.uid)) else {
                var account = Account(id: token.uid, createdAt: now())
                account.hasCustomAuth = true
                return (try write.begin(account, provider: "custom", claims: claims), true)
            }
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            account.hasCustomAuth = true
            try write.audit(.signIn, account.id, "custom")
            return (try write.open(account, provider: "custom", claims: claims), false)
        }
        let tokens = try await issue(opened)
        return AccountAnswer(
            kind: "VerifyCustomTokenResponse",
            [.init("localId", .string(opened.account.id)), .init("isNewUser", .bool(isNew))] + tokens.members)
    }
}
