import Glibc
import GRDB
import Journal

/// Checks SQLite's log before SQLite opens it. SQLite takes the first invalid frame for the end that a crash left, and silently
/// drops everything after it: one flipped bit may cost any number of acknowledged commits.
///
///     frames     1 ─ 2 ─ 3 ─ 4 ─ ✗ ─ 6 ─ 7 ─ 8
///     sound up to 4; acknowledged up to 8 (`LogMark`)          ──►  lost
///     sound up to 4; acknowledged up to 4                      ──►  the end that a crash left
///     no valid mark; two or more commits behind frame 4        ──►  lost: at most one was not on the disk
enum LogCheck {
    enum Finding: Equatable {
        /// Everything that was acknowledged can be read.
        case sound
        /// The frames that cannot be read are in the database already.
        case copied
        case lost(Loss)
    }

    struct Loss: Equatable {
        /// Number of frames up to which the log is sound.
        let sound: Int
        /// Number of commits of the log that cannot be read, as far as it can be determined.
        let commits: Int
        /// Whether the database without the log is newer than the sound part of the log.
        let isDatabaseFurther: Bool
    }

    /// The result of the check, with the log as SQLite will open it.
    struct Admission {
        let path: String
        let mark: LogMarkFile
        /// The log's salts and its end.
        var end: (salts: UInt64, frames: Int) = (0, 0)
        /// The damage and how it was handled, for the program's log.
        var finding: String?
        var isRepaired = false

        /// Text about acknowledged commits that are missing although the log is intact, because it or the database is an older copy.
        /// - Throws: `.loss`, unless that is accepted.
        func commitsMissing(_ registry: [String: Registry.Row], acceptingLoss: Bool) throws(JournalError) -> String? {
            guard !isRepaired, let found = mark.found, found.isBinding else { return nil }
            let there = registry.reduce(0) { Schema.isRemoved($1.key) ? $0 : $0 &+ $1.value.last }
            guard there < found.commits else { return nil }
            let missing = "\(found.commits - there) commits that were acknowledged are missing"
            guard acceptingLoss else { throw .loss(path: path, sound: "in itself, but older than it was", missing: missing) }
            return "\(missing); going on without them"
        }
    }

