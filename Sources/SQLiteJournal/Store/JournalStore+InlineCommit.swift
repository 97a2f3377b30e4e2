import GRDB
import Journal
import Scheduling
import Synchronization

/// Commits on the thread that appended. A single writer would otherwise wait for a thread of the journal queue to wake up, and then for
/// its own: on a fast disk longer than its commit takes. With many writers, more requests gather for the next commit while
/// the thread that reads them waits for this one.
///
/// ```
/// append ──────────────────────────────► the journal queue, on a thread of Dispatch
/// hold ─► commitHeld ── alone, quick ──► the journal queue, on the calling thread
///                └────── else ─────────► as append
/// ```
/// The calling thread cannot do other work meanwhile, so if the disk is slow too often, the journal queue's own thread commits.
extension JournalStore {
    /// Whether commits are quick enough for the appending thread. Slow commits draw their time from an allowance that refills over time.
    /// So an occasional slow commit does not move all following ones to another thread. Confined to the journal queue.
    struct InlineCommitBudget {
        /// ns that slow commits may still take, as of `reckoned`. While it is negative, no commit runs on the appending thread.
        private var allowance: Int64 = 0
        /// Steady ns; nil before a first commit has shown how quick the disk is.
        private var reckoned: Int64?

        private static let longestPauseNs: Int64 = 10_000_000_000

        /// - Parameters:
        ///   - begin: steady ns.
        ///   - end: steady ns.
        ///   - isSeveral: whether more than one write was in it.
        mutating func committed(from begin: Int64, to end: Int64, isSeveral: Bool, _ settings: Settings) {
            allowance = allowance(at: end, settings)
            reckoned = end
            let taken = end - begin
            guard taken > Int64(isSeveral ? settings.inlineCommitSeveralUs : settings.inlineCommitUs) * 1_000 else { return }
            // When it is overdrawn, the larger of both debts counts: commits then run on the queue and cost no other thread anything.
            let left = allowance < 0 ? min(allowance, -taken) : allowance - taken
            allowance = max(left, -Self.longestPauseNs / Self.share(settings))
        }

        func isQuick(at now: Int64, _ settings: Settings) -> Bool { reckoned != nil && allowance(at: now, settings) >= 0 }

        private func allowance(at now: Int64, _ settings: Settings) -> Int64 {
            let most = Int64(settings.inlineCommitBurstUs) * 1_000
            return reckoned.map { min(most, allowance + (now - $0) / Self.share(settings)) } ?? most
        }

        private static func share(_ settings: Settings) -> Int64 { Int64(max(1, settings.inlineCommitShare)) }
    }

    /// Whether the store's own work keeps the disk busy.
    var isDiskBusy: Bool { isCheckpointing || snapshotsUnderWay > 0 }

    /// Runs `body` on the journal queue, in order with the commits.
    func onQueue(_ body: @escaping @Sendable (Database) -> Void) {
        waiting.withLock { $0.pending += 1 }
        database.asyncWriteWithoutTransaction { [self] db in
            body(db)
            waiting.withLock { $0.pending -= 1 }
        }
    }

    /// Whether a batch is small enough for a quick commit, so that it may be held. O(`inlineCommitBytes`)
    func isSmall(_ batch: JournalBatch) -> Bool {
        var room = settings.inlineCommitBytes
        return batch.commitCount == 1 || batch.takes(from: &room)
    }

    /// Commits the item that `enqueue` held.
    func commitHeld() {
        let isMine: Bool? = waiting.withLock { waiting in
            guard waiting.isHeld else { return nil }
            waiting.isHeld = false
            // Another thread, closing the store, may have committed it.
            if waiting.items.isEmpty { return nil }
            let isMine = waiting.pending == 0 && waiting.items.count == 1 && !waiting.isClosed
            if isMine { waiting.pending += 1 }
            return isMine
        }
        guard let isMine else { return }
        if !isMine { return onQueue { [self] db in commitWaiting(db) } }
        // The queue is idle, so this waits only, rarely, for a block that was just queued.
        let isDone = database.writeWithoutTransaction { db in
            guard !isDiskBusy, inlineBudget.isQuick(at: scheduler.steadyNs, settings) else { return false }
            commitWaiting(db)
            return true
        }
        waiting.withLock { $0.pending -= 1 }
        if !isDone { onQueue { [self] db in commitWaiting(db) } }
    }
}
