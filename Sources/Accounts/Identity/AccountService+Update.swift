import JSONTree
import Tokens

extension AccountService {
    /// `accounts:update` of the account of an ID token, or by a mailed code (accounts contract §6.4).
    func update(_ call: AccountCall) async throws -> AccountAnswer {
        if let secret = try call.filled("oobCode") {
            let (account, code) = try apply(code: secret, call)
            var members = Self.updated(account)
            members.add("newEmail", code.newEmail)
            return AccountAnswer(kind: "SetAccountInfoResponse", members)
        }
        guard call.has("idToken") else { throw AccountError("INVALID_REQ_TYPE", "Unsupported request parameters.") }
        guard !call.has("customAttributes") else { throw AccountError("INSUFFICIENT_PERMISSION") }
        guard !call.has("disableUser") else { throw AccountError("OPERATION_NOT_ALLOWED") }
        var update = try AccountUpdate(call)
        let token = try idToken(call)
        if let password = update.password {
            guard settings.allowsPasswords else { throw AccountError("OPERATION_NOT_ALLOWED") }
            try requireStrength(password)
            // A user who may not do it costs no hash.
            try store.read { try $0.user(of: token).requireRecentSignIn(settings, now: now()) }
            update.passwordHash = try await hashPassword(password, peer: call.peer)
        }
        let (account, opened) = try commit(call) { try $0.carryOut(update, by: token) }
        var members = Self.updated(account)
        if let opened { members += try await issue(opened).members }
        return AccountAnswer(kind: "SetAccountInfoResponse", members)
    }

    /// What an update answers with: name, photo and providers as they are now, every time, as JS takes what is missing for cleared.
    static func updated(_ account: Account) -> [JSONValue.Member] {
        var members: [JSONValue.Member] = [.init("localId", .string(account.id))]
        members.add("email", account.email)
        if account.email != nil { members.add("emailVerified", .bool(account.isEmailVerified)) }
        members.add("displayName", account.displayName)
        members.add("photoUrl", account.photoURL)
        members.add("providerUserInfo", account.providerEntries)
        if account.passwordHash != nil { members.add("passwordHash", Account.redactedHash) }
        return members
    }
}

extension AccountWrite {
    /// A user's change of their own account.
    fileprivate func carryOut(_ update: AccountUpdate, by token: VerifiedToken) throws -> (Account, OpenedSession?) {
        let user = try transaction.user(of: token)
        let former = user.account
        if update.isSensitive { try user.requireRecentSignIn(settings, now: now()) }
        if let email = update.email, email.text != former.email {
            // With accounts hidden the new address proves itself first: VERIFY_AND_CHANGE_EMAIL (accounts contract §9).
            guard !hidesAccounts else { throw AccountError("OPERATION_NOT_ALLOWED") }
            if try transaction.account(.email(email.text)) != nil { throw AccountError("EMAIL_EXISTS") }
        }
        let account = try apply(update, to: former)
        guard update.revokes || account.email != former.email || account.passwordHash != former.passwordHash else {
            try transaction.save(account)
            return (account, nil)
        }
        var revoked = account
        try revoke(&revoked)
        let provider = update.passwordHash == nil ? user.session.provider : "password"
        let opened = try open(revoked, provider: provider, continuing: user.session)
        return (opened.account, opened)
    }

    /// The account with what was asked for; writes down what happened, and not the account.
    /// - Throws: nothing of who may: that is the caller's.
    func apply(_ update: AccountUpdate, to former: Account) throws -> Account {
        var account = former
        if let name = update.displayName { account.displayName = name }
        if let photo = update.photoURL { account.photoURL = photo }
        if account != former { try audit(.profileChanged, account.id) }
        if let email = update.email, email.text != former.email {
            try changeAddress(of: &account, to: email, isVerified: false)
        }
        if let hash = update.passwordHash {
            account.passwordHash = hash
            account.passwordUpdatedAt = now()
            try audit(.passwordChanged, account.id)
        }
        for provider in account.providers where update.unlinked.contains(provider.id) {
            try audit(.providerUnlinked, account.id, provider.id)
            // Tokens name it among the user's identities.
            announce(account.id, .claimsChanged)
        }
        account.providers.removeAll { update.unlinked.contains($0.id) }
        let unlinksPassword = update.unlinked.contains("password")
        if update.clearsPassword || unlinksPassword {
            account.passwordHash = nil
            account.passwordUpdatedAt = nil
        }
        if update.clearsEmail || unlinksPassword {
            try clearAddress(of: &account)
        }
        if update.unlinked.contains("phone") { account.phoneNumber = nil }
        return account
    }
}
