import GRDB
import Journal

/// Stores operations that are too many for one transaction, or must not be committed yet: a stage. Its rows are stored
/// outside the log, a slice at a time, while other commits continue; then one small row in the log makes them part of a batch.
/// Until that row is durable the parts have no effect: a start finds parts without it and removes them.
///
///     encoding queue    encode ──┐        encode ──┐                 │
///     journal queue        store slice 1     store slice 2   …    the stage ─► kept until its batch is known
///                                                                  └► for a waiting batch: the row in the log
///
/// A part's checksum identifies its stage and number, but nothing of the log: the commit before the batch is not known yet.
final class Staging: @unchecked Sendable {
    // Sendable: passed between two queues, which never use it at the same time.
    let number: Int64
    /// Whether an appended batch waits for it: then it completes even when the store is about to close.
    let isOfBatch: Bool
    let completion: @Sendable (Result<JournalStage, JournalError>) -> Void
    private var encoder: BatchEncoder
    private let sliceBytes: Int
    /// The rows to be stored next.
    private var rows: [(number: Int, checksum: UInt32, bytes: [UInt8])] = []
    /// Bytes of those rows.
    private(set) var bytes = 0
    /// Bytes of all rows so far.
    private(set) var total = 0
    /// Rows so far.
    private(set) var count = 0

    init(
        _ operations: ArraySlice<JournalOperation>, starts: ArraySlice<Int>, number: Int64, sliceBytes: Int, isOfBatch: Bool,
        _ completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void
    ) {
        (self.number, self.sliceBytes, self.isOfBatch, self.completion) = (number, sliceBytes, isOfBatch, completion)
        encoder = BatchEncoder(operations, BatchParts(fullBytes: sliceBytes / 4, largeBytes: sliceBytes / 4), starts: starts)
    }

    /// Encodes the next slice; false when none is left. On the encoding queue.
    func encodeNext() -> Bool {
        (rows, bytes) = ([], 0)
        while bytes < sliceBytes, let (row, _) = encoder.next() {
            let stored = StoredRow.part(stage: number, number: count)
            rows.append((count, row.withUnsafeBytes(stored.checksum), row))
            bytes += row.count
            count += 1
        }
        total += bytes
        return !rows.isEmpty
    }

    /// Stores the rows of the slice within a transaction on the journal queue. Returns the bytes written.
    func store(_ db: Database) throws -> Int {
        let insert = try RawStatement(db, cached: "INSERT INTO part (stage, number, checksum, operations) VALUES (?, ?, ?, ?)")
        for row in rows { try insert.run([number, Int64(row.number), Int64(row.checksum)], blob: row.bytes) }
        return bytes
    }
}
