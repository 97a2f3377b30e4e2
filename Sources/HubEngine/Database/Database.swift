public import Journal
public import JSONTree
public import Scheduling
public import SecurityRules
import Synchronization

/// One namespace: its tree, rules and observers, and the queue that owns them.
///
///      any thread            database queue                              net loop of each lane
///      enqueue ─► inbox ─► drain: request by request ─► OutputBuffer ─► (journal) ─► outlet
///
/// Requests collect in the inbox while a batch runs, and one hop to the queue carries them all. If the queue is idle and the requests are
/// few, the calling thread carries them out itself (`start`). The output of a batch is sent when the batch is durable, and never before
/// that of an earlier batch.
public final class Database: Sendable {
    public let name: String
    public let queue: DatabaseQueue
    /// The log of all commits.
    public let journal: any Journal

    private let inbox = Mutex(Inbox())
    let engine: Engine
    private let writerRole: WriterRole?
    private let limits: EngineLimits

    private struct Inbox {
        var items: [SubmittedRequest] = []
        /// Their estimated work, in the units of `EngineLimits.turnWork`.
        var work = 0
        /// The queue will carry them out.
        var isScheduled = false
        /// A calling thread carries out requests now. It checks for new ones before it ends.
        var isServed = false
        /// When the first of the items was submitted, steady ns.
        var since: Int64 = 0
        /// Until then calling threads carry out no requests, steady ns.
        var queueOnlyUntil: Int64 = 0
    }

    /// - Parameters:
    ///   - start: the recovered content and the sequence number of its last commit.
    ///   - beside: what is kept beside the tree, as recovered. Inbox rows and removals that the previous process left pending are continued
    ///     in the background.
    ///   - pending: onDisconnect writes of the previous process's sessions. They are applied before the first request, one commit per
    ///     session (contract §6.2).
    ///   - journal: continues after `start`; nil for one in memory that keeps nothing.
    ///   - epoch: of this writer; see `JournalBatch`.
    ///   - follows: true to start as a follower, which applies another writer's commits and accepts no writes.
    ///   - writerRole: changes the role between writer and follower; nil if the role never changes.
    ///   - link: the connection to the other hubs of a cluster; nil without a cluster.
    ///   - lanes: number of net loops.
    ///   - background: runs work whose cost depends on the size of the data.
    ///   - budget: memory that such work may hold; one for the whole process.
    ///   - refusals: called with the requests that the rules refuse.
    ///   - onJournal: called when the journal refuses commits, and when it accepts them again.
    ///   - sender: sends notifications and events (`.notify`, `.webhook`); nil: they wait.
    ///   - scheduler: the clocks, and the timer for retries of the log.
    public init(
        name: String, rules: RuleSet, start: (root: Node, sequence: UInt64) = (.null, 0), beside: StateBesideTree = StateBesideTree(),
        pending: [PendingSession] = [], journal: (any Journal)? = nil, epoch: UInt64 = 0,
        follows: Bool = false, writerRole: WriterRole? = nil, link: (any HubLink)? = nil,
        lanes: Int, limits: EngineLimits = EngineLimits(),
        background: BackgroundWork = .shared, budget: MemoryBudget = MemoryBudget(1 << 30), format: any WireFormat,
        refusals: (any RefusalListener)? = nil, outlet: @escaping Outlet,
        sender: (any DeliverySender)? = nil, onJournal: @escaping @Sendable (JournalEvent) -> Void = { _ in }, scheduler: Scheduler
    ) {
        self.name = name
        let journal = journal ?? MemoryJournal(last: start.sequence, epoch: epoch, keeping: 0, isImmediate: true)
        self.journal = journal
        self.limits = limits
        self.writerRole = writerRole
        queue = DatabaseQueue(label: "vigla.database.\(name)")
        let context = EngineContext(
            name: name, queue: queue, limits: limits, lanes: link == nil ? lanes : lanes + 1, background: background, budget: budget,
            scheduler: scheduler, sessionPrefix: link.map { SessionName.prefix(of: $0.hub) } ?? "", sender: sender, onJournal: onJournal)
        engine = Engine(
            context, format, rules: rules,
            start: Content.State(root: start.root, sequence: start.sequence, beside: beside),
            journal: journal, epoch: epoch, follows: follows ? pending : nil, writerRole: writerRole, link: link, refusals: refusals,
            outlet: outlet)
        if rules.hasConsequences, !follows { queue.async { [engine] in engine.countAll() } }
        if rules.hasExpiry || !beside.written.isEmpty, !follows { queue.async { [engine] in engine.expireOverdue() } }
        if !beside.deliveries.isEmpty, !follows { queue.async { [engine] in engine.resumeDeliveries() } }
        if !beside.pendingRows.isEmpty, !follows { queue.async { [engine] in engine.resumeInboxBackfill() } }
        if link != nil { queue.async { [engine] in engine.beginWithPeers(pending, follows: follows) } }
        if link == nil, !pending.isEmpty, !follows { queue.async { [engine] in engine.applyAbandoned(pending) } }
        writerRole?.begin { [queue, weak engine] role in queue.async { [weak engine] in engine?.roles.request(role) } }
    }

