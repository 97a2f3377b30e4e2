extension AccountService {
    /// `projects/{p}/accounts:update`: any account, and all of it (accounts contract §10).
    func updateAccount(_ call: AccountCall) async throws -> AccountAnswer {
        guard let uid = try call.filled("localId") else { throw AccountError("MISSING_LOCAL_ID") }
        var update = try AccountUpdate(call)
        let more = try AdministrativeUpdate(call, settings)
        if let password = update.password {
            try requireStrength(password)
            guard try store.read({ try $0.account(.id(uid)) }) != nil else { throw AccountError("USER_NOT_FOUND") }
            update.passwordHash = try await passwords.hash(password)
        }
        let wanted = update
        let account = try commit { transaction, aftermath in
            guard let former = try transaction.account(.id(uid)) else { throw AccountError("USER_NOT_FOUND") }
            var account = try apply(wanted, to: former, call, in: transaction, &aftermath)
            more.apply(to: &account)
            try requireFree(account, isNew: false, in: transaction)
            if wanted.revokes || account.email != former.email || account.passwordHash != former.passwordHash {
                try revoke(&account, call, in: transaction, &aftermath)
            }
            try note(account, since: former, call, in: transaction, &aftermath)
            try transaction.save(account)
            return account
        }
        if wanted.passwordHash != nil { liftThrottle(of: uid) }
        return AccountAnswer(kind: "SetAccountInfoResponse", Self.updated(account))
    }

    /// Writes down, and has told, what only administrators change.
    private func note(
        _ account: Account, since former: Account, _ call: AccountCall, in transaction: AccountTransaction, _ aftermath: inout Aftermath
    ) throws {
        func audit(_ event: AuditEvent) throws { try transaction.audit(event, account.id, peer: call.peer, at: now(), byAdministrator) }
        for provider in account.providers where !former.providers.contains(where: { $0.id == provider.id && $0.rawID == provider.rawID }) {
            try transaction.audit(.providerLinked, account.id, peer: call.peer, at: now(), "\(provider.id), \(byAdministrator)")
        }
        if account.isEmailVerified, !former.isEmailVerified { try audit(.addressVerified) }
        // Rules may ask for `email_verified`; with another address all tokens are over anyway.
        if !account.isEmailVerified, former.isEmailVerified, account.email == former.email { aftermath.add(AccountChange(account.id, .claimsChanged)) }
        if account.customClaims != former.customClaims {
            try audit(.claimsChanged)
            aftermath.add(AccountChange(account.id, .claimsChanged))
        }
        if account.isDisabled != former.isDisabled { try audit(account.isDisabled ? .disabled : .enabled) }
        if account.isDisabled, !former.isDisabled { aftermath.add(AccountChange(account.id, .disabled)) }
    }
}
