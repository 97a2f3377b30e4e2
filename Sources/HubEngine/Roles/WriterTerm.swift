import Journal
import SecurityRules

/// The upkeep that only the writer does: correcting counters, expiring nodes, continuing pending rows and removals, sending deliveries. A database that becomes
/// the writer again gets a new one. Confined to the database queue.
final class WriterTerm {
    let counters: CounterRecount
    let expiry: ExpiryScheduler
    let inboxBackfill: InboxBackfill
    /// Nil without a sender.
    let deliveries: DeliveryScheduler?
    private let hitSweep: WatchHitSweep
    private let content: Content
    private let commits: CommitPipeline
    private let disconnects: DisconnectWrites
    private let loop: RequestLoop

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ commits: CommitPipeline, _ disconnects: DisconnectWrites,
        _ derived: DerivedData, _ refusals: RefusalReports, _ loop: RequestLoop
    ) {
        let (content, durability, log) = (pipeline.content, pipeline.durability, pipeline.log)
        (self.content, self.commits, self.disconnects, self.loop) = (content, commits, disconnects, loop)
        counters = CounterRecount(context, content, durability, log, commits, derived)
        // The onDisconnect writes of sessions that ended come first, then the nodes that became due, then pending rows.
        let expiry = ExpiryScheduler(context, content, durability, log, derived, commits, refusals) { disconnects.blocksRequests }
        self.expiry = expiry
        inboxBackfill = InboxBackfill(context, content, durability, log, commits, refusals) {
            disconnects.blocksRequests || expiry.blocksRequests
        }
        deliveries = context.sender.map { sender in
            DeliveryScheduler(context, content, durability, log, commits, sender) { disconnects.blocksRequests || expiry.blocksRequests }
        }
        hitSweep = WatchHitSweep(context, content, durability, log, commits)
        hitSweep.begin()
        commits.consequences.expiry = expiry.nodes
        commits.consequences.onFound = { [weak self] in self?.committed($0) }
        if let deliveries {
            commits.consequences.admitsDeliveries = { [weak deliveries] found, fromClient throws(Failure) in
                try deliveries?.admit(found, fromClient: fromClient) ?? []
            }
        }
        commits.consequences.onStored = { [weak self] in self?.deliveries?.added($0) }
        commits.consequences.onUncounted = { [weak self] in self?.counters.begin() }
        loop.expiry = expiry
        expiry.onFirstDone = { [weak self] in
            self?.loop.scheduleTurn()
            self?.inboxBackfill.begin()
        }
    }

    /// Continues the upkeep left by previous writers.
    func begin() {
        if content.rules.hasConsequences { counters.begin() }
        if content.rules.hasExpiry || !content.written.isEmpty { expiry.begin(isStart: true) }
        if !content.pendingRows.isEmpty { inboxBackfill.begin() }
        deliveries?.begin()
        if content.rules.hasIndexedCopies { commits.consequences.copies.begin() }
        if content.rules.hasWatches { commits.consequences.watches.begin() }
    }

    /// A commit had consequences.
    private func committed(_ found: Consequences) {
        if content.rules.hasCounters { counters.commitCounted(found) }
        if !found.hits.isEmpty { hitSweep.begin() }
        if !found.continued.isEmpty || !found.continuedHits.isEmpty || found.continuedRemovals != nil { inboxBackfill.rowsAdded() }
    }

    /// Commits were rolled back.
    func rolledBack() {
        counters.rolledBack()
        expiry.searchAll()
        inboxBackfill.begin()
        deliveries?.begin()
    }

    /// The log accepts commits again.
    func logTaken() {
        loop.handle([])
        inboxBackfill.begin()
        deliveries?.resume()
    }

    /// A batch that was rolled back turns out to be in the log.
    func found(_ batch: JournalBatch) {
        for commit in batch.commits {
            commits.apply(commit)
            disconnects.found(commit)
        }
        expiry.searchAll()
        inboxBackfill.begin()
        deliveries?.begin()
    }

    /// Ends the upkeep.
    func end() {
        commits.consequences.expiry = nil
        loop.expiry = nil
        counters.stop()
        expiry.stop()
        inboxBackfill.stop()
        deliveries?.stop()
        hitSweep.stop()
    }
}
