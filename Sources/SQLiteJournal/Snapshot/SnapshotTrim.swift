import GRDB
import Journal

/// Rows that a snapshot has made obsolete: the batches that it contains, and the chunks of the previous and of abandoned snapshots. See
/// `Removal`.
struct SnapshotTrim {
    let namespace: Int64
    /// The last commit in the snapshot.
    let sequence: UInt64
    /// The chunks that no snapshot lists, with their bytes.
    var chunks: ArraySlice<(id: Int64, bytes: Int)>

    /// The result of a removal step.
    struct Removed {
        var chunks = 0
        /// Whether nothing is left.
        var isAll = false
    }
}

extension JournalStore {
    /// Rows of batches that are removed per `SnapshotPace.calmBytes`, however small they are.
    private static let trimmedBatches = 200

    /// Removes the batches that the snapshot contains and the chunks that it does not list.
    /// - Parameter manifest: nil to keep the stored one's chunks.
    func removeLeftovers(of namespace: String, keeping manifest: SnapshotManifest?) {
        guard let known = registry[namespace], states[namespace].map({ $0.run == nil && !$0.isImporting }) ?? true else { return }
        onQueue { [self] db in
            // After a failed read the leftovers are removed after the next snapshot or at the next start.
            guard let kept = try? manifest ?? Self.storedManifest(of: known.id, db)?.manifest ?? SnapshotManifest(),
                let all = try? Row.fetchAll(
                    db, sql: "SELECT id, length(entries) FROM chunk WHERE namespace = ? ORDER BY id", arguments: [known.id])
            else { return }
            // A snapshot that has begun meanwhile stores chunks that no manifest lists yet; it removes the leftovers when it ends.
            guard states[namespace].map({ $0.run == nil && !$0.isImporting }) ?? true else { return }
            let listed = Set(kept.chunks.map(\.id))
            let chunks = all.map { (id: $0[0] as Int64, bytes: Int.fromDatabaseValue($0[1]) ?? 0) }.filter { !listed.contains($0.id) }
            remove(SnapshotTrim(namespace: known.id, sequence: known.snapshotSequence, chunks: chunks[...]))
        }
    }

    /// Removes rows of up to `most` bytes. Within a transaction on the journal queue.
    /// - Parameter bytes: grows by the bytes removed.
    func remove(_ trim: SnapshotTrim, most: Int, _ bytes: inout Int, _ db: Database) throws -> SnapshotTrim.Removed {
        var removed = SnapshotTrim.Removed()
        let rows = Self.trimmedBatches * max(1, most / SnapshotPace.calmBytes)
        let batches = try Row.fetchAll(
            db,
            sql: """
                SELECT id, length(operations) FROM batch WHERE namespace = ? AND sequence <= ?
                ORDER BY sequence, part LIMIT \(rows)
                """,
            arguments: [trim.namespace, Int64(clamping: trim.sequence)])
        let deleted = try delete(batches, from: "batch", most: most, &bytes, db)
        let delete = try RawStatement(db, cached: "DELETE FROM chunk WHERE id = ?")
        for chunk in trim.chunks {
            if bytes >= most { break }
            try delete.run([chunk.id])
            removed.chunks += 1
            bytes += chunk.bytes
        }
        removed.isAll = deleted == batches.count && batches.count < rows && removed.chunks == trim.chunks.count
        return removed
    }
}
