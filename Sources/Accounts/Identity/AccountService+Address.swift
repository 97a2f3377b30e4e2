extension AccountService {
    /// Gives an account another address; the same one is no change. Codes that were mailed for the former one are void. The
    /// caller asks before whether it is another account's, and revokes.
    func changeAddress(
        of account: inout Account, to email: EmailAddress, isVerified: Bool, _ call: AccountCall, in transaction: AccountTransaction,
        _ aftermath: inout Aftermath
    ) throws {
        let former = account.email
        account.isEmailVerified = isVerified
        guard former != email.text else { return }
        account.email = email.text
        try transaction.audit(.addressChanged, account.id, peer: call.peer, at: now())
    }
}
