extension AccountService {
    /// Gives an account another address; the same one is no change. Codes that were mailed for the former one are void, and it is
    /// sent a way back: the account's owner may be who reads it, and not who made the change (accounts contract §6.4). The caller
    /// has asked whether the address is another account's, and revokes.
    /// - Parameter isRecovery: this is the way back; then a link for a new password goes there instead.
    func changeAddress(
        of account: inout Account, to email: EmailAddress, isVerified: Bool, isRecovery: Bool = false, _ call: AccountCall,
        in transaction: AccountTransaction, _ aftermath: inout Aftermath
    ) throws {
        let former = account.email
        account.isEmailVerified = isVerified
        guard former != email.text else { return }
        account.email = email.text
        try transaction.audit(.addressChanged, account.id, peer: call.peer, at: now())
        try transaction.removeCodes(of: account.id)
        if isRecovery {
            try transaction.removeCodes(of: account.id, .recoverEmail)
            // Whoever changed the address may have changed the password as well.
            let code = try makeCode(.resetPassword, account: account, email: email.text, call, in: transaction)
            aftermath.letters.append(.init(code, to: email.text, account, call))
            return
        }
        guard let former else { return }
        if account.initialEmail == nil { account.initialEmail = former }
        // To the first address alone: by a way back to any other, a thief who had set that one would come back.
        guard let first = account.initialEmail, first != email.text else { return }
        let code = try makeCode(.recoverEmail, account: account, email: first, call, in: transaction)
        aftermath.letters.append(.init(code, to: first, account, call))
    }
}
