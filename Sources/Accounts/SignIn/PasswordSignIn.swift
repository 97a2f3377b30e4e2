import Cryptography
import JSONTree
import Tokens

extension AccountService {
    /// `accounts:signUp`: creates a guest or an account with address and password, or upgrades a guest to one (accounts contract §6.1).
    func signUp(_ call: AccountCall) async throws -> AccountAnswer {
        guard !call.has("localId") else { throw AccountError("UNEXPECTED_PARAMETER", "User ID") }
        try call.refuseSecondFactors()
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

    /// Address and password of a new account, checked in the order of the contract.
    private func newCredential(_ call: AccountCall) throws -> (EmailAddress, String) {
        guard let wanted = try call.text("email") else { throw AccountError("MISSING_EMAIL") }
        guard let password = try call.text("password") else { throw AccountError("MISSING_PASSWORD") }
        guard settings.allowsPasswords else { throw AccountError("OPERATION_NOT_ALLOWED") }
        let isLinking = call.has("idToken")
        guard settings.allowsSignUp || isLinking else { throw AccountError("ADMIN_ONLY_OPERATION") }
        guard let email = EmailAddress(wanted) else { throw AccountError("INVALID_EMAIL") }
        // Counted before the response reveals whether the address is taken.
        try admitSignUp(from: call.peer)
        // A user's own address does not belong to another account.
        let own = isLinking ? try? idToken(call).uid : nil
        if let holder = try store.read({ try $0.account(.email(email.text)) }), holder.id != own {
            throw AccountError("EMAIL_EXISTS")
        }
        guard !password.isEmpty else { throw AccountError("MISSING_PASSWORD") }
        try requireStrength(password)
        return (email, password)
    }

    /// - Throws: `WEAK_PASSWORD : reason`.
    func requireStrength(_ password: String) throws(AccountError) {
        if let weakness = PasswordWeakness(password, settings.passwords) { throw AccountError("WEAK_PASSWORD", weakness.text) }
    }

}

extension AccountWrite {
    /// Adds an address and a password to the account of an ID token.
    fileprivate func link(_ token: VerifiedToken, _ email: EmailAddress, hash: String, _ call: AccountCall) throws -> OpenedSession {
        let user = try transaction.user(of: token)
        try user.requireRecentSignIn(settings, now: now())
        var account = user.account
        if let holder = try transaction.account(.email(email.text)), holder.id != account.id { throw AccountError("EMAIL_EXISTS") }
        // As in `update`: with accounts hidden another address must be verified first, or its owner would find a stranger's account under it.
        let isOwn = account.email == email.text
        guard !hidesAccounts || account.email == nil || isOwn else { throw AccountError("OPERATION_NOT_ALLOWED") }
        try changeAddress(of: &account, to: email, isVerified: isOwn && account.isEmailVerified)
        if let name = try call.change("displayName", length: 256) { account.displayName = name }
        account.passwordHash = hash
        account.passwordUpdatedAt = now()
        try revoke(&account, by: user.session)
        try audit(.passwordChanged, account.id)
        return try open(account, provider: "password", continuing: user.session)
    }
}

extension AccountService {
    /// `accounts:signInWithPassword` (accounts contract §6.2).
    func signInWithPassword(_ call: AccountCall) async throws -> AccountAnswer {
        guard let wanted = try call.text("email") else { throw AccountError("MISSING_EMAIL") }
        guard let email = EmailAddress(wanted) else { throw AccountError("INVALID_EMAIL") }
        guard let password = try call.filled("password") else { throw AccountError("MISSING_PASSWORD") }
        guard settings.allowsPasswords else { throw AccountError("PASSWORD_LOGIN_DISABLED") }
        let opened = try await signIn(.email(email.text), typed: email.text, password: password, call)
        let tokens = try await issue(opened)
        var members: [JSONValue.Member] = [
            .init("registered", true), .init("localId", .string(opened.account.id)), .init("email", .string(email.text)),
        ]
        members.add("displayName", opened.account.displayName)
        return AccountAnswer(kind: "VerifyPasswordResponse", members + tokens.members)
    }

