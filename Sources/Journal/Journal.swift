import Synchronization

/// Where the commits of one namespace become durable, and from where others hear them.
///
///     database queue ── append(batch) ──► waiting ──► one commit for all that waits ──► completions, in order
///                                                              └──► tails: followers
///
/// The seam for other logs: entries are resolved operations, so applying them is deterministic, and every batch names the
/// one it follows, so a writer that has lost track is refused and never forks the history.
public protocol Journal: AnyObject, Sendable {
    /// Whether appends complete at once and one writer has the journal for itself, so that its output waits for nothing.
    var isImmediate: Bool { get }

    /// Makes a batch durable. Batches that wait while a commit is under way share the next one.
    ///
    /// What the completion says, and what its writer does:
    /// - success: stored; a crash cannot lose it. Also when the same batch, by its `id` and `expectedLast`, is stored already and
    ///   still kept: a writer that does not know what became of it may append it again.
    /// - `.conflict`, `.superseded`: another writer has written, or may: this one is no longer the writer.
    /// - `.unknown`: it may be stored or not. Appending it again tells, or that the next one follows what was before.
    /// - anything else: refused, nothing of it is stored. The writer goes back to its last durable root and continues from there.
    ///
    /// After a failure all batches appended on top of it fail as well.
    /// - Parameter completion: called on the journal's queue, in order of appends.
    func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Bytes of operations from which on it is worth it to stage them.
    var stagedBytes: Int { get }

    /// Stores operations beside the log and while others are appended: the batch that has them later (`JournalBatch.staged`) takes
    /// no longer than a small one. Let go of without one, they are removed, as after a kill.
    /// - Parameter completion: called once, from any thread. After a failure nothing is stored, and nothing else is refused.
    func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void)

    /// Follows the log: all batches after a position, each once and in order, first what is stored and then what is appended.
    /// - Parameters:
    ///   - position: `sequence` of the last batch that the reader has; 0 for all.
    ///   - receive: called on the journal's queue, never at the same time; nothing follows an `.end`.
    /// - Returns: what ends it early. The journal keeps a tail going; let go of, it goes on.
    @discardableResult
    func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail

    /// Stores a tree, so that the next start reads it and need not replay what led to it. Commits go on meanwhile.
    /// - Parameters:
    ///   - snapshot: the tree after the last batch that was appended before this call; else the end is `.conflict`.
    ///   - completion: called once, on the journal's queue; success means that the snapshot has taken the old one's place.
    func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Sets the callback that asks for a snapshot. `ask` is called whenever the log has grown so far that a snapshot is due, and
    /// calls `store(_:completion:)` soon. A journal that needs none never asks.
    /// - Parameter ask: called on the journal's queue.
    func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void)

    /// Lets go of the batches up to a number, which no one will ask for again. What the journal itself needs to recover stays
    /// until a snapshot holds it.
    func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Ends the journal, and all its tails, after everything appended before; later calls fail with `.closed`.
    func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)
}

/// What a follower of a journal hears.
public enum TailEvent: Sendable, Equatable {
    case batch(JournalBatch)
    /// Nothing more comes: `.truncated` when the position has been let go of, so that a snapshot is needed first, `.conflict`
    /// when no batch ends there, `.closed`, `.corrupt`, `.disk`.
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
