import Dispatch
import Glibc
import Journal
import JSONTree
import Synchronization

/// Decodes stored entries on the other cores and applies them in order on a separate thread, while the caller continues to read.
///
///     caller        read 5 ─ read 6 ─ read 7 ─ …
///     the others    decode 2, 3, 4 …
///     one of them   apply 1 ─ apply 2 ─ …
///
/// `add` and `finish` block: do not call them on a queue that other work waits for.
final class DecodingPipeline: @unchecked Sendable {
    // Sendable: the caller and `applying` use separate state, handed over by jobs and by `finish`.
    /// The chunks of the snapshot. The workers use them to find which chunks the batches change.
    var layout = ChunkLayout()
    private var open = Job()
    private let workers = DispatchQueue(label: "vigla.journal.decoding", attributes: .concurrent)
    private let applying = DispatchQueue(label: "vigla.journal.applying")
    /// Limits the jobs that are decoded or wait to be applied.
    private let room = DispatchSemaphore(value: 2 * max(2, sysconf(Int32(_SC_NPROCESSORS_ONLN))))
    /// The state read so far, and the snapshot's chunks that batches have changed. On `applying`.
    private var content = DurableState()
    private var changes: ChunkLayout?
    /// The first corrupt place.
    private let fault = Mutex<String?>(nil)

    /// Bytes at which a job starts.
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
        /// The chunks that the operations of batches change.
        var changes: ChunkLayout?
        /// The corrupt place.
        var fault: String?
        let isDecoded = DispatchSemaphore(value: 0)

        func decode() {
            // glibc grows a thread's heap by a page per system call. Grow it once here, by roughly the size of the decoded rows.
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

    /// Adds a row. Blocks while enough jobs are pending.
    /// - Throws: the place of an earlier corrupt row.
    func add(_ row: UnsafeRawBufferPointer, isBatch: Bool, _ check: Check) throws(PlaceFault) {
        if open.isBatch != isBatch || open.bytes.count + row.count > Self.jobBytes { try begin() }
        if open.rows.isEmpty { open.bytes.reserveCapacity(max(row.count, isBatch ? Self.jobBytes : 0)) }
        open.isBatch = isBatch
        let start = open.bytes.count
        open.bytes.append(contentsOf: row)
        open.rows.append((start..<open.bytes.count, check))
    }

    /// The result of all added rows, and the snapshot's chunks that batches have changed.
    /// - Throws: the place of a corrupt row.
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
            // Freed on the threads that allocated it.
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
