import JSONTree
import Tokens

extension AccountService {
    /// `accounts:signUp`: a guest, an account with address and password, or either made of a guest (accounts contract §6.1).
    func signUp(_ call: AccountCall) async throws -> AccountAnswer {
        guard !call.has("localId") else { throw AccountError("UNEXPECTED_PARAMETER", "User ID") }
        guard call.has("email") || call.has("password") || call.has("idToken") else { return try await signUpGuest(call) }
        let (email, password) = try newCredential(call)
        let token = call.has("idToken") ? try idToken(call) : nil
        let hash = try await hashPassword(password, peer: call.peer)
        let opened = try commit(call) { write in
            if let token {
                return try write.link(token, email, hash: hash, call)
            }
            guard try write.transaction.account(.email(email.text)) == nil else { throw AccountError("EMAIL_EXISTS") }
            var account = Account(id: RandomName.accountID(), createdAt: now())
            account.email = email.text
            account.displayName = try call.change("displayName", length: 256) ?? nil
            account.passwordHash = hash
            account.passwordUpdatedAt = now()
            return try write.begin(account, provider: "password")
        }
        return try await signedUp(opened)
    }

    private func signUpGuest(_ call: AccountCall) async throws -> AccountAnswer {
        guard settings.allowsAnonymous, settings.allowsSignUp else { throw AccountError("ADMIN_ONLY_OPERATION") }
        try admitSignUp(from: call.peer)
        let opened = try commit(call) { write in
            try write.begin(Account(id: RandomName.accountID(), createdAt: now()), provider: "anonymous")
        }
        return try await signedUp(opened)
    }

    private func signedUp(_ opened: OpenedSession) async throws -> AccountAnswer {
        let tokens = try await issue(opened)
        var members: [JSONValue.Member] = [.init("localId", .string(opened.account.id))]
        members.add("email", opened.account.email)
        members.add("displayName", opened.account.displayName)
        return AccountAnswer(kind: "SignupNewUserResponse", members + tokens.members)
    }

    /// Address and password of a new account, in the order of the contract's checks.
    private func newCredential(_ call: AccountCall) throws -> (EmailAddress, String) {
        guard let wanted = try call.text("email") else { throw AccountError("MISSING_EMAIL") }
        guard let password = try call.text("password") else { throw AccountError("MISSING_PASSWORD") }
        guard settings.allowsPasswords else { throw AccountError("OPERATION_NOT_ALLOWED") }
        let isLinking = call.has("idToken")
        guard settings.allowsSignUp || isLinking else { throw AccountError("ADMIN_ONLY_OPERATION") }
        guard let email = EmailAddress(wanted) else { throw AccountError("INVALID_EMAIL") }
        // Counted before the answer tells whether the address is taken.
        try admitSignUp(from: call.peer)
        // A user's own address is no other account's.
        let own = isLinking ? try? idToken(call).uid : nil
        if let holder = try store.read({ try $0.account(.email(email.text)) }), holder.id != own {
            throw AccountError("EMAIL_EXISTS")
        }
        guard !password.isEmpty else { throw AccountError("MISSING_PASSWORD") }
        try requireStrength(password)
        return (email, password)
    }

    /// - Throws: `WEAK_PASSWORD : why`.
    func requireStrength(_ password: String) throws(AccountError) {
        if let weakness = PasswordWeakness(password, settings.passwords) { throw AccountError("WEAK_PASSWORD", weakness.text) }
    }

}

extension AccountWrite {
    /// Gives the account of an ID token an address and a password.
    fileprivate func link(_ token: VerifiedToken, _ email: EmailAddress, hash: String, _ call: AccountCall) throws -> OpenedSession {
        let user = try transaction.user(of: token)
        try user.requireRecentSignIn(settings, now: now())
        var account = user.account
        if let holder = try transaction.account(.email(email.text)), holder.id != account.id { throw AccountError("EMAIL_EXISTS") }
        // As in `update`: with accounts hidden another address proves itself first, or its owner would find a stranger's account under it.
        let isOwn = account.email == email.text
        guard !hidesAccounts || account.email == nil || isOwn else { throw AccountError("OPERATION_NOT_ALLOWED") }
        try changeAddress(of: &account, to: email, isVerified: isOwn && account.isEmailVerified)
        if let name = try call.change("displayName", length: 256) { account.displayName = name }
        account.passwordHash = hash
        account.passwordUpdatedAt = now()
        try revoke(&account)
        try audit(.passwordChanged, account.id)
        return try open(account, provider: "password", continuing: user.session)
    }
}
