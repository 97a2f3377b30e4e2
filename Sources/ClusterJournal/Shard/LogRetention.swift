/// Decides when a shard's writer writes a snapshot, and which messages the log no longer needs. A pure value.
///
/// ```
/// first ──────────────────── snapshot ─────────────────────── last
///   purged: in the snapshot     a snapshot is due when this has grown to
///   and on all hubs             `keptBytes`, or to half of the snapshot's bytes
/// ```
/// The last `keptBytes` before the snapshot are not purged, for a hub that comes back.
struct LogRetention {
    enum Step: Equatable {
        /// Write a snapshot, unless the servers have one that contains more than this message.
        case writeSnapshot(behind: UInt64)
        /// Purge all messages up to this one.
        case purge(upTo: UInt64)
    }

    private let keptBytes: UInt64
    private let retryMs: Int64
    /// The newest known snapshot on the servers.
    private var snapshot: SnapshotPlace?
    private var snapshotBytes: UInt64 = 0
    /// Whether a snapshot is being written: no other step is due.
    private(set) var isWriting = false
    /// Earliest time of the next snapshot, steady ms.
    private var nextSnapshotAt = Int64.min

    /// - Parameters:
    ///   - keptBytes: `ClusterSettings.keptBytes`.
    ///   - retryMs: the pause after a snapshot that could not be written.
    init(keptBytes: UInt64, retryMs: Int64) { (self.keptBytes, self.retryMs) = (keptBytes, retryMs) }

    /// The last message in the newest known snapshot; 0 if none is known.
    var snapshotEnd: UInt64 { snapshot?.complete.sequence ?? 0 }

    /// The step that is due; after `writeSnapshot` none is, until `wrote` or `failed` is called.
    /// - Parameters:
    ///   - log: the log at the last check that found it sound.
    ///   - appliedByAll: all reachable hubs have applied the messages up to this one.
    mutating func nextStep(_ log: ShardLog.State, appliedByAll: UInt64, nowMs: Int64) -> Step? {
        guard !isWriting, log.first > 0, log.last >= log.first else { return nil }
        let messageBytes = max(1, log.bytes / (log.last - log.first + 1))
        let added = log.last - min(log.last, max(snapshotEnd, log.first - 1))
        if added * messageBytes >= max(keptBytes, snapshotBytes / 2) {
            guard nowMs >= nextSnapshotAt else { return nil }
            isWriting = true
            return .writeSnapshot(behind: snapshotEnd)
        }
        let safe = min(snapshotEnd, appliedByAll)
        let reserve = keptBytes / messageBytes
        // Do not purge for a few messages.
        guard safe > reserve, safe - reserve >= log.first + reserve / 8 else { return nil }
        return .purge(upTo: safe - reserve)
    }

    /// Records that the servers have a snapshot, of this hub or another.
    mutating func wrote(_ snapshot: SnapshotPlace, bytes: UInt64) {
        (self.snapshot, snapshotBytes, isWriting) = (snapshot, bytes, false)
    }

    /// Records that no snapshot was written: the next attempt is due after a pause.
    mutating func failed(nowMs: Int64) {
        (isWriting, nextSnapshotAt) = (false, nowMs + retryMs)
    }
}
