import Journal
import JSONTree

/// The changes of the running batch so far: its commits for the log, and the history that a rollback needs.
/// Confined to the database queue.
final class Batch {
    /// The result of a batch that has ended.
    struct Result {
        /// Its commits; empty when it made none.
        let journalled: JournalBatch
        let history: BatchHistory
        /// Bytes of its requests.
        let bytes: Int
        /// Large values that are not needed after the batch.
        let retiring: [any Sendable]
        /// Bytes of what followed from its writes.
        let derived: DerivedBytes

        func with(_ journalled: JournalBatch) -> Result {
            Result(journalled: journalled, history: history, bytes: bytes, retiring: retiring, derived: derived)
        }
    }

    private(set) var journalled = JournalBatch(after: 0)
    private var history = BatchHistory()
    private var bytes = 0
    /// Bytes of what followed from the writes of the running batch.
    private(set) var derived = DerivedBytes()
    private var retiring: [any Sendable] = []
    /// Whether what is done is recorded: what became durable at once, and what another hub has written, is never taken back. Changed between
    /// batches only.
    var keepsHistory: Bool

    init(keepsHistory: Bool) { self.keepsHistory = keepsHistory }

    var hasCommits: Bool { !journalled.isEmpty }

    /// Adds a commit: the one behind the last.
    /// - Parameters:
    ///   - first: operations before them in the same commit.
    ///   - more: operations behind them.
    ///   - stage: what the journal has of the operations already.
    func append(
        first: [JournalOperation] = [], _ operations: [JournalOperation], also more: [JournalOperation] = [], pending: [PendingChange],
        as sequence: UInt64, stage: JournalStage? = nil
    ) {
        if journalled.isEmpty { journalled = JournalBatch(after: sequence - 1) }
        journalled.append(first: first, operations, also: more, pending: pending, stage: stage)
    }

    /// The same for a commit of one operation.
    func append(_ operation: JournalOperation, as sequence: UInt64) {
        if journalled.isEmpty { journalled = JournalBatch(after: sequence - 1) }
        journalled.append(operation)
    }

    /// A request of so many bytes is carried out in this batch.
    func count(_ bytes: Int) { self.bytes += bytes }
    /// So many bytes followed from an author's writes.
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

    /// Ends a batch of which nothing is taken back: it has no commits, or they are durable at once.
    /// - Returns: its commits if it has any, bytes of its requests, and large values that are not needed any more.
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

    /// Ends the batch; the next one begins empty.
    func end() -> Result {
        defer { (journalled, history, bytes, retiring, derived) = (JournalBatch(after: 0), BatchHistory(), 0, [], DerivedBytes()) }
        return Result(journalled: journalled, history: history, bytes: bytes, retiring: retiring, derived: derived)
    }
}