    // MARK: Requests

    /// Queues a request, to be carried out on the database queue. Callable from any thread; requests of one client must come from one
    /// thread at a time.
    /// - Parameters:
    ///   - size: bytes that the request holds.
    ///   - hold: their reservation in the memory budget; released when the request is carried out and durable.
    /// - Returns: whether too many bytes wait. The caller should then submit no more until a mark has come back.
    @discardableResult
    public func submit(_ request: Request, from client: Client, token: Int64 = 0, size: Int = 0, hold: (any MemoryReservation)? = nil) -> Bool {
        defer { start(mayRunHere: false) }
        return enqueue(request, from: client, token: token, size: size, hold: hold)
    }

    /// Queues one of several requests. `start` carries them out.
    public func enqueue(
        _ request: Request, from client: Client, token: Int64 = 0, size: Int = 0, hold: (any MemoryReservation)? = nil
    ) -> Bool {
        let before = size > 0 ? engine.context.meter.waitingBytes.add(size, ordering: .relaxed).oldValue : 0
        inbox.withLock { inbox in
            if inbox.items.isEmpty { inbox.since = engine.context.scheduler.steadyNs }
            inbox.items.append(SubmittedRequest(client: client, request: request, token: token, size: size, hold: hold, since: inbox.since))
            inbox.work += RequestCost.work(ofBytes: size)
        }
        return before + size > limits.waitingBytes
    }

    /// Carries out the queued requests: on the database queue or, if that is idle and they are few, on the calling thread.
    /// - Parameters:
    ///   - mayRunHere: whether the thread has time for a small turn (`EngineLimits.directWork`). False inside a call from the database.
    ///   - mayCommitHere: whether the thread may also wait for the disk (`Journal.commitHeld`), because it has no other work or many
    ///     clients wait for the same commit.
    public func start(mayRunHere: Bool, mayCommitHere: Bool = false) {
        let isFew: Bool? = inbox.withLock { inbox in
            if inbox.items.isEmpty || inbox.isScheduled || inbox.isServed { return nil }
            let isFew = mayRunHere && inbox.work <= limits.directWork && inbox.since >= inbox.queueOnlyUntil
            if isFew { inbox.isServed = true } else { inbox.isScheduled = true }
            return isFew
        }
        guard let isFew else { return }
        if !isFew { return queue.async { [self] in drain() } }
        let hasRun = queue.runIfIdle { runHere(isHolding: mayCommitHere) }
        let isAnyLeft = inbox.withLock { inbox in
            inbox.isServed = false
            if inbox.items.isEmpty || inbox.isScheduled { return false }
            inbox.isScheduled = true
            return true
        }
        if isAnyLeft { queue.async { [self] in drain() } }
        if hasRun, mayCommitHere { journal.commitHeld() }
    }

    /// Carries out requests on the calling thread, including those that other threads have submitted meanwhile. If that takes too long, the
    /// queue carries out all requests for a while, so that the thread's other clients need not wait.
    private func runHere(isHolding: Bool) {
        engine.durability.isHolding = isHolding
        defer { engine.durability.isHolding = false }
        let begin = engine.context.scheduler.steadyNs
        // The cost of consequences is unknown before a write, so rules with consequences always use the queue.
        let work = engine.content.rules.hasConsequences ? 0 : limits.directWork
        engine.loop.handle(takeItems(), work: work) { takeItems(atMost: work) }
        let end = engine.context.scheduler.steadyNs
        if end - begin > Int64(limits.directMs) * 1_000_000 {
            inbox.withLock { $0.queueOnlyUntil = end + Int64(limits.directRestMs) * 1_000_000 }
        }
    }

    private func drain() { engine.loop.handle(takeItems()) }

    /// Takes the submitted requests, unless they are more work than that.
    private func takeItems(atMost work: Int = .max) -> [SubmittedRequest] {
        inbox.withLock { inbox in
            if inbox.work > work { return [] }
            defer { (inbox.items, inbox.work, inbox.isScheduled) = ([], 0, false) }
            return inbox.items
        }
    }

    /// Pause in µs before a net loop that has read writes of several clients should read more, because many commits wait for the journal. 0
    /// for no pause. The loop should then also commit its requests itself (`start`). From any thread.
    public var pauseUs: Int {
        let us = engine.durability.pauseUs.load(ordering: .relaxed)
        guard us > 0, engine.context.scheduler.steadyNs < engine.durability.pausesUntil.load(ordering: .relaxed) else { return 0 }
        return us
    }

