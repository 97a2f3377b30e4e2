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
