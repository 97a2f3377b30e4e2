import Journal
import Scheduling
import Synchronization

/// A shard's progress on this hub, for other queues.
struct ShardStatus: Sendable {
    enum FollowState: Sendable { case opening, following, refusing, closed }

    var followState = FollowState.opening
    /// The newest message known to be in the log.
    var last: UInt64 = 0
    /// The log's first message, and the last message in the newest snapshot, as far as this hub knows.
    var first: UInt64 = 0
    var snapshot: UInt64 = 0
    /// The next message is no longer in the log: a snapshot is needed, or being imported.
    var isBehindPurge = false
    /// All messages up to this one are applied.
    var applied: UInt64 = 0
    /// Time for which messages of the log have been missing, ms.
    var lagMs: Int64 = 0
    var conflicts = 0
    var retries = 0

    /// Messages that may be in transit while others append.
    private static let onTheWay: UInt64 = 64

    /// Whether it has caught up with the log, as far as known.
    var isCaughtUp: Bool { followState == .following && applied + Self.onTheWay >= last }
}

/// The time for which messages of the log have been missing. A pure value.
struct LagClock {
    /// The message to catch up with, and since when it has been missing.
    private var target: UInt64 = 0
    private var sinceMs: Int64?

    mutating func ms(applied: UInt64, last: UInt64, nowMs: Int64) -> Int64 {
        if applied >= target || sinceMs == nil { (target, sinceMs) = applied < last ? (last, nowMs) : (0, nil) }
        return sinceMs.map { max(0, nowMs - $0) } ?? 0
    }
}

extension Shard {
    /// The published progress. From any thread.
    var status: ShardStatus { published.withLock { $0 } }

    /// Publishes the progress. On the queue.
    func publish() {
        var status = ShardStatus()
        status.followState = switch followState {
        case .opening: .opening
        case .following: .following
        case .refusing: .refusing
        case .closed: .closed
        }
        status.applied = applied
        status.last = max(follower.lastKnown, newest.sequence)
        status.lagMs = lag.ms(applied: status.applied, last: status.last, nowMs: scheduler.steadyMs)
        (status.first, status.snapshot) = (follower.sound?.first ?? 0, retention.snapshotEnd)
        status.isBehindPurge = isBehindPurge
        (status.conflicts, status.retries) = (conflicts, follower.refetches)
        published.withLock { $0 = status }
    }
}