    /// Whether the rules in force could allow the client to write all these paths with some data. False means that the write would be
    /// denied now; true promises nothing. From any thread, without the queue. O(depth and expressions of the paths)
    public func mayAllowWrite(_ places: some Sequence<Path>, by identity: Identity) -> Bool {
        identity.isAdmin || engine.content.publishedRules.mayAllowWrite(places, auth: identity.auth, now: engine.context.clock())
    }

    /// Whether it has rate limits or consequences, which are charged per user. Then the address of a client without an account, or with an
    /// anonymous one, must be known. From any thread.
    public var countsWrites: Bool {
        let rules = engine.content.publishedRules
        return limits.writeRate != nil || rules.hasRates || rules.hasConsequences
    }

    /// The prefix of its session names; in a cluster it identifies the hub. From any thread.
    public var sessionPrefix: String { engine.context.sessionPrefix }

    /// The counters of the database, as of its last batch. From any thread.
    public var counters: EngineCounters { engine.context.meter.reading }

    /// How long requests and the journal took. From any thread.
    public var latencies: Latencies { engine.context.meter.latencies }
    /// Bytes of events by path, and refusals by the rules. From any thread.
    public var eventBytes: EventBytes { engine.context.meter.eventBytes }
    public var refusals: RefusalCounts { engine.context.meter.refusals }

    /// Keys and bytes of the data at the last count; nil before the first count. Reading this starts another count in the background if
    /// something was written since, and the last count is at least ``EngineLimits/dataCountRestMs`` ago. From any thread.
    public var extent: TreeExtent? { engine.dataCount.reading }

    /// Counts a write that the caller refused because `mayAllowWrite` was false. From any thread.
    public func countRefusedWrite(of path: Path) { engine.context.meter.refusals.add(.write, path, engine.content.publishedRules) }

    /// Whether it is the writer or a follower; nil if the role never changes. From any thread.
    public var role: WriterRole.Role? { writerRole?.role }

    /// Requests waiting for the database queue, or for their turn on it.
    public var inboxDepth: Int { inbox.withLock { $0.items.count } + engine.context.meter.reading.waitingRequests }

    /// Calls back on the database queue with the current tree, the number of its last commit, and the pending onDisconnect writes of live
    /// sessions.
    /// - Parameter behindRequests: if true, waits until all submitted requests are carried out, for the end of the process.
    public func snapshot(behindRequests: Bool = false, _ body: @escaping @Sendable (Node, UInt64, [PendingSession]) -> Void) {
        queue.async { [engine] in
            let show = { @Sendable in body(engine.content.root, engine.content.sequence, engine.pendingSessions) }
            behindRequests ? engine.loop.whenIdle(show) : show()
        }
    }

    /// Calls back on the database queue with everything that a journal snapshot stores.
    /// - Parameters:
    ///   - isLast: for the end of the process: waits for all submitted requests, then does not wait any longer.
    ///   - body: gets nil at the end of the process if the recipients of pending inbox rows are not known yet. The next start then replays
    ///     the log.
    public func journalSnapshot(isLast: Bool = false, _ body: @escaping @Sendable (JournalSnapshot?) -> Void) {
        queue.async { [engine] in
            let show = { @Sendable (isListed: Bool) in
                let content = engine.content
                body(!isListed ? nil : JournalSnapshot(
                    root: content.root, sequence: content.sequence, pending: engine.pendingSessions, beside: content.state.beside))
            }
            if isLast {
                engine.loop.whenIdle { engine.whenRecipientsKnown(mayWait: false, show) }
            } else {
                engine.whenRecipientsKnown(mayWait: true, show)
            }
        }
    }

    /// Replaces the rules between two batches of requests. Later requests are decided by the new rules. Observers that these refuse are
    /// cancelled before they receive anything else (contract §8.3).
    /// - Parameter done: called on the database queue when the new rules are in force.
    public func replace(_ rules: RuleSet, _ done: (@Sendable () -> Void)? = nil) {
        queue.async { [engine] in
            engine.deploy(rules)
            done?()
        }
    }
}

extension Database {
    /// The derived data that is not yet complete. On the database queue.
    public var derived: DerivedReport {
        queue.assertCurrent()
        return engine.derived.report
    }

    /// Calls back on the database queue when all derived data is complete, or the wait is over.
    /// - Parameter wait: ms to wait at most; nil for as long as it takes.
    public func whenDerived(waitMs wait: Int64?, _ body: @escaping @Sendable (DerivedReport) -> Void) {
        queue.async { [engine] in engine.derived.notify(withinMs: wait, body) }
    }
}
