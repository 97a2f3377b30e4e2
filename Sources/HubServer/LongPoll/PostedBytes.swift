import HubEngine
import Synchronization

/// Bytes that one loop has posted to another and that are not processed yet. From both loops.
///
///     socket's loop: add ─► execute ─► session's loop: remove
///                     └── over the limit: reading stops until half of it is processed
final class PostedBytes: Sendable {
    private struct State {
        var bytes = 0
        /// The part that this object's lease holds.
        var own = 0
    }

    private let state = Mutex(State())
    private let limit: Int
    private let lease: MemoryLease

    enum Outcome {
        case fine
        /// Accepted, but over the limit: stop reading.
        case tooMuch
        /// The budget refuses the bytes.
        case refused(MemoryShare.Refusal)
    }

    /// - Parameter lease: charges the bytes to the budget, above 16 KiB.
    init(_ limit: Int, _ lease: MemoryLease) {
        self.limit = limit
        self.lease = lease
    }

    /// Bytes posted and not processed.
    var bytes: Int { state.withLock { $0.bytes } }
    var isTooMuch: Bool { bytes > limit }

    /// Counts bytes before they are posted.
    /// - Parameter isHeldElsewhere: another lease already holds them.
    func add(_ count: Int, isHeldElsewhere: Bool) -> Outcome {
        state.withLock { state in
            if !isHeldElsewhere {
                if state.own + count > IncomingBytes.freeBytes, !lease.become(state.own + count) {
                    return .refused(lease.refusal ?? .process)
                }
                state.own += count
            }
            state.bytes += count
            return state.bytes > limit ? .tooMuch : .fine
        }
    }

    /// Removes processed bytes. True when this frees half of the limit.
    func remove(_ count: Int, isHeldElsewhere: Bool) -> Bool {
        state.withLock { state in
            if !isHeldElsewhere {
                state.own -= count
                _ = lease.become(state.own > IncomingBytes.freeBytes ? state.own : 0)
            }
            let before = state.bytes
            state.bytes -= count
            return before > limit / 2 && state.bytes <= limit / 2
        }
    }
}
