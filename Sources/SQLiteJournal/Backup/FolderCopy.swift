import Glibc
import GRDB
public import Journal

/// Copies a data folder in the state of one moment, even while a hub writes to it. Backups and restores both use it.
///
///     source/vigla.sqlite  ── pages ──►  target/vigla.sqlite.partial  ── checked, on disk ──►  target/vigla.sqlite
///
/// Other databases in the folder are copied too, all in the state of the same moment.
public enum FolderCopy {
    /// The progress of a copy.
    public struct Progress: Sendable {
        public let copiedBytes: Int
        public let totalBytes: Int
    }

    /// The result of a copy.
    public struct Summary: Sendable {
        public let bytes: Int
        /// The last commit of each namespace.
        public let commits: [String: UInt64]
        /// The damage of the source's log, and how it was handled.
        public internal(set) var finding: String?
    }

    /// Copies and checks the copy; an existing one is touched only when the new one is complete. Blocks.
    /// - Parameters:
    ///   - source: may be in use by a hub.
    ///   - target: created if missing; must not be in use by a hub.
    ///   - replacing: whether data in the target may be replaced.
    ///   - companions: names of further SQLite files of the folder; those that exist are copied, the others are removed from the
    ///     target.
    ///   - acceptingLoss: whether to copy the intact part of a damaged log when no hub runs.
    ///   - progress: called now and then, on the caller's thread.
    /// - Throws: `.cannotOpen`, `.inUse`, `.exists`, `.notAJournal`, `.newerFormat`, `.corrupt`, `.loss`, `.diskFull`, `.disk`.
    public static func make(
        from source: String, to target: String, replacing: Bool = false, companions: [String] = [], acceptingLoss: Bool = false,
        progress: @escaping (Progress) -> Void = { _ in }
    ) throws(JournalError) -> Summary {
        func file(_ name: String) -> File {
            File(source: source + "/" + name, target: target + "/" + name, partial: target + "/" + name + ".partial")
        }
        let main = file(JournalStore.fileName)
        guard access(main.source, F_OK) == 0 else { throw .cannotOpen(path: main.source, reason: FolderLock.reason(errno)) }
        if isSame(main.source, main.target) { throw .exists(path: main.target) }
        let lock = try FolderLock(folder: target)
        defer { lock.release() }
        let others = companions.map(file)
        for file in [main] + others where access(file.target, F_OK) == 0 && !replacing { throw .exists(path: file.target) }
        // The journal comes last: with it in place the copy is complete.
        let copied = others.filter { access($0.source, F_OK) == 0 } + [main]
        defer { for file in copied { remove(file.partial) } }
        for file in copied { remove(file.partial) }
        var summary: Summary
        // A running hub has checked its log at its start.
        let admission = try FolderLock.whileFree(source) { () throws(JournalError) in
            try LogCheck.admit(main.source, acceptingLoss: acceptingLoss, makingMark: false)
        }
        do { summary = try copy(copied, progress) } catch { throw JournalError(error, opening: main.source) }
        summary.finding = admission?.finding
        // The mark describes the data that is replaced.
        unlink(target + "/" + LogMark.fileName)
        for file in copied { try put(file.partial, in: file.target, folder: target) }
        for file in others where access(file.source, F_OK) != 0 { remove(file.target) }
        return summary
    }

    private struct File {
        let source: String
        let target: String
        let partial: String
    }

    private static func isSame(_ a: String, _ b: String) -> Bool {
        var (x, y) = (stat(), stat())
        return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino
    }

    /// Pages copied between two reports.
    private static let pagesPerStep: CInt = 2048

    /// Attempts to find a moment without a write to a companion; a writer waits for the disk between two of them.
    private static let attempts = 1_000

