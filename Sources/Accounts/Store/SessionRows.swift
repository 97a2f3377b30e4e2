import Cryptography
import Foundation
import GRDB
import Tokens

extension AccountTransaction {
    private static let sessionColumns = "id, uid, provider, claims, auth_time_s, created_at, last_used_at, user_agent, peer"

    /// - Parameter tokenHash: SHA-256 of the session's first refresh token; see `RefreshToken`.
    func add(_ session: AccountSession, tokenHash: [UInt8]) throws {
        try execute("""
                INSERT INTO session (id, uid, provider, claims, auth_time_s, created_at, last_used_at, user_agent, peer, token_hash)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
            [
                session.id, session.uid, session.provider, session.claims, session.authTime, session.createdAt, session.lastUsedAt,
                session.userAgent,
                session.peer, Database.blob(tokenHash),
            ])
    }

    /// A session by its refresh token. Includes ended ones, whose token is reported as expired, not as unknown.
    func session(tokenHash: [UInt8]) throws -> (session: AccountSession, hasEnded: Bool)? {
        let found = "SELECT \(Self.sessionColumns), ended FROM session WHERE token_hash = ?"
        guard let row = try Row.fetchOne(db, cached: found, [Database.blob(tokenHash)]) else { return nil }
        return (Self.session(row), row[9])
    }

    /// Whether the refresh token belonged to a deleted account.
    func isOfDeletedAccount(tokenHash: [UInt8]) throws -> Bool {
        try Row.fetchOne(db, cached: "SELECT 1 FROM departed WHERE token_hash = ?", [Database.blob(tokenHash)]) != nil
    }

    /// A session that has not ended.
    func session(id: String) throws -> AccountSession? {
        try Row.fetchOne(db, cached: "SELECT \(Self.sessionColumns) FROM session WHERE id = ? AND ended = 0", [id]).map(Self.session)
    }

    /// A user's active sessions, most recently used first.
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

    func rotation(of id: String) throws -> RefreshRotation {
        let rotation = "SELECT current_hash, replaced_hashes FROM session WHERE id = ?"
        guard let row = try Row.fetchOne(db, cached: rotation, [id]) else { return RefreshRotation() }
        let (current, replaced): (Data?, Data?) = (row[0], row[1])
        return RefreshRotation(current: current.map { Array($0) }, replaced: RefreshRotation.decode(Array(replaced ?? Data())))
    }

    func rotate(_ id: String, _ rotation: RefreshRotation) throws {
        try execute("UPDATE session SET current_hash = ?, replaced_hashes = ? WHERE id = ?",
            [rotation.current.map(Database.blob), Database.blob(rotation.encoded), id])
    }

    /// Records the last use.
    func use(_ session: AccountSession) throws {
        try execute("UPDATE session SET provider = ?, auth_time_s = ?, last_used_at = ?, peer = ? WHERE id = ?",
            [session.provider, session.authTime, session.lastUsedAt, session.peer, session.id])
    }

    /// Records a use that was kept in memory for a while.
    func use(_ id: String, of uid: String, _ use: SessionUse) throws {
        try execute("UPDATE session SET last_used_at = max(last_used_at, ?), peer = ? WHERE id = ?", [use.at, use.peer, id])
        try markRefreshed(uid, at: use.at)
    }

    /// - Returns: false if it had already ended or never existed.
    @discardableResult
    func endSession(_ id: String) throws -> Bool {
        try execute("UPDATE session SET ended = 1 WHERE id = ? AND ended = 0", [id])
        return db.changesCount > 0
    }

    /// Ends the least recently used sessions until `count` are left, not counting a new one. Of ended sessions `count` plus one are kept.
    /// O(sessions of the account)
    /// - Returns: the ids of the ended sessions.
    func endSessions(of uid: String, beyond count: Int, beside new: String) throws -> [String] {
        let surplus = """
            SELECT id FROM session WHERE uid = ? AND ended = ? AND id <> ?
            ORDER BY last_used_at DESC, created_at DESC, id LIMIT -1 OFFSET ?
            """
        let ids: [String] = try Row.fetchAll(db, cached: surplus, [uid, false, new, count]).map { $0[0] }
        for id in ids { try endSession(id) }
        try execute("DELETE FROM session WHERE id IN (\(surplus))", [uid, true, new, count + 1])
        return ids
    }

    func endSessions(of uid: String, but kept: String? = nil) throws {
        try execute("UPDATE session SET ended = 1 WHERE uid = ? AND ended = 0 AND id IS NOT ?", [uid, kept])
    }
}

extension AccountTransaction {
    /// Stores a code. It counts as the account's newest, even if the clock was set back. An earlier code of its kind for the same address of the
    /// same account becomes void.
    func add(_ code: MailedCode, hash: [UInt8], at now: Int64) throws {
        try execute("DELETE FROM code WHERE type = ? AND email = ? AND (uid IS ? OR uid IS NULL)",
            [code.kind.rawValue, code.email, code.uid])
        try execute("INSERT INTO code (hash, type, uid, email, new_email, created_at, expires_at) "
                + "VALUES (?1, ?2, ?3, ?4, ?5, max(?6, coalesce((SELECT max(created_at) + 1 FROM code WHERE uid = ?3), 0)), ?7)",
            [Database.blob(hash), code.kind.rawValue, code.uid, code.email, code.newEmail, now, code.expiresAt])
    }

    func code(hash: [UInt8]) throws -> MailedCode? {
        try Row.fetchOne(db, cached: "SELECT \(Self.codeColumns) FROM code WHERE hash = ?", [Database.blob(hash)]).flatMap(Self.code)
    }

    /// Removes a used code.
    func removeCode(hash: [UInt8]) throws {
        try execute("DELETE FROM code WHERE hash = ?", [Database.blob(hash)])
    }

    /// Voids the codes that were mailed to a former address, except the one that recovers it.
    func removeCodes(of uid: String) throws {
        try execute("DELETE FROM code WHERE uid = ? AND type <> ?", [uid, CodeKind.recoverEmail.rawValue])
    }

    func removeCodes(of uid: String, _ kind: CodeKind) throws {
        try execute("DELETE FROM code WHERE uid = ? AND type = ?", [uid, kind.rawValue])
    }

    /// Removes codes of a kind created at the same time as this one or later, including itself.
    func removeCodes(of uid: String, _ kind: CodeKind, since hash: [UInt8]) throws {
        try execute("DELETE FROM code WHERE uid = ? AND type = ? AND created_at >= (SELECT created_at FROM code WHERE hash = ?)",
            [uid, kind.rawValue, Database.blob(hash)])
    }

    /// The pending codes, for tests and administrators.
    func codes(of uid: String) throws -> [MailedCode] {
        let codes = "SELECT \(Self.codeColumns) FROM code WHERE uid = ? ORDER BY created_at, hash"
        return try Row.fetchAll(db, cached: codes, [uid]).compactMap(Self.code)
    }

    private static let codeColumns = "type, uid, email, new_email, expires_at"

    /// Nil for an unknown kind.
    private static func code(_ row: Row) -> MailedCode? {
        CodeKind(rawValue: row[0]).map { MailedCode(kind: $0, uid: row[1], email: row[2], newEmail: row[3], expiresAt: row[4]) }
    }
}

extension AccountTransaction {
    /// All keys of ID tokens. Rows with an unknown algorithm are skipped.
    func signingKeys() throws -> [StoredSigningKey] {
        let keys = "SELECT algorithm, private_key, created_at, retired_at FROM signing_key ORDER BY created_at, kid"
        return try Row.fetchAll(db, cached: keys, []).compactMap { row in
            let bytes: Data = row[1]
            return SignatureAlgorithm(rawValue: row[0]).map {
                StoredSigningKey(algorithm: $0, privateKey: SecretBytes([UInt8](bytes)), createdAt: row[2], retiredAt: row[3])
            }
        }
    }

    /// Makes a key the signing key.
    /// - Parameters:
    ///   - now: ms since the epoch.
    ///   - ended: keys retired earlier are removed.
    func setSigningKey(_ key: StoredSigningKey, id: String, now: Int64, ended: Int64) throws {
        try execute("UPDATE signing_key SET retired_at = ? WHERE retired_at IS NULL", [now])
        try execute("DELETE FROM signing_key WHERE retired_at < ?", [ended])
        try execute("INSERT INTO signing_key (kid, algorithm, private_key, created_at) VALUES (?, ?, ?, ?)",
            [id, key.algorithm.rawValue, Database.blob(key.privateKey.copy), key.createdAt])
        recorder?.record.changesKeys = true
    }

    /// Checks the account and the session of a token. The session must exist, and either the token or the session must not be older than
    /// `validSince`. So a token of a newer session is valid even if its issue time came from a clock that was behind.
    /// - Returns: nil if the token is valid.
    func fault(of token: VerifiedToken) throws -> TokenFault? {
        let row = try Row.fetchOne(
            db,
            cached: """
                SELECT disabled, EXISTS (
                    SELECT 1 FROM session
                    WHERE session.id = ?1 AND session.uid = account.id AND ended = 0
                        AND max(session.created_at / 1000, ?2) >= account.valid_since_s), token_generation
                FROM account WHERE id = ?3
                """, [token.sessionID, token.issuedAt, token.uid])
        guard let row else { return .noAccount }
        let (isDisabled, isSignedIn): (Bool, Bool) = (row[0], row[1])
        if isDisabled { return .disabled }
        guard isSignedIn else { return .revoked }
        // A later generation does not match either: a backup was restored since.
        return token.generation == row[2] ? nil : .superseded
    }
}

/// The stored hash of refresh tokens and mailed codes. It needs no salt or stretching, as they are 256 random bits and not a chosen password.
/// Rows are looked up by the hash, so comparison times reveal nothing about the secret.
enum SecretHash {
    static func of(_ secret: String) -> [UInt8] { HashFunction.sha256.hash(secret.utf8) }
}
