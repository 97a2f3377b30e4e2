import Journal
import SecurityRules

/// The upkeep that only the writer does: correcting counters, expiring nodes, continuing pending rows and removals. A database that becomes
/// the writer again gets a new one. Confined to the database queue.
final class WriterTerm {
    let counters: CounterRecount
    let expiry: ExpiryScheduler
    let inboxBackfill: InboxBackfill
    private let content: Content
    private let commits: CommitPipeline
    private let loop: RequestLoop

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ commits: CommitPipeline, _ derived: DerivedData, _ loop: RequestLoop
    ) {
        let (durability, log) = (pipeline.durability, pipeline.log)
        (content, self.commits, self.loop) = (pipeline.content, commits, loop)
        counters = CounterRecount(context, content, durability, log, commits, derived)
        expiry = ExpiryScheduler(context, content, durability, log, derived, commits.refusals)
        inboxBackfill = InboxBackfill(context, content, durability, log)
        commits.expiry = expiry.nodes
        loop.expiry = expiry
    }

    /// Continues the upkeep left by previous writers.
    func begin() {
        if content.rules.hasConsequences { counters.begin() }
        if content.rules.hasExpiry || !content.written.isEmpty { expiry.begin(isStart: true) }
        if !content.pendingRows.isEmpty { inboxBackfill.begin() }
    }

    /// A commit had consequences.
    func committed(_ found: Consequences) {
        if content.rules.hasCounters { counters.commitCounted(found) }
        if !found.continued.isEmpty || found.continuedRemovals != nil { inboxBackfill.rowsAdded() }
    }

    /// Commits were rolled back.
    func rolledBack() {
        counters.rolledBack()
        expiry.searchAll()
        inboxBackfill.begin()
    }

    /// Ends the upkeep.
    func end() {
        commits.expiry = nil
        loop.expiry = nil
        counters.stop()
        expiry.stop()
        inboxBackfill.stop()
    }
}
