import Journal
import JSONTree

/// The changes of the running batch: its commits for the log, and the history needed for a rollback.
/// Confined to the database queue.
final class Batch {
    /// A completed batch.
    struct Result {
        /// Its commits; may be empty.
        let journalled: JournalBatch
        let history: BatchHistory
        /// Bytes of its requests.
        let bytes: Int
        /// Large values no longer needed after the batch.
        let retiring: [any Sendable]
        /// Bytes of the consequences of its writes.
        let derived: DerivedBytes

        func with(_ journalled: JournalBatch) -> Result {
            Result(journalled: journalled, history: history, bytes: bytes, retiring: retiring, derived: derived)
        }
    }

    private(set) var journalled = JournalBatch(after: 0)
    private var history = BatchHistory()
    private var bytes = 0
    /// Bytes of the consequences of the running batch's writes.
    private(set) var derived = DerivedBytes()
    private var retiring: [any Sendable] = []
    /// Whether steps are recorded. Commits that are durable at once, and commits of another hub, are never rolled back. Changed only
    /// between batches.
    var keepsHistory: Bool

    init(keepsHistory: Bool) { self.keepsHistory = keepsHistory }

    var hasCommits: Bool { !journalled.isEmpty }

    /// Adds the next commit.
    /// - Parameters:
    ///   - first: operations before `operations` in the same commit.
    ///   - more: operations after them.
    ///   - stage: the operations already staged in the journal.
    func append(
        first: [JournalOperation] = [], _ operations: [JournalOperation], also more: [JournalOperation] = [], pending: [PendingChange],
        as sequence: UInt64, stage: JournalStage? = nil
    ) {
        if journalled.isEmpty { journalled = JournalBatch(after: sequence - 1) }
        journalled.append(first: first, operations, also: more, pending: pending, stage: stage)
    }

    /// Adds the next commit, with one operation.
    func append(_ operation: JournalOperation, as sequence: UInt64) {
        if journalled.isEmpty { journalled = JournalBatch(after: sequence - 1) }
        journalled.append(operation)
    }

    /// Counts the bytes of a request of this batch.
    func count(_ bytes: Int) { self.bytes += bytes }
    /// Charges bytes of consequences to an author.
    func charge(_ bytes: Int, to author: Owner) { derived.add(bytes, of: author) }
    /// Releases a large value, off the queue, when the batch has ended.
    func retire(_ value: any Sendable) { retiring.append(value) }

    func record(_ step: @autoclosure () -> BatchHistory.Step) {
        if keepsHistory { history.steps.append(step()) }
    }

    func record(_ change: @autoclosure () -> BatchHistory.SessionChange) {
        if keepsHistory { history.changes.append(change()) }
    }

    /// Drops the changes that were recorded during a rollback; they belong to no batch.
    func forgetHistory() { history = BatchHistory() }

    /// Ends a batch that cannot be rolled back: it has no commits, or they are durable at once.
    /// - Returns: its commits if any, the bytes of its requests, and large values no longer needed.
    func endAtOnce() -> (journalled: JournalBatch?, bytes: Int, retiring: [any Sendable]) {
        var ended: (journalled: JournalBatch?, bytes: Int, retiring: [any Sendable]) = (nil, bytes, [])
        bytes = 0
        if !derived.isEmpty { derived = DerivedBytes() }
        if hasCommits {
            var commits = JournalBatch(after: 0)
            swap(&commits, &journalled)
            ended.journalled = commits
        }
        if keepsHistory { history = BatchHistory() }
        if !retiring.isEmpty { swap(&ended.retiring, &retiring) }
        return ended
    }

    /// Ends the batch; the next one starts empty.
    func end() -> Result {
        defer { (journalled, history, bytes, retiring, derived) = (JournalBatch(after: 0), BatchHistory(), 0, [], DerivedBytes()) }
        return Result(journalled: journalled, history: history, bytes: bytes, retiring: retiring, derived: derived)
    }
}
