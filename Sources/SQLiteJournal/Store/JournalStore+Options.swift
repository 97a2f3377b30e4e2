extension JournalStore {
    public struct Settings: Sendable {
        public var durability: Durability = .full
        /// A snapshot is due when this many bytes of operations were journalled since the last one, or a quarter of its size if
        /// that is more.
        package var snapshotAfterBytes = 64 << 20
        /// A snapshot is due when this many batches were journalled since the last one.
        package var snapshotAfterBatches = 200_000
        /// Estimated maximum of one transaction in bytes, so that the commits of one namespace do not wait long for another's. Larger
        /// batches are stored in slices. A single string is not split.
        package var sliceBytes = 1 << 20
        /// Bytes at which a write is stored before its commit, while other commits can still pass it. Default
        /// 256 KiB: a smaller write delays the commits behind it by less than two extra transactions would cost.
        package var stagedBytes = 256 << 10
        /// µs at which a commit counts as slow for the appending thread: of one write, and of several, whose clients all wait for it.
        /// Default 500 and 2,000.
        package var inlineCommitUs = 500
        package var inlineCommitSeveralUs = 2_000
        /// Estimated bytes of several writes together that this thread may commit. Default 64 KiB.
        package var inlineCommitBytes = 64 << 10
        /// The share of that thread's time that slow commits may take: one part in this many. Default 20. When they have taken more,
        /// commits run on the journal queue only, for this many times the overdrawn time, 10 s at most.
        package var inlineCommitShare = 20
        /// µs of slow commits that may occur in a burst before that. Default 10,000. The last of them may take longer: a running commit
        /// cannot be interrupted.
        package var inlineCommitBurstUs = 10_000
        /// Maximum bytes of a snapshot that is written when the process ends, so that it does not delay the end.
        package var lastSnapshotBytes = 16 << 20
        /// Whether to open with the intact part when acknowledged commits cannot be read from the write-ahead log.
        public var acceptsLoss = false
        var chunks = ChunkSizes()
        var batches = BatchParts()

        public init(
            durability: Durability = .full, snapshotAfterBytes: Int = 64 << 20, snapshotAfterBatches: Int = 200_000,
            acceptsLoss: Bool = false
        ) {
            self.durability = durability
            self.acceptsLoss = acceptsLoss
            self.snapshotAfterBytes = snapshotAfterBytes
            self.snapshotAfterBatches = snapshotAfterBatches
        }
    }
}

/// Where a commit is stored when it is acknowledged.
public enum Durability: String, Sendable, CaseIterable {
    /// On the disk: survives a power cut (SQLite `synchronous=FULL`).
    case full
    /// With the operating system: survives a crash of the process; a power cut may lose the last moments, never the order
    /// (SQLite `synchronous=NORMAL`).
    case normal

    /// The value of SQLite's `PRAGMA synchronous`.
    var pragma: Int { self == .full ? 2 : 1 }
}
