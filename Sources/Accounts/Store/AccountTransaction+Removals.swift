import GRDB

extension AccountTransaction {
    /// Deleted accounts whose data is still to be removed, the oldest first.
    func removals() throws -> [String] {
        try Row.fetchAll(db, cached: "SELECT uid FROM removal ORDER BY created_at, uid", []).map { $0[0] }
    }

    func endRemoval(_ uid: String) throws { try db.execute(cached: "DELETE FROM removal WHERE uid = ?", [uid]) }
}
