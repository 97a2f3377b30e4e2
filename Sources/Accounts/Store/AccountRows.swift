import GRDB

/// The keys by which accounts are looked up.
enum AccountKey {
    case id(String)
    /// In lower case.
    case email(String)
    case phoneNumber(String)
    /// In lower case.
    case alias(String)
    case provider(String, rawID: String)
}

extension AccountTransaction {
    private static let columns = """
        account.id, account.email, email_verified, account.display_name, account.photo_url, phone_number, alias, password_hash,
        password_updated_at,
        created_at, last_login_at, last_refresh_at, valid_since_s, disabled, custom_claims, custom_auth, email_link, initial_email,
        token_generation
        """

    /// O(log n).
    func account(_ key: AccountKey) throws -> Account? {
        let row = switch key {
        case .id(let id): try Row.fetchOne(db, cached: "SELECT \(Self.columns) FROM account WHERE id = ?", [id])
        case .email(let email): try Row.fetchOne(db, cached: "SELECT \(Self.columns) FROM account WHERE email = ?", [email])
        case .phoneNumber(let number): try Row.fetchOne(db, cached: "SELECT \(Self.columns) FROM account WHERE phone_number = ?", [number])
        case .alias(let alias): try Row.fetchOne(db, cached: "SELECT \(Self.columns) FROM account WHERE alias = ?", [alias])
        case .provider(let provider, let rawID):
            try Row.fetchOne(
                db,
                cached: "SELECT \(Self.columns) FROM provider JOIN account ON account.id = provider.uid WHERE provider = ? AND raw_id = ?",
                [provider, rawID])
        }
        guard let row else { return nil }
        return try account(row)
    }

    /// Accounts in the order of their ids, after `after`.
    func accounts(after: String, limit: Int) throws -> [Account] {
        try Row.fetchAll(db, cached: "SELECT \(Self.columns) FROM account WHERE id > ? ORDER BY id LIMIT ?", [after, limit]).map(account)
    }

    /// Accounts by offset in the order of their ids. O(offset)
    func accounts(offset: Int, limit: Int, isDescending: Bool) throws -> [Account] {
        let sql = "SELECT \(Self.columns) FROM account ORDER BY id \(isDescending ? "DESC" : "ASC") LIMIT ? OFFSET ?"
        return try Row.fetchAll(db, cached: sql, [limit, offset]).map(account)
    }

    private func account(_ row: Row) throws -> Account {
        var account = Account(id: row[0], createdAt: row[9])
        account.email = row[1]
        account.isEmailVerified = row[2]
        account.displayName = row[3]
        account.photoURL = row[4]
        account.phoneNumber = row[5]
        account.alias = row[6]
        account.passwordHash = row[7]
        account.passwordUpdatedAt = row[8]
        account.lastLoginAt = row[10]
        account.lastRefreshAt = row[11]
        account.validSince = row[12]
        account.isDisabled = row[13]
        account.customClaims = row[14]
        account.hasCustomAuth = row[15]
        account.hasEmailLink = row[16]
        account.initialEmail = row[17]
        account.tokenGeneration = row[18]
        account.providers = try Row.fetchAll(
            db,
            cached: "SELECT provider, raw_id, email, display_name, photo_url, screen_name FROM provider WHERE uid = ? ORDER BY position",
            [account.id]
        ).map { row in
            var provider = LinkedProvider(id: row[0], rawID: row[1])
            provider.email = row[2]
            provider.displayName = row[3]
            provider.photoURL = row[4]
            provider.screenName = row[5]
            return provider
        }
        return account
    }

