import Dispatch
import GRDB
import Synchronization

/// SQLite's log is copied into the database from time to time, so that it does not grow without bound. That takes up to tens of
/// milliseconds. So a connection of its own copies beside the commits. When the log is long, the frames that were committed during the last
/// copy are copied between two commits, and the next commit restarts the log.
///
///     log     ├── copied ──┼── being copied ──┼── committed meanwhile ──┤
///                          beside the commits      between two of them, once in 8 MiB
///
/// The log's file stays as long as it was, and a commit that overwrites a part of it is faster than one that makes it longer: the file
/// system has no length to store. Until then `LogRoom` lets most commits overwrite.
extension JournalStore {
    /// Uncopied bytes from which the log is copied. Few, because a commit on the same disk waits for the copy that is under way; not fewer,
    /// because each copy waits for the disk, up to twice, and small commits write the same pages again and again.
    static let dueBytes = 4 << 20
    /// The same while a snapshot is made, which fills the log with a chunk at a time: commits then wait no longer for a copy than for
    /// a chunk.
    private static let dueBytesOfSnapshot = 256 << 10
    /// Length from which the log is restarted. Commits wait for that, so it is rare: fewer than one in a hundred does.
    private static let restartBytes = 8 << 20
    /// Bytes that may be copied between two commits.
    private static let restBytes = 256 << 10
    /// Copies that are made one after the other until so few are left. Under load there are always more.
    private static let copiesInARow = 3
    /// A log that has grown by so many bytes is copied completely between two commits, so that the next commit restarts it. A reader
    /// of the folder, such as a backup, prevents the restart for as long as it reads.
    private static let maxBytes = 256 << 20

    /// On the journal queue.
    func checkpointIfDue() {
        let due = snapshotsUnderWay > 0 ? Self.dueBytesOfSnapshot : Self.dueBytes
        if logBytes > due, !isCheckpointing { checkpoint(copiesInARow: 1) }
    }

    private func checkpoint(copiesInARow: Int) {
        // `close` makes the last copy, and has closed the connection that makes the others.
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
                    // Slices and chunks have waited for this.
                    if !isCheckpointing, !backlog.isEmpty { commitWaiting(db) }
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
