import GRDB
import Journal
import Scheduling
import Synchronization

/// A commit on the thread that has appended it. A writer that is alone would wait for a thread of the journal queue to wake up, and for
/// its own to wake up again: longer than its commit takes, on a fast disk. And of many writers more come together for the next commit when
/// the thread that reads what they ask waits for this one.
///
/// ```
/// append ──────────────────────────────► the journal queue, on a thread of Dispatch
/// hold ─► commitHeld ── alone, quick ──► the journal queue, on the calling thread
///                └────── else ─────────► as append
/// ```
/// The thread may get other work meanwhile, so that a disk that is slow too often is left to the journal queue's own.
extension JournalStore {
    /// Whether commits are quick enough for the thread of who appends: slow ones draw their time from an allowance, which time refills.
    /// So a disk that is slow now and then does not send every commit of the next moments to another thread. Confined to the journal queue.
    struct Direct {
        /// ns that slow commits may still take, as of `reckoned`; when it is overdrawn, none is made there.
        private var allowance: Int64 = 0
        /// Steady ns; nil before a first commit has shown how quick the disk is.
        private var reckoned: Int64?

        private static let longestRestNs: Int64 = 10_000_000_000

        /// - Parameters:
        ///   - begin: steady ns.
        ///   - end: steady ns.
        ///   - isSeveral: whether more than one write was in it.
        mutating func committed(from begin: Int64, to end: Int64, isSeveral: Bool, _ settings: Settings) {
            allowance = allowance(at: end, settings)
            reckoned = end
            let taken = end - begin
            guard taken > Int64(isSeveral ? settings.directSeveralUs : settings.directUs) * 1_000 else { return }
            // When it is overdrawn, the larger of both debts counts: commits are made on the queue then, and cost no other thread anything.
            let left = allowance < 0 ? min(allowance, -taken) : allowance - taken
            allowance = max(left, -Self.longestRestNs / Self.rest(settings))
        }

        func isQuick(at now: Int64, _ settings: Settings) -> Bool { reckoned != nil && allowance(at: now, settings) >= 0 }

        private func allowance(at now: Int64, _ settings: Settings) -> Int64 {
            let most = Int64(settings.directAllowanceUs) * 1_000
            return reckoned.map { min(most, allowance + (now - $0) / Self.rest(settings)) } ?? most
        }

        private static func rest(_ settings: Settings) -> Int64 { Int64(max(1, settings.directRest)) }
    }

    /// Whether the store itself keeps the disk from being quick.
    var isDiskBusy: Bool { isCheckpointing || snapshotsUnderWay > 0 }

    /// Runs `body` on the journal queue, in order with the commits.
    func onQueue(_ body: @escaping @Sendable (Database) -> Void) {
        waiting.withLock { $0.pending += 1 }
        database.asyncWriteWithoutTransaction { [self] db in
            body(db)
            waiting.withLock { $0.pending -= 1 }
        }
    }

    /// Whether the commit of a batch takes a moment only, as far as that depends on what is in it: then it may be held. O(`directBytes`)
    func isSmall(_ batch: JournalBatch) -> Bool {
        var room = settings.directBytes
        return batch.commitCount == 1 || batch.takes(from: &room)
    }

    /// Commits what `enqueue` was told to hold.
    func commitHeld() {
        let isMine: Bool? = waiting.withLock { waiting in
            guard waiting.isHeld else { return nil }
            waiting.isHeld = false
            // Another thread may have committed it: the one that closes the store.
            if waiting.items.isEmpty { return nil }
            let isMine = waiting.pending == 0 && waiting.items.count == 1 && !waiting.isClosed
            if isMine { waiting.pending += 1 }
            return isMine
        }
        guard let isMine else { return }
        if !isMine { return onQueue { [self] db in commitWaiting(db) } }
        // The queue has nothing to do, so this waits for nothing but, rarely, what was put there a moment ago.
        let isDone = database.writeWithoutTransaction { db in
            guard !isDiskBusy, direct.isQuick(at: scheduler.steadyNs, settings) else { return false }
            commitWaiting(db)
            return true
        }
        waiting.withLock { $0.pending -= 1 }
        if !isDone { onQueue { [self] db in commitWaiting(db) } }
    }
}
