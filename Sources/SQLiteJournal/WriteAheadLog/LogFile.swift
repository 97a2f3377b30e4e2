import Glibc
import Journal

/// The file format of SQLite's write-ahead log ("WAL-mode File Format", sqlite.org/walformat.html §4).
///
///     header  magic, version, page size, checkpoints, salts, checksum                       32 bytes
///     frame   page number, pages of the database (a commit) or 0, salts, checksum, page     24 bytes and a page
///
/// Frames belong to the log when they have its salts; frames after its end may be older. Each checksum covers everything before.
enum LogFile {
    static let headerBytes = 32
    static let frameHeaderBytes = 24

    struct Header {
        let pageBytes: Int
        /// Whether checksums are over big-endian words.
        let isBigEndian: Bool
        /// Random numbers, new each time the log is restarted.
        let salts: UInt64
        let sum: Sum

        var frameBytes: Int { frameHeaderBytes + pageBytes }

        /// - Parameter bytes: at least 32.
        /// - Returns: nil for bytes that SQLite does not accept as a header.
        init?(_ bytes: UnsafeRawBufferPointer) {
            let (magic, size) = (bytes.word(0), Int(bytes.word(8)))
            guard magic & ~1 == 0x377F_0682, bytes.word(4) == 3_007_000, (512...65_536).contains(size), size & (size - 1) == 0
            else { return nil }
            (isBigEndian, pageBytes) = (magic & 1 == 1, size)
            salts = UInt64(bytes.word(16)) << 32 | UInt64(bytes.word(20))
            var sum = Sum()
            sum.add(UnsafeRawBufferPointer(rebasing: bytes[..<24]), isBigEndian: isBigEndian)
            guard sum.isStored(in: bytes, at: 24) else { return nil }
            self.sum = sum
        }
    }

    struct Frame {
        let page: UInt32
        /// Whether a transaction ends with it.
        let isCommit: Bool
        let salts: UInt64

        init(_ bytes: UnsafeRawBufferPointer) {
            page = bytes.word(0)
            isCommit = bytes.word(4) != 0
            salts = UInt64(bytes.word(8)) << 32 | UInt64(bytes.word(12))
        }
    }

    /// SQLite's checksum: two cumulative sums.
    struct Sum {
        private(set) var (first, second): (UInt32, UInt32) = (0, 0)

        /// - Parameter bytes: a multiple of eight.
        mutating func add(_ bytes: UnsafeRawBufferPointer, isBigEndian: Bool) {
            var (a, b) = (first, second)
            var i = 0
            while i < bytes.count {
                let x = bytes.loadUnaligned(fromByteOffset: i, as: UInt32.self)
                let y = bytes.loadUnaligned(fromByteOffset: i &+ 4, as: UInt32.self)
                a = a &+ (isBigEndian ? x.bigEndian : x.littleEndian) &+ b
                b = b &+ (isBigEndian ? y.bigEndian : y.littleEndian) &+ a
                i &+= 8
            }
            (first, second) = (a, b)
        }

        func isStored(in bytes: UnsafeRawBufferPointer, at offset: Int) -> Bool {
            bytes.word(offset) == first && bytes.word(offset + 4) == second
        }
    }

    /// Reads at an offset; fewer bytes only at the end of the file; nil after an error.
    static func read(_ descriptor: Int32, _ count: Int, at offset: Int) -> [UInt8]? {
        var isRead = true
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, done in
            while done < count {
                guard let start = buffer.baseAddress else { return }
                let n = pread(descriptor, start + done, count - done, off_t(offset + done))
                if n < 0, errno == EINTR { continue }
                if n < 0 { isRead = false }
                if n <= 0 { return }
                done += n
            }
        }
        return isRead ? bytes : nil
    }
}

extension UnsafeRawBufferPointer {
    /// A big-endian number, as in SQLite's formats.
    fileprivate func word(_ offset: Int) -> UInt32 { UInt32(bigEndian: loadUnaligned(fromByteOffset: offset, as: UInt32.self)) }
}

/// The frames of a log, read as SQLite reads them at a start, and also those after the first invalid one.
struct LogScan {
    private(set) var header: LogFile.Header?
    /// Number of whole frames in the file.
    private(set) var frames = 0
    /// Number of the last commit frame before the first invalid one: SQLite reads the log up to here.
    private(set) var sound = 0
    /// Frames behind `sound` that have the log's salts: of a transaction that was unfinished, or cannot be read.
    private(set) var laterFrames = 0
    /// Commits after the first invalid frame, among frames that have the log's salts.
    private(set) var laterCommits = 0
    /// Whether frames of the log follow one of those commits. A power cut may tear one transaction; a second one begins only when
    /// the first is on the disk.
    private(set) var isBroken = false
    /// The salts of the first frame.
    private(set) var firstSalts: UInt64 = 0

    /// Blocks. O(file)
    /// - Throws: `.disk`.
    init(_ descriptor: Int32) throws(JournalError) {
        var info = stat()
        guard fstat(descriptor, &info) == 0,
            let head = LogFile.read(descriptor, LogFile.headerBytes + LogFile.frameHeaderBytes, at: 0)
        else {
            throw .disk(reason: FolderLock.reason(errno))
        }
        guard head.count == LogFile.headerBytes + LogFile.frameHeaderBytes else { return }
        firstSalts = head.withUnsafeBytes { LogFile.Frame(UnsafeRawBufferPointer(rebasing: $0[LogFile.headerBytes...])).salts }
        header = head.withUnsafeBytes { LogFile.Header($0) }
        guard let header else {
            frames = firstSalts == 0 ? 0 : 1
            return
        }
        frames = (Int(info.st_size) - LogFile.headerBytes) / header.frameBytes
        var sum = header.sum
        var (next, isWhole) = (1, true)
        let atOnce = max(1, (1 << 20) / header.frameBytes)
        while next <= frames {
            let offset = LogFile.headerBytes + (next - 1) * header.frameBytes
            guard let bytes = LogFile.read(descriptor, min(atOnce, frames - next + 1) * header.frameBytes, at: offset) else {
                throw .disk(reason: FolderLock.reason(errno))
            }
            bytes.withUnsafeBytes { bytes in
                for start in stride(from: 0, to: bytes.count - header.frameBytes + 1, by: header.frameBytes) {
                    append(UnsafeRawBufferPointer(rebasing: bytes[start..<start + header.frameBytes]), next, header, &sum, &isWhole)
                    next += 1
                }
            }
            if bytes.count < header.frameBytes { break }
        }
    }

    private mutating func append(
        _ bytes: UnsafeRawBufferPointer, _ number: Int, _ header: LogFile.Header, _ sum: inout LogFile.Sum, _ isWhole: inout Bool
    ) {
        let frame = LogFile.Frame(bytes)
        guard frame.salts == header.salts else { return isWhole = false }
        if isWhole {
            sum.add(UnsafeRawBufferPointer(rebasing: bytes[..<8]), isBigEndian: header.isBigEndian)
            sum.add(UnsafeRawBufferPointer(rebasing: bytes[LogFile.frameHeaderBytes...]), isBigEndian: header.isBigEndian)
            isWhole = frame.page != 0 && sum.isStored(in: bytes, at: 16)
        }
        laterFrames += 1
        if isWhole {
            if frame.isCommit { (sound, laterFrames) = (number, 0) }
        } else {
            if laterCommits > 0 { isBroken = true }
            if frame.isCommit { laterCommits += 1 }
        }
    }
}
