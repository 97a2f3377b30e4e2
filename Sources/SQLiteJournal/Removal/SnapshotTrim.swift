import GRDB
import Journal

/// Rows that a snapshot has made obsolete: the batches that it contains, and the chunks of the previous and of abandoned snapshots. See
/// `Remover`.
struct SnapshotTrim {
    let namespace: Int64
    /// The last commit in the snapshot.
    let sequence: UInt64
    /// The chunks that no snapshot lists, with their bytes.
    var chunks: ArraySlice<(id: Int64, bytes: Int)>
    /// Whether the namespace was removed: with the last of these rows its own row goes.
    var isOfRemoved = false

    /// The result of a removal step.
    struct Removed {
        var chunks = 0
        /// Whether nothing is left.
        var isAll = false
    }

    /// All chunks of a namespace, with their bytes.
    static func chunks(of namespace: Int64, _ db: Database) throws -> [(id: Int64, bytes: Int)] {
        try Row.fetchAll(db, sql: "SELECT id, length(entries) FROM chunk WHERE namespace = ? ORDER BY id", arguments: [namespace])
            .map { (id: $0[0] as Int64, bytes: Int.fromDatabaseValue($0[1]) ?? 0) }
    }

    /// Rows of batches that are removed per `SnapshotPace.calmBytes`, however small they are.
    private static let trimmedBatches = 200

    /// Removes rows of up to `most` bytes. Within a transaction on the journal queue.
    /// - Parameter bytes: grows by the bytes removed.
    func remove(most: Int, _ bytes: inout Int, _ db: Database) throws -> Removed {
        var removed = Removed()
        let rows = Self.trimmedBatches * max(1, most / SnapshotPace.calmBytes)
        let batches = try Row.fetchAll(
            db,
            sql: """
                SELECT id, length(operations) FROM batch WHERE namespace = ? AND sequence <= ?
                ORDER BY sequence, part LIMIT \(rows)
                """,
            arguments: [namespace, Int64(clamping: sequence)])
        let deleted = try batches.delete(from: "batch", most: most, &bytes, db)
        let delete = try RawStatement(db, cached: "DELETE FROM chunk WHERE id = ?")
        for chunk in chunks {
            if bytes >= most { break }
            try delete.run([chunk.id])
            removed.chunks += 1
            bytes += chunk.bytes
        }
        removed.isAll = deleted == batches.count && batches.count < rows && removed.chunks == chunks.count
        if removed.isAll, isOfRemoved { try db.execute(sql: "DELETE FROM namespace WHERE id = ?", arguments: [namespace]) }
        return removed
    }
}

extension [Row] {
    /// Deletes rows given as id and length, from the first on, until `most` bytes are reached. SQLite overwrites them, through
    /// its log.
    /// - Parameter bytes: the total so far; grows by the deleted rows.
    /// - Returns: the number of deleted rows.
    func delete(from table: String, most: Int, _ bytes: inout Int, _ db: Database) throws -> Int {
        let delete = try RawStatement(db, cached: "DELETE FROM \(table) WHERE id = ?")
        for (i, row) in enumerated() {
            if bytes >= most { return i }
            try delete.run([row[0] as Int64])
            bytes += Int.fromDatabaseValue(row[1]) ?? 0
        }
        return count
    }
}
