import GRDB

/// What is written down of an account's life; a name that stays the same for ever, as it is stored.
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
    /// Writes down who did what. No secret may be in it, and no address of a person without an account.
    /// - Parameter detail: a provider's id, `by an administrator` or the like.
    func audit(_ event: AuditEvent, _ uid: String?, peer: String?, at now: Int64, _ detail: String? = nil) throws {
        try db.execute(
            cached: "INSERT INTO audit (uid, time, event, peer, detail) VALUES (?, ?, ?, ?, ?)", [uid, now, event.rawValue, peer, detail])
    }

    /// What was written down of an account, the latest first.
    func audit(of uid: String, limit: Int) throws -> [(time: Int64, event: String, peer: String?, detail: String?)] {
        let events = "SELECT time, event, peer, detail FROM audit WHERE uid = ? ORDER BY id DESC LIMIT ?"
        return try Row.fetchAll(db, cached: events, [uid, limit]).map { ($0[0], $0[1], $0[2], $0[3]) }
    }
}
