import Dispatch
import Synchronization

/// The serial queue that owns a database.
///
/// ```
/// async ──────────────► [ work ][ work ] ─► a thread of Dispatch
/// runIfIdle ── idle ──► on the calling thread, at once; work queued meanwhile waits for it
///    └── else: false
/// ```
/// A hop to a sleeping queue and back costs more than a small request. So a thread that finds the queue idle carries out a little work
/// itself. It never waits for other work: with anything queued or running, the queue is not idle.
public final class DatabaseQueue: Sendable {
    private struct State {
        /// Work items handed to Dispatch that have not ended.
        var pending = 0
        /// A calling thread runs work itself.
        var isTaken = false
        /// Work queued meanwhile.
        var held: [@Sendable () -> Void] = []
    }

    /// For the scheduler, whose work runs through `runScheduled`.
    let queue: DispatchQueue
    private let state = Mutex(State())

    init(label: String) { queue = DispatchQueue(label: label) }

    /// Runs work after all work queued before, never inside the call. From any thread.
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

    /// Runs work on the calling thread if nothing is queued or running. For small work, and not on the queue itself.
    /// - Returns: whether it ran.
    public func runIfIdle(_ work: () -> Void) -> Bool {
        let isMine = state.withLock { state in
            guard state.pending == 0, !state.isTaken else { return false }
            state.isTaken = true
            return true
        }
        guard isMine else { return false }
        // The Dispatch queue is empty, so `sync` enters it on this thread without waiting.
        queue.sync(execute: work)
        state.withLock { state in
            state.isTaken = false
            if state.held.isEmpty { return }
            state.pending += state.held.count
            // Enqueued under the lock, so that work queued later comes after these.
            for work in state.held { enqueue(work) }
            state.held = []
        }
        return true
    }

    /// Runs work that the scheduler has put on `queue`. Counted as pending, so that the queue is not idle meanwhile.
    func runScheduled(_ work: () -> Void) {
        state.withLock { $0.pending += 1 }
        work()
        state.withLock { $0.pending -= 1 }
    }

    /// Runs work on the calling thread if the queue is idle, else like `async`.
    func run(_ work: @escaping @Sendable () -> Void) {
        if !runIfIdle(work) { async(work) }
    }

    /// Waits until all work queued before has run, then runs work on the calling thread. For tests and tools.
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

    /// Traps when called off the queue.
    func assertCurrent() { dispatchPrecondition(condition: .onQueue(queue)) }
}

extension BackgroundWork {
    /// Computes a value in the background, and passes it on to the queue.
    func compute<Value: Sendable>(
        _ computation: @escaping @Sendable () -> Value, on queue: DatabaseQueue, then use: @escaping @Sendable (Value) -> Void
    ) {
        run(.upkeep) {
            let value = computation()
            queue.async { use(value) }
        }
    }
}
