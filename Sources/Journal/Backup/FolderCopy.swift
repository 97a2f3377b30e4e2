import Glibc
import GRDB

/// Copies a data folder as it is at one moment, also while a hub writes to it: a backup is such a copy, and so is what a backup
/// is restored to.
///
///     source/vigla.sqlite  ── pages ──►  target/vigla.sqlite.partial  ── checked, on disk ──►  target/vigla.sqlite
public enum FolderCopy {
    /// How far a copy is.
    public struct Progress: Sendable {
        public let copiedBytes: Int
        public let totalBytes: Int
    }

    /// What was copied.
    public struct Summary: Sendable {
        public let bytes: Int
        /// The last commit of each namespace.
        public let commits: [String: UInt64]
    }

    /// Copies and checks the copy; an existing one is touched only when the new one is complete. Blocks.
    /// - Parameters:
    ///   - source: need not be free: a hub may hold it.
    ///   - target: made where it is missing; must not be held by a hub.
    ///   - replacing: whether data in the target may be replaced.
    ///   - progress: called now and then, on the caller's thread.
    /// - Throws: `.cannotOpen`, `.inUse`, `.exists`, `.notAJournal`, `.newerFormat`, `.corrupt`, `.diskFull`, `.disk`.
    public static func make(
        from source: String, to target: String, replacing: Bool = false, progress: @escaping (Progress) -> Void = { _ in }
    ) throws(JournalError) -> Summary {
        let from = source + "/" + JournalStore.fileName
        let (to, partial) = (target + "/" + JournalStore.fileName, target + "/" + JournalStore.fileName + ".partial")
        guard access(from, F_OK) == 0 else { throw .cannotOpen(path: from, reason: FolderLock.reason(errno)) }
        if isSame(from, to) { throw .exists(path: to) }
        let lock = try FolderLock(folder: target)
        defer { lock.release() }
        if access(to, F_OK) == 0, !replacing { throw .exists(path: to) }
        remove(partial)
        let summary: Summary
        do { summary = try copy(from, to: partial, progress) } catch {
            remove(partial)
            throw JournalError(error, opening: from)
        }
        do throws(JournalError) { try put(partial, in: to, folder: target) } catch {
            remove(partial)
            throw error
        }
        return summary
    }

    private static func isSame(_ a: String, _ b: String) -> Bool {
        var (x, y) = (stat(), stat())
        return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino
    }

    /// Pages copied between two reports.
    private static let pagesPerStep: CInt = 2048

    private static func copy(_ from: String, to partial: String, _ progress: (Progress) -> Void) throws -> Summary {
        let origin = try DatabaseQueue(path: from, configuration: JournalStore.patient)
        _ = try origin.writeWithoutTransaction { try Schema.check($0, path: from) }
        let pageSize = try origin.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA page_size") ?? 4096 }
        let copy = try DatabaseQueue(path: partial)
        chmod(partial, 0o600)
        // One read transaction from the first page to the last: commits of a hub meanwhile are not seen. It begins with the first
        // thing that is read; without it each step would have one of its own, and every commit would begin the copy anew.
        try withoutActuallyEscaping(progress) { progress in
            try origin.writeWithoutTransaction { source in
                try source.inTransaction(.deferred) {
                    _ = try Int.fetchOne(source, sql: "SELECT count(*) FROM sqlite_master")
                    try copy.writeWithoutTransaction { target in
                        try source.backup(to: target, pagesPerStep: pagesPerStep) { step in
                            progress(Progress(copiedBytes: step.completedPageCount * pageSize, totalBytes: step.totalPageCount * pageSize))
                        }
                    }
                    return .commit
                }
            }
        }
        try origin.close()
        let (commits, pages) = try copy.writeWithoutTransaction { db in
            // A copy is a file alone, without a log beside it.
            try db.execute(sql: "PRAGMA journal_mode = DELETE")
            return (try StoreCheck.check(db, path: from), try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0)
        }
        try copy.close()
        return Summary(bytes: pages * pageSize, commits: commits)
    }

    /// Gives the copy its name when it is on disk. There is a whole database under that name at every instant: first the old
    /// one, with its log taken in, as a log that is left would be taken for the copy's; then the new one.
    private static func put(_ partial: String, in path: String, folder: String) throws(JournalError) {
        try sync(partial)
        if access(path, F_OK) == 0 { takeInLog(path) }
        for suffix in ["-wal", "-shm"] { unlink(path + suffix) }
        try move(partial, path)
        try sync(folder)
    }

    /// As far as the old database can be read: it may be what the backup is restored for.
    private static func takeInLog(_ path: String) {
        guard let old = try? DatabaseQueue(path: path) else { return }
        _ = try? old.writeWithoutTransaction { try $0.checkpoint(.truncate) }
        try? old.close()
    }

    private static func move(_ from: String, _ to: String) throws(JournalError) {
        guard rename(from, to) == 0 else { throw .cannotOpen(path: to, reason: FolderLock.reason(errno)) }
    }

    private static func sync(_ path: String) throws(JournalError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .cannotOpen(path: path, reason: FolderLock.reason(errno)) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .disk(reason: FolderLock.reason(errno)) }
    }

    private static func remove(_ path: String) {
        for suffix in ["", "-journal", "-wal", "-shm"] { unlink(path + suffix) }
    }
}
