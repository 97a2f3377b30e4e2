import GRDB
import Scheduling
import Synchronization

/// A commit on the thread that has appended it. A writer that is alone would wait for a thread of the journal queue to wake up, and for
/// its own to wake up again: longer than its commit takes, on a fast disk.
///
/// ```
/// append ──────────────────────────────► the journal queue, on a thread of Dispatch
/// hold ─► commitHeld ── alone, quick ──► the journal queue, on the calling thread
///                └────── else ─────────► as append
/// ```
/// The thread may get other work meanwhile, so that a disk that was slow a moment ago is left to the journal queue's own.
extension JournalStore {
    /// Whether commits are quick enough for the thread of who appends. Confined to the journal queue.
    struct Direct {
        /// From then on, steady ns; not before a first commit has shown how quick the disk is.
        private var since = Int64.max

        private static let longestRestNs: Int64 = 10_000_000_000

        mutating func committed(from begin: Int64, to end: Int64, _ settings: Settings) {
            if end - begin > Int64(settings.directUs) * 1_000 {
                since = end + min((end - begin) * Int64(settings.directRest), Self.longestRestNs)
            } else if since == .max {
                since = end
            }
        }

        func isQuick(at now: Int64) -> Bool { now >= since }
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

    /// Commits what `enqueue` was told to hold.
    func commitHeld() {
        let isMine: Bool? = waiting.withLock { waiting in
            guard waiting.isHeld else { return nil }
            waiting.isHeld = false
            // Another thread may have committed it: the one that closes the store.
            guard let first = waiting.items.first else { return nil }
            let isMine = waiting.pending == 0 && waiting.items.count == 1 && first.work.commits == 1 && !waiting.isClosed
            if isMine { waiting.pending += 1 }
            return isMine
        }
        guard let isMine else { return }
        if !isMine { return onQueue { [self] db in commitWaiting(db) } }
        // The queue has nothing to do, so this waits for nothing but, rarely, what was put there a moment ago.
        let isDone = database.writeWithoutTransaction { db in
            guard !isDiskBusy, direct.isQuick(at: scheduler.steadyNs) else { return false }
            commitWaiting(db)
            return true
        }
        waiting.withLock { $0.pending -= 1 }
        if !isDone { onQueue { [self] db in commitWaiting(db) } }
    }
}
