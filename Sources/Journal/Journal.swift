import Synchronization

/// Makes the commits of one namespace durable and sends them to followers.
///
///     database queue ── append(batch) ──► waiting ──► one commit for all of them ──► completions, in order
///                                                              └──► tails: followers
///
/// The protocol for all log implementations. Entries are resolved operations, so applying them is deterministic. Every batch names the
/// commit that it continues, so an outdated writer is refused and never forks the history.
public protocol Journal: AnyObject, Sendable {
    /// Whether appends complete at once and the journal has a single writer, whose output then waits for no append.
    var isImmediate: Bool { get }

    /// Makes a batch durable. Batches that wait while a commit is running share the next one.
    ///
    /// The completion's results, and how the writer reacts:
    /// - success: stored; a crash cannot lose it. Also when the same batch (same `id` and `expectedLast`) is already stored and still kept.
    ///   So a writer that does not know the outcome of an append may append the batch again.
    /// - `.conflict`, `.superseded`: another writer has written, or may. This one is no longer the writer.
    /// - `.unknown`: it may be stored or not. Appending it again reveals which; so does appending another batch after the same commit.
    /// - any other error: refused, nothing is stored. The writer returns to its last durable root and continues from there.
    ///
    /// After a failure all batches appended on top of it fail as well.
    /// - Parameter completion: called once, on the journal's queue, in order of appends; with `.closed` on any queue, and perhaps before
    ///   the completions of earlier appends.
    func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Like `append`, for a caller that can wait for the disk. The journal may leave the commit to `commitHeld`, which the caller must call
    /// next, on the same thread, after it has left the database queue.
    func hold(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Makes held batches durable. A small batch that should take only a moment is committed on the calling thread. Its completion is
    /// called before this returns. Others are committed as if appended. Does nothing without a held batch. Not on a database queue.
    func commitHeld()

    /// Size in bytes from which operations should be staged.
    var stagedBytes: Int { get }

    /// Stores operations outside the log while other batches are appended. The batch that contains them later (`JournalBatch.staged`) takes
    /// no longer than a small one. A stage released without a batch is removed; so is one interrupted by a kill.
    /// - Parameter completion: called once, from any thread. After a failure nothing is stored, and nothing else is refused.
    func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void)

    /// Follows the log: all batches after a position, each once and in order, first the stored ones, then new ones.
    /// - Parameters:
    ///   - position: `sequence` of the last batch that the reader has; 0 for all.
    ///   - receive: called on the journal's queue, never concurrently; no event follows an `.end`.
    /// - Returns: a handle that cancels the tail. The journal retains the tail, so releasing the handle does not end it.
    @discardableResult
    func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail

    /// Stores a snapshot, so that the next start reads it instead of replaying the log up to it. Commits continue meanwhile.
    /// - Parameters:
    ///   - snapshot: the state after the last batch appended before this call; any other fails with `.conflict`.
    ///   - completion: called once, on the journal's queue, or with `.closed` on any; on success the snapshot has replaced the old one.
    func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Sets the callback that asks for a snapshot. It is called whenever the log has grown enough, and should call `store(_:completion:)`
    /// soon. A journal that needs no snapshots never calls it.
    /// - Parameter ask: called on the journal's queue.
    func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void)

    /// Removes the batches up to a number, once no follower needs them. The journal keeps those needed for recovery until a snapshot
    /// contains them.
    func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Ends the journal, and all its tails, after everything appended before; later calls fail with `.closed`.
    func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)
}

/// Defaults for journals that always commit on a thread of their own.
extension Journal {
    public func hold(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        append(batch, completion: completion)
    }

    public func commitHeld() {}
}

/// An event for a follower of a journal.
public enum TailEvent: Sendable, Equatable {
    case batch(JournalBatch)
    /// The last event: `.truncated` when the batches after the position were removed, so that a snapshot is needed first, `.conflict` when
    /// no batch ends at the position, `.closed`, `.corrupt`, `.disk`.
    case end(JournalError)
}

/// Stops a follower of a journal.
public final class JournalTail: Sendable {
    private let isCancelledFlag = Atomic(false)

    package init() {}

    /// After this returns on the journal's queue, no event begins; called elsewhere, one more may be running.
    public func cancel() { isCancelledFlag.store(true, ordering: .relaxed) }
    package var isCancelled: Bool { isCancelledFlag.load(ordering: .relaxed) }
}
