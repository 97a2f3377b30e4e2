import JSONTree
import Scheduling

/// The environment shared by all parts of a database's engine: queue, limits, clocks, background work. Immutable.
final class EngineContext: Sendable {
    /// The name of the database.
    let name: String
    /// The database queue: all parts are confined to it.
    let queue: DatabaseQueue
    let limits: EngineLimits
    /// The clocks and timers.
    let scheduler: Scheduler
    /// Number of net loops.
    let lanes: Int
    /// Runs large work; `budget` limits the memory it holds.
    let background: BackgroundWork
    let budget: MemoryBudget
    /// Query results that are not encoded yet: at most half of the budget, so that memory for writes remains.
    let collected: MemoryShare
    let meter = Meter()
    /// Prefix of this hub's session names; empty without a cluster.
    let sessionPrefix: String
    /// Called with journal events for the operator.
    let onJournal: @Sendable (JournalEvent) -> Void
    /// Sends deliveries; nil: they wait.
    let sender: (any DeliverySender)?

    /// Runs work on the database queue after a delay.
    @discardableResult
    func later(ms: Int64, _ work: @escaping @Sendable () -> Void) -> ScheduledWork {
        scheduler.after(ms: ms, on: queue.queue) { [queue] in queue.runScheduled(work) }
    }

    init(
        name: String = "default", queue: DatabaseQueue, limits: EngineLimits, lanes: Int, background: BackgroundWork, budget: MemoryBudget,
        scheduler: Scheduler, sessionPrefix: String = "", sender: (any DeliverySender)? = nil,
        onJournal: @escaping @Sendable (JournalEvent) -> Void = { _ in }
    ) {
        (self.name, self.queue) = (name, queue)
        self.limits = limits
        self.lanes = lanes
        self.background = background
        self.budget = budget
        self.scheduler = scheduler
        self.onJournal = onJournal
        self.sessionPrefix = sessionPrefix
        self.sender = sender
        collected = MemoryShare(of: budget, limit: budget.limit / 2)
    }

    /// Computes a value in the background, and passes it on to the queue.
    func compute<Value: Sendable>(_ computation: @escaping @Sendable () -> Value, then use: @escaping @Sendable (Value) -> Void) {
        background.compute(computation, on: queue, then: use)
    }

    /// The wall clock, ms since the epoch.
    func clock() -> Int64 { scheduler.wallMs }

    /// Releases large values in the background, because that takes time per object.
    func release(_ old: [any Sendable]) {
        if old.isEmpty { return }
        let last = DisposableWork { withExtendedLifetime(old) {} }
        // Queued behind the running requests, which also retain the values.
        queue.async { [background] in background.run(.upkeep) { last.dispose() } }
    }
}

extension Job {
    /// Runs the job on the database queue and in the background of an engine.
    /// - Parameter last: a value of an earlier tree to start from.
    func run(in context: EngineContext, from last: Value? = nil) { run(context.background, on: context.queue, from: last) }
}
