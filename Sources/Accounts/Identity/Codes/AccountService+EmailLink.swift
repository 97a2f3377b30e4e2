import JSONTree
import Tokens

extension AccountService {
    /// `accounts:signInWithEmailLink` (accounts contract §6.8).
    func signInWithEmailLink(_ call: AccountCall) async throws -> AccountAnswer {
        guard settings.allowsEmailLink else { throw AccountError("OPERATION_NOT_ALLOWED") }
        guard let text = try call.filled("email") else { throw AccountError("MISSING_EMAIL") }
        guard let email = EmailAddress(text) else { throw AccountError("INVALID_EMAIL") }
        guard let secret = try call.filled("oobCode") else { throw AccountError("MISSING_OOB_CODE") }
        let token = call.has("idToken") ? try idToken(call) : nil
        try admitCode(from: call.peer)
        let (opened, isNew) = try commit(call) { write -> (OpenedSession, Bool) in
            let code = try write.transaction.pendingCode(secret, now: now())
            guard code.kind == .signIn else { throw AccountError("INVALID_OOB_CODE") }
            guard code.email == email.text else {
                throw AccountError("INVALID_EMAIL", "The email provided does not match the sign-in email address.")
            }
            try write.use(code: secret)
            let holder = try write.transaction.account(.email(email.text))
            if let token { return (try write.link(token, email, holder: holder), false) }
            guard var account = holder else {
                guard settings.allowsSignUp else { throw AccountError("ADMIN_ONLY_OPERATION") }
                var account = Account(id: RandomName.accountID(), createdAt: now())
                account.email = email.text
                account.isEmailVerified = true
                account.hasEmailLink = true
                return (try write.begin(account, provider: "password"), true)
            }
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            if !account.isEmailVerified { try write.reclaim(&account) }
            account.isEmailVerified = true
            account.hasEmailLink = true
            try write.audit(.signIn, account.id, "link")
            return (try write.open(account, provider: "password"), false)
        }
        let tokens = try await issue(opened)
        let members: [JSONValue.Member] = [
            .init("localId", .string(opened.account.id)), .init("email", .string(email.text)), .init("isNewUser", .bool(isNew)),
        ]
        return AccountAnswer(kind: "EmailLinkSigninResponse", members + tokens.members)
    }

}

extension AccountWrite {
    /// Gives the account of an ID token an address that was proven by mail.
    fileprivate func link(_ token: VerifiedToken, _ email: EmailAddress, holder: Account?) throws -> OpenedSession {
        let user = try transaction.user(of: token)
        var account = user.account
        guard holder == nil || holder?.id == account.id else { throw AccountError("EMAIL_EXISTS") }
        account.hasEmailLink = true
        guard account.email != email.text else {
            account.isEmailVerified = true
            return try open(account, provider: "password", continuing: user.session)
        }
        try user.requireRecentSignIn(settings, now: now())
        try changeAddress(of: &account, to: email, isVerified: true)
        try revoke(&account)
        return try open(account, provider: "password", continuing: user.session)
    }
}
