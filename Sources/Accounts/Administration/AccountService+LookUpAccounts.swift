import JSONTree

extension AccountService {
    /// `projects/{p}/accounts:lookup`: accounts by id, address, number or identity at another service; each once. Those that
    /// do not exist are left out; without any, `users` is (accounts contract §10).
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
