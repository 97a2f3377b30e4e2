import Dispatch
import GRDB
import Journal
import Scheduling

/// Commits the waiting items: those that fit together as one transaction. Confined to the journal queue, except
/// `mayHold` and `commitHeld`.
///
/// ```
/// JournalQueue ─► pending items ─► takeNext ─► one transaction (CommitWriter) ─► acknowledged ─► completions, in order
///                                     │                                                 └► snapshots, followers
///                                     └► a large batch: Stages; a snapshot: Snapshotter
/// ```
/// A single writer would wait for a thread of the journal queue to wake up, and then for its own: on a fast disk longer than its
/// commit takes. So the thread that appended commits by itself, if its item is alone and the disk is quick. With many writers, more
/// requests gather for the next commit while the thread that reads them waits for this one.
///
/// ```
/// append ──────────────────────────────► the journal queue, on a thread of Dispatch
/// hold ─► commitHeld ── alone, quick ──► the journal queue, on the calling thread
///                └────── else ─────────► as append
/// ```
/// The calling thread cannot do other work meanwhile, so if the disk is slow too often, the journal queue's own thread commits.
final class Committer: @unchecked Sendable {
    // Sendable: the variables are confined to the journal queue; the rest is immutable.

    private let journal: JournalQueue
    private let writer: CommitWriter
    private let log: LogAcknowledgement
    private let checkpointer: Checkpointer
    private let stages: Stages
    private let snapshotter: Snapshotter
    private let remover: Remover
    private let tails: Tails
    private let totals: WrittenTotals
    private let scheduler: Scheduler
    private let inlineCommitBytes: Int
    private let sliceBytes: Int
    /// Items taken from the journal queue that a later transaction stores.
    private var pendingItems = PendingItems()
    private var inlineBudget: InlineCommitBudget
    /// Commits of all namespaces together.
    private var commits: UInt64

    /// The parts that a commit affects.
    struct Parts {
        let checkpointer: Checkpointer
        let stages: Stages
        let snapshotter: Snapshotter
        let remover: Remover
        let tails: Tails
        let totals: WrittenTotals
    }

    init(
        _ journal: JournalQueue, _ writer: CommitWriter, _ log: LogAcknowledgement, _ parts: Parts, _ scheduler: Scheduler,
        _ settings: JournalStore.Settings, commits: UInt64
    ) {
        (self.journal, self.writer, self.log, self.commits) = (journal, writer, log, commits)
        (checkpointer, stages, snapshotter) = (parts.checkpointer, parts.stages, parts.snapshotter)
        (remover, tails, totals) = (parts.remover, parts.tails, parts.totals)
        self.scheduler = scheduler
        (inlineCommitBytes, sliceBytes) = (settings.inlineCommitBytes, settings.sliceBytes)
        inlineBudget = InlineCommitBudget(settings)
        journal.connect(self)
    }

    /// Whether a batch is small enough for a quick commit, so that it may be held. From any thread. O(`inlineCommitBytes`)
    func mayHold(_ batch: JournalBatch) -> Bool {
        var room = inlineCommitBytes
        return batch.commitCount == 1 || batch.takes(from: &room)
    }

    /// Commits the item that was enqueued with `isHeld`. On the thread that enqueued it.
    func commitHeld() {
        switch journal.takeHold() {
        case .none: return
        case .isBehindOthers: journal.schedule()
        case .isNext:
            let isDone = journal.runInline { db in
                guard !isDiskBusy, inlineBudget.isQuick(at: scheduler.steadyNs) else { return false }
                commitWaiting(db)
                return true
            }
            if !isDone { journal.schedule() }
        }
    }

    /// Commits the waiting items that fit one transaction, and calls the completions in order.
    func commitWaiting(_ db: Database) {
        journal.assertCurrent()
        pendingItems.add(journal.takeItems())
        let items = takeNext()
        var rest = items[...]
        while let first = rest.first {
            let stored = first.work.needsOwnTransaction ? rest.prefix(1) : rest.prefix { $0.work.isStored && !$0.work.needsOwnTransaction }
            if stored.isEmpty {
                perform(first)
                rest = rest.dropFirst()
            } else {
                commit(stored, db)
                rest = rest.dropFirst(stored.count)
            }
        }
        if items.isEmpty { return }
        if !pendingItems.isEmpty { journal.schedule() }
        remover.searchUnusedPartsIfNeeded()
        checkpointIfDue()
    }

    /// Commits until no item can be committed; returns whether nothing waits for a large batch.
    func commitAll(_ db: Database) -> Bool {
        var before = -1
        while before != pendingItems.count || journal.hasItems {
            before = pendingItems.count
            commitWaiting(db)
        }
        return pendingItems.isEmpty && !stages.isStoring
    }

    /// Releases the statements, so that the connection can be closed.
    func end() {
        journal.assertCurrent()
        writer.end()
    }

