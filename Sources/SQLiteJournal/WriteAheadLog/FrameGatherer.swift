/// Gathers the pieces of a commit that SQLite writes to its log, so that the file gets them in one write, or in a few when they are
/// many. SQLite writes each header and each page separately: ten writes for a commit of five pages, half of the CPU time that the file costs.
///
/// ```
/// header, page, header, page, … ──► kept
/// header of a commit, page      ──► kept, and all of it written to the file
/// anything else                 ──► the kept bytes to the file, then this
/// ```
/// When SQLite has written a commit's last page, all of it is in the file, whether or not SQLite then waits for the disk. Between commits
/// only pages that the current transaction has spilled are kept.
struct FrameGatherer {
    enum Step {
        /// Keep the piece.
        case keep
        /// Keep the piece, and write all kept bytes to the file.
        case keepAndWrite
        /// Write the kept bytes, then the piece.
        case pass
    }

    /// File offset of the first kept byte.
    private(set) var start: Int64 = 0
    /// Number of kept bytes.
    private(set) var count = 0
    /// The end of everything written to the log since its restart. Only writes behind it are kept. For a page that the same transaction has
    /// spilled twice, SQLite rewrites the header without the page behind it. If the header of a commit were kept then,
    /// the commit would be missing from the file.
    private var end: Int64 = 0
    /// Set when the last piece was a header, so its page is next: whether the transaction ends with that page.
    private var pageEndsCommit: Bool?

    /// Most bytes that are kept: 29 pages of 4 KiB. SQLite's unix VFS writes up to 128 KiB less one byte at a time.
    static let capacity = 120 << 10

    /// Decides how to handle a piece. O(1)
    /// - Parameters:
    ///   - piece: the bytes that SQLite writes.
    ///   - offset: their offset in the file.
    mutating func step(_ piece: UnsafeRawBufferPointer, at offset: Int64) -> Step {
        let isNext = count == 0 ? offset >= end : offset == start + Int64(count)
        if isNext, let endsCommit = pageEndsCommit {
            guard count + piece.count <= Self.capacity else { return .pass }
            count += piece.count
            pageEndsCommit = nil
            // The next page is as long as this one.
            let isFull = count + LogFile.frameHeaderBytes + piece.count > Self.capacity
            return endsCommit || isFull ? .keepAndWrite : .keep
        }
        guard isNext, piece.count == LogFile.frameHeaderBytes else { return .pass }
        if count == 0 { start = offset }
        count += piece.count
        pageEndsCommit = LogFile.Frame(piece).isCommit
        return .keep
    }

    /// The kept bytes are in the file, or could not be written and are dropped.
    mutating func written() {
        end = max(end, start + Int64(count))
        (count, pageEndsCommit) = (0, nil)
    }

    /// A piece that was not kept is in the file.
    mutating func passed(_ bytes: Int, at offset: Int64) {
        // The header of a restarted log.
        end = offset == 0 ? Int64(bytes) : max(end, offset + Int64(bytes))
    }
}
