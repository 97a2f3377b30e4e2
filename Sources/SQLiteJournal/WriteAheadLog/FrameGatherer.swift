/// Brings the pieces of a commit together that SQLite writes to its log, so that the file gets them in one write, or in few when they are
/// many. SQLite writes each header and each page by itself: ten writes for a commit of five pages, half of the CPU that the file costs.
///
/// ```
/// header, page, header, page, … ──► kept
/// header of a commit, page      ──► kept, and all of it to the file
/// anything else                 ──► what is kept to the file, then this
/// ```
/// When SQLite has written a commit's last page, all of it is in the file, whether SQLite waits for the disk then or not. Between commits
/// nothing is kept but pages that a transaction under way has spilled.
struct FrameGatherer {
    enum Step {
        /// The piece is kept.
        case keep
        /// It is kept, and now what is kept goes to the file.
        case keepAndWrite
        /// It is not kept: it goes to the file behind what is.
        case pass
    }

    /// Where in the file the first byte belongs that is kept.
    private(set) var start: Int64 = 0
    /// Bytes that are kept.
    private(set) var count = 0
    /// The end of all that was written to the log since it began anew. Only what comes behind it is kept. SQLite also writes headers anew,
    /// of pages of the same transaction that it has spilled twice, without the page behind it: if the header of a commit were kept then,
    /// the commit would be missing from the file.
    private var end: Int64 = 0
    /// The header came last, and its page is next: whether the transaction ends with it.
    private var pageEndsCommit: Bool?

    /// Most bytes that are kept: 29 pages of 4 KiB. SQLite's unix files write up to 128 KiB less one byte at a time.
    static let capacity = 120 << 10

    /// Decides what becomes of a piece. O(1)
    /// - Parameters:
    ///   - piece: what SQLite writes.
    ///   - offset: where in the file.
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

    /// What was kept is in the file, or could not be written and is forgotten.
    mutating func written() {
        end = max(end, start + Int64(count))
        (count, pageEndsCommit) = (0, nil)
    }

    /// So is something that was not kept.
    mutating func passed(_ bytes: Int, at offset: Int64) {
        // The header of a log that begins anew.
        end = offset == 0 ? Int64(bytes) : max(end, offset + Int64(bytes))
    }
}
