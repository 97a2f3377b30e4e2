extension AccountService {
    /// `accounts:signInWithEmailLink` (accounts contract §6.8).
    func signInWithEmailLink(_ call: AccountCall) async throws -> AccountAnswer {
        guard settings.allowsEmailLink else { throw AccountError("OPERATION_NOT_ALLOWED") }
        guard let text = try call.filled("email") else { throw AccountError("MISSING_EMAIL") }
        guard let email = EmailAddress(text) else { throw AccountError("INVALID_EMAIL") }
        guard let secret = try call.filled("oobCode") else { throw AccountError("MISSING_OOB_CODE") }
        let token = call.has("idToken") ? try idToken(call) : nil
        try admitCode(from: call.peer)
        let (opened, isNew) = try commit { transaction, aftermath -> (OpenedSession, Bool) in
            let code = try pendingCode(secret, in: transaction)
            guard code.kind == .signIn else { throw AccountError("INVALID_OOB_CODE") }
            guard code.email == email.text else { throw AccountError("INVALID_EMAIL", "The email provided does not match the sign-in email address.") }
            try use(secret, in: transaction, &aftermath)
            let holder = try transaction.account(.email(email.text))
            if let token { return (try link(token, email, holder: holder, call, in: transaction, &aftermath), false) }
            guard var account = holder else {
                guard settings.allowsSignUp else { throw AccountError("ADMIN_ONLY_OPERATION") }
                var account = Account(id: RandomName.accountID(), createdAt: now())
                account.email = email.text
                account.isEmailVerified = true
                account.hasEmailLink = true
                return (try begin(account, provider: "password", call, in: transaction), true)
            }
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            if !account.isEmailVerified { try reclaim(&account, call, in: transaction, &aftermath) }
            account.isEmailVerified = true
            account.hasEmailLink = true
            try transaction.audit(.signIn, account.id, peer: call.peer, at: now(), "link")
            return (try open(account, provider: "password", call, in: transaction), false)
        }
        let tokens = try await issue(opened)
        let members: [JSONValue.Member] = [
            .init("localId", .string(opened.account.id)), .init("email", .string(email.text)), .init("isNewUser", .bool(isNew)),
        ]
        return AccountAnswer(kind: "EmailLinkSigninResponse", members + tokens.members)
    }

    /// Gives the account of an ID token an address that was proven by mail.
    private func link(
        _ token: VerifiedToken, _ email: EmailAddress, holder: Account?, _ call: AccountCall, in transaction: AccountTransaction, _ aftermath: inout Aftermath
    ) throws -> OpenedSession {
        let standing = try standing(of: token, in: transaction)
        var account = standing.account
        guard holder == nil || holder?.id == account.id else { throw AccountError("EMAIL_EXISTS") }
        account.hasEmailLink = true
        guard account.email != email.text else {
            account.isEmailVerified = true
            return try open(account, provider: "password", continuing: standing.session, call, in: transaction)
        }
        try requireRecentSignIn(standing)
        try changeAddress(of: &account, to: email, isVerified: true, call, in: transaction, &aftermath)
        try revoke(&account, call, in: transaction, &aftermath)
        return try open(account, provider: "password", continuing: standing.session, call, in: transaction)
    }
}
