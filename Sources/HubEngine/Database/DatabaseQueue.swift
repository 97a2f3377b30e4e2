import Dispatch
import Synchronization

/// The queue that owns a database: what runs on it runs one after the other.
///
/// ```
/// async ──────────────► [ work ][ work ] ─► a thread of Dispatch
/// runIfIdle ── idle ──► on the calling thread, at once; what comes meanwhile waits for its end
///    └── else: false
/// ```
/// A hop to a sleeping queue and back costs more than a small request. A thread that finds the queue idle therefore carries out a little
/// itself. It never waits for work of others: with anything queued or running the queue is not idle.
public final class DatabaseQueue: Sendable {
    private struct State {
        /// Pieces of work that were handed to Dispatch and have not ended.
        var pending = 0
        /// A thread runs something itself.
        var isTaken = false
        /// What came meanwhile.
        var held: [@Sendable () -> Void] = []
    }

    /// For the scheduler, which has its work run by `runScheduled`.
    let queue: DispatchQueue
    private let state = Mutex(State())

    init(label: String) { queue = DispatchQueue(label: label) }

    /// Runs work behind all that was queued before, never inside the call. From any thread.
    public func async(_ work: @escaping @Sendable () -> Void) {
        let isHeld = state.withLock { state in
            if state.isTaken { state.held.append(work) } else { state.pending += 1 }
            return state.isTaken
        }
        if !isHeld { enqueue(work) }
    }

    private func enqueue(_ work: @escaping @Sendable () -> Void) {
        queue.async { [self] in
            work()
            state.withLock { $0.pending -= 1 }
        }
    }

    /// Runs work on the calling thread if nothing is queued or running. To be called for little work, and not on the queue itself.
    /// - Returns: whether it has run.
    public func runIfIdle(_ work: () -> Void) -> Bool {
        let isMine = state.withLock { state in
            guard state.pending == 0, !state.isTaken else { return false }
            state.isTaken = true
            return true
        }
        guard isMine else { return false }
        // Dispatch has nothing to do here, so this makes the thread one that runs on the queue, and waits for nothing.
        queue.sync(execute: work)
        state.withLock { state in
            state.isTaken = false
            if state.held.isEmpty { return }
            state.pending += state.held.count
            // Before the lock is left: what comes then is behind these.
            for work in state.held { enqueue(work) }
            state.held = []
        }
        return true
    }

    /// Runs what the scheduler has put on `queue`: what is not idle meanwhile.
    func runScheduled(_ work: () -> Void) {
        state.withLock { $0.pending += 1 }
        work()
        state.withLock { $0.pending -= 1 }
    }

    /// Runs work on the calling thread as soon as possible: at once if the queue is idle, else as `async` does.
    func run(_ work: @escaping @Sendable () -> Void) {
        if !runIfIdle(work) { async(work) }
    }

    /// Waits until all that was queued before has run, then runs work on the calling thread. For tests and tools.
    public func sync<Result>(_ body: () throws -> Result) rethrows -> Result {
        let mayEnter = {
            self.state.withLock { state in
                if !state.isTaken { state.pending += 1 }
                return !state.isTaken
            }
        }
        while !mayEnter() { queue.sync {} }
        defer { state.withLock { $0.pending -= 1 } }
        return try queue.sync(execute: body)
    }

    /// Ends the process when called elsewhere than on the queue.
    func assertCurrent() { dispatchPrecondition(condition: .onQueue(queue)) }
}
