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
        // Who may sign in by mail is not told to who only has the link.
        if code.kind != .signIn, !code.email.isEmpty { members.add("email", code.email) }
        members.add("newEmail", code.newEmail)
        return AccountAnswer(kind: "ResetPasswordResponse", members)
    }

    /// Sets a password by a code. Whoever reads the address owns the account: it is verified, all sessions end, and nobody who
    /// guessed before is in the way. If the address was not verified before, whoever made the account may have been somebody else:
    /// see `reclaim`.
    /// - Throws: `WEAK_PASSWORD : …`, which leaves the code as it is.
    func resetPassword(by secret: String, to password: String, _ call: AccountCall) async throws -> MailedCode {
        guard settings.allowsPasswords else { throw AccountError("PASSWORD_LOGIN_DISABLED") }
        let seen = try peek(secret, call)
        guard seen.kind == .resetPassword else { throw AccountError("INVALID_OOB_CODE") }
        try requireStrength(password)
        let hash = try await hashPassword(password, peer: call.peer)
        let (code, account) = try commit { transaction, aftermath -> (MailedCode, Account) in
            let code = try pendingCode(secret, in: transaction)
            var account = try self.account(of: code, in: transaction)
            if account.isEmailVerified { try revoke(&account, call, in: transaction, &aftermath) } else {
                try reclaim(&account, call, in: transaction, &aftermath)
            }
            account.isEmailVerified = true
            account.passwordHash = hash
            account.passwordUpdatedAt = now()
            try transaction.save(account)
            try use(secret, in: transaction, &aftermath)
            try transaction.audit(.passwordChanged, account.id, peer: call.peer, at: now(), "by mail")
            aftermath.mails.append(.init(.passwordChanged, to: code.email, account, call))
            return (code, account)
        }
        liftThrottle(of: account.id)
        return code
    }
}
