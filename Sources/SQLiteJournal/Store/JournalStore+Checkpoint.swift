import GRDB
import Synchronization

/// SQLite's log is copied into the database from time to time, so that it does not grow for ever. That takes milliseconds to
/// tens of them: it happens on a connection of its own, beside the commits, and only the little that was committed meanwhile
/// is copied between two of them. Then the next commit begins the log anew.
extension JournalStore {
    /// Bytes of log from which on a copy is worth it. Small, as the disk makes a commit wait for the copy that is under way.
    private static let dueBytes = 1 << 20
    /// So much is copied between two commits.
    private static let restBytes = 256 << 10
    /// When it has grown so much, the log is copied whole between two commits, so that the next one begins it anew. A reader of
    /// the folder, such as a backup, keeps it from that for as long as it reads.
    private static let maxBytes = 256 << 20

    /// On the journal queue.
    func checkpointIfDue() {
        // The last copy is made by `close`, which has ended the connection for the others.
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
                // A failure costs nothing now: the log keeps everything, and a later commit tries again.
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
