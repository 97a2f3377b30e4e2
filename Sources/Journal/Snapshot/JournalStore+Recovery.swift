import struct Foundation.Data
import GRDB
public import JSONTree

/// What a namespace was when it was last durable.
public struct Recovered: Sendable {
    public var root: Node
    /// Number of the last commit, 0 when there never was one: what the next batch follows.
    public var sequence: UInt64
    /// How many batches were replayed on top of the snapshot.
    public var replayed: Int
    /// What sessions left behind that had not ended.
    public var pending: [PendingSession] = []
}

extension JournalStore {
    /// Snapshot and later batches, checked against their checksums and against each other. Writes a new snapshot when there
    /// was much to replay. Blocks; nothing is changed when something does not fit.
    /// - Throws: `.corrupt` naming the place; `.disk`, `.closed`.
    public func recover(_ namespace: String) throws(JournalError) -> Recovered {
        do {
            return try database.writeWithoutTransaction { db in
                guard let known = registry[namespace] else { return Recovered(root: .null, sequence: 0, replayed: 0) }
                let recovered = try read(namespace, known, db)
                if recovered.replayed > settings.replayedBatchesBeforeSnapshot {
                    try db.inTransaction(.immediate) {
                        let snapshot = JournalSnapshot(root: recovered.root, sequence: recovered.sequence, pending: recovered.pending)
                        registry[namespace] = try writeSnapshot(snapshot, of: known, db, &logBytes)
                        return .commit
                    }
                }
                return recovered
            }
        } catch { throw JournalError(error, opening: path) }
    }

    private func read(_ namespace: String, _ known: Registered, _ db: Database) throws -> Recovered {
        func corrupt(_ place: String) -> JournalError { .corrupt(path: path, place: "\(place) of namespace \(namespace)") }
        var state = DurableState()
        var number = 0
        let chunks = try Row.fetchCursor(db, sql: "SELECT number, checksum, entries FROM chunk WHERE namespace = ? ORDER BY number", arguments: [known.id])
        while let row = try chunks.next() {
            guard Int.fromDatabaseValue(row[0]) == number else { throw corrupt("snapshot part \(number)") }
            try row.withBytes(2) { bytes in
                let checksum = Self.checksum(bytes, chunk: number, sequence: known.snapshotSequence)
                guard Int64.fromDatabaseValue(row[1]) == Int64(checksum) else { throw corrupt("snapshot part \(number)") }
                do throws(EntryFault) { try state.apply(entries: bytes) } catch { throw corrupt("snapshot part \(number), byte \(error.offset)") }
            }
            number += 1
        }
        guard number == known.snapshotChunks else { throw corrupt("snapshot part \(number)") }

        var last = known.snapshotSequence
        var replayed = 0
        let batches = try Row.fetchCursor(
            db, sql: "SELECT sequence, previous, checksum, operations FROM batch WHERE namespace = ? AND sequence > ? ORDER BY sequence",
            arguments: [known.id, Int64(clamping: last)])
        while let row = try batches.next() {
            guard let stored = Int64.fromDatabaseValue(row[0]), let sequence = UInt64(exactly: stored),
                let previous = Int64.fromDatabaseValue(row[1]), UInt64(exactly: previous) == last
            else { throw corrupt("batch after commit \(last)") }
            try row.withBytes(3) { bytes in
                let checksum = JournalBatch.checksum(bytes, previous: last, sequence: sequence)
                guard Int64.fromDatabaseValue(row[2]) == Int64(checksum) else { throw corrupt("batch of commit \(sequence)") }
                do throws(EntryFault) { try state.apply(entries: bytes) } catch { throw corrupt("batch of commit \(sequence), byte \(error.offset)") }
            }
            last = sequence
            replayed += 1
        }
        guard last == known.last else { throw corrupt("batch of commit \(known.last)") }
        return Recovered(root: state.root, sequence: last, replayed: replayed, pending: state.pending.sessions)
    }
}

extension Row {
    /// A blob without a copy; one of another type counts as empty, so that its checksum fails.
    func withBytes<Result>(_ index: Int, _ body: (UnsafeRawBufferPointer) throws -> Result) throws -> Result {
        guard case .blob = (self[index] as DatabaseValue).storage else { return try body(UnsafeRawBufferPointer(start: nil, count: 0)) }
        return try withUnsafeData(atIndex: index) { data in try (data ?? Data()).withUnsafeBytes(body) }
    }
}
