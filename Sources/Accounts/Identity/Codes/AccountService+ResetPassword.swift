import JSONTree
import Mail

extension AccountService {
    /// `accounts:resetPassword`: looks at a code of any kind, or sets a password by one of its own (accounts contract §6.7).
    func resetPassword(_ call: AccountCall) async throws -> AccountAnswer {
        guard let secret = try call.filled("oobCode") else { throw AccountError("MISSING_OOB_CODE") }
        let code: MailedCode
        if let password = try call.text("newPassword") {
            code = try await resetPassword(by: secret, to: password, call)
        } else {
            code = try peek(secret, call)
        }
        var members: [JSONValue.Member] = [.init("requestType", .string(code.kind.rawValue))]
        // The link alone does not tell who may sign in by mail.
        if code.kind != .signIn, !code.email.isEmpty { members.add("email", code.email) }
        members.add("newEmail", code.newEmail)
        return AccountAnswer(kind: "ResetPasswordResponse", members)
    }

    /// Sets a password by a code. The reader of the address owns the account: the address is verified, all sessions end, and earlier
    /// guesses are no longer counted. If the address was not verified before, the account may have been made by another person: see
    /// `reclaim`.
    /// - Throws: `WEAK_PASSWORD : …`, which leaves the code as it is.
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
