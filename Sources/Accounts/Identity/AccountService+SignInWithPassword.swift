import JSONTree

extension AccountService {
    /// `accounts:signInWithPassword` (accounts contract §6.2).
    func signInWithPassword(_ call: AccountCall) async throws -> AccountAnswer {
        guard let wanted = try call.text("email") else { throw AccountError("MISSING_EMAIL") }
        guard let email = EmailAddress(wanted) else { throw AccountError("INVALID_EMAIL") }
        guard let password = try call.filled("password") else { throw AccountError("MISSING_PASSWORD") }
        guard settings.allowsPasswords else { throw AccountError("PASSWORD_LOGIN_DISABLED") }
        let opened = try await signIn(.email(email.text), typed: email.text, password: password, call)
        let tokens = try await issue(opened)
        var members: [JSONValue.Member] = [
            .init("registered", true), .init("localId", .string(opened.account.id)), .init("email", .string(email.text)),
        ]
        members.add("displayName", opened.account.displayName)
        return AccountAnswer(kind: "VerifyPasswordResponse", members + tokens.members)
    }

    /// Checks a password and begins a session.
    /// - Parameter typed: what the account was called, for the count of attempts when there is none.
    /// - Throws: INVALID_LOGIN_CREDENTIALS, or EMAIL_NOT_FOUND and INVALID_PASSWORD when accounts are not hidden; USER_DISABLED only with
    ///   the right password; TOO_MANY_ATTEMPTS_TRY_LATER.
    func signIn(_ key: AccountKey, typed: String, password: String, _ call: AccountCall) async throws -> OpenedSession {
        let found = try store.read { try $0.account(key) }
        let verdict = try await checkPassword(password, of: found?.id ?? typed, stored: found?.passwordHash, peer: call.peer)
        guard let found, verdict != .wrong else {
            // Also where there is no account: what is written takes time, and that would tell.
            try commit(call) { try $0.audit(.signInFailed, found?.id) }
            throw AccountError(hidesAccounts ? "INVALID_LOGIN_CREDENTIALS" : found == nil ? "EMAIL_NOT_FOUND" : "INVALID_PASSWORD")
        }
        let better = verdict == .rightButOutdated ? try await passwords.hash(password) : nil
        return try commit(call) { write in
            // A password that was changed while this one was checked is not known.
            guard var account = try write.transaction.account(.id(found.id)), account.passwordHash == found.passwordHash else {
                throw AccountError(hidesAccounts ? "INVALID_LOGIN_CREDENTIALS" : "INVALID_PASSWORD")
            }
            guard !account.isDisabled else { throw AccountError("USER_DISABLED") }
            if let better { account.passwordHash = better }
            try write.audit(.signIn, account.id, "password")
            return try write.open(account, provider: "password")
        }
    }
}
