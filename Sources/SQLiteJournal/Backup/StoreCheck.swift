import GRDB
import Journal

/// Reads a whole store and compares everything with its checksums, without building trees.
enum StoreCheck {
    /// - Returns: the last commit of each namespace.
    /// - Throws: `.corrupt` naming the place.
    static func check(_ db: Database, path: String) throws -> [String: UInt64] {
        func corrupt(_ place: String) -> JournalError { .corrupt(path: path, place: place) }
        try checkPages(db, path: path)
        // An earlier format is checked when it is upgraded.
        guard try Schema.format(of: db) == Schema.format else { return [:] }
        var commits: [String: UInt64] = [:]
        for (name, known) in try Schema.namespaces(db, path: path) where !Schema.isRemoved(name) {
            do {
                commits[name] = try check(known, db)
            } catch let fault as PlaceFault { throw corrupt("\(fault.place) of namespace \(name)") }
        }
        let rows = try Row.fetchCursor(db, sql: "SELECT namespace, name, checksum, value FROM setting")
        while let row = try rows.next() {
            guard let scope = String.fromDatabaseValue(row[0]), let name = String.fromDatabaseValue(row[1]) else {
                throw corrupt("table of settings")
            }
            let checksum = try row.withBytes(3) { SettingRows.checksum($0, setting: name, of: scope) }
            guard Int64.fromDatabaseValue(row[2]) == Int64(checksum) else {
                throw corrupt("setting \(name)\(scope.isEmpty ? "" : " of namespace \(scope)")")
            }
        }
        return commits
    }

    /// Checks the structure of the SQLite file.
    /// - Throws: `.corrupt`.
    static func checkPages(_ db: Database, path: String) throws {
        let fault = try String.fetchOne(db, sql: "PRAGMA quick_check(1)") ?? "no answer"
        guard fault == "ok" else { throw JournalError.corrupt(path: path, place: fault) }
    }

    private static func check(_ known: Registry.Row, _ db: Database) throws -> UInt64 {
        let snapshot = try SnapshotManifest.stored(of: known.id, db)
        let statement = try db.makeStatement(sql: "SELECT entries FROM chunk WHERE id = ? AND namespace = ?")
        for (number, chunk) in (snapshot?.manifest.chunks ?? []).enumerated() {
            let rows = try Row.fetchCursor(statement, arguments: [chunk.id, known.id])
            let checksum = try withExtendedLifetime(rows) { try rows.next()?.withBytes(0, StoredChunk.checksum) }
            guard checksum == chunk.checksum else { throw PlaceFault(place: "snapshot part \(number)") }
        }
        var last = snapshot?.sequence ?? 0
        try StoredBatches(namespace: known.id, after: last).forEach(db) { part in
            guard part.isIntact else { throw PlaceFault(place: part.check.place) }
            last = part.sequence
        }
        return last
    }
}
