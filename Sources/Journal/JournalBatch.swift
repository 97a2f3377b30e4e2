public import JSONTree
package import Synchronization

/// One or more consecutive commits, stored and recovered together or not at all.
///
///     expectedLast 6   [set a][set b] │ [set c][pending …] │ [priority a]   sequence 9
///                       commit 7        commit 8             commit 9        starts: 2, 4
public struct JournalBatch: Sendable, Equatable {
    /// Identifies the batch when its writer appends it again because it does not know the outcome. Unique among the batches that any
    /// writer appends after the same commit. 0: it is never appended again.
    public var id: UInt64
    /// Number of the writer, one higher for each that opened the namespace behind another that has written (`OpenedJournal.epoch`): a
    /// journal refuses an append of an older epoch than the newest that it has stored. 0 where there is a single writer.
    public var epoch: UInt64
    /// Number of the last commit in the batch; above `expectedLast`, at most 2^63 − 1.
    public var sequence: UInt64
    /// The `sequence` of the batch before, 0 in an empty journal.
    public var expectedLast: UInt64
    /// The operations of all commits, in the order in which they are applied.
    public var operations: [JournalOperation]
    /// Where in `operations` the second commit begins, the third, and so on; ascending. A commit may have no operation.
    public private(set) var starts: [Int]
    /// The ranges of operations that are staged; ascending, without overlap.
    public var staged: [StagedRange]
    /// A setting of the namespace that is stored in the same step, where settings are kept (`SettingStore`): all of both or nothing. It is
    /// no part of the log, so that followers do not receive it.
    public var setting: JournalSetting?

    /// Consecutive operations that a stage of the same journal contains.
    public struct StagedRange: Sendable {
        public var range: Range<Int>
        public var stage: JournalStage

        public init(_ range: Range<Int>, _ stage: JournalStage) {
            self.range = range
            self.stage = stage
        }
    }

    /// A batch of one commit, or of several if `starts` is not empty; the last one has the number `sequence`.
    public init(
        sequence: UInt64, after expectedLast: UInt64, operations: [JournalOperation], starts: [Int] = [], staged: [StagedRange] = [],
        id: UInt64 = 0, epoch: UInt64 = 0
    ) {
        (self.sequence, self.expectedLast, self.operations) = (sequence, expectedLast, operations)
        (self.starts, self.staged, self.id, self.epoch) = (starts, staged, id, epoch)
    }

    /// Compares the operations, and not where they are stored, nor what is stored with them.
    public static func == (a: JournalBatch, b: JournalBatch) -> Bool {
        a.sequence == b.sequence && a.expectedLast == b.expectedLast && a.id == b.id && a.epoch == b.epoch && a.starts == b.starts
            && a.operations == b.operations
    }

    // MARK: Writing

    /// A batch without a commit, which no journal takes.
    public init(after expectedLast: UInt64) {
        self.init(sequence: expectedLast, after: expectedLast, operations: [])
    }

    public var isEmpty: Bool { sequence == expectedLast }

    /// Adds the next commit, one number above the last. What `operations` holds is not copied for the first one.
    /// - Parameters:
    ///   - first: operations before them in the same commit.
    ///   - more: operations behind them in the same commit.
    ///   - stage: the stage that contains the operations, if they are staged; not those behind them.
    public mutating func append(
        first: [JournalOperation] = [], _ operations: [JournalOperation], also more: [JournalOperation] = [],
        pending: [PendingChange] = [], stage: JournalStage? = nil
    ) {
        if !isEmpty { starts.append(self.operations.count) }
        if !first.isEmpty { self.operations += first }
        let start = self.operations.count
        sequence += 1
        if start == 0 { self.operations = operations } else { self.operations += operations }
        if let stage { staged.append(StagedRange(start..<self.operations.count, stage)) }
        if !more.isEmpty { self.operations += more }
        for change in pending { self.operations.append(.pending(change)) }
    }

    /// Adds the next commit, which is one operation.
    public mutating func append(_ operation: JournalOperation) {
        if !isEmpty { starts.append(operations.count) }
        sequence += 1
        operations.append(operation)
    }

    // MARK: Reading

    /// How many commits there are.
    public var commitCount: Int { isEmpty ? 0 : starts.count + 1 }

    /// The commits in order.
    public var commits: [Commit] {
        (0..<commitCount).map { i in
            let (from, to) = (i == 0 ? 0 : starts[i - 1], i < starts.count ? starts[i] : operations.count)
            return Commit(sequence: sequence &- UInt64(starts.count - i), operations: operations[from..<to])
        }
    }
}

/// Operations that a journal has stored beside its log, and that are not part of the log yet. A batch that contains them is stored
/// as fast as a small one (`JournalBatch.staged`). If the stage is released without such a batch, they are removed. Until then they
/// occupy space in the data folder.
public final class JournalStage: Sendable {
    /// Identifies the stage; its journal never uses a number twice.
    package let number: Int64
    /// Rows, at least one.
    package let parts: Int
    /// Size of all rows.
    package let bytes: Int
    /// Whether a durable batch contains the operations, so that they are kept.
    package let isSealed = Atomic(false)
    /// Holds no reference to the store: the last release may happen on the store's own queue.
    private let end: @Sendable (_ isSealed: Bool) -> Void

    package init(number: Int64, parts: Int, bytes: Int, end: @escaping @Sendable (_ isSealed: Bool) -> Void) {
        (self.number, self.parts, self.bytes, self.end) = (number, parts, bytes, end)
    }

    deinit { end(isSealed.load(ordering: .relaxed)) }
}

/// An atomic change: all of it becomes visible together. Applying it again gives the same tree.
public struct Commit: Sendable, Equatable {
    public let sequence: UInt64
    /// With server values resolved, and with changes of pending onDisconnect writes; may be empty.
    public let operations: ArraySlice<JournalOperation>
}

/// One change of the tree with server values resolved, or of what is kept beside it: pending onDisconnect writes, times, and owed rows.
public enum JournalOperation: Sendable, Equatable {
    /// Replaces what is at the place; `null` removes it.
    case set(Path, Node)
    /// Replaces only the priority.
    case priority(Path, Node)
    /// Adds the children of an object to those of the place; the others stay. A very large `set` is stored, and read back, as
    /// a `set` of a placeholder and several of these.
    case add(Path, Node)
    /// Changes a session's pending onDisconnect writes; the tree stays as it is.
    indirect case pending(PendingChange)
    /// When the node at the place was last written, ms since the epoch; nil: that is no longer kept. The tree stays as it is.
    case written(Path, Int64?)
    /// Changes what commits owe; the tree stays as it is. It stands behind what its commit changes in the tree; before it where the tree
    /// before the commit says what is owed.
    indirect case owed(OwedChange)
    /// A write, by the number of its commit, whose nodes do not have their times yet; nil: they have. The tree stays as it is.
    indirect case open(UInt64, OpenWrite?)
    /// Changes what is known of the requests that other hubs forward; the tree stays as it is.
    indirect case peer(PeerChange)

    /// The place in the tree that it changes; nil when it changes none.
    public var path: Path? {
        switch self {
        case .set(let path, _), .priority(let path, _), .add(let path, _): path
        case .pending, .written, .owed, .open, .peer: nil
        }
    }
}

extension Node {
    public mutating func apply(_ operation: JournalOperation) {
        switch operation {
        case .set(let path, let node): set(node, at: path)
        case .priority(let path, let priority): setPriority(priority, at: path)
        case .add(let path, let node): merge(node, at: path)
        case .pending, .written, .owed, .open, .peer: break
        }
    }
}
