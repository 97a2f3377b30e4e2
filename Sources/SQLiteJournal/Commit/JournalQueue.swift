import Dispatch
import GRDB
import Journal
import Synchronization

/// The journal queue of a store, and the items that wait for it. All parts of the store use it; from any thread.
///
/// ```
/// enqueue ───────────► waiting ─► a block on the journal queue ─────► Committer.commitWaiting
/// enqueue, isHeld ───► waiting ─► Committer.commitHeld, on the thread that appended
/// ```
/// Work that is under way retains the committer, and with it all parts and the folder's lock. So a store that is released without
/// being closed still completes what was appended.
final class JournalQueue: @unchecked Sendable {
    // Sendable: `committer` is set before the store is used; the rest is immutable or locked.

    /// Queue on which appends to a closed store are refused. Not the journal queue: a completion may release the last reference to the
    /// store, and the deinit of GRDB's connection waits for its own queue, which targets the journal queue.
    static let refusals = DispatchQueue(label: "vigla.journal.refusals")

    let queue: DispatchQueue
    /// The database's file, for error messages.
    let path: String
    /// Work in the background that `close` waits for.
    let background = DispatchGroup()
    private let connections: Connections
    private let waiting = Mutex(Waiting())
    private weak var committer: Committer?

    init(_ queue: DispatchQueue, _ connections: Connections) {
        self.queue = queue
        self.connections = connections
        path = connections.path
    }

    /// Sets who commits the items. Once, before the first item.
    func connect(_ committer: Committer) { self.committer = committer }

    func assertCurrent() { dispatchPrecondition(condition: .onQueue(queue)) }

    // MARK: Items

    /// Adds an item to the next commit.
    /// - Parameter isHeld: whether the caller calls `commitHeld` next, on the same thread.
    func enqueue(_ item: Waiting.Item, isHeld: Bool = false) {
        let verdict: (isClosed: Bool, mustSchedule: Bool) = waiting.withLock { waiting in
            let work = item.work
            let isRefused = waiting.isClosed && !work.survivesStoreClose(isLate: waiting.isLate)
                || !work.survivesJournalClose && waiting.closed.contains(item.namespace)
                || item.removals.map { $0 != waiting.removals[item.namespace, default: 0] } == true
            if isRefused { return (true, false) }
            switch item.work {
            case .close: waiting.closed.insert(item.namespace)
            case .drop:
                waiting.removals[item.namespace, default: 0] += 1
                waiting.closed.remove(item.namespace)
            default: break
            }
            waiting.items.append(item)
            if waiting.isScheduled { return (false, false) }
            (waiting.isScheduled, waiting.isHeld) = (true, isHeld)
            return (false, !isHeld)
        }
        if verdict.isClosed {
            Self.refusals.async { item.completion(.failure(.closed)) }
        } else if verdict.mustSchedule {
            schedule()
        }
    }

    /// Commits the waiting items in a block on the journal queue.
    func schedule() {
        guard let committer else { return }
        run { db in committer.commitWaiting(db) }
    }

    var hasItems: Bool { waiting.withLock { !$0.items.isEmpty } }

    /// Takes all items. On the journal queue.
    func takeItems() -> [Waiting.Item] {
        waiting.withLock { waiting in
            defer { (waiting.items, waiting.isScheduled) = ([], false) }
            return waiting.items
        }
    }

    enum HeldItem {
        /// Another thread, closing the store, may have committed it.
        case none
        /// The journal queue is idle and nothing else waits. The caller must call `runInline`.
        case isNext
        case isBehindOthers
    }

    /// Ends the hold of an item that was enqueued with `isHeld`.
    func takeHold() -> HeldItem {
        waiting.withLock { waiting in
            guard waiting.isHeld else { return .none }
            waiting.isHeld = false
            if waiting.items.isEmpty { return .none }
            guard waiting.pending == 0, waiting.items.count == 1, !waiting.isClosed else { return .isBehindOthers }
            waiting.pending += 1
            return .isNext
        }
    }

    // MARK: Blocks

    /// Whether blocks have not ended.
    var isBusy: Bool { waiting.withLock { $0.pending > 0 } }

    /// Runs `body` on the journal queue, in order with the commits. A block put on that queue directly could wait for ever while
    /// commits keep arriving.
    func run(_ body: @escaping @Sendable (Database) -> Void) {
        waiting.withLock { $0.pending += 1 }
        connections.database.asyncWriteWithoutTransaction { [self, committer] db in
            withExtendedLifetime(committer) { body(db) }
            waiting.withLock { $0.pending -= 1 }
        }
    }

    /// Runs `body` on the journal queue, on the calling thread, after `takeHold` has found the queue idle. So this waits only, rarely, for
    /// a block that was just queued.
    func runInline(_ body: (Database) -> Bool) -> Bool {
        defer { waiting.withLock { $0.pending -= 1 } }
        return connections.database.writeWithoutTransaction(body)
    }

    /// A block for another queue that retains the store until it has run.
    func retaining(_ body: @escaping @Sendable () -> Void) -> @Sendable () -> Void {
        { [committer] in withExtendedLifetime(committer, body) }
    }

    // MARK: End

    var isClosed: Bool { waiting.withLock(\.isClosed) }

    /// How often a namespace was removed.
    func removals(of namespace: String) -> Int { waiting.withLock { $0.removals[namespace, default: 0] } }

    /// A removal has failed: journals from before it continue.
    func undoRemoval(of namespace: String) { waiting.withLock { $0.removals[namespace, default: 1] -= 1 } }

    func isClosed(_ namespace: String) -> Bool { waiting.withLock { $0.isClosed || $0.closed.contains(namespace) } }

    /// Refuses later items; false when the store was closed before.
    /// - Parameter isLate: whether large batches in progress are abandoned.
    func close(isLate: Bool) -> Bool {
        waiting.withLock { waiting in
            defer { (waiting.isClosed, waiting.isLate) = (true, waiting.isLate || isLate) }
            return !waiting.isClosed
        }
    }

    /// The error for a batch that does not follow the last one: another writer has written, or the batch before was abandoned at the end.
    func misplaced(_ batch: JournalBatch, _ last: UInt64) -> JournalError {
        waiting.withLock(\.isLate) ? .closed : .conflict(expected: batch.expectedLast, last: last)
    }
}
