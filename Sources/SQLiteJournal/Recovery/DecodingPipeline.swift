import DequeModule
import Dispatch
import Glibc
import Journal
import JSONTree

/// Decodes stored entries on the other cores while the caller reads on and applies what is ready, in order.
///
///     caller        read 5 ─ read 6 ─ apply 1 ─ read 7 ─ apply 2 ─ …
///     the others    decode 2, 3, 4 …
///
/// Not for a queue that something waits for: `add` and `finish` block.
final class DecodingPipeline {
    private let apply: ([JournalOperation], _ changes: ChunkLayout?) -> Void
    /// The chunks of the snapshot, for noting what batches change: where a place lies among them is found beside the decoding.
    var layout = ChunkLayout()
    private var open = Job()
    private var jobs: Deque<Job> = []
    private let workers = DispatchQueue(label: "vigla.journal.decoding", attributes: .concurrent)

    /// A job is begun when it has so many bytes.
    private static let jobBytes = 128 << 10
    /// Jobs that are decoded or wait to be applied.
    private let depth = 2 * max(2, sysconf(Int32(_SC_NPROCESSORS_ONLN)))

    /// The checksum and identity that a row must have, and its name in an error.
    struct Check: Sendable {
        let checksum: Int64?
        let row: StoredRow

        func fits(_ bytes: UnsafeRawBufferPointer) -> Bool { checksum == Int64(row.checksum(bytes)) }
        var place: String { row.place }
    }

    private final class Job: @unchecked Sendable {
        // Sendable: filled by one thread, decoded by another, read again by the first when that has ended.
        var bytes: [UInt8] = []
        var rows: [(range: Range<Int>, check: Check)] = []
        var isBatch = false
        var operations: [JournalOperation] = []
        /// What the operations of batches change.
        var changes: ChunkLayout?
        /// The place that does not fit.
        var fault: String?
        var work: DispatchWorkItem?

        func decode() {
            bytes.withUnsafeBytes { all in
                for (range, check) in rows {
                    let row = UnsafeRawBufferPointer(rebasing: all[range])
                    guard check.fits(row) else { return fault = check.place }
                    do throws(EntryFault) { try operations.append(entries: row) } catch {
                        return fault = "\(check.place), byte \(error.offset)"
                    }
                }
            }
            bytes = []
            if var layout = changes {
                changes = nil
                for operation in operations { layout.record(operation) }
                changes = layout
            }
        }
    }

    /// - Parameter apply: called on the caller's thread with what rows say, in their order, and with what batches change.
    init(apply: @escaping ([JournalOperation], _ changes: ChunkLayout?) -> Void) { self.apply = apply }

    /// Takes a row. Blocks while enough is under way.
    /// - Throws: the place of an earlier row that does not fit.
    func add(_ row: UnsafeRawBufferPointer, isBatch: Bool, _ check: Check) throws(PlaceFault) {
        if open.isBatch != isBatch || open.bytes.count + row.count > Self.jobBytes { try begin() }
        if open.rows.isEmpty { open.bytes.reserveCapacity(max(row.count, isBatch ? Self.jobBytes : 0)) }
        open.isBatch = isBatch
        let start = open.bytes.count
        open.bytes.append(contentsOf: row)
        open.rows.append((start..<open.bytes.count, check))
    }

    /// Applies everything that was added.
    func finish() throws(PlaceFault) {
        try begin()
        while !jobs.isEmpty { try applyFirst() }
    }

    private func begin() throws(PlaceFault) {
        if open.rows.isEmpty { return }
        let job = open
        open = Job()
        if job.isBatch { job.changes = layout }
        let work = DispatchWorkItem { job.decode() }
        job.work = work
        jobs.append(job)
        workers.async(execute: work)
        if jobs.count >= depth { try applyFirst() }
    }

    private func applyFirst() throws(PlaceFault) {
        guard let job = jobs.first else { return }
        job.work?.wait()
        if let place = job.fault { throw PlaceFault(place: place) }
        jobs.removeFirst()
        apply(job.operations, job.changes)
    }
}
