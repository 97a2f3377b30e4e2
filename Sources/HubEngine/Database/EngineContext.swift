import Dispatch
import JSONTree
import Scheduling

/// What every part of a database's engine is given: for whom it is made and what it may use. Nothing here changes.
final class EngineContext: Sendable {
    /// The database queue: all parts are confined to it.
    let queue: DispatchQueue
    let limits: EngineLimits
    let format: any WireFormat
    /// The clocks, and what happens by time.
    let scheduler: Scheduler
    /// Number of net loops.
    let lanes: Int
    /// Where large work runs, and what it may hold.
    let background: BackgroundWork
    let budget: MemoryBudget
    /// What queries have collected and is not encoded: half of the budget, so that many of them leave room for what is written.
    let collected: MemoryShare
    let meter = Meter()
    /// Hears what those who run the hub should know of the journal.
    let onJournal: @Sendable (JournalEvent) -> Void

    init(
        queue: DispatchQueue, limits: EngineLimits, format: any WireFormat, lanes: Int, background: BackgroundWork, budget: MemoryBudget,
        scheduler: Scheduler, onJournal: @escaping @Sendable (JournalEvent) -> Void = { _ in }
    ) {
        self.queue = queue
        self.limits = limits
        self.format = format
        self.lanes = lanes
        self.background = background
        self.budget = budget
        self.scheduler = scheduler
        self.onJournal = onJournal
        collected = MemoryShare(of: budget, limit: budget.limit / 2)
    }

    /// The wall clock, ms since the epoch.
    func clock() -> Int64 { scheduler.wallMs }

    /// Lets go of large values in the background: each of their objects takes its time.
    func release(_ old: [any Sendable]) {
        if old.isEmpty { return }
        let last = Errand { withExtendedLifetime(old) {} }
        // Behind the requests that run, which hold it as well.
        queue.async { [background] in background.run(.upkeep) { last.forget() } }
    }
}

/// Something to be done once, and to be let go of on a thread where that delays no request.
final class Errand: @unchecked Sendable {
    // Sendable: run on the database queue, then handed to the thread that lets go of it.
    private var body: (() -> Void)?

    init(_ body: @escaping () -> Void) { self.body = body }

    func run() { body?() }
    func forget() { body = nil }
}
