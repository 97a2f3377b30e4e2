import JSONTree

/// What `vigla user` and `vigla token` ask for. An account is named by its id, its address or its alias.
extension AccountService {
    /// `{"user":"ana"}` → `{"user":{…},"alias":"ana"}`
    func findAccount(_ call: AccountCall) throws -> AccountAnswer {
        let account = try store.read { try $0.account(namedBy: call) }
        var members: [JSONValue.Member] = [.init("user", account.entry(forAdministrator: true))]
        members.add("alias", account.alias)
        return AccountAnswer(members)
    }

    /// `{"user":"ana","alias":"ana.k"}`; null or an empty text takes it away.
    /// - Throws: INVALID_ALIAS, ALIAS_EXISTS.
    func setAlias(_ call: AccountCall) throws -> AccountAnswer {
        let alias = try call.filled("alias")?.lowercased()
        if let alias, !Account.isAlias(alias) {
            throw AccountError("INVALID_ALIAS", "It has 1 to 64 letters, digits and . _ -, and no @")
        }
        try commit(call) { write in
            var account = try write.transaction.account(namedBy: call)
            if let alias, let other = try write.transaction.account(.alias(alias)), other.id != account.id {
                throw AccountError("ALIAS_EXISTS")
            }
            account.alias = alias
            try write.transaction.save(account)
            try write.audit(.profileChanged, account.id, "alias, \(AuditEvent.byAdministrator)")
        }
        return AccountAnswer([])
    }

    /// `{"user":"ana"}` → `{"sessions":[{"id":…,"provider":…,"createdAt":…,"lastUsedAt":…,"userAgent":…,"peer":…}]}`, the last used first.
    func listSessions(_ call: AccountCall) throws -> AccountAnswer {
        let sessions = try store.read { try $0.sessions(of: $0.account(namedBy: call).id) }
        return AccountAnswer([.init("sessions", .array(sessions.map(\.entry)))])
    }

    /// `{"user":"ana","session":"…"}`, or without `session` all of them → `{"ended":1}`
    /// - Throws: SESSION_NOT_FOUND.
    func endSessions(_ call: AccountCall) throws -> AccountAnswer {
        let wanted = try call.filled("session")
        let count = try commit(call) { write in
            var account = try write.transaction.account(namedBy: call)
            let sessions = try write.transaction.sessions(of: account.id)
            guard let wanted else {
                try write.revoke(&account)
                try write.transaction.save(account)
                return sessions.count
            }
            guard let session = sessions.first(where: { $0.id == wanted }) else { throw AccountError("SESSION_NOT_FOUND") }
            try write.end(session)
            return 1
        }
        return AccountAnswer([.init("ended", .int(Int64(count)))])
    }

    /// `{"user":"ana"}` → tokens of a new session of the account, as after a sign-in. For tools; it is listed and can be ended like any.
    /// - Throws: USER_DISABLED.
    func mintToken(_ call: AccountCall) async throws -> AccountAnswer {
        let opened = try commit(call) { write in
            let account = try write.transaction.account(namedBy: call)
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            try write.audit(.signIn, account.id, "custom, \(AuditEvent.byAdministrator)")
            return try write.open(account, provider: "custom")
        }
        return AccountAnswer([.init("localId", .string(opened.account.id))] + (try await issue(opened)).members)
    }
}

extension AccountTransaction {
    /// The account that an operator names by its id, its address or its alias.
    /// - Throws: MISSING_IDENTIFIER, USER_NOT_FOUND.
    fileprivate func account(namedBy call: AccountCall) throws -> Account {
        guard let name = try call.filled("user") else { throw AccountError("MISSING_IDENTIFIER") }
        let keys: [AccountKey] = [.id(name), .email(EmailAddress.lowercased(name)), .alias(name.lowercased())]
        for key in keys { if let account = try account(key) { return account } }
        throw AccountError("USER_NOT_FOUND")
    }
}

extension Account {
    /// Names that cannot be taken for an address, and read alike everywhere.
    static func isAlias(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { 0x61...0x7A ~= $0 || 0x30...0x39 ~= $0 || "._-".utf8.contains($0) }
    }
}

extension AccountSession {
    fileprivate var entry: JSONValue {
        var entry: [JSONValue.Member] = [
            .init("id", .string(id)), .init("provider", .string(provider)), .init("createdAt", .int(createdAt)),
            .init("lastUsedAt", .int(lastUsedAt)),
        ]
        entry.add("userAgent", userAgent)
        entry.add("peer", peer)
        return .object(entry)
    }
}
