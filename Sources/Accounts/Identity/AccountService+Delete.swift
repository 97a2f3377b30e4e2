extension AccountService {
    /// `accounts:delete`: the account of an ID token, with everything that hangs on it (accounts contract §6.5). A `localId` beside it
    /// says nothing: Apple's SDK sends it.
    func delete(_ call: AccountCall) async throws -> AccountAnswer {
        let token = try idToken(call)
        try commit { transaction, aftermath in
            let standing = try standing(of: token, in: transaction)
            try requireRecentSignIn(standing)
            try delete(standing.account.id, call, in: transaction, &aftermath)
        }
        return AccountAnswer(kind: "DeleteAccountResponse", [])
    }

    /// - Returns: false when there is no such account.
    @discardableResult
    func delete(_ uid: String, _ call: AccountCall, in transaction: AccountTransaction, _ aftermath: inout Aftermath) throws -> Bool {
        guard try transaction.deleteAccount(uid, at: now()) else { return false }
        try transaction.audit(.deleted, uid, peer: call.peer, at: now())
        aftermath.add(AccountChange(uid, .deleted))
        return true
    }
}
