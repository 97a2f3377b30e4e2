import GRDB
import Journal
import Scheduling

/// What is to be removed from the folder: batches and chunks that a snapshot has made needless, and parts of large batches that are no
/// longer, or never became, part of the log. One at a time for the whole store, in steps beside the commits, because SQLite overwrites
/// what is removed.
///
///     journal queue     slice · commits · chunks ─► step: as many bytes ─► commits · slice ─► step …
///
/// Each step removes at least as much as the store was asked to write during the one before: operations, parts and chunks. So while there
/// is something to remove the folder does not grow, and without it the folder holds what is needed.
struct Removal {
    /// The newest of each namespace.
    var trims: [SnapshotTrim] = []
    /// Whether there may be parts that belong to no batch; the next commit looks for them.
    var mustLook = true
    /// Whether a step is under way, or the next one waits.
    var isUnderWay = false
    /// Whether the disk has refused a step; the next commit that it takes begins again.
    var hasFailed = false
    var pace = SnapshotPace(WrittenBytes())
    /// What the step under way has removed; nil before its transaction.
    var step: Step?

    struct Step {
        /// Of the first trim.
        var trimmed: SnapshotTrim.Removed?
        var bytes = 0
    }
}

extension JournalStore {
    /// Most rows of parts that are looked up at a time.
    private static let unusedRows = 64

    /// Removes what a snapshot has made needless. In place of what an earlier one of its namespace has left of that.
    func remove(_ trim: SnapshotTrim) {
        removal.trims.removeAll { $0.namespace == trim.namespace }
        removal.trims.append(trim)
        startRemoval()
    }

    /// Removes the parts of stages that were released, that a kill or a full disk interrupted, or whose batch a snapshot contains. On the
    /// journal queue.
    func removeUnusedParts() {
        removal.mustLook = false
        // It looks for them by itself.
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

    /// All that may have to be removed one day.
    private var storedBytes: WrittenBytes { WrittenBytes(bytes: written.bytes + chunkBytes, batches: written.batches) }

    /// Puts the next step among what waits; refused when the store has been closed.
    private func advanceRemoval() {
        removal.pace.beganNs = scheduler.steadyNs
        enqueue(Waiting.Item(namespace: "", work: .step(.remove)) { [self] result in completed(.remove, result) })
    }

    /// The next step, within a transaction on the journal queue. Returns the bytes written.
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

    /// A step's commit is durable, or failed. On the journal queue.
    func completedRemoval(_ result: Result<Void, JournalError>) {
        guard case .success = result, let step = removal.step else {
            (removal.isUnderWay, removal.hasFailed, removal.step) = (false, true, nil)
            return
        }
        removal.step = nil
        // The next start, or the snapshot after it, finds what is left.
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

    /// Deletes rows of id and length, the first ones, as many as are needed to have `most` bytes in all. SQLite overwrites them, through
    /// its log.
    /// - Parameter bytes: so far; grows by theirs.
    /// - Returns: rows.
    func delete(_ rows: [Row], from table: String, most: Int, _ bytes: inout Int, _ db: Database) throws -> Int {
        let delete = try RawStatement(db, cached: "DELETE FROM \(table) WHERE id = ?")
        for (i, row) in rows.enumerated() {
            if bytes >= most { return i }
            try delete.run([row[0] as Int64])
            bytes += Int.fromDatabaseValue(row[1]) ?? 0
        }
        return rows.count
    }

    /// Ids of the parts that are in no batch and no stage under way; read from the index alone.
    private var unusedParts: String {
        let underWay = openStages.map { String($0) }.joined(separator: ", ")
        return "SELECT id FROM part WHERE stage NOT IN (SELECT stage FROM batch WHERE stage > 0) AND stage NOT IN (\(underWay))"
    }
}
