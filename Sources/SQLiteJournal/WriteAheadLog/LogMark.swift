import Glibc
import Journal
import Synchronization

/// How far SQLite's log is acknowledged, in a small file next to it (`vigla.mark`). With it a start can distinguish an end that a
/// crash left unfinished from missing commits. Written after each commit, before its completion, and not synced to disk: an
/// older mark is still true, and after a kill of the process the file contains the newest one.
///
///     two slots of 128 bytes, written in turn:
///     magic, flags, counter, salts, frames, copied, copying, boot, commits, …, CRC-32
struct LogMark: Equatable {
    /// The log's salts; random, new at each restart of the log.
    var salts: UInt64 = 0
    /// Number of acknowledged frames.
    var frames: UInt32 = 0
    /// Number of frames that are also in the database, on the disk.
    var copied: UInt32 = 0
    /// Number of frames that may be in the database: above `copied` while the log is being copied.
    var copying: UInt32 = 0
    /// Number of commits of all namespaces together.
    var commits: UInt64 = 0
    /// Whether an acknowledged commit was on the disk, so that it survives a power cut.
    var isOnDisk = true
    /// Identifies the boot of the machine.
    var boot: [UInt8] = LogMark.thisBoot

    static let fileName = "vigla.mark"
    static let slotBytes = 128
    static let bootBytes = 36
    private static let magic: UInt64 = 0x5647_4C4D_0000_0001

    /// Whether the commits that it counts must be found.
    var isBinding: Bool { isOnDisk || isOfThisBoot }
    /// Whether it was written since the machine booted.
    var isOfThisBoot: Bool { !boot.allSatisfy { $0 == 0 } && boot == Self.thisBoot }

    /// Zeros if the system does not provide it.
    static let thisBoot: [UInt8] = {
        let descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        defer { if descriptor >= 0 { close(descriptor) } }
        let text = descriptor >= 0 ? LogFile.read(descriptor, bootBytes, at: 0) ?? [] : []
        return text.count == bootBytes ? text : [UInt8](repeating: 0, count: bootBytes)
    }()

    /// Passes the bytes of a slot to `body`.
    func encode<Result>(counter: UInt64, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        withUnsafeTemporaryAllocation(byteCount: Self.slotBytes, alignment: 8) { bytes in
            bytes.initializeMemory(as: UInt8.self, repeating: 0)
            func put(_ number: UInt64, _ index: Int) { bytes.storeBytes(of: number.littleEndian, toByteOffset: 8 * index, as: UInt64.self) }
            put(Self.magic, 0)
            put(isOnDisk ? 1 : 0, 1)
            put(counter, 2)
            put(salts, 3)
            put(UInt64(frames), 4)
            put(UInt64(copied), 5)
            put(UInt64(copying), 6)
            put(commits, 7)
            UnsafeMutableRawBufferPointer(rebasing: bytes[64..<(64 + Self.bootBytes)]).copyBytes(from: boot.prefix(Self.bootBytes))
            var crc = CRC32()
            crc.add(UnsafeRawBufferPointer(rebasing: bytes[..<(Self.slotBytes - 8)]))
            put(UInt64(crc.value), Self.slotBytes / 8 - 1)
            return body(UnsafeRawBufferPointer(bytes))
        }
    }

    /// The newer of the intact slots.
    static func read(_ descriptor: Int32) -> (mark: LogMark, counter: UInt64)? {
        guard let bytes = LogFile.read(descriptor, 2 * slotBytes, at: 0) else { return nil }
        let slots = [0, slotBytes].filter { $0 + slotBytes <= bytes.count }.compactMap { decoded(Array(bytes[$0..<$0 + slotBytes])) }
        return slots.max { $0.counter < $1.counter }
    }

    private static func decoded(_ bytes: [UInt8]) -> (mark: LogMark, counter: UInt64)? {
        bytes.withUnsafeBytes { bytes in
            func number(_ index: Int) -> UInt64 { UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: 8 * index, as: UInt64.self)) }
            var crc = CRC32()
            crc.add(UnsafeRawBufferPointer(rebasing: bytes[..<(slotBytes - 8)]))
            guard number(0) == magic, number(slotBytes / 8 - 1) == UInt64(crc.value) else { return nil }
            var mark = LogMark()
            (mark.isOnDisk, mark.salts, mark.commits) = (number(1) == 1, number(3), number(7))
            mark.frames = UInt32(truncatingIfNeeded: number(4))
            mark.copied = UInt32(truncatingIfNeeded: number(5))
            mark.copying = UInt32(truncatingIfNeeded: number(6))
            mark.boot = Array(bytes[64..<(64 + bootBytes)])
            return (mark, number(2))
        }
    }
}

/// The file of the mark. Confined to the journal queue.
final class LogMarkFile: @unchecked Sendable {
    // Sendable: confined to the journal queue, once the store is open.
    private let path: String
    private let descriptor: Int32
    private var counter: UInt64
    /// The mark that the file contained when it was opened; nil without an intact one.
    let found: LogMark?

    /// If the file cannot be created, there is no mark, and none is written.
    /// - Parameter isMade: whether to create a missing file.
    init(_ path: String, isMade: Bool) {
        self.path = path
        descriptor = isMade ? PrivateFile.open(path, O_RDWR) : open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC)
        let read = descriptor >= 0 ? LogMark.read(descriptor) : nil
        (found, counter) = (read?.mark, read?.counter ?? 0)
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    /// Writes a mark; after an error the previous one stays.
    func write(_ mark: LogMark) {
        guard descriptor >= 0 else { return }
        counter &+= 1
        mark.encode(counter: counter) { bytes in
            _ = pwrite(descriptor, bytes.baseAddress, bytes.count, off_t(Int(counter & 1) * LogMark.slotBytes))
        }
    }

    /// Removes the mark from the file.
    func erase() {
        if descriptor >= 0 { ftruncate(descriptor, 0) }
    }

    func remove() { unlink(path) }
}
