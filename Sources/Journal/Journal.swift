public import JSONTree
import Synchronization

/// Where the commits of one namespace become durable.
///
///     database queue ── append(batch) ──► waiting ──► one commit for all that waits ──► completions, in order
///
/// The seam for other logs: entries are resolved operations, so applying them is deterministic, and every batch names the
/// one it follows, so a writer that has lost track is refused and never forks the history.
public protocol Journal: AnyObject, Sendable {
    /// Makes a batch durable. Batches that wait while a commit is under way share the next one.
    ///
    /// After a failure nothing of the batch is stored, and all batches appended on top of it end in `.conflict`: the writer
    /// goes back to its last durable root and continues from there.
    /// - Parameter completion: called on the journal's queue, in order of appends; success means that a crash cannot lose it.
    func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void)

    /// Follows the log: all batches after a position, each once and in order, first what is stored and then what is appended.
    /// - Parameters:
    ///   - position: `sequence` of the last batch that the reader has; 0 for all.
    ///   - receive: called on the journal's queue, never at the same time; nothing follows an `.end`.
    /// - Returns: what ends it early. The journal keeps a tail going; let go of, it goes on.
    @discardableResult
    func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail

    /// Lets go of the batches up to a number, which nobody will ask for again. What the journal itself needs to recover stays
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

    /// No event begins after this has returned on the journal's queue; elsewhere one more may be under way.
    public func cancel() { isCancelledFlag.store(true, ordering: .relaxed) }
    var isCancelled: Bool { isCancelledFlag.load(ordering: .relaxed) }
}

/// The operations of one or more consecutive commits, stored and recovered together or not at all.
public struct JournalBatch: Sendable, Equatable {
    /// Number of the last commit in the batch; above `expectedLast`, at most 2^63 − 1.
    public var sequence: UInt64
    /// The `sequence` of the batch before, 0 in an empty journal.
    public var expectedLast: UInt64
    /// In the order in which they are applied.
    public var operations: [JournalOperation]
    /// Which of them are stored already; ascending, and none twice.
    public var staged: [StagedRange]

    /// Neighbours in `operations` that a stage of the same store holds.
    public struct StagedRange: Sendable {
        public var range: Range<Int>
        public var stage: JournalStage

        public init(_ range: Range<Int>, _ stage: JournalStage) {
            self.range = range
            self.stage = stage
        }
    }

    public init(sequence: UInt64, after expectedLast: UInt64, operations: [JournalOperation], staged: [StagedRange] = []) {
        self.sequence = sequence
        self.expectedLast = expectedLast
        self.operations = operations
        self.staged = staged
    }

    /// Where the operations are stored is no part of what they are.
    public static func == (a: JournalBatch, b: JournalBatch) -> Bool {
        a.sequence == b.sequence && a.expectedLast == b.expectedLast && a.operations == b.operations
    }
}

/// One change of the tree with its server values filled in, or of what sessions leave behind.
public enum JournalOperation: Sendable, Equatable {
    /// Replaces what is at the place; `null` removes it.
    case set(Path, Node)
    /// Replaces only the priority.
    case priority(Path, Node)
    /// Adds the children of an object to those of the place; the others stay. A very large `set` is stored, and read back, as
    /// one of a placeholder and several of these.
    case add(Path, Node)
    /// Changes what a session leaves behind for its end; the tree stays as it is.
    case pending(PendingChange)
}

extension Node {
    public mutating func apply(_ operation: JournalOperation) {
        switch operation {
        case .set(let path, let node): set(node, at: path)
        case .priority(let path, let priority): setPriority(priority, at: path)
        case .add(let path, let node): merge(node, at: path)
        case .pending: break
        }
    }
}

/// A whole tree as it stands after a commit.
public struct JournalSnapshot: Sendable {
    public var root: Node
    /// Number of the last commit in it.
    public var sequence: UInt64
    /// What sessions leave behind that have not ended.
    public var pending: [PendingSession]

    public init(root: Node, sequence: UInt64, pending: [PendingSession] = []) {
        self.root = root
        self.sequence = sequence
        self.pending = pending
    }
}
