extension AccountService {
    /// `accounts:signUp`: a guest, an account with address and password, or either made of a guest (accounts contract §6.1).
    func signUp(_ call: AccountCall) async throws -> AccountAnswer {
        guard !call.has("localId") else { throw AccountError("UNEXPECTED_PARAMETER", "User ID") }
        guard call.has("email") || call.has("password") || call.has("idToken") else { return try await signUpGuest(call) }
        let (email, password) = try newCredential(call)
        let token = call.has("idToken") ? try idToken(call) : nil
        let hash = try await hashPassword(password, peer: call.peer)
        let opened = try commit { transaction, aftermath in
            if let token {
                return try link(token, email, hash: hash, call, in: transaction, &aftermath)
            }
            guard try transaction.account(.email(email.text)) == nil else { throw AccountError("EMAIL_EXISTS") }
            var account = Account(id: RandomName.accountID(), createdAt: now())
            account.email = email.text
            account.displayName = try call.change("displayName", length: 256) ?? nil
            account.passwordHash = hash
            account.passwordUpdatedAt = now()
            return try begin(account, provider: "password", call, in: transaction)
        }
        return try await signedUp(opened)
    }

    private func signUpGuest(_ call: AccountCall) async throws -> AccountAnswer {
        guard settings.allowsAnonymous, settings.allowsSignUp else { throw AccountError("ADMIN_ONLY_OPERATION") }
        try admitSignUp(from: call.peer)
        let opened = try commit { transaction, _ in
            try begin(Account(id: RandomName.accountID(), createdAt: now()), provider: "anonymous", call, in: transaction)
        }
        return try await signedUp(opened)
    }

    /// Writes a new account down with its first session.
    func begin(_ account: Account, provider: String, claims: String? = nil, _ call: AccountCall, in transaction: AccountTransaction) throws -> OpenedSession {
        let opened = try open(account, provider: provider, claims: claims, call, in: transaction)
        try transaction.audit(.signUp, account.id, peer: call.peer, at: now(), provider)
        return opened
    }

    private func signedUp(_ opened: OpenedSession) async throws -> AccountAnswer {
        let tokens = try await issue(opened)
        var members: [JSONValue.Member] = [.init("localId", .string(opened.account.id))]
        members.add("email", opened.account.email)
        members.add("displayName", opened.account.displayName)
        return AccountAnswer(kind: "SignupNewUserResponse", members + tokens.members)
    }

    /// Address and password that somebody wants, in the order of the contract's checks.
    private func newCredential(_ call: AccountCall) throws -> (EmailAddress, String) {
        guard let wanted = try call.text("email") else { throw AccountError("MISSING_EMAIL") }
        guard let password = try call.text("password") else { throw AccountError("MISSING_PASSWORD") }
        guard settings.allowsPasswords else { throw AccountError("OPERATION_NOT_ALLOWED") }
        let isLinking = call.has("idToken")
        guard settings.allowsSignUp || isLinking else { throw AccountError("ADMIN_ONLY_OPERATION") }
        guard let email = EmailAddress(wanted) else { throw AccountError("INVALID_EMAIL") }
        // Counted before the answer tells whether the address is somebody's.
        try admitSignUp(from: call.peer)
        // Nobody's own address is in their way.
        let own = isLinking ? try? idToken(call).uid : nil
        if let holder = try store.read({ try $0.account(.email(email.text)) }), holder.id != own { throw AccountError("EMAIL_EXISTS") }
        guard !password.isEmpty else { throw AccountError("MISSING_PASSWORD") }
        try requireStrength(password)
        return (email, password)
    }

    /// - Throws: `WEAK_PASSWORD : why`.
    func requireStrength(_ password: String) throws(AccountError) {
        if let weakness = PasswordWeakness(password, settings.passwords) { throw AccountError("WEAK_PASSWORD", weakness.text) }
    }

    /// Gives the account of an ID token an address and a password.
    private func link(
        _ token: VerifiedToken, _ email: EmailAddress, hash: String, _ call: AccountCall, in transaction: AccountTransaction, _ aftermath: inout Aftermath
    ) throws -> OpenedSession {
        let standing = try standing(of: token, in: transaction)
        try requireRecentSignIn(standing)
        var account = standing.account
        if let holder = try transaction.account(.email(email.text)), holder.id != account.id { throw AccountError("EMAIL_EXISTS") }
        // As in `update`: with accounts hidden another address proves itself first, or its owner would find a stranger's account under it.
        guard !hidesAccounts || account.email == nil || account.email == email.text else { throw AccountError("OPERATION_NOT_ALLOWED") }
        try changeAddress(of: &account, to: email, isVerified: account.email == email.text && account.isEmailVerified, call, in: transaction, &aftermath)
        if let name = try call.change("displayName", length: 256) { account.displayName = name }
        account.passwordHash = hash
        account.passwordUpdatedAt = now()
        try revoke(&account, call, in: transaction, &aftermath)
        try transaction.audit(.passwordChanged, account.id, peer: call.peer, at: now())
        return try open(account, provider: "password", continuing: standing.session, call, in: transaction)
    }
}
