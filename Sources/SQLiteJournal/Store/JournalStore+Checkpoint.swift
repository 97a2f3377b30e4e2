import Dispatch
import GRDB
import Synchronization

/// SQLite's log is copied into the database from time to time (a checkpoint), to bound its size. That takes up to tens of
/// milliseconds, so a separate connection copies in the background. When the log is long, frames committed during the last
/// copy are copied between two commits, and the next commit restarts the log.
///
///     log     ├── copied ──┼── being copied ──┼── committed meanwhile ──┤
///                          in the background        between two commits, once in 8 MiB
///
/// The log's file keeps its length. A commit that overwrites a part of it is faster than one that extends it, because the file
/// system need not store a new length. Before that, `LogPreallocation` lets most commits overwrite preallocated space.
extension JournalStore {
    /// Uncopied bytes at which the log is copied. Not more, because a commit on the same disk waits for the copy in progress. Not less,
    /// because each copy waits for the disk up to twice, and small commits rewrite the same pages many times.
    static let dueBytes = 4 << 20
    /// The same during a snapshot, which fills the log chunk by chunk: commits then wait no longer for a copy than for
    /// a chunk.
    private static let dueBytesOfSnapshot = 256 << 10
    /// Length at which the log is restarted. Commits wait for a restart, so it is rare: fewer than one in a hundred does.
    private static let restartBytes = 8 << 20
    /// Bytes that may be copied between two commits.
    private static let restBytes = 256 << 10
    /// Copies run one after the other until few enough bytes are left. Under load that may never happen.
    private static let copiesInARow = 3
    /// Growth at which the log is copied completely between two commits, so that the next commit restarts it. A reader
    /// of the folder, such as a backup, prevents the restart for as long as it reads.
    private static let maxBytes = 256 << 20

    /// On the journal queue.
    func checkpointIfDue() {
        let due = snapshotsUnderWay > 0 ? Self.dueBytesOfSnapshot : Self.dueBytes
        if logBytes > due, !isCheckpointing { checkpoint(copiesInARow: 1) }
    }

    private func checkpoint(copiesInARow: Int) {
        // `close` runs the last copy, and has closed the connection for the others.
        if waiting.withLock({ $0.isClosed }) { return }
        isCheckpointing = true
        staged.enter()
        let (before, salts) = (logBytes, log.salts)
        log.willCopy()
        checkpointer.asyncWriteWithoutTransaction { [self] copying in
            FaultPoint.pass(.checkpoint)
            let copied = try? copying.checkpoint(.passive)
            onQueue { [self] db in
                isCheckpointing = false
                defer { staged.leave() }
                defer {
                    // Slices and chunks have waited for the copy to end.
                    if !isCheckpointing, !pendingItems.isEmpty { commitWaiting(db) }
                }
                // A failure is harmless: the log keeps everything, and a later commit tries again.
                guard let copied else { return }
                log.copied(copied.checkpointedFrameCount, of: salts)
                grownBytes += before
                logBytes -= before
                guard grownBytes + logBytes > Self.restartBytes else { return }
                if logBytes <= Self.restBytes || grownBytes > Self.maxBytes {
                    if logBytes > 0 { copyRest(db) }
                    (logBytes, grownBytes) = (0, 0)
                } else if copiesInARow < Self.copiesInARow {
                    checkpoint(copiesInARow: copiesInARow + 1)
                }
            }
        }
    }

    private func copyRest(_ db: Database) {
        let salts = log.salts
        log.willCopy()
        guard let copied = try? db.checkpoint(.passive) else { return }
        log.copied(copied.checkpointedFrameCount, of: salts)
    }
}
