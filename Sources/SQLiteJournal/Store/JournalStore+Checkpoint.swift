import GRDB
import Synchronization

/// SQLite's log is copied into the database from time to time, so that it does not grow without bound. That takes up to tens of
/// milliseconds. So a connection of its own copies beside the commits, and only the frames that were committed meanwhile are copied
/// between two commits. Then the next commit restarts the log.
extension JournalStore {
    /// Size of the log from which it is copied. Small, because a commit on the same disk waits for the copy that is under way.
    private static let dueBytes = 1 << 20
    /// Bytes that may be copied between two commits.
    private static let restBytes = 256 << 10
    /// A log that has grown by so many bytes is copied completely between two commits, so that the next commit restarts it. A reader
    /// of the folder, such as a backup, prevents the restart for as long as it reads.
    private static let maxBytes = 256 << 20

    /// On the journal queue.
    func checkpointIfDue() {
        // `close` makes the last copy, and has closed the connection that makes the others.
        guard logBytes > Self.dueBytes, !isCheckpointing, !waiting.withLock({ $0.isClosed }) else { return }
        isCheckpointing = true
        let (before, salts) = (logBytes, log.salts)
        log.willCopy()
        checkpointer.asyncWriteWithoutTransaction { [self] copying in
            FaultPoint.pass(.checkpoint)
            let copied = try? copying.checkpoint(.passive)
            database.asyncWriteWithoutTransaction { [self] db in
                isCheckpointing = false
                defer {
                    // Slices have waited for this.
                    if !backlog.isEmpty { commitWaiting(db) }
                }
                // A failure is harmless: the log keeps everything, and a later commit tries again.
                guard let copied else { return }
                log.copied(copied.checkpointedFrameCount, of: salts)
                grownBytes += before
                logBytes -= before
                if logBytes <= Self.restBytes || grownBytes > Self.maxBytes {
                    if logBytes > 0 { copyRest(db) }
                    (logBytes, grownBytes) = (0, 0)
                } else if backlog.isEmpty {
                    checkpointIfDue()
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
