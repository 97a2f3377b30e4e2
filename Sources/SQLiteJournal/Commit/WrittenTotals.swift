/// Totals that commits have written since the store was opened. Snapshots and removals in the background must keep up with them.
/// Confined to the journal queue.
final class WrittenTotals: @unchecked Sendable {
    // Sendable: confined to the journal queue.

    private(set) var operations = WrittenBytes()
    /// Bytes of chunks that snapshots and imports have stored.
    private var chunkBytes = 0

    /// The operations, and everything else that may later have to be removed.
    var stored: WrittenBytes { WrittenBytes(bytes: operations.bytes + chunkBytes, batches: operations.batches) }

    func add(_ bytes: Int, of work: Waiting.Work) {
        switch work {
        case .append, .seal, .slice: operations.bytes += bytes
        case .step(.chunks), .taking: chunkBytes += bytes
        default: break
        }
    }

    func addBatch() { operations.batches += 1 }
}

/// Totals written by the store since its start.
struct WrittenBytes: Sendable {
    /// Bytes of operations: in batches, and in parts of large ones when those are stored, whether or not a batch contains them later.
    var bytes = 0
    var batches = 0
}
