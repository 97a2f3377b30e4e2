import struct Foundation.Data
import GRDB
import Journal
import JSONTree

/// A namespace in the state of one moment: its newest complete snapshot, and the batches after it.
///
/// A crash may leave an unfinished end of the log; it was never acknowledged, and SQLite drops it. Anything missing or changed before
/// that end is refused.
struct StoredNamespace {
    let name: String
    let known: Registry.Row
    /// Of the database, for error messages.
    let path: String

    struct Content {
        let recovered: Recovered
        let snapshots: SnapshotState
        /// Whether a kill has left unused rows.
        let hasLeftovers: Bool
    }

    /// Reads everything, and checks checksums and order. Changes nothing when it finds damage. Within a read transaction.
    /// - Throws: `.corrupt` naming the place.
    func read(_ db: Database) throws -> Content {
        let state = SnapshotState()
        let pipeline = DecodingPipeline()
        do {
            let snapshot = try SnapshotManifest.stored(of: known.id, db)
            guard (snapshot?.sequence ?? 0) >= known.snapshotSequence else { throw PlaceFault(place: "list of the snapshot's parts") }
            if let (manifest, sequence) = snapshot {
                try readChunks(manifest, into: pipeline, db)
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
                beside: content.beside, epoch: known.epoch)
            return Content(
                recovered: recovered, snapshots: state,
                hasLeftovers: try hasLeftovers(besides: snapshot?.manifest, upTo: state.sequence, db))
        } catch let fault as PlaceFault {
            throw JournalError.corrupt(path: path, place: "\(fault.place) of namespace \(name)")
        }
    }

    /// Whether a kill has left unused rows.
    private func hasLeftovers(besides manifest: SnapshotManifest?, upTo sequence: UInt64, _ db: Database) throws -> Bool {
        let chunks = try Int.fetchOne(db, sql: "SELECT count(*) FROM chunk WHERE namespace = ?", arguments: [known.id])
        if chunks != manifest?.chunks.count ?? 0 { return true }
        let batches = "SELECT 1 FROM batch WHERE namespace = ? AND sequence <= ? LIMIT 1"
        return try Int.fetchOne(db, sql: batches, arguments: [known.id, Int64(clamping: sequence)]) != nil
    }

    private func readChunks(_ manifest: SnapshotManifest, into pipeline: DecodingPipeline, _ db: Database) throws {
        let statement = try RawStatement(db, cached: "SELECT entries FROM chunk WHERE id = ? AND namespace = ?")
        for (number, chunk) in manifest.chunks.enumerated() {
            var isThere = false
            try statement.forEach([chunk.id, known.id]) { row in
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
