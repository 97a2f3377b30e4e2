import Journal
import JSONTree
import SecurityRules

/// A database's engine: its parts, and how they are connected. Each part owns its state and gets its dependencies in its initializer;
/// callbacks to parts created later are set at the end. Everything here runs on the database queue.
///
/// ```
/// RequestLoop ─► RequestHandler ─► ReadRequests, ObserveRequests, WriteRequests, Sessions   (large work: SuspendedRequests)
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
    private let ring: CommitRing
    private let indexes: IndexStore
    private let queries: LiveQueryUpdater
    private let permissions: ReadPermissions
    private let disconnects: DisconnectWrites
    let loop: RequestLoop
    let derived: DerivedData
    let dataCount: DataCount
    private let later: CallbackTargets
    private let copies: CopyIndexStore
    /// Nil without a cluster.
    private let peers: PeerComponents?
    /// Switches between writer and follower.
    let roles: RoleController
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
        let box = link.map { PeerComponents(context, $0) }
        let outlet = box?.wrap(outlet) ?? outlet
        let content = Content(start, rules: rules)
        let places = PlaceTrie()
        // Commits of another writer are never rolled back.
        let batch = Batch(keepsHistory: !journal.isImmediate && follows == nil)
        let outbox = Outbox(lanes: context.lanes)
        let encodings = EncodeQueue(context.background, context.budget, heavier: EncodeQueue(context.background, context.budget))
        let refusals = RefusalReports(context, content, listener)
        let durability = DurabilityQueue(context, content, batch, outbox, journal: journal, epoch: epoch, outlet: outlet)
        let guardian = LogGuard(context, content, durability, journal: journal, writer: { writerRole?.writer() })
        let pipeline = BatchPipeline(content: content, batch: batch, durability: durability, log: guardian)

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

        let commits = CommitPipeline(context, content, batch, guardian, precheck, permissions, publisher, refusals)
        commits.ring = ring
        let disconnects = DisconnectWrites(context, content, batch, durability, guardian, precheck, commits)
        let derived = DerivedData(context)
        let copies = CopyIndexStore(context, content, derived)
        commits.copies = copies
        let sessions = Sessions(batch, outbox, slowReaders, registry, disconnects, removalsAtOnce: context.limits.removalsAtOnce)
        let suspendedRequests = SuspendedRequests(context, batch, durability, indexes, commits, sessions, slowReaders)

        let early = EarlyAnswers(content, batch, durability, guardian, places, permissions)
        let answers = Answers(context, format, outbox, early, slowReaders, encodings)
        let output = ClientOutput(outbox: outbox, answers: answers, early: early, slowReaders: slowReaders, encodings: encodings)
        let live = LiveReads(context, content, indexes, queries, suspendedRequests)
        let reads = ReadRequests(context, content, places, indexes, permissions, suspendedRequests, answers, live)
        let initial = InitialContent(context, format, pipeline, registry, output: output)
        let observers = ObserveRequests(
            context, indexes, registry, permissions, reads, live, answers, initial, Resumption(context, content, places, ring),
            CentreMoves(content, places, registry, permissions, live, publisher, answers))
        let writes = WriteRequests(
            context, pipeline, journal, commits, disconnects, indexes, permissions, precheck, suspendedRequests, answers, refusals)
        let parts = RequestParts(
            sessions: sessions, reads: reads, observers: observers, writes: writes, disconnects: disconnects, queries: queries,
            suspendedRequests: suspendedRequests)
        let handler = RequestHandler(context, batch, permissions, precheck, publisher, parts: parts, output: output)
        let loop = RequestLoop(context, pipeline, outbox, indexes, disconnects, handler)
        box?.connect(pipeline, parts, commits, loop, handler, output, follows: follows != nil)
        let rollback = Rollback(context, pipeline, outbox, indexes, permissions, commits, parts: parts, handler, loop)

        let roles = RoleController(
            context, pipeline, journal: journal, commits, disconnects, rollback, loop, derived, writerRole,
            epoch: follows == nil ? epoch : max(epoch, 1) - 1)

        // Callbacks do not retain the parts that they call.
        let later = CallbackTargets(
            batch: batch, guardian: guardian, permissions: permissions, publisher: publisher, commits: commits, disconnects: disconnects,
            sessions: sessions, loop: loop, roles: roles, queries: queries)
        durability.onRefused = { [weak later] in later?.roles.refused($0) }
        durability.onLost = { [weak later] in later?.guardian.refused($0) }
        durability.onReleased = { [weak later] in
            later?.loop.scheduleTurn()
            later?.roles.advance()
        }
        commits.onConsequences = { [weak later] in later?.roles.term?.committed($0) }
        commits.onUncounted = { [weak later] in later?.roles.term?.counters.begin() }
        roles.connect = { [weak later] term in
            term.expiry.commits = { [weak later] in later?.commits }
            term.expiry.mustWait = { [weak later] in later?.disconnects.blocksRequests == true }
            term.expiry.onFirstDone = { [weak later] in
                later?.loop.scheduleTurn()
                later?.roles.term?.inboxBackfill.begin()
            }
            term.inboxBackfill.commits = { [weak later] in later?.commits }
            term.inboxBackfill.mustWait = { [weak later] in
                later?.disconnects.blocksRequests == true || later?.roles.term?.expiry.blocksRequests == true
            }
        }
        guardian.onSuperseded = { [weak later] in later?.roles.superseded($0) }
        guardian.onTaken = { [weak later] in
            later?.loop.handle([])
            later?.roles.term?.inboxBackfill.begin()
        }
        guardian.onFound = { [weak later] batch in
            for commit in batch.commits {
                later?.commits.apply(commit)
                later?.disconnects.found(commit)
            }
            later?.roles.term?.expiry.searchAll()
            later?.roles.term?.inboxBackfill.begin()
        }
        indexes.onResultReady = { [weak later] path, ordering, update in
            later?.batch.record(.show(path, ordering, update))
            later?.publisher.publish(path, ordering, update)
        }
        indexes.onReady = { [weak later] in later?.queries.resume(at: $0) }
        queries.notifier.onChanged = { [weak later] in later?.publisher.publish($0, $1, of: $2, $3) }
        queries.places.onEnded = { [weak later] in later?.permissions.end($0, of: $1, $2) }
        queries.places.onLost = { [weak later] in later?.permissions.notifyEnd($0, to: $1, $2) }
        pacing.onDue = { [weak later] path, query, style in later?.publisher.publish(path, query, to: style) }
        indexes.cancel = { [weak later] observation, client in later?.permissions.cancel(observation, of: client) }
        permissions.onStreamCancelled = { [weak later] in later?.sessions.end($0) }
        suspendedRequests.onResumed = { [weak later] items, client in later?.loop.resume(items, of: client) }

        self.context = context
        self.content = content
        self.durability = durability
        self.ring = ring
        self.indexes = indexes
        self.queries = queries
        self.permissions = permissions
        self.disconnects = disconnects
        self.loop = loop
        self.derived = derived
        dataCount = DataCount(context, content)
        peers = box
        roles.peers = box
        self.copies = copies
        self.roles = roles
        #if DEBUG
            self.parts = (places, indexes, queries.places, suspendedRequests)
        #endif
        self.later = later
        if let follows { roles.follow(follows) } else { roles.write() }
    }

    /// Replaces the rules. Observers that the new rules refuse are cancelled before they receive anything else.
    func deploy(_ rules: RuleSet) {
        context.queue.assertCurrent()
        content.deploy(rules)
        ring.restart()
        indexes.recheckDeclarations()
        queries.recheckDeclarations()
        permissions.recheckAllObservers()
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
        disconnects.applyAbandoned(sessions)
        durability.finishBatch()
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

/// The parts that earlier parts call back to. Retained by the engine; once the engine is gone, their calls end here. The parts themselves
/// are not referenced weakly, because an object with weak references has a slower reference count, and each commit retains many parts.
private final class CallbackTargets {
    let batch: Batch
    let guardian: LogGuard
    let permissions: ReadPermissions
    let publisher: Publisher
    let commits: CommitPipeline
    let disconnects: DisconnectWrites
    let sessions: Sessions
    let loop: RequestLoop
    let roles: RoleController
    let queries: LiveQueryUpdater

    init(
        batch: Batch, guardian: LogGuard, permissions: ReadPermissions, publisher: Publisher, commits: CommitPipeline,
        disconnects: DisconnectWrites, sessions: Sessions, loop: RequestLoop, roles: RoleController, queries: LiveQueryUpdater
    ) {
        self.batch = batch
        self.guardian = guardian
        self.permissions = permissions
        self.publisher = publisher
        self.commits = commits
        self.disconnects = disconnects
        self.sessions = sessions
        self.loop = loop
        self.roles = roles
        self.queries = queries
    }
}
