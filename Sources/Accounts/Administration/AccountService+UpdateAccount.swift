import JSONTree

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
        let account = try commit(call) { write in
            guard let former = try write.transaction.account(.id(uid)) else { throw AccountError("USER_NOT_FOUND") }
            var account = try write.apply(wanted, to: former)
            more.apply(to: &account)
            try write.transaction.requireFree(account, isNew: false)
            if wanted.revokes || account.email != former.email || account.passwordHash != former.passwordHash {
                try write.revoke(&account)
            }
            try write.recordChanges(of: account, since: former)
            try write.transaction.save(account)
            return account
        }
        if wanted.passwordHash != nil { liftThrottle(of: uid) }
        return AccountAnswer(kind: "SetAccountInfoResponse", Self.updated(account))
    }

}

extension AccountWrite {
    /// Writes down and announces what only administrators change.
    fileprivate func recordChanges(of account: Account, since former: Account) throws {
        let byAdministrator = AuditEvent.byAdministrator
        func record(_ event: AuditEvent) throws { try audit(event, account.id, byAdministrator) }
        for provider in account.providers where !former.providers.contains(where: { $0.id == provider.id && $0.rawID == provider.rawID }) {
            try audit(.providerLinked, account.id, "\(provider.id), \(byAdministrator)")
        }
        if account.isEmailVerified, !former.isEmailVerified { try record(.addressVerified) }
        // Rules may ask for `email_verified`; with another address all tokens are over anyway.
        if !account.isEmailVerified, former.isEmailVerified, account.email == former.email { announce(account.id, .claimsChanged) }
        if account.customClaims != former.customClaims {
            try record(.claimsChanged)
            announce(account.id, .claimsChanged)
        }
        if account.isDisabled != former.isDisabled { try record(account.isDisabled ? .disabled : .enabled) }
        if account.isDisabled, !former.isDisabled { announce(account.id, .disabled) }
    }
}
