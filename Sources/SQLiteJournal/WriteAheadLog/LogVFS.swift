import Glibc
import GRDBSQLite

/// A SQLite VFS that changes only the write-ahead log: each commit is written in one write, a large one in pieces of up to
/// 120 KiB (`FrameGatherer`), and the log has preallocated space behind its end (`LogPreallocation`). It is a "shim" (sqlite.org/vfs.html
/// §2.1): everything else is passed on to the default VFS.
///
///     SQLite ── main file, others ─────────────────────────► unix
///           └── log ──► LogFileObject ── whole commits ────► unix
///
/// Only for the one connection that writes, which rolls back after any error: an error for pages that a transaction has spilled may be
/// returned by a later call than theirs. The connection's queue serialises all calls; SQLite takes no mutex (`SQLITE_OPEN_NOMUTEX`).
enum LogVFS {
    private static let name: StaticString = "vigla-log"
    // Both are set once, and live as long as the process.
    nonisolated(unsafe) private static let system: UnsafeMutablePointer<sqlite3_vfs>? = sqlite3_vfs_find(nil)
    private static let isRegistered: Bool = register()

    /// The location with which SQLite opens a database through this VFS. If SQLite does not read URIs it is the path itself, and SQLite
    /// uses its default VFS.
    static func location(of path: String) -> String {
        guard sqlite3_compileoption_used("USE_URI") == 1, isRegistered else { return path }
        var location = "file:" + (path.hasPrefix("/") ? "//" : "")
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "/"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"):
                location.unicodeScalars.append(Unicode.Scalar(byte))
            default: location += (byte < 16 ? "%0" : "%") + String(byte, radix: 16)
            }
        }
        return location + "?vfs=\(name)"
    }

    private static func register() -> Bool {
        // SQLite treats the object as its first member, and aligns its memory to 8 bytes.
        let layout = MemoryLayout<LogFileObject>.self
        guard let system, layout.offset(of: \.base) == 0, layout.alignment <= 8 else { return false }
        let shim = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        shim.initialize(to: system.pointee)
        shim.pointee.pNext = nil
        shim.pointee.zName = UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
        shim.pointee.szOsFile = Int32(LogFileObject.size) + system.pointee.szOsFile
        shim.pointee.xOpen = { _, path, file, flags, given in
            guard let system = LogVFS.system, let open = system.pointee.xOpen, let file else { return SQLITE_CANTOPEN }
            guard flags & SQLITE_OPEN_WAL != 0 else { return open(system, path, file, flags, given) }
            let object = UnsafeMutableRawPointer(file).bindMemory(to: LogFileObject.self, capacity: 1)
            object.initialize(to: LogFileObject())
            let code = open(system, path, object.pointee.file(at: file), flags, given)
            // SQLite closes a file that has methods, also one that could not be opened.
            if code == SQLITE_OK {
                object.pointee.base.pMethods = LogFileObject.methods
                object.pointee.opened(file)
            }
            return code
        }
        return sqlite3_vfs_register(shim, 0) == SQLITE_OK
    }

    /// Number of writes that reached the file of a connection's log since it was opened, for tests; nil without this VFS.
    static func writes(_ connection: OpaquePointer?) -> Int? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = withUnsafeMutablePointer(to: &file) { sqlite3_file_control(connection, "main", SQLITE_FCNTL_JOURNAL_POINTER, $0) }
        guard code == SQLITE_OK, let file, file.pointee.pMethods == LogFileObject.methods else { return nil }
        return LogFileObject.at(file).pointee.writes
    }
}

/// An open log: the object that SQLite sees, followed in memory by the default VFS' object.
private struct LogFileObject {
    /// SQLite's part of the object; must be first.
    var base = sqlite3_file()
    var gatherer = FrameGatherer()
    var room = LogPreallocation()
    /// The kept bytes. Allocated on first use.
    var bytes: UnsafeMutableRawPointer?
    var writes = 0

    typealias File = UnsafeMutablePointer<sqlite3_file>

    /// Offset of the default VFS' object, aligned for any type.
    static var size: Int { (MemoryLayout<LogFileObject>.size + 15) & ~15 }

    static func at(_ file: File) -> UnsafeMutablePointer<LogFileObject> {
        UnsafeMutableRawPointer(file).assumingMemoryBound(to: LogFileObject.self)
    }

    /// The default VFS' object.
    func file(at file: File) -> File { (UnsafeMutableRawPointer(file) + Self.size).assumingMemoryBound(to: sqlite3_file.self) }

    mutating func opened(_ file: File) {
        var length: Int64 = 0
        let file = self.file(at: file)
        if file.pointee.pMethods.pointee.xFileSize(file, &length) == SQLITE_OK { room = LogPreallocation(length: length) }
    }

    private mutating func write(_ piece: UnsafeRawBufferPointer, at offset: Int64, _ file: File) -> Int32 {
        let before = gatherer.count
        let step = gatherer.step(piece, at: offset)
        if step == .pass {
            let code = flush(file)
            if code != SQLITE_OK { return code }
            gatherer.passed(piece.count, at: offset)
            return put(piece, at: offset, file)
        }
        let bytes = self.bytes ?? .allocate(byteCount: FrameGatherer.capacity, alignment: 4096)
        self.bytes = bytes
        if let start = piece.baseAddress { (bytes + before).copyMemory(from: start, byteCount: piece.count) }
        return step == .keep ? SQLITE_OK : flush(file)
    }

