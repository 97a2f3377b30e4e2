import GRDB

/// What time makes useless. O(rows of the table); asked for once a day.
extension AccountTransaction {
    /// Codes that ended before; until then they are told apart from unknown ones.
    func removeCodes(endedBefore time: Int64) throws {
        try db.execute(cached: "DELETE FROM code WHERE expires_at < ?", [time])
    }

    /// Sessions that were ended and last used before, or not used since `idle`; refresh tokens of accounts that were deleted before.
    func removeSessions(endedBefore time: Int64, idleSince idle: Int64) throws {
        try db.execute(cached: "DELETE FROM session WHERE (ended = 1 AND last_used_at < ?) OR last_used_at < ?", [time, idle])
        try db.execute(cached: "DELETE FROM departed WHERE deleted_at < ?", [time])
    }

    /// Looks at the oldest events only, as they are in the order in which they happened. O(limit)
    /// - Returns: whether there may be more.
    func removeAudit(before time: Int64, limit: Int) throws -> Bool {
        try db.execute(
            cached: "DELETE FROM audit WHERE id IN (SELECT id FROM (SELECT id, time FROM audit ORDER BY id LIMIT ?) WHERE time < ?)",
            [limit, time])
        return db.changesCount == limit
    }

    /// Accounts that cannot be signed in to again and whose last device has not been seen since: guests.
    func guests(unseenSince time: Int64, limit: Int) throws -> [String] {
        try Row.fetchAll(
            db,
            cached: """
                SELECT id FROM account WHERE email IS NULL AND phone_number IS NULL AND alias IS NULL AND password_hash IS NULL
                    AND custom_auth = 0
                    AND last_login_at IS NOT NULL AND max(last_login_at, coalesce(last_refresh_at, 0)) < ?
                    AND NOT EXISTS (SELECT 1 FROM provider WHERE uid = account.id)
                LIMIT ?
                """, [time, limit]
        ).map { $0[0] }
    }
}
