import HubEngine
import Synchronization

/// Bytes that one loop has handed to another one, which has not taken them yet. From both loops.
///
///     socket's loop: add ─► execute ─► session's loop: remove
///                     └── over the limit: nothing more is read, until half of it is taken
final class PostedBytes: Sendable {
    private struct State {
        var bytes = 0
        /// The part that no other lease holds.
        var own = 0
    }

    private let state = Mutex(State())
    private let limit: Int
    private let lease: MemoryLease

    enum Outcome {
        case fine
        /// Taken, but over the limit: nothing more should come.
        case tooMuch
        /// There is no memory for them.
        case refused(MemoryShare.Refusal)
    }

    /// - Parameter lease: holds what is on its way in the budget, from 16 KiB on.
    init(_ limit: Int, _ lease: MemoryLease) {
        self.limit = limit
        self.lease = lease
    }

    /// Bytes that are on their way.
    var bytes: Int { state.withLock { $0.bytes } }
    var isTooMuch: Bool { bytes > limit }

    /// Bytes are about to be handed over.
    /// - Parameter isHeldElsewhere: the budget knows them already.
    func add(_ count: Int, isHeldElsewhere: Bool) -> Outcome {
        state.withLock { state in
            if !isHeldElsewhere {
                if state.own + count > IncomingBytes.freeBytes, !lease.become(state.own + count) { return .refused(lease.refusal ?? .process) }
                state.own += count
            }
            state.bytes += count
            return state.bytes > limit ? .tooMuch : .fine
        }
    }

    /// Bytes were taken. True when half of the limit is free again with them.
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