    /// Stores a new account, or all fields of an existing one except `tokenGeneration`.
    /// - Throws: a constraint violation (`DatabaseError.SQLITE_CONSTRAINT`) for an address, alias, phone number or provider identity that belongs
    ///   to another account: check first, within the same transaction.
    func save(_ account: Account) throws {
        try execute("""
                INSERT INTO account (
                    id, email, email_verified, display_name, photo_url, phone_number, alias, password_hash, password_updated_at, created_at,
                    last_login_at, last_refresh_at, valid_since_s, disabled, custom_claims, custom_auth, email_link, initial_email)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                ON CONFLICT (id) DO UPDATE SET email = excluded.email, email_verified = excluded.email_verified,
                display_name = excluded.display_name,
                    photo_url = excluded.photo_url, phone_number = excluded.phone_number, alias = excluded.alias,
                    password_hash = excluded.password_hash,
                    password_updated_at = excluded.password_updated_at, created_at = excluded.created_at,
                    last_login_at = excluded.last_login_at,
                    last_refresh_at = excluded.last_refresh_at, valid_since_s = excluded.valid_since_s, disabled = excluded.disabled,
                    custom_claims = excluded.custom_claims, custom_auth = excluded.custom_auth, email_link = excluded.email_link,
                    initial_email = excluded.initial_email
                """,
            [
                account.id, account.email, account.isEmailVerified, account.displayName, account.photoURL, account.phoneNumber,
                account.alias,
                account.passwordHash, account.passwordUpdatedAt, account.createdAt, account.lastLoginAt, account.lastRefreshAt,
                account.validSince,
                account.isDisabled, account.customClaims, account.hasCustomAuth, account.hasEmailLink, account.initialEmail,
            ])
        try execute("DELETE FROM provider WHERE uid = ?", [account.id])
        for (position, provider) in account.providers.enumerated() {
            try execute("""
                    INSERT INTO provider (provider, raw_id, uid, position, email, display_name, photo_url, screen_name)
                    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                    """,
                [
                    provider.id, provider.rawID, account.id, position, provider.email, provider.displayName, provider.photoURL,
                    provider.screenName,
                ])
        }
    }

    /// Accounts with this address, or with an identity that has it; in the order of their ids.
    func accounts(withAddress email: String) throws -> [Account] {
        try Row.fetchAll(
            db,
            cached: "SELECT \(Self.columns) FROM account WHERE email = ?1 OR id IN (SELECT uid FROM provider WHERE email = ?1) ORDER BY id",
            [email]
        ).map(account)
    }

    /// Invalidates all ID tokens of the account but no sessions: their devices fetch new tokens.
    func supersedeTokens(of id: String) throws {
        try execute("UPDATE account SET token_generation = token_generation + 1 WHERE id = ?", [id])
    }

    func tokenGeneration(of id: String) throws -> Int64 {
        try Row.fetchOne(db, cached: "SELECT token_generation FROM account WHERE id = ?", [id])?[0] ?? 0
    }

    /// Records that an ID token was issued.
    func markRefreshed(_ id: String, at now: Int64) throws {
        try execute("UPDATE account SET last_refresh_at = max(coalesce(last_refresh_at, 0), ?) WHERE id = ?", [now, id])
    }

    /// Removes an account with its sessions, providers and codes. The refresh tokens of its devices are remembered as those of a deleted account.
    /// - Returns: false if there was none.
    func deleteAccount(_ id: String, at now: Int64) throws -> Bool {
        let remember = "INSERT OR REPLACE INTO departed (token_hash, deleted_at) SELECT token_hash, ? FROM session WHERE uid = ?"
        try execute(remember, [now, id])
        try execute("DELETE FROM account WHERE id = ?", [id])
        guard db.changesCount > 0 else { return false }
        // The trigger recorded SQLite's own time, which differs on every hub.
        try execute("UPDATE removal SET created_at = ? WHERE uid = ?", [now, id])
        return true
    }
}

extension AccountTransaction {
    func accountCount() throws -> Int {
        try Row.fetchOne(db, cached: "SELECT count(*) FROM account", [])?[0] ?? 0
    }

    /// Sorted.
    func accountIDs() throws -> [String] {
        try Row.fetchAll(db, cached: "SELECT id FROM account ORDER BY id", []).map { $0[0] }
    }

    /// Keeps codes when their accounts are deleted.
    func detachCodes() throws { try execute("UPDATE code SET uid = NULL WHERE uid IS NOT NULL", []) }
}
