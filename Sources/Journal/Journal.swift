import Synchronization

/// Makes the commits of one namespace durable and sends them to followers.
///
///     database queue ── append(batch) ──► waiting ──► one commit for all that waits ──► completions, in order
///                                                              └──► tails: followers
///
/// The protocol that other logs implement. Entries are resolved operations, so applying them is deterministic. Every batch names
/// the commit that it follows, so a writer that is out of date is refused and never forks the history.
public protocol Journal: AnyObject, Sendable {
    /// Whether appends complete at once and the journal has a single writer, whose output then waits for no append.
    var isImmediate: Bool { get }

    /// Makes a batch durable. Batches that wait while a commit is under way share the next one.
    ///
    /// What the completion says, and what its writer does:
    /// - success: stored; a crash cannot lose it. Also when the same batch, by its `id` and `expectedLast`, is stored already and
    ///   still kept: a writer that does not know the outcome of an append may append the batch again.
    /// - `.conflict`, `.superseded`: another writer has written, or may: this one is no longer the writer.
    /// - `.unknown`: it may be stored or not. Appending it again finds out; so does appending a batch that follows the one before.
    /// - anything else: refused, nothing of it is stored. The writer returns to its last durable root and continues from there.
    ///
    /// After a failure all batches appended on top of it fail as well.
    /// - Parameter completion: called once, on the journal's queue, in order of appends; with `.closed` on any queue, and perhaps before
    ///   the completions of earlier appends.
    func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// The same for a caller that can wait for the disk: the journal may leave the commit to `commitHeld`, which the caller has to
    /// call next, on the same thread, when it has left the database's queue.
    func hold(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Makes durable what was held: a small batch on the calling thread, if it is expected to take a moment only, so that its completion
    /// comes inside the call; all else as if it had been appended. Does nothing without a held batch. Not on a database's queue.
    func commitHeld()

    /// Size in bytes from which operations should be staged.
    var stagedBytes: Int { get }

    /// Stores operations beside the log while other batches are appended. The batch that contains them later (`JournalBatch.staged`)
    /// takes no longer than a small one. A stage that is released without a batch is removed; so is one that a kill interrupted.
    /// - Parameter completion: called once, from any thread. After a failure nothing is stored, and nothing else is refused.
    func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void)

    /// Follows the log: all batches after a position, each once and in order, first what is stored and then what is appended.
    /// - Parameters:
    ///   - position: `sequence` of the last batch that the reader has; 0 for all.
    ///   - receive: called on the journal's queue, never at the same time; nothing follows an `.end`.
    /// - Returns: a handle that cancels the tail. The journal retains the tail, so releasing the handle does not end it.
    @discardableResult
    func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail

    /// Stores a tree, so that the next start reads it instead of replaying the log up to it. Commits continue meanwhile.
    /// - Parameters:
    ///   - snapshot: the tree after the last batch that was appended before this call; any other one fails with `.conflict`.
    ///   - completion: called once, on the journal's queue, or with `.closed` on any; success means that the snapshot has taken the
    ///     old one's place.
    func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Sets the callback that asks for a snapshot. `ask` is called whenever the log has grown so far that a snapshot is due, and
    /// calls `store(_:completion:)` soon. A journal that needs none never asks.
    /// - Parameter ask: called on the journal's queue.
    func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void)

    /// Removes the batches up to a number, which no follower needs any more. The journal keeps those that it needs for recovery
    /// until a snapshot contains them.
    func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Ends the journal, and all its tails, after everything appended before; later calls fail with `.closed`.
    func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)
}

/// What journals do that always commit on a thread of their own.
extension Journal {
    public func hold(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        append(batch, completion: completion)
    }

    public func commitHeld() {}
}

/// What a follower of a journal receives.
public enum TailEvent: Sendable, Equatable {
    case batch(JournalBatch)
    /// The last event: `.truncated` when the batches after the position were removed, so that a snapshot is needed first,
    /// `.conflict` when no batch ends there, `.closed`, `.corrupt`, `.disk`.
    case end(JournalError)
}

/// Stops a follower of a journal.
public final class JournalTail: Sendable {
    private let isCancelledFlag = Atomic(false)

    package init() {}

    /// No event begins after this has returned on the journal's queue; elsewhere one more may be under way.
    public func cancel() { isCancelledFlag.store(true, ordering: .relaxed) }
    package var isCancelled: Bool { isCancelledFlag.load(ordering: .relaxed) }
}
