import GRDB

extension AccountTransaction {
    /// Keeps a code, which counts as made after all others of the account, whatever the clock says; an earlier one of its kind for the same
    /// address of the same account is void.
    func add(_ code: MailedCode, hash: [UInt8], at now: Int64) throws {
        try db.execute(
            cached: "DELETE FROM code WHERE type = ? AND email = ? AND (uid IS ? OR uid IS NULL)",
            [code.kind.rawValue, code.email, code.uid])
        try db.execute(
            cached: "INSERT INTO code (hash, type, uid, email, new_email, created_at, expires_at) "
                + "VALUES (?1, ?2, ?3, ?4, ?5, max(?6, coalesce((SELECT max(created_at) + 1 FROM code WHERE uid = ?3), 0)), ?7)",
            [Database.blob(hash), code.kind.rawValue, code.uid, code.email, code.newEmail, now, code.expiresAt])
    }

    func code(hash: [UInt8]) throws -> MailedCode? {
        try Row.fetchOne(db, cached: "SELECT \(Self.codeColumns) FROM code WHERE hash = ?", [Database.blob(hash)]).flatMap(Self.code)
    }

    /// A code is used up.
    func removeCode(hash: [UInt8]) throws {
        try db.execute(cached: "DELETE FROM code WHERE hash = ?", [Database.blob(hash)])
    }

    /// The account's address changed: what was mailed to the former one is void, but for the way back.
    func removeCodes(of uid: String) throws {
        try db.execute(cached: "DELETE FROM code WHERE uid = ? AND type <> ?", [uid, CodeKind.recoverEmail.rawValue])
    }

    func removeCodes(of uid: String, _ kind: CodeKind) throws {
        try db.execute(cached: "DELETE FROM code WHERE uid = ? AND type = ?", [uid, kind.rawValue])
    }

    /// Codes of a kind that were made when this one was, itself among them, or later.
    func removeCodes(of uid: String, _ kind: CodeKind, since hash: [UInt8]) throws {
        try db.execute(
            cached: "DELETE FROM code WHERE uid = ? AND type = ? AND created_at >= (SELECT created_at FROM code WHERE hash = ?)",
            [uid, kind.rawValue, Database.blob(hash)])
    }

    /// Codes that are pending, for tests and administrators.
    func codes(of uid: String) throws -> [MailedCode] {
        let codes = "SELECT \(Self.codeColumns) FROM code WHERE uid = ? ORDER BY created_at, hash"
        return try Row.fetchAll(db, cached: codes, [uid]).compactMap(Self.code)
    }

    private static let codeColumns = "type, uid, email, new_email, expires_at"

    /// Nil for a kind that is not known any more.
    private static func code(_ row: Row) -> MailedCode? {
        CodeKind(rawValue: row[0]).map { MailedCode(kind: $0, uid: row[1], email: row[2], newEmail: row[3], expiresAt: row[4]) }
    }
}
