import Dispatch
import GRDB

/// SQLite's log is copied into the database from time to time (a checkpoint), to bound its size. That takes up to tens of
/// milliseconds, so a separate connection copies in the background. When the log is long, frames committed during the last
/// copy are copied between two commits, and the next commit restarts the log. Confined to the journal queue.
///
///     log     ├── copied ──┼── being copied ──┼── committed meanwhile ──┤
///                          in the background        between two commits, once in 8 MiB
///
/// The log's file keeps its length. A commit that overwrites a part of it is faster than one that extends it, because the file
/// system need not store a new length. Before that, `LogPreallocation` lets most commits overwrite preallocated space.
final class Checkpointer: @unchecked Sendable {
    // Sendable: the variables are confined to the journal queue; the rest is immutable.

    /// Uncopied bytes at which the log is copied. Not more, because a commit on the same disk waits for the copy in progress. Not less,
    /// because each copy waits for the disk up to twice, and small commits rewrite the same pages many times.
    private static let dueBytes = 4 << 20
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

    private let connection: DatabaseQueue
    private let log: LogAcknowledgement
    private let journal: JournalQueue
    /// Whether the log is being copied in the background.
    private(set) var isCopying = false
    /// Bytes written to the write-ahead log since it was last copied into the database: its pages without their headers.
    private var logBytes = 0
    /// Bytes by which the log grew before that, since it was last restarted.
    private var grownBytes = 0

    init(_ connections: Connections, _ journal: JournalQueue) {
        connection = connections.checkpointer
        log = connections.log
        self.journal = journal
    }

    /// Counts the bytes of a commit.
    func grew(by bytes: Int) { logBytes += bytes }

    /// Whether the log is long enough to copy it, and no copy is in progress.
    func isDue(duringSnapshot: Bool) -> Bool { logBytes > (duringSnapshot ? Self.dueBytesOfSnapshot : Self.dueBytes) && !isCopying }

    /// Copies the log in the background; the store's `close` waits for that.
    /// - Parameter resume: called on the journal queue when the disk is free again.
    func copy(_ resume: @escaping @Sendable (Database) -> Void) {
        journal.assertCurrent()
        copy(copiesInARow: 1, resume)
    }

    private func copy(copiesInARow: Int, _ resume: @escaping @Sendable (Database) -> Void) {
        // `close` runs the last copy, and has closed the connection for the others.
        if journal.isClosed { return }
        isCopying = true
        journal.background.enter()
        let (before, salts) = (logBytes, log.salts)
        log.willCopy()
        connection.asyncWriteWithoutTransaction { [self] copying in
            FaultPoint.pass(.checkpoint)
            let copied = try? copying.checkpoint(.passive)
            journal.run { [self] db in
                isCopying = false
                // A failure is harmless: the log keeps everything, and a later commit tries again.
                if let copied {
                    log.copied(copied.checkpointedFrameCount, of: salts)
                    grownBytes += before
                    logBytes -= before
                    restartIfLong(db, copiesInARow, resume)
                }
                if !isCopying { resume(db) }
                journal.background.leave()
            }
        }
    }

    private func restartIfLong(_ db: Database, _ copiesInARow: Int, _ resume: @escaping @Sendable (Database) -> Void) {
        guard grownBytes + logBytes > Self.restartBytes else { return }
        if logBytes <= Self.restBytes || grownBytes > Self.maxBytes {
            if logBytes > 0 { copyRest(db) }
            (logBytes, grownBytes) = (0, 0)
        } else if copiesInARow < Self.copiesInARow {
            copy(copiesInARow: copiesInARow + 1, resume)
        }
    }

    /// Copies all of the log on the connection that commits.
    private func copyRest(_ db: Database) {
        let salts = log.salts
        log.willCopy()
        guard let copied = try? db.checkpoint(.passive) else { return }
        log.copied(copied.checkpointedFrameCount, of: salts)
    }

    /// Copies the log for the last time, and empties it. An error, such as a full disk or a backup that reads, is harmless: the log keeps
    /// everything.
    func end(_ db: Database) {
        journal.assertCurrent()
        copyRest(db)
        _ = try? db.checkpoint(.truncate)
    }
}
