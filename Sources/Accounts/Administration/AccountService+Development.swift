import JSONTree

extension AccountService {
    /// Empties the hub of accounts between two tests; codes that were mailed are listed on, though most are good for nothing now.
    func deleteEveryAccount(_ call: AccountCall) throws -> AccountAnswer {
        try commit(call) { write in
            try write.transaction.detachCodes()
            for id in try write.transaction.accountIDs() { try write.delete(id) }
        }
        return AccountAnswer([])
    }

    /// The codes that were mailed since the hub began and are pending, the oldest first.
    func listCodes() throws -> AccountAnswer {
        let now = now()
        let pending = try store.read { transaction in
            try knownCodes.all.filter { try now < $0.code.expiresAt && transaction.code(hash: SecretHash.of($0.secret)) != nil }
        }
        let codes: [JSONValue] = pending.map { known in
            var entry: [JSONValue.Member] = [.init("email", .string(known.code.email))]
            entry.add("newEmail", known.code.newEmail)
            entry.add("requestType", known.code.kind.rawValue)
            entry.add("oobCode", known.secret)
            entry.add("oobLink", known.link)
            return .object(entry)
        }
        return AccountAnswer([.init("oobCodes", .array(codes))])
    }
}