    /// Writes the kept bytes. After an error nothing is kept: SQLite rolls the transaction back, and a later one writes to the same offset.
    private mutating func flush(_ file: File) -> Int32 {
        guard gatherer.count > 0, let bytes else { return SQLITE_OK }
        let code = put(UnsafeRawBufferPointer(start: bytes, count: gatherer.count), at: gatherer.start, file)
        gatherer.written()
        return code
    }

    private mutating func put(_ piece: UnsafeRawBufferPointer, at offset: Int64, _ file: File) -> Int32 {
        writes += 1
        room.wrote(upTo: offset + Int64(piece.count))
        let file = self.file(at: file)
        return file.pointee.pMethods.pointee.xWrite(file, piece.baseAddress, Int32(piece.count), offset)
    }

    /// Writes the zeros of `LogPreallocation`, if due, and syncs. A failure to write zeros does not fail the commit. Some file systems
    /// report missing space only now: then the commit is refused, and later syncs write no zeros.
    private mutating func sync(_ flags: Int32, _ file: File) -> Int32 {
        let file = self.file(at: file)
        let methods = file.pointee.pMethods.pointee
        var hasRoom = false
        if let range = room.due() {
            var length: Int64 = 0
            if methods.xFileSize(file, &length) == SQLITE_OK, length != range.lowerBound {
                // A commit has failed before, or another program has written to the file.
                room.found(length)
            } else {
                hasRoom = methods.xWrite(file, Self.zeros, Int32(range.count), range.lowerBound) == SQLITE_OK
                if !hasRoom { room.couldNotBeStored() }
            }
        }
        let code = methods.xSync(file, flags)
        if code != SQLITE_OK, hasRoom { room.couldNotBeStored() }
        return code
    }

    // Written once, before it is read, and lives as long as the process.
    nonisolated(unsafe) private static let zeros: UnsafeRawPointer = {
        let zeros = UnsafeMutableRawPointer.allocate(byteCount: LogPreallocation.bytes, alignment: 4096)
        zeros.initializeMemory(as: UInt8.self, repeating: 0, count: LogPreallocation.bytes)
        return UnsafeRawPointer(zeros)
    }()

    /// Calls the default VFS' method.
    private static func system(_ file: File?, _ body: (File, sqlite3_io_methods) -> Int32) -> Int32 {
        guard let file else { return SQLITE_IOERR }
        let system = at(file).pointee.file(at: file)
        return body(system, system.pointee.pMethods.pointee)
    }

    /// The same after writing the kept bytes.
    private static func behind(_ file: File?, _ body: (File, sqlite3_io_methods) -> Int32) -> Int32 {
        guard let file else { return SQLITE_IOERR }
        let code = at(file).pointee.flush(file)
        return code != SQLITE_OK ? code : system(file, body)
    }

    /// Version 1: the methods of later ones are for databases.
    nonisolated(unsafe) static let methods: UnsafePointer<sqlite3_io_methods> = {
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        methods.initialize(to: sqlite3_io_methods())
        methods.pointee.iVersion = 1
        methods.pointee.xClose = { file in
            guard let file else { return SQLITE_OK }
            let flushed = at(file).pointee.flush(file)
            let system = at(file).pointee.file(at: file)
            let closed = system.pointee.pMethods.pointee.xClose(system)
            at(file).pointee.bytes?.deallocate()
            at(file).pointee.bytes = nil
            return flushed != SQLITE_OK ? flushed : closed
        }
        methods.pointee.xRead = { file, bytes, count, offset in behind(file) { $1.xRead($0, bytes, count, offset) } }
        methods.pointee.xWrite = { file, bytes, count, offset in
            guard let file else { return SQLITE_IOERR }
            return at(file).pointee.write(UnsafeRawBufferPointer(start: bytes, count: Int(count)), at: offset, file)
        }
        methods.pointee.xTruncate = { file, size in
            let code = behind(file) { $1.xTruncate($0, size) }
            if code == SQLITE_OK, let file { at(file).pointee.room.found(size) }
            return code
        }
        methods.pointee.xSync = { file, flags in
            guard let file else { return SQLITE_IOERR }
            let code = at(file).pointee.flush(file)
            if code != SQLITE_OK { return code }
            return at(file).pointee.sync(flags, file)
        }
        methods.pointee.xFileSize = { file, size in behind(file) { $1.xFileSize($0, size) } }
        methods.pointee.xLock = { file, level in system(file) { $1.xLock($0, level) } }
        methods.pointee.xUnlock = { file, level in system(file) { $1.xUnlock($0, level) } }
        methods.pointee.xCheckReservedLock = { file, result in system(file) { $1.xCheckReservedLock($0, result) } }
        methods.pointee.xFileControl = { file, operation, argument in system(file) { $1.xFileControl($0, operation, argument) } }
        methods.pointee.xSectorSize = { file in system(file) { $1.xSectorSize($0) } }
        methods.pointee.xDeviceCharacteristics = { file in system(file) { $1.xDeviceCharacteristics($0) } }
        return UnsafePointer(methods)
    }()
}