    /// - Parameter path: of the database. No other process may have it open for writing.
    /// - Throws: `.loss`; with `acceptingLoss` the log is cut after its sound part instead, and a copy of it is kept. `.disk`.
    static func admit(_ path: String, acceptingLoss: Bool, makingMark: Bool = true) throws(JournalError) -> Admission {
        var admission = Admission(path: path, mark: LogMarkFile(folder(of: path) + LogMark.fileName, isMade: makingMark))
        let file = path + "-wal"
        // Do not follow a link that the folder's owner may have planted: as root this could truncate or copy a file elsewhere.
        let descriptor = open(file, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
        if descriptor < 0, errno == ELOOP { throw .cannotOpen(path: file, reason: FolderLock.reason(ELOOP)) }
        // SQLite itself reports any other error.
        guard descriptor >= 0 else { return admission }
        defer { close(descriptor) }
        let scan = try LogScan(descriptor)
        admission.end = (scan.header?.salts ?? 0, scan.sound)
        switch finding(scan, admission.mark.found) {
        case .sound:
            // Two power cuts may each leave part of a transaction; without this truncation they would look like a lost commit.
            if scan.laterFrames > 0 { try end(descriptor, at: LogFile.headerBytes + scan.sound * (scan.header?.frameBytes ?? 0)) }
        case .copied:
            try end(descriptor, at: 0)
            admission.end = (0, 0)
            admission.finding = "the log \(file) was damaged; everything in it was in the database already, nothing is lost"
        case .lost(let loss):
            let (sound, missing) = text(of: loss, scan, path)
            guard acceptingLoss else { throw .loss(path: file, sound: sound, missing: missing) }
            let copy = try keepCopy(of: descriptor, file)
            let soundBytes = LogFile.headerBytes + loss.sound * (scan.header?.frameBytes ?? 0)
            try end(descriptor, at: loss.isDatabaseFurther || loss.sound == 0 ? 0 : soundBytes)
            if loss.isDatabaseFurther || loss.sound == 0 { admission.end = (0, 0) }
            admission.mark.erase()
            admission.isRepaired = true
            admission.finding = """
                the log \(file) was damaged: sound \(sound); \(missing); going on without them, a copy of the log is \(copy)
                """
        }
        return admission
    }

    static func finding(_ scan: LogScan, _ mark: LogMark?) -> Finding {
        guard scan.frames > 0 else { return .sound }
        let salts = scan.header?.salts ?? scan.firstSalts
        if let mark, mark.salts == salts, mark.isBinding, mark.frames > scan.sound {
            if mark.copied == mark.copying, mark.copied >= mark.frames { return .copied }
            let isFurther = mark.copied == mark.copying && mark.copied > scan.sound
            return .lost(Loss(sound: scan.sound, commits: max(1, scan.laterCommits), isDatabaseFurther: isFurther))
        }
        // The log was not written to since that mark.
        if let mark, mark.salts == salts, mark.isOfThisBoot { return .sound }
        // Without a valid header no frame can be read, and the header was on the disk before any frame.
        if scan.header == nil { return .lost(Loss(sound: 0, commits: 1, isDatabaseFurther: false)) }
        guard scan.isBroken, mark.map(\.isBinding) ?? true else { return .sound }
        return .lost(Loss(sound: scan.sound, commits: scan.laterCommits, isDatabaseFurther: false))
    }

    private static func folder(of path: String) -> String { path.lastIndex(of: "/").map { String(path[...$0]) } ?? "" }

    private static func end(_ descriptor: Int32, at size: Int) throws(JournalError) {
        guard ftruncate(descriptor, off_t(size)) == 0, fsync(descriptor) == 0 else { throw .disk(reason: FolderLock.reason(errno)) }
    }

    /// Copies the damaged log to a free name next to it.
    private static func keepCopy(of descriptor: Int32, _ file: String) throws(JournalError) -> String {
        var number = 1
        var copy = PrivateFile.open("\(file).damaged-\(number)", O_WRONLY | O_EXCL)
        while copy < 0, errno == EEXIST {
            number += 1
            copy = PrivateFile.open("\(file).damaged-\(number)", O_WRONLY | O_EXCL)
        }
        let name = "\(file).damaged-\(number)"
        guard copy >= 0 else { throw .cannotOpen(path: name, reason: FolderLock.reason(errno)) }
        defer { close(copy) }
        var offset = 0
        while let bytes = LogFile.read(descriptor, 1 << 20, at: offset), !bytes.isEmpty {
            var done = 0
            while done < bytes.count {
                let n = bytes.withUnsafeBytes { write(copy, $0.baseAddress?.advanced(by: done), bytes.count - done) }
                if n < 0, errno == EINTR { continue }
                guard n > 0 else {
                    let reason = FolderLock.reason(errno)
                    throw errno == ENOSPC ? .diskFull(reason: reason) : .disk(reason: reason)
                }
                done += n
            }
            offset += bytes.count
        }
        guard fsync(copy) == 0 else { throw .disk(reason: FolderLock.reason(errno)) }
        return name
    }

    // MARK: Messages

    private static func text(of loss: Loss, _ scan: LogScan, _ path: String) -> (sound: String, missing: String) {
        let commits = commits(path, isDatabaseFurther: loss.isDatabaseFurther) ?? [:]
        let places = commits.sorted { $0.key < $1.key }.map { "commit \($0.value) of namespace \($0.key)" }.joined(separator: ", ")
        let frames = loss.sound == 0 ? "nowhere" : "up to frame \(loss.sound) of \(scan.frames)"
        let missing = loss.commits == 1 ? "at least one later transaction" : "at least \(loss.commits) later transactions"
        return (places.isEmpty ? frames : "up to \(places)", "\(missing) cannot be read, with what was acknowledged in them")
    }

    /// The last commits of the intact part. Writes nothing: a read-only connection does not checkpoint the log.
    private static func commits(_ path: String, isDatabaseFurther: Bool) -> [String: UInt64]? {
        var name = path
        if isDatabaseFurther {
            // SQLite finds no log under another name.
            name += ".look"
            guard link(path, name) == 0 else { return nil }
        }
        defer { if isDatabaseFurther { for suffix in ["", "-wal", "-shm"] { unlink(name + suffix) } } }
        var configuration = JournalStore.patient
        configuration.readonly = true
        guard let queue = try? DatabaseQueue(path: name, configuration: configuration) else { return nil }
        defer { try? queue.close() }
        return (try? queue.writeWithoutTransaction { try Schema.namespaces($0, path: path) })?
            .filter { !Schema.isRemoved($0.key) }.mapValues(\.last)
    }
}
