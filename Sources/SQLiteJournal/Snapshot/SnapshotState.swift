import Journal
import JSONTree

/// The state of one namespace's snapshots.
final class SnapshotState: @unchecked Sendable {
    // Sendable: recovery makes it, then it is confined to the journal queue.
    /// The last commit in the stored snapshot.
    var sequence: UInt64 = 0
    /// The stored chunks, and which places have changed since.
    var layout = ChunkLayout()
    /// Bytes of the stored snapshot.
    var snapshotBytes = 0
    /// Bytes and batches journalled since the last snapshot was made or given up.
    var (journalBytes, journalBatches) = (0, 0)
    /// Whether the database was asked for the tree, or a snapshot is under way.
    var isRequested = false
    /// The snapshot that is being made.
    var run: SnapshotRun?
    /// Snapshots that start after it, each with its completion.
    var next: [(snapshot: JournalSnapshot, completion: @Sendable (Result<Void, JournalError>) -> Void)] = []
    /// Whether the store was closed during a snapshot: none starts any more.
    var isAbandoned = false
    /// Called when a snapshot is due.
    var whenDue: (@Sendable () -> Void)?

    func record(_ batch: JournalBatch, bytes: Int) {
        for operation in batch.operations { layout.record(operation) }
        journalBytes += bytes
        journalBatches += 1
    }

    /// Whether the log has grown so much that a snapshot is worth its writing.
    func isDue(_ settings: JournalStore.Settings) -> Bool {
        // A fraction of a large snapshot's size, so that many scattered writes do not rewrite it all the time.
        if isRequested { return false }
        return journalBytes >= max(settings.snapshotAfterBytes, snapshotBytes / 4) || journalBatches >= settings.snapshotAfterBatches
    }
}

/// A snapshot under way: sections are encoded one chunk at a time beside the commits, and each chunk is stored with the next
/// commit.
///
///     snapshot queue    encode ──┐         encode ──┐                 │
///     journal queue        store chunk 1      store chunk 2   …    switch ─► trim the log, drop old chunks
final class SnapshotRun: @unchecked Sendable {
    // Sendable: passed between two queues, which never use it at the same time.
    let namespace: String
    let snapshot: JournalSnapshot
    let completion: @Sendable (Result<Void, JournalError>) -> Void
    private let sizes: ChunkSizes
    private var sections: ArraySlice<ChunkLayout.Section>
    /// The part of the tree that is being written.
    private var open: (from: Path, to: Path?)?
    private var sessions: ArraySlice<PendingSession>
    /// The chunks so far.
    private(set) var manifest = SnapshotManifest()
    /// Where the chunk under way begins; nil for one of sessions.
    private var start: Path?
    /// The chunk that is to be stored.
    private(set) var bytes: [UInt8] = []
    /// The chunk as it was stored; set within the transaction, taken over when that is durable.
    var stored: StoredChunk?
    /// When the chunk under way was begun, ns of the steady clock.
    var beganNs: Int64 = 0
    /// Batches that had been journalled when the last chunk was stored.
    var seenBatches = 0
    /// The changes before the snapshot, to be recorded again if it fails.
    let before: ChunkLayout

    init(
        _ namespace: String, _ snapshot: JournalSnapshot, layout: ChunkLayout, sizes: ChunkSizes,
        completion: @escaping @Sendable (Result<Void, JournalError>) -> Void
    ) {
        self.namespace = namespace
        self.snapshot = snapshot
        self.completion = completion
        self.sizes = sizes
        before = layout
        sections = layout.sections(joining: sizes.full / 4)[...]
        sessions = snapshot.pending[...]
    }

    /// Encodes the next chunk into `bytes`; false when there is none left. On the snapshot queue.
    func encodeNext() -> Bool {
        while true {
            if let part = open {
                var encoder = ChunkEncoder(snapshot.root, sizes: sizes)
                let next = encoder.encode(from: part.from, to: part.to)
                open = next.map { ($0, part.to) }
                if encoder.bytes.isEmpty { continue }
                (start, bytes) = (part.from, encoder.bytes)
                return true
            }
            switch sections.popFirst() {
            case .kept(let part)?: manifest.tree.append(part)
            case .written(let from, let to)?: open = (from, to)
            case nil: return encodeSessions()
            }
        }
    }

    private func encodeSessions() -> Bool {
        if sessions.isEmpty { return false }
        var writer = JSONWriter()
        while writer.bytes.count < sizes.full, let session = sessions.popFirst() { writer.entries([session]) }
        if writer.bytes.isEmpty { return false }
        writer.raw("]")
        (start, bytes) = (nil, writer.bytes)
        return true
    }

    /// The chunk under way is durable. On the journal queue.
    func keepStored() {
        guard let chunk = stored else { return }
        if let start { manifest.tree.append(ChunkLayout.Part(start: start, chunk: chunk)) } else { manifest.pending.append(chunk) }
        (stored, bytes) = (nil, [])
    }
}
