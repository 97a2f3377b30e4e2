import Dispatch
import Glibc
import Journal
import JSONTree
import Synchronization

/// Decodes stored entries on the other cores and applies them in order on a thread of its own, while the caller reads on.
///
///     caller        read 5 ─ read 6 ─ read 7 ─ …
///     the others    decode 2, 3, 4 …
///     one of them   apply 1 ─ apply 2 ─ …
///
/// Not for a queue that something waits for: `add` and `finish` block.
final class DecodingPipeline: @unchecked Sendable {
    // Sendable: what the caller touches and what `applying` touches is apart, and handed over by its jobs and by `finish`.
    /// The chunks of the snapshot, for noting what batches change: where a place lies among them is found beside the decoding.
    var layout = ChunkLayout()
    private var open = Job()
    private let workers = DispatchQueue(label: "vigla.journal.decoding", attributes: .concurrent)
    private let applying = DispatchQueue(label: "vigla.journal.applying")
    /// Room for jobs that are decoded or wait to be applied.
    private let room = DispatchSemaphore(value: 2 * max(2, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
    /// What was read so far, and what batches have changed of the snapshot's chunks. On `applying`.
    private var content = DurableState()
    private var changes: ChunkLayout?
    /// The first place that does not fit.
    private let fault = Mutex<String?>(nil)

    /// A job is begun when it has so many bytes.
    private static let jobBytes = 128 << 10

    /// The checksum and identity that a row must have, and its name in an error.
    struct Check: Sendable {
        let checksum: Int64?
        let row: StoredRow

        func fits(_ bytes: UnsafeRawBufferPointer) -> Bool { checksum == Int64(row.checksum(bytes)) }
        var place: String { row.place }
    }

    private final class Job: @unchecked Sendable {
        // Sendable: filled by one thread, decoded by another, applied by a third when that has ended.
        var bytes: [UInt8] = []
        var rows: [(range: Range<Int>, check: Check)] = []
        var isBatch = false
        var operations: [JournalOperation] = []
        /// What the operations of batches change.
        var changes: ChunkLayout?
        /// The place that does not fit.
        var fault: String?
        let isDecoded = DispatchSemaphore(value: 0)

        func decode() {
            // The C library makes the heap of a thread longer by a page and a system call at a time: here by about what the rows become.
            free(malloc(min(2 * bytes.count, 768 << 10)))
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

    /// What all that was added makes, and what batches have changed of the snapshot's chunks.
    /// - Throws: the place of a row that does not fit.
    func finish() throws(PlaceFault) -> (content: DurableState, changes: ChunkLayout?) {
        try begin()
        let result = applying.sync { (content, changes) }
        try check()
        return result
    }

    private func check() throws(PlaceFault) {
        if let place = fault.withLock(\.self) { throw PlaceFault(place: place) }
    }

    private func begin() throws(PlaceFault) {
        if open.rows.isEmpty { return }
        let job = open
        open = Job()
        if job.isBatch { job.changes = layout }
        try check()
        room.wait()
        workers.async {
            job.decode()
            job.isDecoded.signal()
        }
        applying.async { [self] in
            job.isDecoded.wait()
            apply(job)
            room.signal()
            // Freed where memory is taken.
            workers.async { job.operations = [] }
        }
    }

    private func apply(_ job: Job) {
        if fault.withLock({ $0 }) != nil { return }
        if let place = job.fault { return fault.withLock { $0 = place } }
        content.apply(job.operations)
        guard let more = job.changes else { return }
        if changes == nil { changes = more } else { changes?.join(more) }
    }
}
