import JSONTree
import Scheduling
import Synchronization

/// The size of a database, counted on demand: in the background, on the immutable tree of that moment. It is so rare that it takes a
/// hundredth of a processor at most, however large the data is.
///
/// ```
/// reading ─► nothing new, or too early: the last result
///       └──► queue: the current tree ─► background: count ─► result; then rest 100 times as long, at least 10 s
/// ```
final class DataCount: @unchecked Sendable {
    // Sendable: `content` is read on the database queue only; the rest is immutable or under its lock.
    private struct State {
        var found: TreeExtent?
        /// The counted tree: its commit number, and the number of commits until then, because a sequence number may be used twice when the
        /// log refuses.
        var counted: Version?
        var isCounting = false
        /// No count before then, steady ns.
        var restsUntil = Int64.min
    }

    private struct Version: Equatable {
        let sequence: UInt64
        let commits: Int
    }

    private let context: EngineContext
    private let content: Content
    private let state = Mutex(State())

    init(_ context: EngineContext, _ content: Content) {
        self.context = context
        self.content = content
    }

    /// The last result; nil before the first. Starts another count if one is allowed. From any thread.
    var reading: TreeExtent? {
        let now = context.scheduler.steadyNs
        let (found, isDue) = state.withLock { state in
            let isDue = !state.isCounting && now >= state.restsUntil
            if isDue { state.isCounting = true }
            return (state.found, isDue)
        }
        if isDue { context.queue.async { [self] in begin() } }
        return found
    }

    private func begin() {
        context.queue.assertCurrent()
        let version = Version(sequence: content.sequence, commits: context.meter.counters.commits)
        let isKnown = state.withLock { state in
            if state.counted == version { state.isCounting = false }
            return state.counted == version
        }
        if isKnown { return }
        let (root, began) = (content.root, context.scheduler.steadyNs)
        context.background.run(.upkeep) { [self] in
            let found = root.extent
            let now = context.scheduler.steadyNs
            let rest = max(context.limits.dataCountRestMs * 1_000_000, context.limits.dataCountRestFactor * (now - began))
            state.withLock { $0 = State(found: found, counted: version, restsUntil: now + rest) }
        }
    }
}