    /// - Parameter files: the journal is the last.
    private static func copy(_ files: [File], _ progress: (Progress) -> Void) throws -> Summary {
        let origins = try files.map { try DatabaseQueue(path: $0.source, configuration: JournalStore.patient) }
        let watchers = try files.dropLast().map { try DatabaseQueue(path: $0.source, configuration: JournalStore.patient) }
        _ = try origins[files.count - 1].writeWithoutTransaction { try Schema.check($0, path: files[files.count - 1].source) }
        try withoutActuallyEscaping(progress) { progress in
            for attempt in 1...attempts {
                let versions = try watchers.map(version)
                let isDone = try reading(origins) { sources in
                    // The companions were not written since the journal's transaction began, so all files are of that moment.
                    guard try watchers.map(version) == versions || attempt == attempts else { return false }
                    try copy(sources, to: files.map(\.partial), progress)
                    return true
                }
                if isDone { break }
            }
        }
        for queue in origins + watchers { try queue.close() }
        var (commits, bytes): ([String: UInt64], Int) = ([:], 0)
        for (index, file) in files.enumerated() {
            let copy = try DatabaseQueue(path: file.partial)
            try copy.writeWithoutTransaction { db in
                // A copy is a single file, without a separate log.
                try db.execute(sql: "PRAGMA journal_mode = DELETE")
                if index == files.count - 1 {
                    commits = try StoreCheck.check(db, path: file.source)
                } else {
                    try StoreCheck.checkPages(db, path: file.source)
                }
                bytes += try size(db)
            }
            try copy.close()
        }
        return Summary(bytes: bytes, commits: commits)
    }

    /// Changes with every commit of another connection.
    private static func version(_ queue: DatabaseQueue) throws -> Int {
        try queue.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA data_version") ?? 0 }
    }

    private static func size(_ db: Database) throws -> Int {
        (try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0) * (try Int.fetchOne(db, sql: "PRAGMA page_size") ?? 4096)
    }

    /// Works within one read transaction of each database, so that a hub's concurrent commits are not visible. The first read begins the
    /// transaction. Without it each step of a copy would run in its own transaction, and every commit would restart the copy.
    private static func reading(_ queues: [DatabaseQueue], _ open: [Database] = [], _ work: ([Database]) throws -> Bool) throws -> Bool {
        guard open.count < queues.count else { return try work(open) }
        var result = false
        try queues[open.count].writeWithoutTransaction { db in
            try db.inTransaction(.deferred) {
                _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master")
                result = try reading(queues, open + [db], work)
                return .commit
            }
        }
        return result
    }

    private static func copy(_ sources: [Database], to paths: [String], _ progress: @escaping (Progress) -> Void) throws {
        let sizes = try sources.map(size)
        let total = sizes.reduce(0, +)
        var before = 0
        for (index, source) in sources.enumerated() {
            let file = PrivateFile.open(paths[index], O_RDWR | O_EXCL)
            guard file >= 0 else { throw JournalError.cannotOpen(path: paths[index], reason: FolderLock.reason(errno)) }
            close(file)
            let copy = try DatabaseQueue(path: paths[index])
            try copy.writeWithoutTransaction { target in
                try source.backup(to: target, pagesPerStep: pagesPerStep) { [before] step in
                    let copied = sizes[index] * step.completedPageCount / max(1, step.totalPageCount)
                    progress(Progress(copiedBytes: before + copied, totalBytes: total))
                }
            }
            before += sizes[index]
            try copy.close()
        }
    }

    /// Renames the copy to its final name once it is on disk. At every instant a complete database has that name. The old database's
    /// log is checkpointed first, because SQLite would take a remaining log for the copy's; then the copy replaces it.
    private static func put(_ partial: String, in path: String, folder: String) throws(JournalError) {
        try sync(partial)
        if access(path, F_OK) == 0 { checkpointLog(path) }
        for suffix in ["-wal", "-shm"] { unlink(path + suffix) }
        try move(partial, path)
        try sync(folder)
    }

    /// Ignores errors: an unreadable old database may be the reason for restoring a backup.
    private static func checkpointLog(_ path: String) {
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