    /// For tests: the items that a later transaction stores.
    var deferredItems: [Waiting.Item] { pendingItems.items }

    /// Whether the store's own work keeps the disk busy.
    private var isDiskBusy: Bool { checkpointer.isCopying || snapshotter.isUnderWay }

    private func checkpointIfDue() {
        guard checkpointer.isDue(duringSnapshot: snapshotter.isUnderWay) else { return }
        checkpointer.copy { [self] db in
            // Slices and chunks have waited for the copy to end.
            if !pendingItems.isEmpty { commitWaiting(db) }
        }
    }

    // MARK: One transaction

    /// Takes the items of the next transaction: nearly always all of them. If they are larger than a slice, some remain.
    /// Each namespace keeps its order, remaining items come first the next time, and none waits longer than a slice takes.
    private func takeNext() -> [Waiting.Item] {
        if !stages.isStoring, let all = pendingItems.takeAll(within: sliceBytes) { return all }
        var (taken, slice): ([Waiting.Item], Waiting.Item?) = ([], nil)
        var room = sliceBytes
        pendingItems.serve { item, lane, isServed in
            // Items behind a large batch wait for it.
            if stages.isStoring(lane) { return .leave }
            if item.work.needsOwnTransaction {
                // Not while the log is being copied: the disk is busy, and the log must not grow meanwhile. The slice goes behind the other
                // items, which are small.
                if slice != nil || checkpointer.isCopying { return .leave }
                slice = item
                return .takeLast
            }
            var rest = room
            if item.takes(from: &rest) || taken.isEmpty && !stages.isLarge(item) {
                room = max(0, rest)
                taken.append(item)
                return .take
            }
            guard case .append(let batch) = item.work, !isServed, stages.isLarge(item) else { return .leave }
            return stages.begin(batch, item) ? .takeLast : .take
        }
        if let slice { taken.append(slice) }
        return taken
    }

    /// Processes an item that needs no transaction.
    private func perform(_ item: Waiting.Item) {
        switch item.work {
        case .snapshot(let snapshot): snapshotter.begin(snapshot, of: item.namespace, item.completion)
        case .close:
            tails.close(item.namespace)
            item.completion(.success(()))
        default: return
        }
    }

    /// Commits the items in one transaction and calls their completions.
    private func commit(_ items: ArraySlice<Waiting.Item>, _ db: Database) {
        var outcomes: [CommitWriter.Outcome] = []
        let (begin, pages, isDisturbed) = (scheduler.steadyNs, log.pages, isDiskBusy)
        let removed = writer.commitsRemoved(by: items)
        // Before the commit: after a crash behind it, the mark must not count commits that are gone.
        if removed > 0 { log.acknowledge(commits: commits &- removed) }
        do {
            // A failing disk may take long to report the error, so count failed commits too.
            defer {
                let isSeveral = items.count > 1 || items.first?.work.batch.map { $0.commitCount > 1 } == true
                if !isDisturbed { inlineBudget.committed(from: begin, to: scheduler.steadyNs, isSeveral: isSeveral) }
            }
            try writer.write(items, &outcomes, db)
            FaultPoint.pass(.afterCommit)
            for item in items { FaultPoint.pass(item.work.faultPoints.after) }
            for (item, outcome) in zip(items, outcomes) where outcome.isNew {
                if case .success = outcome.result { commits &+= item.work.commits }
            }
            commits &-= removed
            log.acknowledge(commits: commits)
        } catch {
            // Items that were not refused themselves failed with the transaction.
            let failure = CommitWriter.Outcome(
                result: .failure(JournalError(error, storing: journal.path, isDiscarded: log.discardFailedCommit())))
            for i in outcomes.indices { if case .success = outcomes[i].result { outcomes[i] = failure } }
            while outcomes.count < items.count { outcomes.append(failure) }
        }
        checkpointer.grew(by: (log.pages - pages) * 4096)
        for (item, outcome) in zip(items, outcomes) {
            totals.add(outcome.bytes, of: item.work)
            if let batch = item.work.batch, case .success = outcome.result, outcome.isNew {
                appended(batch, to: item.namespace, bytes: outcome.bytes)
            }
            if case .drop = item.work { dropped(item.namespace, outcome.result) }
            item.completion(outcome.result)
        }
    }

    /// Ends what other parts do for a namespace that is removed, and begins to remove its rows.
    private func dropped(_ namespace: String, _ result: Result<Void, JournalError>) {
        guard case .success = result else { return journal.undoRemoval(of: namespace) }
        tails.close(namespace)
        snapshotter.drop(namespace)
    }

    /// Passes a batch that has become durable to the other parts.
    private func appended(_ batch: JournalBatch, to namespace: String, bytes: Int) {
        let requestSnapshot = snapshotter.appended(batch, to: namespace, bytes: bytes)
        totals.addBatch()
        stages.appended(batch)
        tails.appended(batch, to: namespace)
        requestSnapshot?()
        remover.retryIfFailed()
    }
}
