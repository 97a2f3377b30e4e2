import GRDB

extension AccountTransaction {
    func accountCount() throws -> Int {
        try Row.fetchOne(db, cached: "SELECT count(*) FROM account", [])?[0] ?? 0
    }

    /// In their order.
    func accountIDs() throws -> [String] {
        try Row.fetchAll(db, cached: "SELECT id FROM account ORDER BY id", []).map { $0[0] }
    }

    /// Codes stay when their accounts go.
    func detachCodes() throws { try db.execute(cached: "UPDATE code SET uid = NULL WHERE uid IS NOT NULL", []) }
}
