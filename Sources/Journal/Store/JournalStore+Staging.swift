import Dispatch
import struct Foundation.Data
import GRDB

/// A batch that is too large for one transaction. Its rows are stored beside the log, a slice at a time, while the commits of
/// other namespaces go on; then one small row in the log makes them a batch. Until that is durable it is as if nothing had been
/// stored: a start finds parts without that row and removes them.
///
///     encoding queue    encode ──┐        encode ──┐                 │
///     journal queue        store slice 1     store slice 2   …    the row in the log ─► completion
final class Staging: @unchecked Sendable {
    // Sendable: handed back and forth between two queues, which never touch it at the same time.
    let item: Waiting.Item
    let batch: JournalBatch
    /// What its parts have in common; never used before.
    let stage: Int64
    private var encoder: BatchEncoder
    private let sliceBytes: Int
    /// The rows that are to be stored next.
    private(set) var rows: [(number: Int, checksum: UInt32, bytes: [UInt8])] = []
    /// Bytes of those.
    private(set) var bytes = 0
    /// Bytes of all so far.
    private(set) var total = 0
    /// Rows so far.
    private(set) var count = 0

    init(_ item: Waiting.Item, _ batch: JournalBatch, stage: Int64, sliceBytes: Int) {
        (self.item, self.batch, self.stage, self.sliceBytes) = (item, batch, stage, sliceBytes)
        encoder = BatchEncoder(batch.operations, BatchParts(fullBytes: sliceBytes / 4, largeBytes: sliceBytes / 4))
    }

    /// Encodes the next slice; false when there is none left. On the encoding queue.
    func encodeNext() -> Bool {
        (rows, bytes) = ([], 0)
        while bytes < sliceBytes, let (row, _) = encoder.next() {
            let stored = StoredRow.batch(previous: batch.expectedLast, sequence: batch.sequence, part: count, isLast: false)
            rows.append((count, row.withUnsafeBytes(stored.checksum), row))
            bytes += row.count
            count += 1
        }
        total += bytes
        return !rows.isEmpty
    }
}

extension JournalStore {
    /// Whether a batch is stored in slices. O(`sliceBytes`)
    func isLarge(_ batch: JournalBatch) -> Bool {
        var room = settings.sliceBytes
        return !batch.takes(from: &room)
    }

    /// Begins to store a large batch, when everything of its namespace before it is durable; false when it does not follow.
    /// On the journal queue.
    func begin(_ batch: JournalBatch, _ item: Waiting.Item) -> Bool {
        let last = registry[item.namespace]?.last ?? 0
        guard batch.expectedLast == last, batch.sequence > last, Int64(exactly: batch.sequence) != nil else {
            item.completion(.failure(.conflict(expected: batch.expectedLast, last: last)))
            return false
        }
        let staging = Staging(item, batch, stage: nextStage, sliceBytes: settings.sliceBytes)
        nextStage += 1
        stagings[item.namespace] = staging
        staged.enter()
        advance(staging)
        return true
    }

    /// Encodes the next slice and puts it among what waits.
    private func advance(_ staging: Staging) {
        encoding.async { [self] in
            let work = Waiting.Work.slice(staging, isComplete: !staging.encodeNext())
            enqueue(Waiting.Item(namespace: staging.item.namespace, work: work) { [self] result in
                // After the seal its batch is part of the log.
                if case (.slice(_, isComplete: false), .success) = (work, result) { return advance(staging) }
                finish(staging, result)
            })
        }
    }

    /// On the journal queue.
    private func finish(_ staging: Staging, _ result: Result<Void, JournalError>) {
        stagings[staging.item.namespace] = nil
        if case .failure = result { hasUnusedParts = true }
        staging.item.completion(result)
        staged.leave()
    }

    /// Within a transaction on the journal queue. Returns the bytes written.
    func store(_ staging: Staging, isComplete: Bool, _ known: inout Registered, _ db: Database) throws -> Int {
        guard isComplete else {
            let insert = try db.cachedStatement(sql: "INSERT INTO part (stage, number, checksum, operations) VALUES (?, ?, ?, ?)")
            for row in staging.rows { try insert.execute(arguments: [staging.stage, row.number, Int64(row.checksum), Data(row.bytes)]) }
            return staging.bytes
        }
        let (batch, bytes) = (staging.batch, Array("[]".utf8))
        let row = StoredRow.batch(previous: batch.expectedLast, sequence: batch.sequence, part: staging.count, isLast: true)
        let statement = try db.cachedStatement(
            sql: "INSERT INTO batch (namespace, sequence, previous, checksum, operations, part, more, stage) VALUES (?, ?, ?, ?, ?, ?, 0, ?)")
        try statement.execute(arguments: [
            known.id, Int64(clamping: batch.sequence), Int64(clamping: batch.expectedLast), Int64(bytes.withUnsafeBytes(row.checksum)), Data(bytes),
            staging.count, staging.stage,
        ])
        known.last = batch.sequence
        return staging.total
    }

    // MARK: Parts without a batch

    /// Most rows that are looked at for one step.
    private static let unusedRows = 16

    /// Removes, in small steps, the parts of batches that a kill or a full disk kept from being completed, and of those that a
    /// snapshot holds. On the journal queue.
    func removeUnusedParts() {
        hasUnusedParts = false
        database.asyncWriteWithoutTransaction { [self] db in
            let isThere = try? Int.fetchOne(db, sql: "SELECT EXISTS (\(unusedParts("id")))")
            guard isThere == 1 else { return }
            enqueue(Waiting.Item(namespace: "", work: .step(.sweep)) { [self] result in
                if case .success = result { removeUnusedParts() }
            })
        }
    }

    /// Within a transaction on the journal queue. Returns the bytes written.
    func sweep(_ db: Database) throws -> Int {
        let rows = try Row.fetchAll(db, sql: unusedParts("id, length(operations)") + " LIMIT \(Self.unusedRows)")
        try delete(rows, from: "part", db)
        return 16 * 4096
    }

    /// Deletes rows of id and length, the first ones, as many as make a slice.
    func delete(_ rows: [Row], from table: String, _ db: Database) throws {
        let delete = try db.cachedStatement(sql: "DELETE FROM \(table) WHERE id = ?")
        var bytes = 0
        for row in rows {
            if bytes >= settings.sliceBytes { return }
            try delete.execute(arguments: [row[0] as Int64])
            bytes += Int.fromDatabaseValue(row[1]) ?? 0
        }
    }

    private func unusedParts(_ columns: String) -> String {
        let underWay = stagings.values.map { String($0.stage) }.joined(separator: ", ")
        return "SELECT \(columns) FROM part WHERE stage NOT IN (SELECT stage FROM batch WHERE stage > 0) AND stage NOT IN (\(underWay))"
    }
}
