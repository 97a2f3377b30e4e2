import JSONTree
import Tokens

extension AccountService {
    /// `projects/{p}/accounts`: an account as an administrator wants it; no session begins (accounts contract §10).
    func createAccount(_ call: AccountCall) async throws -> AccountAnswer {
        let wanted = try call.text("localId")
        if let wanted { try Account.requireID(wanted) }
        let profile = try AccountUpdate(call)
        var account = Account(id: wanted ?? RandomName.accountID(), createdAt: now())
        account.fill(profile)
        try AdministrativeUpdate(call, settings).apply(to: &account)
        if let password = profile.password {
            try requireStrength(password)
            // An account that cannot be made costs no hash.
            let made = account
            try store.read { try $0.requireFree(made, isNew: true) }
            account.passwordHash = try await passwords.hash(password)
            account.passwordUpdatedAt = now()
        }
        let made = account
        try commit(call) { write in
            try write.transaction.requireFree(made, isNew: true)
            try write.transaction.save(made)
            try write.audit(.signUp, made.id, AuditEvent.byAdministrator)
        }
        var members: [JSONValue.Member] = [.init("localId", .string(made.id))]
        members.add("email", made.email)
        members.add("displayName", made.displayName)
        return AccountAnswer(kind: "SignupNewUserResponse", members)
    }

}

extension AccountTransaction {
    /// Asks whether what must be one account's is not another's.
    /// - Throws: DUPLICATE_LOCAL_ID, EMAIL_EXISTS, PHONE_NUMBER_EXISTS, FEDERATED_USER_ID_ALREADY_LINKED.
    func requireFree(_ account: Account, isNew: Bool) throws {
        func isAnothers(_ key: AccountKey) throws -> Bool { try self.account(key).map { $0.id != account.id } ?? false }
        if isNew, try self.account(.id(account.id)) != nil { throw AccountError("DUPLICATE_LOCAL_ID") }
        if let email = account.email, try isAnothers(.email(email)) { throw AccountError("EMAIL_EXISTS") }
        if let number = account.phoneNumber, try isAnothers(.phoneNumber(number)) { throw AccountError("PHONE_NUMBER_EXISTS") }
        for provider in account.providers where try isAnothers(.provider(provider.id, rawID: provider.rawID)) {
            throw AccountError("FEDERATED_USER_ID_ALREADY_LINKED")
        }
    }
}

extension Account {
    /// - Throws: INVALID_LOCAL_ID for what no token could name.
    static func requireID(_ id: String) throws(AccountError) {
        guard TokenExpectations.isSubject(id) else { throw AccountError("INVALID_LOCAL_ID", "It has 1 to 128 characters") }
        guard isName(id) else { throw AccountError("INVALID_LOCAL_ID", "It has no control characters") }
    }

    /// What a new account begins with.
    mutating func fill(_ profile: AccountUpdate) {
        displayName = profile.displayName ?? nil
        photoURL = profile.photoURL ?? nil
        email = profile.email?.text
    }
}
