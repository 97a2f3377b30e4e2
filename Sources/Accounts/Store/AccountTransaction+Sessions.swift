import GRDB

extension AccountTransaction {
    private static let sessionColumns = "id, uid, provider, claims, auth_time_s, created_at, last_used_at, user_agent, peer"

    /// - Parameter tokenHash: SHA-256 of the refresh token.
    func add(_ session: AccountSession, tokenHash: [UInt8]) throws {
        try db.execute(
            cached: """
                INSERT INTO session (id, uid, provider, claims, auth_time_s, created_at, last_used_at, user_agent, peer, token_hash)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            [
                session.id, session.uid, session.provider, session.claims, session.authTime, session.createdAt, session.lastUsedAt,
                session.userAgent,
                session.peer, Database.blob(tokenHash),
            ])
    }

    /// Also one that has ended: then its token is told that it is over, not that it is unknown.
    func session(tokenHash: [UInt8]) throws -> (session: AccountSession, hasEnded: Bool)? {
        let found = "SELECT \(Self.sessionColumns), ended FROM session WHERE token_hash = ?"
        guard let row = try Row.fetchOne(db, cached: found, [Database.blob(tokenHash)]) else { return nil }
        return (Self.session(row), row[9])
    }

    /// Whether it was a refresh token of an account that is deleted.
    func isDeparted(tokenHash: [UInt8]) throws -> Bool {
        try Row.fetchOne(db, cached: "SELECT 1 FROM departed WHERE token_hash = ?", [Database.blob(tokenHash)]) != nil
    }

    /// A session that has not ended.
    func session(id: String) throws -> AccountSession? {
        try Row.fetchOne(db, cached: "SELECT \(Self.sessionColumns) FROM session WHERE id = ? AND ended = 0", [id]).map(Self.session)
    }

    /// A user's sessions that have not ended, the last used first.
    func sessions(of uid: String) throws -> [AccountSession] {
        let sessions = "SELECT \(Self.sessionColumns) FROM session WHERE uid = ? AND ended = 0 ORDER BY last_used_at DESC, id"
        return try Row.fetchAll(db, cached: sessions, [uid]).map(Self.session)
    }

    private static func session(_ row: Row) -> AccountSession {
        var session = AccountSession(
            id: row[0], uid: row[1], provider: row[2], claims: row[3], authTime: row[4], now: row[5], userAgent: row[7], peer: row[8])
        session.lastUsedAt = row[6]
        return session
    }

    /// Writes the last use down.
    func use(_ session: AccountSession) throws {
        try db.execute(
            cached: "UPDATE session SET provider = ?, auth_time_s = ?, last_used_at = ?, peer = ? WHERE id = ?",
            [session.provider, session.authTime, session.lastUsedAt, session.peer, session.id])
    }

    /// - Returns: false when it was over already, or never was.
    @discardableResult
    func endSession(_ id: String) throws -> Bool {
        try db.execute(cached: "UPDATE session SET ended = 1 WHERE id = ? AND ended = 0", [id])
        return db.changesCount > 0
    }

    /// Ends those that were not used for the longest time, until so many are left beside a new one; of ended ones one more is
    /// remembered. O(sessions of the account)
    /// - Returns: their ids.
    func endSessions(of uid: String, beyond count: Int, beside new: String) throws -> [String] {
        let surplus = """
            SELECT id FROM session WHERE uid = ? AND ended = ? AND id <> ?
            ORDER BY last_used_at DESC, created_at DESC LIMIT -1 OFFSET ?
            """
        let ids: [String] = try Row.fetchAll(db, cached: surplus, [uid, false, new, count]).map { $0[0] }
        for id in ids { try endSession(id) }
        try db.execute(cached: "DELETE FROM session WHERE id IN (\(surplus))", [uid, true, new, count + 1])
        return ids
    }

    func endSessions(of uid: String, but kept: String? = nil) throws {
        try db.execute(cached: "UPDATE session SET ended = 1 WHERE uid = ? AND ended = 0 AND id IS NOT ?", [uid, kept])
    }
}
