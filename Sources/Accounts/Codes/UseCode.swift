import JSONTree
import Mail
import Tokens

extension AccountService {
    /// `accounts:resetPassword`: reads a code of any kind, or sets a password with a PASSWORD_RESET code (accounts contract §6.7).
    func resetPassword(_ call: AccountCall) async throws -> AccountAnswer {
        guard let secret = try call.filled("oobCode") else { throw AccountError("MISSING_OOB_CODE") }
        let code: MailedCode
        if let password = try call.text("newPassword") {
            code = try await resetPassword(by: secret, to: password, call)
        } else {
            code = try peek(secret, call)
        }
        var members: [JSONValue.Member] = [.init("requestType", .string(code.kind.rawValue))]
        // A sign-in link alone must not reveal the address.
        if code.kind != .signIn, !code.email.isEmpty { members.add("email", code.email) }
        members.add("newEmail", code.newEmail)
        return AccountAnswer(kind: "ResetPasswordResponse", members)
    }

    /// Sets a password with a code. The reader of the address owns the account: the address is verified, all sessions end, and failed attempts are
    /// reset. If the address was not verified before, another person may have created the account: see `reclaim`.
    /// - Throws: `WEAK_PASSWORD : …`, which does not use up the code.
    func resetPassword(by secret: String, to password: String, _ call: AccountCall) async throws -> MailedCode {
        guard settings.allowsPasswords else { throw AccountError("PASSWORD_LOGIN_DISABLED") }
        let seen = try peek(secret, call)
        guard seen.kind == .resetPassword else { throw AccountError("INVALID_OOB_CODE") }
        try requireStrength(password)
        let hash = try await hashPassword(password, peer: call.peer)
        let (code, account) = try commit(call) { write -> (MailedCode, Account) in
            let code = try write.transaction.pendingCode(secret, now: now())
            var account = try write.transaction.account(of: code)
            if account.isEmailVerified { try write.revoke(&account) } else { try write.reclaim(&account) }
            account.isEmailVerified = true
            account.passwordHash = hash
            account.passwordUpdatedAt = now()
            try write.transaction.save(account)
            try write.use(code: secret)
            try write.audit(.passwordChanged, account.id, "by mail")
            write.mail(.passwordChanged, to: code.email, account)
            return (code, account)
        }
        liftThrottle(of: account.id)
        return code
    }
}

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
    /// Adds an address that was verified by mail to the account of an ID token.
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
        try revoke(&account, by: user.session)
        return try open(account, provider: "password", continuing: user.session)
    }
}
