import Journal
import JSONTree

/// The state of one namespace's snapshots; see `Snapshotter`.
final class SnapshotState: @unchecked Sendable {
    // Sendable: recovery creates it, then it is confined to the journal queue.
    /// The last commit in the stored snapshot.
    var sequence: UInt64 = 0
    /// The stored chunks, and which places have changed since.
    var layout = ChunkLayout()
    /// Bytes of the stored snapshot.
    var snapshotBytes = 0
    /// Bytes and batches journalled since the last snapshot was started or abandoned.
    var (journalBytes, journalBatches) = (0, 0)
    /// Whether the tree was requested from the database, or a snapshot is in progress.
    var isRequested = false
    /// The snapshot in progress.
    var run: SnapshotRun?
    /// Snapshots that start after it, each with its completion.
    var next: [(snapshot: JournalSnapshot, completion: @Sendable (Result<Void, JournalError>) -> Void)] = []
    /// Whether the store was closed during a snapshot: none starts any more.
    var isAbandoned = false
    /// Whether imported chunks are stored that no manifest lists yet.
    var isImporting = false
    /// Called when a snapshot is due.
    var whenDue: (@Sendable () -> Void)?

    func record(_ batch: JournalBatch, bytes: Int) {
        for operation in batch.operations { layout.record(operation) }
        journalBytes += bytes
        journalBatches += 1
    }

    /// Whether the log has grown enough for a snapshot to be worth its cost.
    func isDue(_ settings: JournalStore.Settings) -> Bool {
        // A fraction of a large snapshot's size, so that many scattered writes do not rewrite it all the time.
        if isRequested { return false }
        return journalBytes >= max(settings.snapshotAfterBytes, snapshotBytes / 4) || journalBatches >= settings.snapshotAfterBatches
    }

    /// Whether a snapshot taken now is small enough to finish before the process ends: not queued behind another one, and with few bytes to
    /// write. O(chunks)
    func isSmall(_ settings: JournalStore.Settings) -> Bool {
        run == nil && unsavedBytes <= settings.lastSnapshotBytes
    }

    /// Bytes that a snapshot taken now would write, at most about. O(chunks)
    var unsavedBytes: Int { journalBytes + layout.changedBytes }

    /// Whether chunks are stored that no manifest lists yet, by a snapshot or an import.
    var hasUnlistedChunks: Bool { run != nil || isImporting }
}
