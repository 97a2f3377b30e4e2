import JSONTree
import Tokens

extension AccountService {
    /// `accounts:delete`: the account of an ID token, with everything that hangs on it (accounts contract §6.5). A `localId` beside it
    /// says nothing: Apple's SDK sends it.
    func delete(_ call: AccountCall) async throws -> AccountAnswer {
        let token = try idToken(call)
        try commit(call) { write in
            let user = try write.transaction.user(of: token)
            try user.requireRecentSignIn(settings, now: now())
            try write.delete(user.account.id)
        }
        return AccountAnswer(kind: "DeleteAccountResponse", [])
    }
}

extension AccountWrite {
    /// - Parameter detail: of the event that is written down.
    /// - Returns: false when there is no such account.
    @discardableResult
    func delete(_ uid: String, _ detail: String? = nil) throws -> Bool {
        guard try transaction.deleteAccount(uid, at: now()) else { return false }
        try audit(.deleted, uid, detail)
        announce(uid, .deleted)
        return true
    }
}
