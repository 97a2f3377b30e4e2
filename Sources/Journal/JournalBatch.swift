public import JSONTree
package import Synchronization

/// One or more consecutive commits, stored and recovered together or not at all.
///
///     expectedLast 6   [set a][set b] │ [set c][pending …] │ [priority a]   sequence 9
///                       commit 7        commit 8             commit 9        starts: 2, 4
public struct JournalBatch: Sendable, Equatable {
    /// Identifies the batch when its writer appends it again because the outcome is unknown. Unique among the batches that any writer
    /// appends after the same commit. 0: it is never appended again.
    public var id: UInt64
    /// Epoch of the writer: one higher than that of the previous writer (`OpenedJournal.epoch`). A journal refuses an append with an older
    /// epoch than the newest one stored. 0 with a single writer.
    public var epoch: UInt64
    /// Number of the last commit in the batch; above `expectedLast`, at most 2^63 − 1.
    public var sequence: UInt64
    /// The `sequence` of the previous batch; 0 in an empty journal.
    public var expectedLast: UInt64
    /// The operations of all commits, in the order of application.
    public var operations: [JournalOperation]
    /// The indices in `operations` at which the second and later commits begin; ascending. A commit may have no operation.
    public private(set) var starts: [Int]
    /// The ranges of operations that are staged; ascending, without overlap.
    public var staged: [StagedRange]
    /// A setting of the namespace stored atomically with the batch, where settings are kept (`SettingStore`). It is not part of the log, so
    /// followers do not receive it.
    public var setting: JournalSetting?

    /// Consecutive operations contained in a stage of the same journal.
    public struct StagedRange: Sendable {
        public var range: Range<Int>
        public var stage: JournalStage

        public init(_ range: Range<Int>, _ stage: JournalStage) {
            self.range = range
            self.stage = stage
        }
    }

    /// A batch of one commit, or of several if `starts` is not empty. `sequence` is the number of the last one.
    public init(
        sequence: UInt64, after expectedLast: UInt64, operations: [JournalOperation], starts: [Int] = [], staged: [StagedRange] = [],
        id: UInt64 = 0, epoch: UInt64 = 0
    ) {
        (self.sequence, self.expectedLast, self.operations) = (sequence, expectedLast, operations)
        (self.starts, self.staged, self.id, self.epoch) = (starts, staged, id, epoch)
    }

    /// Compares the operations, but neither their stages nor the setting.
    public static func == (a: JournalBatch, b: JournalBatch) -> Bool {
        a.sequence == b.sequence && a.expectedLast == b.expectedLast && a.id == b.id && a.epoch == b.epoch && a.starts == b.starts
            && a.operations == b.operations
    }

    // MARK: Writing

    /// A batch without commits, which no journal accepts.
    public init(after expectedLast: UInt64) {
        self.init(sequence: expectedLast, after: expectedLast, operations: [])
    }

    public var isEmpty: Bool { sequence == expectedLast }

    /// Adds the next commit. The operations of the first commit are not copied.
    /// - Parameters:
    ///   - first: operations before `operations` in the same commit.
    ///   - more: operations after them in the same commit.
    ///   - stage: the stage that contains `operations`, if they are staged; it does not contain `more`.
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

    /// Adds the next commit, with one operation.
    public mutating func append(_ operation: JournalOperation) {
        if !isEmpty { starts.append(operations.count) }
        sequence += 1
        operations.append(operation)
    }

    // MARK: Reading

    /// Number of commits.
    public var commitCount: Int { isEmpty ? 0 : starts.count + 1 }

    /// The commits in order.
    public var commits: [Commit] {
        (0..<commitCount).map { i in
            let (from, to) = (i == 0 ? 0 : starts[i - 1], i < starts.count ? starts[i] : operations.count)
            return Commit(sequence: sequence &- UInt64(starts.count - i), operations: operations[from..<to])
        }
    }
}

/// Operations stored outside the journal's log, and not yet part of it. A batch that contains them is stored as fast as a small one
/// (`JournalBatch.staged`). If the stage is released without such a batch, they are removed. Until then they take space in the data folder.
public final class JournalStage: Sendable {
    /// Identifies the stage; its journal never uses a number twice.
    package let number: Int64
    /// Number of rows, at least one.
    package let parts: Int
    /// Total size of the rows.
    package let bytes: Int
    /// Whether a durable batch contains the operations, so that they are kept.
    package let isSealed = Atomic(false)
    /// Must not reference the store: the last release may happen on the store's own queue.
    private let end: @Sendable (_ isSealed: Bool) -> Void

    package init(number: Int64, parts: Int, bytes: Int, end: @escaping @Sendable (_ isSealed: Bool) -> Void) {
        (self.number, self.parts, self.bytes, self.end) = (number, parts, bytes, end)
    }

    deinit { end(isSealed.load(ordering: .relaxed)) }
}

/// An atomic change: all of it becomes visible together. Applying it again gives the same tree.
public struct Commit: Sendable, Equatable {
    public let sequence: UInt64
    /// Server values are resolved. Includes changes of pending onDisconnect writes; may be empty.
    public let operations: ArraySlice<JournalOperation>
}

/// One change of the tree with server values resolved, or of the state beside it: pending onDisconnect writes, write times, pending rows,
/// forwarded requests, deliveries, hits of watches.
public enum JournalOperation: Sendable, Equatable {
    /// Replaces the node at the path; `null` removes it.
    case set(Path, Node)
    /// Replaces only the priority.
    case priority(Path, Node)
    /// Adds the children of an object to those at the path; other children stay. A very large `set` is stored and read back as a `set` of a
    /// placeholder and several of these.
    case add(Path, Node)
    /// Changes a session's pending onDisconnect writes; the tree is unchanged.
    indirect case pending(PendingChange)
    /// When the node at the path was last written, ms since the epoch; nil removes the time. The tree is unchanged.
    case written(Path, Int64?)
    /// Changes pending rows or removals; the tree is unchanged. It comes after the tree changes of its commit, or before them if the tree
    /// before the commit determines the rows.
    indirect case pendingRows(PendingInboxChange)
    /// A large write, by the number of its commit, whose nodes do not all have stored times yet; nil once they have. The tree is unchanged.
    indirect case open(UInt64, OpenWrite?)
    /// Changes the state of forwarded requests; the tree is unchanged.
    indirect case peer(PeerChange)
    /// Adds or replaces a pending delivery; null removes it. The tree is unchanged.
    indirect case delivery(Key, Node)
    /// Changes what watches remember of their hits; the tree is unchanged.
    indirect case watch(WatchChange)

    /// The path that it changes; nil if the tree is unchanged.
    public var path: Path? {
        switch self {
        case .set(let path, _), .priority(let path, _), .add(let path, _): path
        case .pending, .written, .pendingRows, .open, .peer, .delivery, .watch: nil
        }
    }
}

extension Node {
    public mutating func apply(_ operation: JournalOperation) {
        switch operation {
        case .set(let path, let node): set(node, at: path)
        case .priority(let path, let priority): setPriority(priority, at: path)
        case .add(let path, let node): merge(node, at: path)
        case .pending, .written, .pendingRows, .open, .peer, .delivery, .watch: break
        }
    }
}
