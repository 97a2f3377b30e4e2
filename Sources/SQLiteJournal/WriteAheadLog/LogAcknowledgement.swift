import Glibc
import GRDB
import GRDBSQLite

/// Tracks how far SQLite's log is acknowledged, while the store is open. Confined to the journal queue.
final class LogAcknowledgement: @unchecked Sendable {
    // Sendable: confined to the journal queue, once the store is open.
    private let path: String
    private let file: LogMarkFile
    private var mark = LogMark()
    /// A descriptor of the log file, without any of SQLite's locks.
    private var descriptor: Int32 = -1
    /// Frames of the log after the last commit, as reported by SQLite.
    private var frames = 0
    /// Pages that commits have written to the log since it was opened.
    private(set) var pages = 0
    /// Whether the mark's salts are those of the log after the last commit.
    private var isKnown = true
    private let isOnDisk: Bool

    init(_ database: String, durability: Durability, mark: LogMarkFile) {
        path = database + "-wal"
        file = mark
        isOnDisk = durability == .full
    }

    deinit { close() }

    /// The log's salts as of the last commit.
    var salts: UInt64 { mark.salts }

    /// - Parameters:
    ///   - end: the end of the log that the check found.
    ///   - found: its mark, if that is still valid.
    func follow(_ db: Database, from end: (salts: UInt64, frames: Int), _ found: LogMark?) {
        frames = end.frames
        // Frames beyond the mark may not be on the disk yet: they count with the next commit.
        if let found, found.salts == end.salts { mark = found } else { (mark.salts, mark.commits) = (end.salts, found?.commits ?? 0) }
        // SQLite calls this within each commit; `Connections` keeps it longer than the connection.
        sqlite3_wal_hook(db.sqliteConnection, { context, _, _, frames in
            guard let context else { return SQLITE_OK }
            Unmanaged<LogAcknowledgement>.fromOpaque(context).takeUnretainedValue().committed(Int(frames))
            return SQLITE_OK
        }, Unmanaged.passUnretained(self).toOpaque())
    }

    /// - Parameter frames: total in the log, including the commit's.
    private func committed(_ frames: Int) {
        let before = self.frames
        self.frames = frames
        isKnown = false
        var stored: UInt64 = 0
        guard let descriptor = opened(), pread(descriptor, &stored, 8, 16) == 8 else {
            pages += max(0, frames - before)
            return
        }
        isKnown = true
        let salts = UInt64(bigEndian: stored)
        if salts == mark.salts {
            pages += max(0, frames - before)
            return
        }
        // The log was restarted.
        pages += frames
        (mark.salts, mark.frames, mark.copied, mark.copying) = (salts, 0, 0, 0)
    }

    /// Acknowledges the log's frames: commits may be completed once this is written.
    /// - Parameter commits: of all namespaces together.
    func acknowledge(commits: UInt64) {
        guard isKnown else { return }
        (mark.frames, mark.commits) = (UInt32(clamping: frames), commits)
        (mark.isOnDisk, mark.boot) = (isOnDisk, LogMark.thisBoot)
        file.write(mark)
    }

    /// Records that SQLite is about to copy the log into the database.
    func willCopy() {
        mark.copying = .max
        file.write(mark)
    }

    /// - Parameters:
    ///   - frames: number of frames that are copied and on the disk.
    ///   - salts: of the log that was copied; it may have been restarted since.
    func copied(_ frames: Int, of salts: UInt64) {
        guard salts == mark.salts else { return }
        (mark.copied, mark.copying) = (UInt32(clamping: frames), UInt32(clamping: frames))
        file.write(mark)
    }

    /// Invalidates the mark.
    func forget() {
        mark = LogMark(salts: mark.salts)
        file.erase()
    }

    /// Call after SQLite has closed the database and copied the log into it.
    func end() {
        close()
        if access(path, F_OK) != 0, errno == ENOENT { file.remove() }
    }

    private func close() {
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
    }

    /// Truncates the log to the end of the last commit, after a commit that failed. SQLite may have written it to the log and only
    /// failed to sync it, and the next start would find it.
    /// - Returns: whether the failed commit is certainly removed, also from the disk. If not, the truncation may be undone by a power
    ///   cut, or may have failed.
    func discardFailedCommit() -> Bool {
        guard isKnown else { return false }
        guard let descriptor = opened() else { return errno == ENOENT }
        var info = stat()
        guard fstat(descriptor, &info) == 0 else { return false }
        guard let header = header() else { return info.st_size <= off_t(LogFile.headerBytes) }
        let end = LogFile.headerBytes + (header.salts == mark.salts ? frames : 0) * header.frameBytes
        guard info.st_size > off_t(end) else { return true }
        guard let bytes = LogFile.read(descriptor, LogFile.frameHeaderBytes, at: end) else { return false }
        // Frames of an older log do not count.
        let isOurs = bytes.count == LogFile.frameHeaderBytes && bytes.withUnsafeBytes { LogFile.Frame($0).salts == header.salts }
        guard isOurs else { return true }
        return ftruncate(descriptor, off_t(end)) == 0 && fdatasync(descriptor) == 0
    }

    private func header() -> LogFile.Header? {
        guard let descriptor = opened(), let bytes = LogFile.read(descriptor, LogFile.headerBytes, at: 0),
            bytes.count == LogFile.headerBytes
        else {
            return nil
        }
        return bytes.withUnsafeBytes { LogFile.Header($0) }
    }

    private func opened() -> Int32? {
        if descriptor < 0 { descriptor = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC) }
        return descriptor >= 0 ? descriptor : nil
    }
}
