import Journal
import JSONTree

/// A snapshot in progress: sections are encoded some chunks at a time while commits continue, and stored after the waiting ones.
///
///     snapshot queue    encode ──┐         encode ──┐                 │
///     journal queue         store chunks       store chunks   …    switch ─► trim the log, drop old chunks
final class SnapshotRun: @unchecked Sendable {
    // Sendable: passed between two queues, which never use it at the same time.
    let namespace: String
    let snapshot: JournalSnapshot
    let completion: @Sendable (Result<Void, JournalError>) -> Void
    private let sizes: ChunkSizes

    private enum Piece {
        case kept(ChunkLayout.Part)
        /// The next chunk to be stored, with its first place.
        case tree(Path)
        /// Data outside the tree.
        case outsideTree
    }

    private var sections: ArraySlice<ChunkLayout.Section>
    /// The part of the tree that is being written.
    private var open: (from: Path, to: Path?)?
    private var sessions: ArraySlice<PendingSession>
    /// The remaining write times, pending rows and forwarded requests; nil before they are loaded.
    private var entries: ArraySlice<JournalOperation>?
    /// The chunks so far.
    private(set) var manifest = SnapshotManifest()
    /// The chunks to be stored next.
    private(set) var encoded: [[UInt8]] = []
    /// Their positions in the snapshot, among kept chunks.
    private var pieces: [Piece] = []
    /// Bytes of the chunks to be stored.
    private(set) var bytes = 0
    /// The rows of the stored chunks; set within the transaction, adopted when it is durable.
    private var stored: [StoredChunk] = []
    var pace: SnapshotPace
    /// Whether the namespace was removed; nothing more is stored.
    var isDropped = false
    /// Whether the end of the process waits for this snapshot.
    let isLast: Bool
    /// The changes before the snapshot, to be recorded again if it fails.
    let before: ChunkLayout

    init(
        _ namespace: String, _ snapshot: JournalSnapshot, layout: ChunkLayout, sizes: ChunkSizes, pace: SnapshotPace,
        isLast: Bool = false, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        self.namespace = namespace
        self.snapshot = snapshot
        self.completion = completion
        self.sizes = sizes
        self.pace = pace
        self.isLast = isLast
        before = layout
        sections = layout.sections(joining: sizes.full / 4)[...]
        sessions = snapshot.pending[...]
    }

    /// Encodes the next chunks into `encoded`, at least one and up to `most` bytes; false when none are left. On the
    /// snapshot queue.
    /// - Parameter most: bytes.
    func encodeNext(most: Int) -> Bool {
        while encoded.isEmpty || bytes < most, let chunk = encodeChunk() ?? encodeSessions() ?? encodeEntries() {
            encoded.append(chunk)
            bytes += chunk.count
        }
        if encoded.isEmpty { keepStored() }
        return !encoded.isEmpty
    }

    private func encodeChunk() -> [UInt8]? {
        while true {
            if let part = open {
                var encoder = ChunkEncoder(snapshot.root, sizes: sizes)
                let next = encoder.encode(from: part.from, to: part.to)
                open = next.map { ($0, part.to) }
                if encoder.bytes.isEmpty { continue }
                pieces.append(.tree(part.from))
                return encoder.bytes
            }
            switch sections.popFirst() {
            case .kept(let part)?: pieces.append(.kept(part))
            case .written(let from, let to)?: open = (from, to)
            case nil: return nil
            }
        }
    }

    private func encodeSessions() -> [UInt8]? {
        if sessions.isEmpty { return nil }
        var writer = JSONWriter()
        while writer.bytes.count < sizes.full, let session = sessions.popFirst() { writer.entries([session]) }
        if writer.bytes.isEmpty { return nil }
        writer.raw("]")
        pieces.append(.outsideTree)
        return writer.bytes
    }

    private func encodeEntries() -> [UInt8]? {
        var rest = entries ?? snapshot.beside.operations[...]
        var writer = JSONWriter()
        while writer.bytes.count < sizes.full, let entry = rest.popFirst() { writer.entry(entry) }
        entries = rest
        if writer.bytes.isEmpty { return nil }
        writer.raw("]")
        pieces.append(.outsideTree)
        return writer.bytes
    }

    /// Stores the encoded chunks. Within a transaction on the journal queue.
    /// - Parameter insert: stores one chunk; returns the id of its row.
    func store(_ insert: (_ chunk: [UInt8]) throws -> Int64) rethrows {
        stored = []
        for bytes in encoded {
            let id = try insert(bytes)
            stored.append(StoredChunk(id: id, bytes: bytes.count, checksum: bytes.withUnsafeBytes(StoredChunk.checksum)))
        }
    }

    /// Adopts the chunks that have become durable. On the journal queue.
    func keepStored() {
        var next = stored.makeIterator()
        for piece in pieces {
            switch piece {
            case .kept(let part): manifest.tree.append(part)
            case .tree(let start): if let chunk = next.next() { manifest.tree.append(ChunkLayout.Part(start: start, chunk: chunk)) }
            case .outsideTree: if let chunk = next.next() { manifest.pending.append(chunk) }
            }
        }
        (encoded, pieces, stored, bytes) = ([], [], [], 0)
    }
}
