import GRDB
import Journal
import Scheduling

/// Data to be removed from the folder: batches and chunks that a snapshot has made obsolete, and parts of large batches that are no
/// longer in the log or never were. One removal at a time for the whole store, in steps between commits, because SQLite overwrites
/// removed data.
///
///     journal queue     slice · commits · chunks ─► step: as many bytes ─► commits · slice ─► step …
///
/// Each step removes at least as many bytes as the store was asked to write during the one before: operations, parts and chunks. So the folder does
/// not grow while a removal is pending, and afterwards it holds only needed data.
struct Removal {
    /// The newest of each namespace.
    var trims: [SnapshotTrim] = []
    /// Whether parts without a batch may exist; the next commit searches for them.
    var mayHaveUnusedParts = true
    /// Whether a step is in progress, or the next one waits.
    var isUnderWay = false
    /// Whether a step has failed on disk; the next successful commit starts again.
    var hasFailed = false
    var pace = SnapshotPace(WrittenBytes())
    /// What the current step has removed; nil before its transaction.
    var step: Step?

    struct Step {
        /// The part removed from the first trim.
        var trimmed: SnapshotTrim.Removed?
        var bytes = 0
    }
}

extension JournalStore {
    /// Most rows of parts that are looked up at a time.
    private static let unusedRows = 64

    /// Removes the rows that a snapshot has made obsolete. Replaces an unfinished earlier trim of its namespace.
    func remove(_ trim: SnapshotTrim) {
        removal.trims.removeAll { $0.namespace == trim.namespace }
        removal.trims.append(trim)
        startRemoval()
    }

    /// Removes the parts of stages that were released, that a kill or a full disk interrupted, or whose batch a snapshot contains. On the
    /// journal queue.
    func removeUnusedParts() {
        removal.mayHaveUnusedParts = false
        // The removal in progress searches for them itself.
        if removal.isUnderWay { return }
        onQueue { [self] db in
            let isThere = try? Int.fetchOne(db, sql: "SELECT EXISTS (\(unusedParts))")
            if isThere == 1 { startRemoval() }
        }
    }

    func startRemoval() {
        if removal.isUnderWay || isEnding { return }
        (removal.isUnderWay, removal.hasFailed) = (true, false)
        removal.pace = SnapshotPace(storedBytes)
        advanceRemoval()
    }

    /// Total bytes stored that may later have to be removed.
    private var storedBytes: WrittenBytes { WrittenBytes(bytes: written.bytes + chunkBytes, batches: written.batches) }

    /// Enqueues the next step; refused when the store has been closed.
    private func advanceRemoval() {
        removal.pace.beganNs = scheduler.steadyNs
        enqueue(Waiting.Item(namespace: "", work: .step(.remove)) { [self] result in completed(.remove, result) })
    }

    /// Runs the next step within a transaction on the journal queue. Returns the bytes written.
    func removeNext(_ db: Database) throws -> Int {
        let most = removal.pace.bytes(settings)
        var step = Removal.Step()
        if let trim = removal.trims.first { step.trimmed = try remove(trim, most: most, &step.bytes, db) }
        while step.bytes < most {
            let rows = try Row.fetchAll(
                db, sql: "SELECT id, length(operations) FROM part WHERE id IN (\(unusedParts) LIMIT \(Self.unusedRows))")
            if rows.isEmpty { break }
            _ = try delete(rows, from: "part", most: most, &step.bytes, db)
        }
        removal.step = step
        return step.bytes + 4096
    }

    /// Handles the result of a step's commit: durable, or failed. On the journal queue.
    func completedRemoval(_ result: Result<Void, JournalError>) {
        guard case .success = result, let step = removal.step else {
            (removal.isUnderWay, removal.hasFailed, removal.step) = (false, true, nil)
            return
        }
        removal.step = nil
        // The next start, or the snapshot after it, finds the rest.
        if isEnding { return removal.isUnderWay = false }
        if let trimmed = step.trimmed {
            removal.trims[0].chunks = removal.trims[0].chunks.dropFirst(trimmed.chunks)
            if trimmed.isAll { removal.trims.removeFirst() }
        } else if step.bytes == 0 {
            removal.isUnderWay = false
            return
        }
        let pauseNs = removal.pace.pauseNs(after: step.bytes, storedBytes, now: scheduler.steadyNs)
        guard pauseNs > 0 else { return advanceRemoval() }
        scheduler.after(ns: pauseNs, on: snapshots) { [self] in afterCommits { [self] in advanceRemoval() } }
    }

    /// Deletes rows given as id and length, from the first on, until `most` bytes are reached. SQLite overwrites them, through
    /// its log.
    /// - Parameter bytes: the total so far; grows by the deleted rows.
    /// - Returns: the number of deleted rows.
    func delete(_ rows: [Row], from table: String, most: Int, _ bytes: inout Int, _ db: Database) throws -> Int {
        let delete = try RawStatement(db, cached: "DELETE FROM \(table) WHERE id = ?")
        for (i, row) in rows.enumerated() {
            if bytes >= most { return i }
            try delete.run([row[0] as Int64])
            bytes += Int.fromDatabaseValue(row[1]) ?? 0
        }
        return rows.count
    }

    /// SQL for the ids of parts that belong to no batch and no stage in progress; it reads only the index.
    private var unusedParts: String {
        let underWay = openStages.map { String($0) }.joined(separator: ", ")
        return "SELECT id FROM part WHERE stage NOT IN (SELECT stage FROM batch WHERE stage > 0) AND stage NOT IN (\(underWay))"
    }
}
