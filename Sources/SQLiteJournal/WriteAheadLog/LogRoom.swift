/// Room behind the end of SQLite's log, so that most commits overwrite zeros. A commit that makes the file longer waits for the file
/// system to store the new length as well, and takes two thirds longer; without room all of them would do so until the log is restarted
/// and overwrites what it has written.
///
/// ```
/// a sync after the file grew by little  ──► zeros behind its end, in the same sync: the next commits lie in them
/// after it grew by `bytes` / 2 or more  ──► none: a large transaction, which takes its time anyway
/// zeros could not be stored             ──► none from then on: what the disk has left is for commits
/// ```
/// SQLite and ``LogScan`` take zeros for what they take the frames of an older log for: the end is before them.
struct LogRoom {
    /// Bytes of the file as far as is known. The file may have been shortened meanwhile: then commits lengthen it again, which is all.
    private var length: Int64
    /// Bytes by which it grew since the last sync.
    private var grown: Int64 = 0
    private var isGivenUp = false

    /// Most bytes of zeros: some 15 commits of a small write. More would make the sync that stores them slow. SQLite's unix files write
    /// less than so many at a time.
    static let bytes = 128 << 10

    /// - Parameter length: bytes of the file.
    init(length: Int64 = 0) { self.length = length }

    /// Something was written.
    /// - Parameter end: of it, in bytes of the file.
    mutating func wrote(upTo end: Int64) {
        guard end > length else { return }
        grown += end - length
        length = end
    }

    /// Where zeros are to be written before the sync that comes next; nil for none. O(1)
    mutating func due() -> Range<Int64>? {
        let isSmall = grown > 0 && grown < Self.bytes / 2
        grown = 0
        guard isSmall, !isGivenUp else { return nil }
        let start = length
        // Up to the end of a page, as the disk gets whole ones.
        length = (start + Int64(Self.bytes) - 1) & ~4095
        return start..<length
    }

    mutating func couldNotBeStored() { isGivenUp = true }

    /// The file has another length than what was written says.
    mutating func found(_ bytes: Int64) {
        length = bytes
        grown = 0
    }
}
