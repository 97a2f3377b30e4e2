import JSONTree

extension AccountService {
    /// `projects/{p}/accounts:delete` (accounts contract §10).
    func deleteAccount(_ call: AccountCall) throws -> AccountAnswer {
        guard let uid = try call.filled("localId") else { throw AccountError("MISSING_LOCAL_ID") }
        try commit(call) { write in
            guard try write.delete(uid) else { throw AccountError("USER_NOT_FOUND") }
        }
        return AccountAnswer(kind: "DeleteAccountResponse", [])
    }

    /// `projects/{p}/accounts:batchDelete`: many at once; enabled ones only with `force`. One that is not there is no error.
    func deleteAccounts(_ call: AccountCall) throws -> AccountAnswer {
        let ids = try call.texts("localIds")
        guard 1...settings.changedAtOnce ~= ids.count else {
            throw AccountError("LOCAL_ID_LIST_EXCEEDS_LIMIT", "1 to \(settings.changedAtOnce) accounts are deleted at once")
        }
        let isForced = try call.flag("force") ?? false
        let kept = try commit(call) { write in
            var kept: [JSONValue] = []
            for (index, id) in ids.enumerated() {
                if !isForced, let account = try write.transaction.account(.id(id)), !account.isDisabled {
                    kept.append([
                        "index": .int(Int64(index)), "localId": .string(id),
                        "message": "NOT_DISABLED : Disable the account before it is deleted, or say force",
                    ])
                } else {
                    try write.delete(id)
                }
            }
            return kept
        }
        var members: [JSONValue.Member] = []
        members.add("errors", kept.isEmpty ? nil : .array(kept))
        return AccountAnswer(members)
    }
}
