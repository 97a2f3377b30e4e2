import DequeModule
import Dispatch
import Journal
import JSONTree

/// Decodes stored entries on the other cores while the caller reads on and applies what is ready, in order.
///
///     caller        read 5 ─ read 6 ─ apply 1 ─ read 7 ─ apply 2 ─ …
///     the others    decode 2, 3, 4 …
///
/// Not for a queue that something waits for: `add` and `finish` block.
final class DecodingPipeline {
    private let apply: ([JournalOperation], _ isBatch: Bool) -> Void
    private var open = Job()
    private var jobs: Deque<Job> = []
    private let workers = DispatchQueue(label: "vigla.journal.decoding", attributes: .concurrent)

    /// A job is begun when it has so many bytes.
    private static let jobBytes = 128 << 10
    /// Jobs that are decoded or wait to be applied.
    private let depth = 2 * max(2, ProcessorCount.active)

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
        }
    }

    /// - Parameter apply: called on the caller's thread with what rows say, in their order.
    init(apply: @escaping ([JournalOperation], _ isBatch: Bool) -> Void) { self.apply = apply }

    /// Takes a row. Blocks while enough is under way.
    /// - Throws: the place of an earlier row that does not fit.
    func add(_ row: UnsafeRawBufferPointer, isBatch: Bool, _ check: Check) throws(PlaceFault) {
        if open.isBatch != isBatch || open.bytes.count + row.count > Self.jobBytes { try begin() }
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
        apply(job.operations, job.isBatch)
    }
}

/// The identity of a stored row. Its checksum includes it, so that one row cannot be taken for another.
enum StoredRow: Sendable {
    case chunk(number: Int)
    /// Part 0 of one is a batch as it was before batches had parts.
    case batch(previous: UInt64, sequence: UInt64, part: Int, isLast: Bool, mark: BatchMark = BatchMark())
    /// A row of a batch that stands for a number of parts of a stage.
    indirect case seal(StoredRow, stage: Int64, parts: Int)
    /// A part of a stage, which may become part of any batch.
    case part(stage: Int64, number: Int)

    func checksum(_ bytes: UnsafeRawBufferPointer) -> UInt32 {
        var crc = CRC32()
        add(to: &crc)
        crc.add(bytes)
        return crc.value
    }

    private func add(to crc: inout CRC32) {
        switch self {
        case .chunk: break
        case .batch(let previous, let sequence, let part, let isLast, let mark):
            crc.add(previous)
            crc.add(sequence)
            if part > 0 || !isLast { crc.add(UInt64(part) << 1 | (isLast ? 0 : 1)) }
            if mark != BatchMark() {
                crc.add(mark.id)
                crc.add(mark.epoch)
            }
        case .seal(let row, let stage, let parts):
            row.add(to: &crc)
            crc.add(UInt64(bitPattern: stage))
            crc.add(UInt64(parts))
        case .part(let stage, let number):
            crc.add(UInt64(bitPattern: stage))
            crc.add(UInt64(number))
        }
    }

    var place: String {
        switch self {
        case .chunk(let number): "snapshot part \(number)"
        case .batch(_, let sequence, _, _, _): "batch of commit \(sequence)"
        case .seal(let row, _, _): row.place
        case .part(let stage, let number): "part \(number) of stage \(stage)"
        }
    }
}

/// Id and epoch of a batch; both 0 before format 7.
struct BatchMark: Sendable, Equatable {
    var id: UInt64 = 0
    var epoch: UInt64 = 0
}

/// Stored data that differs from what was written.
struct PlaceFault: Error {
    let place: String
}
