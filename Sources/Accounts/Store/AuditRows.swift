import Foundation
import GRDB

/// Events of the audit log; the raw value is the stored name and never changes.
enum AuditEvent: String {
    case signUp = "sign-up"
    case signIn = "sign-in"
    case signInFailed = "sign-in-failed"
    case profileChanged = "profile-changed"
    case addressChanged = "address-changed"
    case addressVerified = "address-verified"
    case passwordChanged = "password-changed"
    case providerLinked = "provider-linked"
    case providerUnlinked = "provider-unlinked"
    case codeMailed = "code-mailed"
    case revoked
    case sessionEnded = "session-ended"
    case disabled
    case enabled
    case claimsChanged = "claims-changed"
    case deleted

    /// Detail of an event that the user did not cause.
    static let byAdministrator = "by an administrator"
}

extension AccountTransaction {
    /// Records an event. It must contain no secret, and no address of a person without an account.
    /// - Parameter detail: a provider's id, `by an administrator` or the like.
    func audit(_ event: AuditEvent, _ uid: String?, peer: String?, at now: Int64, _ detail: String? = nil) throws {
        try execute("INSERT INTO audit (uid, time, event, peer, detail) VALUES (?, ?, ?, ?, ?)", [uid, now, event.rawValue, peer, detail])
    }

    /// The events of an account, the latest first.
    func audit(of uid: String, limit: Int) throws -> [(time: Int64, event: String, peer: String?, detail: String?)] {
        let events = "SELECT time, event, peer, detail FROM audit WHERE uid = ? ORDER BY id DESC LIMIT ?"
        return try Row.fetchAll(db, cached: events, [uid, limit]).map { ($0[0], $0[1], $0[2], $0[3]) }
    }
}

extension AccountTransaction {
    func throttleRows() throws -> [Throttle.Row] {
        try Row.fetchAll(db, cached: "SELECT subject, state, updated_at FROM throttle", []).map { row in
            let state: Data = row[1]
            return Throttle.Row(subject: row[0], state: Array(state), writtenAt: row[2])
        }
    }

    func save(_ rows: [Throttle.Row]) throws {
        // Other hubs need them as counts: they write the rows themselves and continue counting from them.
        recorder?.record.counts += rows
        let silent = AccountTransaction(db)
        for row in rows {
            if let state = row.state {
                try silent.execute(
                    "INSERT OR REPLACE INTO throttle (subject, state, updated_at) VALUES (?, ?, ?)",
                    [row.subject, Database.blob(state), row.writtenAt])
            } else {
                try silent.execute("DELETE FROM throttle WHERE subject = ?", [row.subject])
            }
        }
    }
}

/// Removal of expired rows. O(rows of the table); runs once a day.
extension AccountTransaction {
    /// Removes codes that expired before `time`; until then they are reported as expired, not as unknown.
    func removeCodes(endedBefore time: Int64) throws {
        try execute("DELETE FROM code WHERE expires_at < ?", [time])
    }

    /// Removes sessions that ended and were last used before `time`, or not used since `idle`; and refresh tokens of accounts deleted before `time`.
    func removeSessions(endedBefore time: Int64, idleSince idle: Int64) throws {
        try execute("DELETE FROM session WHERE (ended = 1 AND last_used_at < ?) OR last_used_at < ?", [time, idle])
        try execute("DELETE FROM departed WHERE deleted_at < ?", [time])
    }

    /// Shifts stored times of last use and of events within a range; never the time at which something begins or ends.
    func moveTimes(_ times: ClosedRange<Int64>, by ms: Int64) throws {
        let columns = [("session", "last_used_at"), ("account", "last_refresh_at"), ("departed", "deleted_at"), ("audit", "time")]
        for (table, column) in columns {
            let move = "UPDATE \(table) SET \(column) = \(column) + ? WHERE \(column) BETWEEN ? AND ?"
            try execute(move, [ms, times.lowerBound, times.upperBound])
        }
    }

    /// Checks only the oldest events, as events are stored in order of time. O(limit)
    /// - Returns: whether there may be more.
    func removeAudit(before time: Int64, limit: Int) throws -> Bool {
        try execute("DELETE FROM audit WHERE id IN (SELECT id FROM (SELECT id, time FROM audit ORDER BY id LIMIT ?) WHERE time < ?)",
            [limit, time])
        return db.changesCount == limit
    }

    /// Guest accounts without a credential whose last session was not used since `time`.
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