    /// Checks a password and begins a session.
    /// - Parameter typed: the name that the client sent, for counting attempts without an account.
    /// - Throws: INVALID_LOGIN_CREDENTIALS, or EMAIL_NOT_FOUND and INVALID_PASSWORD if accounts are not hidden; USER_DISABLED only with the
    ///   correct password; TOO_MANY_ATTEMPTS_TRY_LATER.
    func signIn(_ key: AccountKey, typed: String, password: String, _ call: AccountCall) async throws -> OpenedSession {
        var found = try store.read { try $0.account(key) }
        if found == nil, isShared {
            // Another hub may have just created it.
            try await catchUpWithLog()
            found = try store.read { try $0.account(key) }
        }
        let verdict = try await checkPassword(password, of: found?.id ?? typed, stored: found?.passwordHash, peer: call.peer)
        guard let found, verdict != .wrong else {
            // Written even without an account, as the time of the write would reveal whether the account exists.
            try commit(call, .withSystem) { try $0.audit(.signInFailed, found?.id) }
            throw AccountError(hidesAccounts ? "INVALID_LOGIN_CREDENTIALS" : found == nil ? "EMAIL_NOT_FOUND" : "INVALID_PASSWORD")
        }
        let better = verdict == .rightButOutdated ? try await passwords.hash(password) : nil
        return try commit(call, .withSystem) { write in
            // The password may have been changed during the check; then the result is void.
            guard var account = try write.transaction.account(.id(found.id)), account.passwordHash == found.passwordHash else {
                throw AccountError(hidesAccounts ? "INVALID_LOGIN_CREDENTIALS" : "INVALID_PASSWORD")
            }
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            if let better { account.passwordHash = better }
            try write.audit(.signIn, account.id, "password")
            return try write.open(account, provider: "password")
        }
    }
}

extension AccountService {
    /// `accounts:createAuthUri`: the ways in which the user of an address can sign in (accounts contract §6.9). With accounts hidden, none.
    func createAuthURI(_ call: AccountCall) async throws -> AccountAnswer {
        guard let identifier = try call.filled("identifier") else { throw AccountError("MISSING_IDENTIFIER") }
        guard let continueURI = try call.filled("continueUri") else { throw AccountError("MISSING_CONTINUE_URI") }
        guard let email = EmailAddress(identifier) else { throw AccountError("INVALID_IDENTIFIER") }
        guard ContinueURL(continueURI) != nil else { throw AccountError("INVALID_CONTINUE_URI") }
        var members: [JSONValue.Member] = [.init("sessionId", .string(try call.filled("sessionId") ?? SecureRandom.text(27)))]
        if !hidesAccounts {
            let accounts = try store.read { try $0.accounts(withAddress: email.text) }
            members.add("registered", .bool(!accounts.isEmpty))
            members.add("allProviders", .array(Self.unique(accounts.flatMap(\.providerNames)).map(JSONValue.string)))
            members.add("signinMethods", .array(Self.unique(accounts.flatMap { $0.signInMethods(for: email) }).map(JSONValue.string)))
        }
        return AccountAnswer(kind: "CreateAuthUriResponse", members)
    }

    private static func unique(_ names: [String]) -> [String] {
        names.enumerated().filter { names.firstIndex(of: $0.element) == $0.offset }.map(\.element)
    }
}

extension Account {
    /// `password`, `emailLink`, and the services where the user has that address.
    fileprivate func signInMethods(for address: EmailAddress) -> [String] {
        var methods: [String] = []
        if email == address.text {
            if passwordHash != nil { methods.append("password") }
            if hasEmailLink { methods.append("emailLink") }
        }
        return methods + providers.filter { $0.email == address.text || email == address.text }.map(\.id)
    }
}
