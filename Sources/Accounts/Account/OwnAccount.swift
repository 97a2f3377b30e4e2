import JSONTree
import Tokens

extension AccountService {
    /// `accounts:lookup`: the account of an ID token (accounts contract §6.3).
    func lookUp(_ call: AccountCall) async throws -> AccountAnswer {
        let token = try idToken(call)
        let account = try store.read { try $0.user(of: token).account }
        return AccountAnswer(kind: "GetAccountInfoResponse", [.init("users", [account.entry(forAdministrator: false)])])
    }
}

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
            // Check first, so that a user without permission costs no password hash.
            try store.read { try $0.user(of: token).requireRecentSignIn(settings, now: now()) }
            update.passwordHash = try await hashPassword(password, peer: call.peer)
        }
        let (account, opened) = try commit(call) { try $0.carryOut(update, by: token) }
        var members = Self.updated(account)
        if let opened { members += try await issue(opened).members }
        return AccountAnswer(kind: "SetAccountInfoResponse", members)
    }

    /// The response to an update: always the current name, photo and providers, as the JS SDK treats missing ones as cleared.
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
    /// Applies a user's change of their own account.
    fileprivate func carryOut(_ update: AccountUpdate, by token: VerifiedToken) throws -> (Account, OpenedSession?) {
        let user = try transaction.user(of: token)
        let former = user.account
        if update.isSensitive { try user.requireRecentSignIn(settings, now: now()) }
        if let email = update.email, email.text != former.email {
            // With accounts hidden the new address must be verified first: VERIFY_AND_CHANGE_EMAIL (accounts contract §9).
            guard !hidesAccounts else { throw AccountError("OPERATION_NOT_ALLOWED") }
            if try transaction.account(.email(email.text)) != nil { throw AccountError("EMAIL_EXISTS") }
        }
        let account = try apply(update, to: former)
        guard update.revokes || account.email != former.email || account.passwordHash != former.passwordHash else {
            try announceClaims(of: account, since: former)
            try transaction.save(account)
            return (account, nil)
        }
        var revoked = account
        try revoke(&revoked, by: user.session)
        let provider = update.passwordHash == nil ? user.session.provider : "password"
        let opened = try open(revoked, provider: provider, continuing: user.session)
        return (opened.account, opened)
    }

    /// The account after the requested changes. Records the audit events, but does not save the account. The caller checks permissions.
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

    /// Announces a change that makes claims in earlier tokens wrong.
    /// - Parameter author: see `AccountChange.author`.
    func announceClaims(of account: Account, since former: Account, by author: AccountSession? = nil) throws {
        if account.hasOtherClaims(than: former) { try announce(account.id, .claimsChanged, by: author) }
    }
}

extension Account {
    /// Whether tokens of the former account contain wrong claims. One more identity or a newly verified address does not count: such tokens only
    /// say too little. Nor do name and picture, which rules should not trust, as users set them. A changed address revokes all tokens anyway.
    fileprivate func hasOtherClaims(than former: Account) -> Bool {
        CustomClaims(column: customClaims) != CustomClaims(column: former.customClaims)
            || former.isEmailVerified && !isEmailVerified && email == former.email
            || former.phoneNumber != nil && phoneNumber != former.phoneNumber
            || former.providers.contains { old in !providers.contains { $0.id == old.id && $0.rawID == old.rawID } }
    }
}

extension AccountService {
    /// `accounts:delete`: the account of an ID token with everything that belongs to it, including its data in the tree (accounts contract §6.5).
    /// An additional `localId`, which Apple's SDK sends, is ignored.
    func delete(_ call: AccountCall) async throws -> AccountAnswer {
        let token = try idToken(call)
        try commit(call) { write in
            let user = try write.transaction.user(of: token)
            try user.requireRecentSignIn(settings, now: now())
            try write.delete(user.account.id)
        }
        return await answer(AccountAnswer(kind: "DeleteAccountResponse", []), behindRemovalOf: [token.uid])
    }
}

extension AccountWrite {
    /// - Parameter detail: the detail of the audit event.
    /// - Returns: false if the account does not exist.
    @discardableResult
    func delete(_ uid: String, _ detail: String? = nil) throws -> Bool {
        guard try transaction.deleteAccount(uid, at: now()) else { return false }
        try audit(.deleted, uid, detail)
        try announce(uid, .deleted)
        return true
    }
}

/// The parsed and validated request of `accounts:update` (accounts contract §6.4), before it is applied.
struct AccountUpdate: Sendable {
    /// Nil leaves the field, `.some(nil)` clears it.
    var displayName: String??
    var photoURL: String??
    var email: EmailAddress?
    var clearsEmail = false
    /// The new password in clear; see `passwordHash`.
    var password: String?
    var clearsPassword = false
    /// Providers to unlink; for `password` and `phone` the account's password and phone number are removed.
    var unlinked: Set<String> = []
    /// Whether all sessions end.
    var revokes = false

    /// Set once the password is hashed.
    var passwordHash: String?

    init(_ call: AccountCall) throws(AccountError) {
        try call.refuseSecondFactors()
        displayName = try call.change("displayName", length: 256)
        photoURL = try call.change("photoUrl", length: 2048)
        if let text = try call.text("email") {
            guard let address = EmailAddress(text) else { throw AccountError("INVALID_EMAIL") }
            email = address
        }
        password = try call.text("password")
        unlinked = Set(try call.texts("deleteProvider"))
        revokes = call.has("validSince")
        for attribute in try Self.attributes(call.body["deleteAttribute"]) {
            switch attribute {
            case .displayName: displayName = .some(nil)
            case .photoURL: photoURL = .some(nil)
            case .email: clearsEmail = true
            case .password: clearsPassword = true
            case .other: break
            }
        }
    }

    /// Whether the change needs a recent sign-in.
    var isSensitive: Bool { email != nil || clearsEmail || password != nil || clearsPassword || !unlinked.isEmpty }

    // MARK: deleteAttribute

    private enum Attribute { case email, displayName, photoURL, password, other }

    /// Parses attribute names, or their numbers, which Android's SDK sends.
    private static func attributes(_ value: JSONValue?) throws(AccountError) -> [Attribute] {
        switch value {
        case nil, .null: return []
        case .array(let elements):
            return elements.map { element in
                switch element {
                case "EMAIL", 1: .email
                case "DISPLAY_NAME", 2: .displayName
                case "PHOTO_URL", 4: .photoURL
                case "PASSWORD", 5: .password
                default: .other
                }
            }
        default: throw .invalid("deleteAttribute", "a list is expected")
        }
    }
}
