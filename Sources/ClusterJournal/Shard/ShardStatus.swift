import Journal
import Scheduling
import Synchronization

/// How far a shard is on this hub, for other queues.
struct ShardStatus: Sendable {
    enum Standing: Sendable { case opening, following, refusing, closed }

    var standing = Standing.opening
    /// The newest message that the log is known to have.
    var last: UInt64 = 0
    /// The first message that the log had, and the one up to which the newest snapshot goes, as far as this hub knows.
    var first: UInt64 = 0
    var snapshot: UInt64 = 0
    /// What comes next is no longer in the log: a snapshot is needed, or being taken over.
    var isBehindPurge = false
    /// All messages up to this one are applied.
    var applied: UInt64 = 0
    /// For how long messages of the log have been missing, ms.
    var lagMs: Int64 = 0
    var conflicts = 0
    var retries = 0

    /// What may be on its way while others append.
    private static let onTheWay: UInt64 = 64

    /// Whether it has what the log holds, as far as that is known.
    var isCaughtUp: Bool { standing == .following && applied + Self.onTheWay >= last }
}

extension Shard {
    /// From any thread.
    var status: ShardStatus { published.withLock { $0 } }

    /// Publishes how far it is. On the queue.
    func publish() {
        var status = ShardStatus()
        status.standing = switch standing {
        case .opening: .opening
        case .following: .following
        case .refusing: .refusing
        case .closed: .closed
        }
        // At the end of the log there may be parts of a record that nobody completes.
        status.applied = applying.count == 0 ? newest.sequence : applying.complete.sequence
        status.last = max(lastKnown, newest.sequence)
        let now = scheduler.steadyMs
        if status.applied >= behindTarget || behindSince == nil {
            (behindTarget, behindSince) = status.applied < status.last ? (status.last, now) : (0, nil)
        }
        status.lagMs = behindSince.map { max(0, now - $0) } ?? 0
        (status.first, status.snapshot) = (state?.first ?? 0, snapshot?.complete.sequence ?? 0)
        status.isBehindPurge = isBehindPurge
        (status.conflicts, status.retries) = (conflicts, retries + (tail?.refetches ?? 0))
        published.withLock { $0 = status }
    }
}
