import GRDB
import Journal
import Scheduling

/// The removal of what a snapshot has made needless: the batches that it holds, and the chunks of the one before and of one that was given
/// up. In small steps beside the commits, because SQLite overwrites what is removed.
final class SnapshotTrim: @unchecked Sendable {
    // Sendable: confined to the journal queue.
    let namespace: String
    let id: Int64
    /// The last commit that the snapshot holds.
    let sequence: UInt64
    /// The chunks that no snapshot lists, with their bytes.
    fileprivate var chunks: ArraySlice<(id: Int64, bytes: Int)>
    /// What the step under way has removed: chunks, and the bytes of all rows. Nil when nothing was left.
    fileprivate var removed: (chunks: Int, bytes: Int)?
    fileprivate var pace: SnapshotPace

    init(_ namespace: String, _ id: Int64, upTo sequence: UInt64, _ chunks: [(id: Int64, bytes: Int)], _ pace: SnapshotPace) {
        (self.namespace, self.id, self.sequence, self.chunks, self.pace) = (namespace, id, sequence, chunks[...], pace)
    }
}

extension JournalStore {
    /// Most rows of batches that a step removes.
    private static let trimmedBatches = 200

    /// Removes the batches that the snapshot holds and the chunks that it does not list.
    /// - Parameter manifest: nil to keep the stored one's chunks.
    func removeLeftovers(of namespace: String, keeping manifest: SnapshotManifest?) {
        guard let known = registry[namespace], states[namespace]?.run == nil else { return }
        database.asyncWriteWithoutTransaction { [self] db in
            // After a failed read the leftovers are removed after the next snapshot or at the next start.
            guard let kept = try? manifest ?? Self.storedManifest(of: known.id, db)?.manifest ?? SnapshotManifest(),
                let all = try? Row.fetchAll(
                    db, sql: "SELECT id, length(entries) FROM chunk WHERE namespace = ? ORDER BY id", arguments: [known.id])
            else { return }
            // A snapshot that began meanwhile stores chunks that no list has yet; it removes the leftovers when it ends.
            guard states[namespace]?.run == nil else { return }
            let listed = Set(kept.chunks.map(\.id))
            let chunks = all.map { (id: $0[0] as Int64, bytes: Int.fromDatabaseValue($0[1]) ?? 0) }.filter { !listed.contains($0.id) }
            let trim = SnapshotTrim(namespace, known.id, upTo: known.snapshotSequence, chunks, SnapshotPace(state(of: namespace)))
            let hasBatches = (try? Int64.fetchOne(
                db, sql: "SELECT 1 FROM batch WHERE namespace = ? AND sequence <= ? LIMIT 1",
                arguments: [trim.id, Int64(clamping: trim.sequence)])) != nil
            if hasBatches || !chunks.isEmpty { advance(trim) } else { removeUnusedParts() }
        }
    }

    /// Puts the next step among what waits; refused when the store has been closed.
    private func advance(_ trim: SnapshotTrim) {
        trim.pace.beganNs = scheduler.steadyNs
        enqueue(Waiting.Item(namespace: "", work: .step(.trim(trim))) { [self] result in completed(.trim(trim), result) })
    }

    /// Within a transaction on the journal queue. Returns the bytes written.
    func remove(_ trim: SnapshotTrim, _ db: Database) throws -> Int {
        let most = trim.pace.bytes(settings)
        let batches = try Row.fetchAll(
            db,
            sql: """
                SELECT id, length(operations) FROM batch WHERE namespace = ? AND sequence <= ?
                ORDER BY sequence, part LIMIT \(Self.trimmedBatches)
                """,
            arguments: [trim.id, Int64(clamping: trim.sequence)])
        trim.removed = nil
        if batches.isEmpty, trim.chunks.isEmpty { return 0 }
        var (chunks, bytes) = (0, try delete(batches, from: "batch", most: most, db))
        let delete = try RawStatement(db, cached: "DELETE FROM chunk WHERE id = ?")
        for chunk in trim.chunks {
            if bytes >= most { break }
            try delete.run([chunk.id])
            chunks += 1
            bytes += chunk.bytes
        }
        trim.removed = (chunks, bytes)
        return bytes + 16 * 4096
    }

    /// A step is durable. On the journal queue.
    func removed(_ trim: SnapshotTrim) {
        guard let removed = trim.removed else { return removeUnusedParts() }
        trim.chunks = trim.chunks.dropFirst(removed.chunks)
        let pauseNs = trim.pace.pauseNs(after: removed.bytes, state(of: trim.namespace), now: scheduler.steadyNs)
        if pauseNs > 0 { scheduler.after(ns: pauseNs, on: snapshots) { [self] in advance(trim) } } else { advance(trim) }
    }
}
