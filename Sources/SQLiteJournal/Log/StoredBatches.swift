import GRDB

/// The rows of a namespace's batches after a commit, checked to be consecutive.
struct StoredBatches {
    let namespace: Int64
    let after: UInt64

    /// A batch, or a part of one that was too large for one row or one transaction.
    struct Part {
        let sequence: UInt64
        let previous: UInt64
        let isLast: Bool
        let mark: BatchMark
        /// Valid only during the call that receives the part.
        let operations: UnsafeRawBufferPointer
        let check: DecodingPipeline.Check

        var isIntact: Bool { check.fits(operations) }
    }

    /// Calls `body` for all parts in order.
    /// - Throws: `PlaceFault` where a row is missing. `body` compares the checksums.
    func forEach(_ db: Database, _ body: (Part) throws -> Void) throws {
        var last = after
        /// The batch whose parts are being read, and the number of the next part.
        var open: (sequence: UInt64, part: Int)?
        let statement = try RawStatement(
            db,
            cached: """
                SELECT sequence, previous, part, more, checksum, operations, stage, parts, batch_id, epoch FROM batch
                WHERE namespace = ? AND sequence > ? ORDER BY sequence, part
                """)
        try statement.forEach([namespace, Int64(clamping: after)]) { row in
            guard let stored = row.integer(0), let sequence = UInt64(exactly: stored),
                open == nil || open?.sequence == sequence,
                let previous = row.integer(1), UInt64(exactly: previous) == last,
                let part = row.integer(2).flatMap(Int.init(exactly:)), let more = row.integer(3), let stage = row.integer(6),
                let parts = row.integer(7).flatMap(Int.init(exactly:)), parts >= 0, let id = row.integer(8),
                let epoch = row.integer(9).flatMap(UInt64.init(exactly:))
            else { throw PlaceFault(place: "batch after commit \(last)") }
            let before = last
            let mark = BatchMark(id: UInt64(bitPattern: id), epoch: epoch)
            // Format 5: the one row of a batch that was stored in several transactions; its number is the number of parts.
            let isOfFormat5 = stage > 0 && parts == 0 && open == nil
            guard part == open?.part ?? (isOfFormat5 ? part : 0) else { throw PlaceFault(place: "batch after commit \(last)") }
            if stage > 0 {
                let count = isOfFormat5 ? part : parts
                try forEachPart(db, of: stage, count: count, previous: before, sequence: sequence, mark, body) { number in
                    if isOfFormat5 { return .batch(previous: before, sequence: sequence, part: number, isLast: false) }
                    return .part(stage: stage, number: number)
                }
            }
            var known = StoredRow.batch(previous: before, sequence: sequence, part: part, isLast: more == 0, mark: mark)
            if parts > 0 { known = .seal(known, stage: stage, parts: parts) }
            let check = DecodingPipeline.Check(checksum: row.integer(4), row: known)
            try body(Part(sequence: sequence, previous: before, isLast: more == 0, mark: mark, operations: row.bytes(5), check: check))
            open = more == 0 ? nil : (sequence, part + 1)
            if more == 0 { last = sequence }
        }
        if let open { throw PlaceFault(place: "batch of commit \(open.sequence)") }
    }

    private func forEachPart(
        _ db: Database, of stage: Int64, count: Int, previous: UInt64, sequence: UInt64, _ mark: BatchMark,
        _ body: (Part) throws -> Void,
        stored: (Int) -> StoredRow
    ) throws {
        var number = 0
        let statement = try RawStatement(db, cached: "SELECT number, checksum, operations FROM part WHERE stage = ? ORDER BY number")
        try statement.forEach([stage]) { row in
            guard row.integer(0) == Int64(number), number < count else { throw PlaceFault(place: "batch of commit \(sequence)") }
            let check = DecodingPipeline.Check(checksum: row.integer(1), row: stored(number))
            try body(Part(sequence: sequence, previous: previous, isLast: false, mark: mark, operations: row.bytes(2), check: check))
            number += 1
        }
        guard number == count else { throw PlaceFault(place: "batch of commit \(sequence)") }
    }
}
