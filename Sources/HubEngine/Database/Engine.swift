import Journal
import JSONTree
import SecurityRules

/// A database's engine: it creates the parts and connects them. Each part owns its state and gets its dependencies in its initializer;
/// callbacks to parts created later are set in `connect`. Everything here runs on the database queue.
///
/// ```
/// RequestLoop ─► RequestHandler ─► ReadRequests, ObserveRequests, WriteRequests, SessionRequests   (large work: SuspendedRequests)
///                                       WriteRequests, DisconnectWrites ─► CommitPipeline ─► ReadPermissions, Publisher
/// DurabilityQueue ◄─ Batch, Outbox ◄─────────────── commits and output of all of them
///       └─ the log refuses ─► Rollback
/// RoleController ─► WriterTerm: counters, expiry, pending rows     on the writer
///       └─────► Follower ─► CommitPipeline                         on a follower
/// ```
final class Engine: @unchecked Sendable {
    // Sendable: confined to the database queue, which its entries check.
    let context: EngineContext
    let content: Content
    let durability: DurabilityQueue
    let loop: RequestLoop
    let derived: DerivedData
    let dataCount: DataCount
    /// Switches between writer and follower.
    let roles: RoleController
    private let updates: ObserverUpdates
    private let copies: CopyIndexStore
    /// Nil without a cluster.
    private let peers: PeerComponents?
    #if DEBUG
        /// Parts that only checks of invariants need.
        let parts: (places: PlaceTrie, indexes: IndexStore, queries: QuerySetStore, suspended: SuspendedRequests)
    #endif

    /// - Parameters:
    ///   - epoch: of its writes, if it is the writer.
    ///   - follows: the pending onDisconnect writes, to start as a follower; nil to start as the writer.
    ///   - writerRole: changes the role; nil if the role never changes.
    init(
        _ context: EngineContext, _ format: any WireFormat, rules: RuleSet, start: Content.State, journal: any Journal,
        epoch: UInt64, follows: [PendingSession]?, writerRole: WriterRole?, link: (any HubLink)?,
        refusals listener: (any RefusalListener)?, outlet: @escaping Outlet
    ) {
        let peers = link.map { PeerComponents(context, $0) }
        let content = Content(start, rules: rules)
        let places = PlaceTrie()
        // Commits of another writer are never rolled back.
        let batch = Batch(keepsHistory: !journal.isImmediate && follows == nil)
        let outbox = Outbox(lanes: context.lanes)
        let encodings = EncodeQueue(context.background, context.budget, heavier: EncodeQueue(context.background, context.budget))
        let refusals = RefusalReports(context, content, listener)
        let durability = DurabilityQueue(
            context, content, batch, outbox, journal: journal, epoch: epoch, outlet: peers?.wrap(outlet) ?? outlet)
        let log = LogGuard(context, content, durability, journal: journal, writer: { writerRole?.writer() })
        let pipeline = BatchPipeline(content: content, batch: batch, durability: durability, log: log)

        let indexes = IndexStore(context, content, places, durability)
        let registry = ObserverRegistry(context, content, places, indexes, batch, durability)
        let ring = CommitRing(context, content)
        registry.onResumable = { ring.count($0) }
        let slowReaders = SlowReaders(context, places, batch, outbox, durability)
        let precheck = PermissionPrecheck(context, content, places)
        let permissions = ReadPermissions(context, format, content, places, registry, precheck, outbox, refusals)
        let pacing = Pacing(context, batch, durability)
        let queries = LiveQueryUpdater(context, content, places, indexes, batch, durability)
        registry.queries = queries.places
        let sender = ChangeSender(context, format, outbox, slowReaders, encodings, pacing)
        let single = SingleWriteFanOut(context, format, content, places, batch, outbox)
        let publisher = Publisher(context, content, places, indexes, queries, batch, sender, single)
        updates = ObserverUpdates(batch, indexes, queries, permissions, publisher, ring)
        updates.connect(pacing)

        derived = DerivedData(context)
        copies = CopyIndexStore(context, content, derived)
        let consequences = ConsequenceStage(context, content, refusals, copies)
        let commits = CommitPipeline(context, content, batch, log, precheck, permissions, publisher, refusals, consequences, ring)
        let disconnects = DisconnectWrites(context, content, batch, durability, log, precheck, commits)
        let sessions = Sessions(batch, outbox, slowReaders, registry, disconnects, removalsAtOnce: context.limits.removalsAtOnce)
        let suspended = SuspendedRequests(context, batch, durability, indexes, commits, sessions, slowReaders)

        let early = EarlyAnswers(content, batch, durability, log, places, permissions)
        let answers = Answers(context, format, outbox, early, slowReaders, encodings)
        let output = ClientOutput(outbox: outbox, answers: answers, early: early, slowReaders: slowReaders, encodings: encodings)
        let live = LiveReads(context, content, indexes, queries, suspended)
        let reads = ReadRequests(context, content, places, indexes, permissions, suspended, answers, live)
        let initial = InitialContent(context, format, pipeline, registry, output: output)
        let observers = ObserveRequests(
            context, indexes, registry, permissions, reads, live, answers, initial, Resumption(context, content, places, ring),
            CentreMoves(content, places, registry, permissions, live, publisher, answers))
        let writes = WriteRequests(context, pipeline, journal, commits, disconnects, indexes, permissions, precheck, suspended, answers, refusals)
        let about = SessionRequests(context, sessions, permissions, precheck, suspended, disconnects, output)
        let handler = RequestHandler(context, batch, output, suspended, updates, reads, observers, writes, about)
        let loop = RequestLoop(context, pipeline, outbox, indexes, disconnects, handler)
        peers?.connect(pipeline, commits, suspended, writes, disconnects, sessions, loop, handler, output, follows: follows != nil)
        let rollback = Rollback(context, pipeline, updates, commits, sessions, suspended, handler)
        roles = RoleController(
            context, pipeline, rollback, loop, SessionHandover(context, durability, disconnects, peers), writerRole,
            epoch: follows == nil ? epoch : max(epoch, 1) - 1
        ) { [derived] in
            WriterTerm(context, pipeline, commits, disconnects, derived, refusals, loop)
        } makeFollower: {
            Follower(context, pipeline, commits, journal, peers?.forwarding, pending: $0)
        }
        (self.context, self.content, self.durability, self.loop, self.peers) = (context, content, durability, loop, peers)
        dataCount = DataCount(context, content)
        #if DEBUG
            parts = (places, indexes, queries.places, suspended)
        #endif
        connect(log, permissions, sessions, suspended)
        if let follows { roles.follow(follows) } else { roles.write() }
    }

