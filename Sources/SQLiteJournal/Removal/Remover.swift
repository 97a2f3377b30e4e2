import Dispatch
import GRDB
import Journal
import Scheduling

/// Removes data from the folder: batches and chunks that a snapshot has made obsolete, and parts of large batches that are no
/// longer in the log or never were. One removal at a time for the whole store, in steps between commits, because SQLite overwrites
/// removed data. Confined to the journal queue.
///
///     journal queue     slice · commits · chunks ─► step: as many bytes ─► commits · slice ─► step …
///
/// Each step removes at least as many bytes as the store was asked to write during the one before: operations, parts and chunks. So the
/// folder does not grow while a removal is pending, and afterwards it holds only needed data.
final class Remover: @unchecked Sendable {
    // Sendable: the variables are confined to the journal queue; the rest is immutable.

    private let journal: JournalQueue
    private let registry: Registry
    private let totals: WrittenTotals
    private let scheduler: Scheduler
    /// Queue of the pauses between steps.
    private let pauses: DispatchQueue
    private let settings: JournalStore.Settings
    /// The newest of each namespace.
    private var trims: [SnapshotTrim] = []
    /// Stages that are being stored, or may still become part of a batch: their parts are kept.
    private var openStages: Set<Int64> = []
    /// Whether parts without a batch may exist; the next commit searches for them.
    private var mayHaveUnusedParts = true
    /// Whether a step is in progress, or the next one waits.
    private var isUnderWay = false
    /// Whether a step has failed on disk; the next successful commit starts again.
    private(set) var hasFailed = false
    /// Whether the process is about to end: the removal in progress is abandoned, and none begins.
    private var isEnding = false
    private var pace = SnapshotPace(WrittenBytes())
    /// What the current step has removed; nil before its transaction.
    private var step: Step?

    private struct Step {
        /// The part removed from the first trim.
        var trimmed: SnapshotTrim.Removed?
        var bytes = 0
    }

    /// Most rows of parts that are looked up at a time.
    private static let unusedRows = 64

    init(
        _ journal: JournalQueue, _ registry: Registry, _ totals: WrittenTotals, _ scheduler: Scheduler, pauses: DispatchQueue,
        _ settings: JournalStore.Settings
    ) {
        self.journal = journal
        self.registry = registry
        self.totals = totals
        self.scheduler = scheduler
        self.pauses = pauses
        self.settings = settings
    }

    /// Removes the rows that a snapshot has made obsolete. Replaces an unfinished earlier trim of its namespace.
    func remove(_ trim: SnapshotTrim) {
        journal.assertCurrent()
        trims.removeAll { $0.namespace == trim.namespace }
        trims.append(trim)
        start()
    }

    /// Tries again after a commit that succeeded.
    func retryIfFailed() { if hasFailed { start() } }

    /// The process is about to end.
    func prepareToClose() {
        journal.assertCurrent()
        isEnding = true
    }

    // MARK: Parts without a batch

    /// Keeps the parts of a stage that is about to be stored, until `releaseStage`.
    func keepStage(_ number: Int64) { openStages.insert(number) }

    /// From now on the parts are kept only if a batch has them.
    func releaseStage(_ number: Int64) { openStages.remove(number) }

    func searchUnusedPartsWithNextCommit() { mayHaveUnusedParts = true }

    func searchUnusedPartsIfNeeded() { if mayHaveUnusedParts { searchUnusedParts() } }

    /// Removes the parts of stages that were released, that a kill or a full disk interrupted, or whose batch a snapshot contains.
    func searchUnusedParts() {
        journal.assertCurrent()
        mayHaveUnusedParts = false
        // The removal in progress searches for them itself.
        if isUnderWay { return }
        journal.run { [self] db in
            let isThere = try? Int.fetchOne(db, sql: "SELECT EXISTS (\(unusedParts))")
            if isThere == 1 { start() }
        }
    }

    /// SQL for the ids of parts that belong to no batch and no stage in progress; it reads only the index.
    private var unusedParts: String {
        let underWay = openStages.map { String($0) }.joined(separator: ", ")
        return "SELECT id FROM part WHERE stage NOT IN (SELECT stage FROM batch WHERE stage > 0) AND stage NOT IN (\(underWay))"
    }

    // MARK: Steps

    private func start() {
        if isUnderWay || isEnding { return }
        (isUnderWay, hasFailed) = (true, false)
        pace = SnapshotPace(totals.stored)
        advance()
    }

    /// Enqueues the next step; refused when the store has been closed.
    private func advance() {
        pace.beganNs = scheduler.steadyNs
        journal.enqueue(Waiting.Item(namespace: "", work: .removal) { [self] result in
            // The next start finds the rest.
            if case .failure(.closed) = result { return }
            completed(result)
        })
    }

    /// Runs the next step within a transaction. Returns the bytes written.
    func removeNext(_ db: Database) throws -> Int {
        journal.assertCurrent()
        let most = pace.bytes(settings)
        var step = Step()
        if let trim = trims.first { step.trimmed = try trim.remove(most: most, &step.bytes, db) }
        while step.bytes < most {
            let rows = try Row.fetchAll(
                db, sql: "SELECT id, length(operations) FROM part WHERE id IN (\(unusedParts) LIMIT \(Self.unusedRows))")
            if rows.isEmpty { break }
            _ = try rows.delete(from: "part", most: most, &step.bytes, db)
        }
        self.step = step
        return step.bytes + 4096
    }

    /// Handles the result of a step's commit: durable, or failed.
    private func completed(_ result: Result<Void, JournalError>) {
        journal.assertCurrent()
        guard case .success = result, let step else {
            (isUnderWay, hasFailed, self.step) = (false, true, nil)
            return
        }
        self.step = nil
        // The next start, or the snapshot after it, finds the rest.
        if isEnding { return isUnderWay = false }
        if let trimmed = step.trimmed {
            trims[0].chunks = trims[0].chunks.dropFirst(trimmed.chunks)
            if trimmed.isAll {
                let trim = trims.removeFirst()
                if trim.isOfRemoved { registry.forget(removed: trim.namespace) }
            }
        } else if step.bytes == 0 {
            isUnderWay = false
            return
        }
        let pauseNs = pace.pauseNs(after: step.bytes, totals.stored, now: scheduler.steadyNs)
        guard pauseNs > 0 else { return advance() }
        scheduler.after(ns: pauseNs, on: pauses, journal.retaining { [self] in journal.run { [self] _ in advance() } })
    }
}
