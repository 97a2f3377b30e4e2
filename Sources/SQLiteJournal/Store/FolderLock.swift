import Glibc
import Journal
import Synchronization

/// Locks a data folder against other processes until `release` or `deinit`. The kernel releases the lock when the process dies.
final class FolderLock: Sendable {
    static let fileName = "vigla.lock"

    /// -1 once released.
    private let descriptor: Mutex<Int32>

    /// Creates the folder if it is missing.
    init(folder: String) throws(JournalError) {
        try Self.makeFolder(folder)
        let path = folder + "/" + Self.fileName
        let descriptor = PrivateFile.open(path, O_RDWR)
        guard descriptor >= 0 else { throw .cannotOpen(path: path, reason: Self.reason(errno)) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let code = errno
            let holder = Self.holder(descriptor)
            Glibc.close(descriptor)
            if code == EWOULDBLOCK { throw .inUse(folder: folder, process: holder) }
            throw .cannotOpen(path: path, reason: Self.reason(code))
        }
        // The number is for the error message of a second process.
        let text = Array("\(getpid())\n".utf8)
        _ = ftruncate(descriptor, 0)
        _ = pwrite(descriptor, text, text.count, 0)
        self.descriptor = Mutex(descriptor)
    }

    deinit { release() }

    func release() {
        descriptor.withLock { descriptor in
            guard descriptor >= 0 else { return }
            // Closing is not enough: a child between fork and exec has inherited the descriptor, and the lock with it.
            _ = flock(descriptor, LOCK_UN)
            Glibc.close(descriptor)
            descriptor = -1
        }
    }

    /// Runs `body` with the folder locked. Returns nil, and runs nothing, if a process holds the lock.
    static func whileFree<Result>(_ folder: String, _ body: () throws(JournalError) -> Result) throws(JournalError) -> Result? {
        let descriptor = open(folder + "/" + Self.fileName, O_RDONLY | O_CLOEXEC)
        // Without the file no process has ever used the folder.
        defer { if descriptor >= 0 { Glibc.close(descriptor) } }
        if descriptor >= 0, flock(descriptor, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK { return nil }
        return try body()
    }

    private static func makeFolder(_ folder: String) throws(JournalError) {
        var made = folder.hasPrefix("/") ? "/" : ""
        for part in folder.split(separator: "/") {
            made += (made.isEmpty || made.hasSuffix("/") ? "" : "/") + part
            if !PrivateFile.makeFolder(made), errno != EEXIST {
                let code = errno
                // Only the innermost folder must be creatable: "/" on a read-only system already exists.
                var info = stat()
                if stat(made, &info) != 0 { throw .cannotOpen(path: folder, reason: reason(code)) }
            }
        }
        var info = stat()
        guard stat(folder, &info) == 0 else { throw .cannotOpen(path: folder, reason: reason(errno)) }
        guard info.st_mode & S_IFMT == S_IFDIR else { throw .cannotOpen(path: folder, reason: reason(ENOTDIR)) }
    }

    private static func holder(_ descriptor: Int32) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: 16)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count > 0 else { return nil }
        return Int32(String(decoding: bytes[..<count].prefix { $0 >= 48 && $0 <= 57 }, as: UTF8.self))
    }

    static func reason(_ code: Int32) -> String {
        guard let text = strerror(code) else { return "error \(code)" }
        return String(cString: text)
    }
}