    /// Connects parts with those created later. The callbacks do not retain these. The parts that each commit uses are not referenced weakly,
    /// because an object with weak references has a slower reference count.
    private func connect(_ log: LogGuard, _ permissions: ReadPermissions, _ sessions: Sessions, _ suspended: SuspendedRequests) {
        durability.onRefused = { [weak self] in self?.roles.refused($0) }
        durability.onLost = { [weak self] in self?.roles.lost($0) }
        durability.onReleased = { [weak self] in
            self?.loop.scheduleTurn()
            self?.roles.advance()
        }
        log.onSuperseded = { [weak self] in self?.roles.superseded($0) }
        log.onTaken = { [weak self] in self?.roles.term?.logTaken() }
        log.onFound = { [weak self] in self?.roles.term?.found($0) }
        permissions.onStreamCancelled = { [weak sessions] in sessions?.end($0) }
        suspended.onResumed = { [weak self] items, client in self?.loop.resume(items, of: client) }
    }

    /// Replaces the rules. Observers that the new rules refuse are cancelled before they receive anything else.
    func deploy(_ rules: RuleSet) {
        context.queue.assertCurrent()
        content.deploy(rules)
        updates.recheckRules()
        derived.restart {
            roles.term?.counters.begin()
            copies.begin()
            roles.term?.expiry.begin()
        }
        durability.finishBatch()
    }

    /// Counts the rules' counters and indexes the copies in the recovered tree.
    func countAll() {
        context.queue.assertCurrent()
        roles.term?.counters.begin()
        copies.begin()
    }

    /// Expires nodes that became due while the process was down. Requests wait until that is done.
    func expireOverdue() {
        context.queue.assertCurrent()
        roles.term?.expiry.begin(isStart: true)
    }

    /// Continues the inbox rows and removals that an earlier process left pending.
    func resumeInboxBackfill() {
        context.queue.assertCurrent()
        roles.term?.inboxBackfill.begin()
    }

    /// Calls back when the recipients of all pending inbox rows are known. Until then they depend on the tree of an earlier commit, which
    /// no snapshot contains.
    /// - Parameter mayWait: if false, calls back at once with whether they are known.
    func whenRecipientsKnown(mayWait: Bool, _ body: @escaping @Sendable (Bool) -> Void) {
        context.queue.assertCurrent()
        guard mayWait, let inboxBackfill = roles.term?.inboxBackfill else { return body(roles.term?.inboxBackfill.isListed ?? true) }
        inboxBackfill.whenRecipientsKnown { body(true) }
    }

    /// Applies the onDisconnect writes of an earlier process's sessions, a turn's work at a time. Requests wait until all are applied.
    func applyAbandoned(_ sessions: [PendingSession]) {
        context.queue.assertCurrent()
        roles.sessions.applyAbandoned(sessions)
    }

    /// Waits until all messages received from other hubs have reached the queue; for tests.
    func readPeers() { peers?.readAll() }

    /// Starts to receive messages of other hubs.
    /// - Parameter left: the pending onDisconnect writes of sessions.
    func beginWithPeers(_ left: [PendingSession], follows: Bool) {
        context.queue.assertCurrent()
        guard let peers else { return }
        if !follows {
            let others = peers.remote?.begin(adopting: left) ?? []
            if !others.isEmpty { applyAbandoned(others) }
        }
        peers.listen()
    }

    /// The pending onDisconnect writes of all sessions.
    var pendingSessions: [PendingSession] {
        context.queue.assertCurrent()
        return roles.pendingSessions
    }
}
