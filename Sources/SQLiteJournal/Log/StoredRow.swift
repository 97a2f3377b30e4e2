import Journal

/// The identity of a stored row. Its checksum includes it, so that one row cannot be taken for another.
enum StoredRow: Sendable {
    case chunk(number: Int)
    /// Part 0 is also the form of a batch from before batches had parts.
    case batch(previous: UInt64, sequence: UInt64, part: Int, isLast: Bool, mark: BatchMark = BatchMark())
    /// A row of a batch that refers to a number of parts of a stage.
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

/// Stored data that differs from the written data, with its place.
struct PlaceFault: Error {
    let place: String
}
