/// Preallocated space behind the end of SQLite's log, so that most commits overwrite zeros. A commit that extends the file also waits for
/// the file system to store the new length, and takes two thirds longer. Without preallocation all commits would do so until the log is
/// restarted and overwrites its old frames.
///
/// ```
/// a sync after the file grew a little    ──► zeros behind its end, in the same sync: the next commits overwrite them
/// after it grew by `bytes` / 2 or more   ──► none: a large transaction takes its time anyway
/// zeros could not be stored              ──► none from then on: the remaining disk space is for commits
/// ```
/// SQLite and ``LogScan`` treat zeros like the frames of an older log: the end is before them.
struct LogPreallocation {
    /// Known length of the file in bytes. If the file was shortened meanwhile, commits only extend it again.
    private var length: Int64
    /// Bytes by which it grew since the last sync.
    private var grown: Int64 = 0
    private var isGivenUp = false

    /// Most bytes of zeros: some 15 commits of a small write. More would slow the sync that stores them. SQLite's unix VFS writes
    /// less than that at a time.
    static let bytes = 128 << 10

    /// - Parameter length: bytes of the file.
    init(length: Int64 = 0) { self.length = length }

    /// Records a write.
    /// - Parameter end: the offset behind it in the file.
    mutating func wrote(upTo end: Int64) {
        guard end > length else { return }
        grown += end - length
        length = end
    }

    /// Where to write zeros before the next sync; nil for none. O(1)
    mutating func due() -> Range<Int64>? {
        let isSmall = grown > 0 && grown < Self.bytes / 2
        grown = 0
        guard isSmall, !isGivenUp else { return nil }
        let start = length
        // Round up to the end of a page, as the disk gets whole pages.
        length = (start + Int64(Self.bytes) - 1) & ~4095
        return start..<length
    }

    mutating func couldNotBeStored() { isGivenUp = true }

    /// Corrects the length when the actual one differs from the bytes written.
    mutating func found(_ bytes: Int64) {
        length = bytes
        grown = 0
    }
}
