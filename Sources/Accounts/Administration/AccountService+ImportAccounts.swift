import JSONTree

extension AccountService {
    /// `projects/{p}/accounts:batchCreate`: accounts from elsewhere, with their password hashes. Each is taken or named with what is
    /// wrong with it; those that are taken are so together (accounts contract §10).
    func importAccounts(_ call: AccountCall) async throws -> AccountAnswer {
        let users = try call.objects("users")
        guard !users.isEmpty else { throw AccountError("MISSING_USER_ACCOUNT") }
        guard users.count <= settings.changedAtOnce else {
            throw AccountError.invalid("users", "at most \(settings.changedAtOnce) accounts are imported at once")
        }
        let scheme = users.contains { $0.has("passwordHash") } ? try ImportedPasswords(call) : nil
        let overwrites = try call.flag("allowOverwrite") ?? false

        var accounts: [(index: Int, account: Account)] = []
        var faults: [(index: Int, message: String)] = []
        for (index, user) in users.enumerated() {
            do throws(AccountError) { accounts.append((index, try await imported(user, scheme))) } catch {
                faults.append((index, error.message))
            }
        }
        let read = accounts
        faults += try commit(call) { write in
            var faults: [(index: Int, message: String)] = []
            for (index, account) in read {
                do { try write.store(account, overwrites: overwrites) } catch let error as AccountError {
                    faults.append((index, error.message))
                }
            }
            return faults
        }
        faults.sort { $0.index < $1.index }
        var members: [JSONValue.Member] = []
        members.add("error", faults.isEmpty ? nil : .array(faults.map { ["index": .int(Int64($0.index)), "message": .string($0.message)] }))
        return AccountAnswer(kind: "UploadAccountResponse", members)
    }

    private func imported(_ user: AccountCall, _ scheme: ImportedPasswords?) async throws(AccountError) -> Account {
        guard let id = try user.filled("localId") else { throw AccountError("MISSING_LOCAL_ID") }
        try Account.requireID(id)
        var account = Account(id: id, createdAt: now())
        account.fill(try AccountUpdate(user))
        try AdministrativeUpdate(user, settings).apply(to: &account)
        account.validSince = now() / 1000
        if let password = try user.filled("rawPassword") {
            try requireStrength(password)
            account.passwordHash = try await passwords.hash(password)
        } else if user.has("passwordHash"), let scheme {
            account.passwordHash = try scheme.hash(of: user).text
        }
        if account.passwordHash != nil { account.passwordUpdatedAt = now() }
        return account
    }

}

extension AccountWrite {
    fileprivate func store(_ account: Account, overwrites: Bool) throws {
        var account = account
        let former = try transaction.account(.id(account.id))
        guard former == nil || overwrites else {
            throw AccountError("DUPLICATE_LOCAL_ID", "There is such an account, and allowOverwrite is not said")
        }
        try transaction.requireFree(account, isNew: false)
        if former != nil { try revoke(&account) }
        try transaction.save(account)
        try audit(.signUp, account.id, "imported \(AuditEvent.byAdministrator)")
    }
}
