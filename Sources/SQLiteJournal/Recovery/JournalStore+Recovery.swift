import struct Foundation.Data
import GRDB
public import Journal
import JSONTree
import Synchronization

extension JournalStore {
    /// Reads the newest complete snapshot and the batches after it, and checks their checksums and their order. Blocks; commits of
    /// other namespaces continue. Changes nothing when it finds damage.
    ///
    /// A crash may leave an unfinished end of the log; it was never acknowledged, and SQLite drops it. Anything missing or changed before
    /// that end is refused.
    /// - Throws: `.corrupt` naming the place; `.disk`, `.closed`.
    public func recover(_ namespace: String) throws(JournalError) -> Recovered {
        let known = queue.sync { registry[namespace] }
        do {
            guard let known else {
                try checkOpen()
                return Recovered()
            }
            return try reader.writeWithoutTransaction { db in try Self.reading(db) { try read(namespace, known, db) } }
        } catch { throw JournalError(error, opening: path) }
    }

    /// Runs a read in one transaction, so that it sees the state of one moment. On the reader's connection.
    static func reading<Result>(_ db: Database, _ body: () throws -> Result) throws -> Result {
        // Not GRDB's own `read`, which fails after a connection was closed.
        var result: Result?
        try db.inTransaction(.deferred) {
            result = try body()
            return .commit
        }
        guard let result else { throw JournalError.closed }
        return result
    }

    private func checkOpen() throws(JournalError) {
        if waiting.withLock({ $0.isClosed }) { throw .closed }
    }

    private func read(_ namespace: String, _ known: Registry.Row, _ db: Database) throws -> Recovered {
        let state = SnapshotState()
        let pipeline = DecodingPipeline()
        do {
            let snapshot = try Self.storedManifest(of: known.id, db)
            guard (snapshot?.sequence ?? 0) >= known.snapshotSequence else { throw PlaceFault(place: "list of the snapshot's parts") }
            if let (manifest, sequence) = snapshot {
                try readChunks(manifest, of: known.id, into: pipeline, db)
                (state.sequence, state.snapshotBytes) = (sequence, manifest.bytes)
                if manifest.hasPlaces { state.layout = ChunkLayout(manifest.tree) }
            }
            pipeline.layout = state.layout
            var last = state.sequence
            let batches = StoredBatches(namespace: known.id, after: last)
            try batches.forEach(db) { part in
                try pipeline.add(part.operations, isBatch: true, part.check)
                last = part.sequence
                state.journalBytes += part.operations.count
                if part.isLast { state.journalBatches += 1 }
            }
            let (content, changes) = try pipeline.finish()
            if let changes { state.layout = changes }
            guard last >= known.last else { throw PlaceFault(place: "batch of commit \(known.last)") }
            let recovered = Recovered(
                root: content.root, sequence: last, replayed: state.journalBatches, pending: content.pending.sessions,
                written: content.written, pendingRows: content.pendingRows, peers: content.peers, epoch: known.epoch)
            let hasLeftovers = try hasLeftovers(of: known.id, besides: snapshot?.manifest, upTo: state.sequence, db)
            queue.sync {
                // A state that this store has created while writing is newer.
                if states[namespace] == nil { states[namespace] = state }
                if hasLeftovers { removeLeftovers(of: namespace, keeping: nil) }
            }
            return recovered
        } catch let fault as PlaceFault {
            throw JournalError.corrupt(path: path, place: "\(fault.place) of namespace \(namespace)")
        }
    }

    /// Whether a kill has left unused rows.
    private func hasLeftovers(
        of namespace: Int64, besides manifest: SnapshotManifest?, upTo sequence: UInt64, _ db: Database
    ) throws -> Bool {
        let chunks = try Int.fetchOne(db, sql: "SELECT count(*) FROM chunk WHERE namespace = ?", arguments: [namespace])
        if chunks != manifest?.chunks.count ?? 0 { return true }
        let batches = "SELECT 1 FROM batch WHERE namespace = ? AND sequence <= ? LIMIT 1"
        return try Int.fetchOne(db, sql: batches, arguments: [namespace, Int64(clamping: sequence)]) != nil
    }

    private func readChunks(_ manifest: SnapshotManifest, of namespace: Int64, into pipeline: DecodingPipeline, _ db: Database) throws {
        let statement = try RawStatement(db, cached: "SELECT entries FROM chunk WHERE id = ? AND namespace = ?")
        for (number, chunk) in manifest.chunks.enumerated() {
            var isThere = false
            try statement.forEach([chunk.id, namespace]) { row in
                isThere = true
                let check = DecodingPipeline.Check(checksum: Int64(chunk.checksum), row: .chunk(number: number))
                try pipeline.add(row.bytes(0), isBatch: false, check)
            }
            guard isThere else { throw PlaceFault(place: "snapshot part \(number)") }
        }
    }
}

extension Row {
    /// Passes a blob without a copy. Other types are passed as their text, or empty: the checksum then does not match.
    func withBytes<Result>(_ index: Int, _ body: (UnsafeRawBufferPointer) throws -> Result) throws -> Result {
        try withUnsafeData(atIndex: index) { data in try (data ?? Data()).withUnsafeBytes(body) }
    }
}
