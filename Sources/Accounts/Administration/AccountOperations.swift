import JSONTree
import WireProtocols

extension AccountService {
    /// `projects/{p}/accounts:lookup`: accounts by id, address, phone number or identity at another service; each once. Missing accounts are
    /// omitted; without any account, `users` is omitted (accounts contract §10).
    func lookUpAccounts(_ call: AccountCall) throws -> AccountAnswer {
        var keys = try call.texts("localId").map(AccountKey.id)
        keys += try call.texts("email").map { .email(EmailAddress.lowercased($0)) }
        keys += try call.texts("phoneNumber").map(AccountKey.phoneNumber)
        for identity in try call.objects("federatedUserId") {
            guard let provider = try identity.filled("providerId"), let rawID = try identity.filled("rawId") else { continue }
            keys.append(.provider(provider, rawID: rawID))
        }
        guard !keys.isEmpty else { throw AccountError("MISSING_IDENTIFIER") }
        guard keys.count <= settings.lookupsAtOnce else {
            throw AccountError.invalid("localId", "at most \(settings.lookupsAtOnce) accounts are looked up at once")
        }
        var seen: Set<String> = []
        let found = try store.read { transaction in try keys.compactMap(transaction.account) }.filter { seen.insert($0.id).inserted }
        var members: [JSONValue.Member] = []
        members.add("users", found.isEmpty ? nil : .array(found.map { $0.entry(forAdministrator: true) }))
        return AccountAnswer(kind: "GetAccountInfoResponse", members)
    }
}

extension AccountService {
    /// `projects/{p}/accounts:batchGet`: a page of all accounts in the order of their ids, after `nextPageToken`, the last id of the previous
    /// page. `users` is omitted after the last page (accounts contract §10).
    func listAccounts(_ call: AccountCall) throws -> AccountAnswer {
        let limit = try call.count("maxResults", 1...settings.listedAtOnce) ?? min(20, settings.listedAtOnce)
        let page = try store.read { try $0.accounts(after: call.parameter("nextPageToken") ?? "", limit: limit) }
        var members: [JSONValue.Member] = []
        members.add("users", page.isEmpty ? nil : .array(page.map { $0.entry(forAdministrator: true) }))
        members.add("nextPageToken", page.count == limit ? page.last?.id : nil)
        return AccountAnswer(kind: "DownloadAccountResponse", members)
    }

    /// `projects/{p}/accounts:query`: the number of accounts, or a range of them in the order of their ids.
    func queryAccounts(_ call: AccountCall) throws -> AccountAnswer {
        let isByID = [nil, "USER_ID", "SORT_BY_FIELD_UNSPECIFIED"].contains(try call.text("sortBy"))
        guard isByID, try call.objects("expression").isEmpty else { throw AccountError.notBuilt }
        guard try call.flag("returnUserInfo") ?? true else {
            let count = try store.read { try $0.accountCount() }
            return AccountAnswer([.init("recordsCount", .string(String(count)))])
        }
        let limit = try call.count("limit", 1...settings.listedAtOnce) ?? settings.listedAtOnce
        let offset = try call.count("offset", 0...Int.max) ?? 0
        let isDescending = try call.text("order") == "DESC"
        let found = try store.read { try $0.accounts(offset: offset, limit: limit, isDescending: isDescending) }
        var members: [JSONValue.Member] = [.init("recordsCount", .string(String(found.count)))]
        members.add("userInfo", found.isEmpty ? nil : .array(found.map { $0.entry(forAdministrator: true) }))
        return AccountAnswer(members)
    }
}

extension AccountCall {
    /// A number from the query or the body; nil if absent.
    fileprivate func count(_ name: String, _ range: ClosedRange<Int>) throws(AccountError) -> Int? {
        let value = request.target.value(name).map(JSONValue.string) ?? body[name]
        guard let value, !value.isNull else { return nil }
        guard let number = value.int.flatMap({ Int(exactly: $0) }), range.contains(number) else {
            throw .invalid(name, "an integer from \(range.lowerBound) to \(range.upperBound) is expected")
        }
        return number
    }

    /// A text from the query or the body.
    fileprivate func parameter(_ name: String) -> String? { request.target.value(name) ?? body[name]?.string }
}

/// The requests of `vigla user` and `vigla token`. They name an account by its id, address or alias.
extension AccountService {
    /// `{"user":"ana"}` → `{"user":{…},"alias":"ana"}`
    func findAccount(_ call: AccountCall) throws -> AccountAnswer {
        let account = try store.read { try $0.account(namedBy: call) }
        var members: [JSONValue.Member] = [.init("user", account.entry(forAdministrator: true))]
        members.add("alias", account.alias)
        return AccountAnswer(members)
    }

    /// `{"user":"ana","alias":"ana.k"}`; null or an empty text removes the alias.
    /// - Throws: INVALID_ALIAS, ALIAS_EXISTS.
    func setAlias(_ call: AccountCall) throws -> AccountAnswer {
        let alias = try call.alias()
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

    /// `{"user":"ana"}` → `{"sessions":[{"id":…,"provider":…,"createdAt":…,"lastUsedAt":…,"userAgent":…,"peer":…}]}`, most recently used first.
    func listSessions(_ call: AccountCall) throws -> AccountAnswer {
        let sessions = try store.read { try $0.sessions(of: $0.account(namedBy: call).id) }
        return AccountAnswer([.init("sessions", .array(sessions.map(\.entry)))])
    }

    /// `{"user":"ana","session":"…"}`, or without `session` all sessions → `{"ended":1}`
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

    /// `{"user":"ana"}` → tokens of a new session, as after a sign-in. For tools; the session is listed and can be ended like any other.
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

extension AccountCall {
    /// The alias in a request; nil for none.
    /// - Throws: INVALID_ALIAS.
    func alias() throws -> String? {
        guard let alias = try filled("alias")?.lowercased() else { return nil }
        guard Account.isAlias(alias) else {
            throw AccountError("INVALID_ALIAS", "It has 1 to 64 letters, digits and . _ -, and no @")
        }
        return alias
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
    /// Accepts only names that cannot be mistaken for an address, and that every client displays alike.
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
