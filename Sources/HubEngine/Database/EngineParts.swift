import Journal
import JSONTree
import SecurityRules

/// The parts of a database's engine, created and connected in the order of their dependencies. Each part owns its state and gets its
/// dependencies in its initializer. `Engine` adds the database's role, which starts them; tests use single parts.
struct EngineParts {
    let content: Content
    let places = PlaceTrie()
    let batch: Batch
    let outbox: Outbox
    let refusals: RefusalReports
    let durability: DurabilityQueue
    let logGuard: LogGuard
    let pipeline: BatchPipeline
    let indexes: IndexStore
    let registry: ObserverRegistry
    let ring: CommitRing
    let slowReaders: SlowReaders
    let precheck: PermissionPrecheck
    let permissions: ReadPermissions
    let queries: LiveQueryUpdater
    let publisher: Publisher
    let updates: ObserverUpdates
    let derived: DerivedData
    let commits: CommitPipeline
    let disconnects: DisconnectWrites
    let sessions: Sessions
    let suspendedRequests: SuspendedRequests
    let early: EarlyAnswers
    let answers: Answers
    let reads: ReadRequests
    let observers: ObserveRequests
    let writes: WriteRequests
    let handler: RequestHandler
    let loop: RequestLoop
    let rollback: Rollback
    /// Nil without a cluster.
    let peers: PeerComponents?

    /// - Parameters:
    ///   - keepsHistory: whether commits may be rolled back.
    ///   - epoch: of its writes.
    ///   - follows: whether it starts as a follower.
    ///   - writer: the hub that writes, as far as known.
    init(
        _ context: EngineContext, _ format: any WireFormat, rules: RuleSet, start: Content.State, journal: any Journal,
        keepsHistory: Bool, epoch: UInt64, follows: Bool, writer: @escaping @Sendable () -> String?,
        link: (any HubLink)?, refusals listener: (any RefusalListener)?, outlet: @escaping Outlet
    ) {
        peers = link.map { PeerComponents(context, $0) }
        content = Content(start, rules: rules)
        batch = Batch(keepsHistory: keepsHistory)
        outbox = Outbox(lanes: context.lanes)
        let encodings = EncodeQueue(context.background, context.budget, heavier: EncodeQueue(context.background, context.budget))
        refusals = RefusalReports(context, content, listener)
        durability = DurabilityQueue(
            context, content, batch, outbox, journal: journal, epoch: epoch, outlet: peers?.wrap(outlet) ?? outlet)
        logGuard = LogGuard(context, content, durability, journal: journal, writer: writer)
        pipeline = BatchPipeline(content: content, batch: batch, durability: durability, log: logGuard)

        indexes = IndexStore(context, content, places, durability)
        registry = ObserverRegistry(context, content, places, indexes, batch, durability)
        ring = CommitRing(context, content)
        registry.onResumable = { [ring] in ring.count($0) }
        slowReaders = SlowReaders(context, places, batch, outbox, durability)
        precheck = PermissionPrecheck(context, content, places)
        permissions = ReadPermissions(context, format, content, places, registry, precheck, outbox, refusals)
        let pacing = Pacing(context, batch, durability)
        queries = LiveQueryUpdater(context, content, places, indexes, batch, durability)
        registry.queries = queries.places
        let sender = ChangeSender(context, format, outbox, slowReaders, encodings, pacing)
        let single = SingleWriteFanOut(context, format, content, places, batch, outbox)
        publisher = Publisher(context, content, places, indexes, queries, batch, sender, single)
        updates = ObserverUpdates(batch, indexes, queries, permissions, publisher, ring)
        updates.connect(pacing)

        derived = DerivedData(context)
        let consequences = ConsequenceStage(
            context, content, refusals, CopyIndexStore(context, content, derived), WatchIndexStore(context, content, derived))
        commits = CommitPipeline(context, content, batch, logGuard, precheck, permissions, publisher, refusals, consequences, ring)
        disconnects = DisconnectWrites(context, content, batch, durability, logGuard, precheck, commits)
        sessions = Sessions(batch, outbox, slowReaders, registry, disconnects, removalsAtOnce: context.limits.removalsAtOnce)
        suspendedRequests = SuspendedRequests(context, batch, durability, indexes, commits, sessions, slowReaders)

        early = EarlyAnswers(content, batch, durability, logGuard, places, permissions)
        answers = Answers(context, format, outbox, early, slowReaders, encodings)
        let output = ClientOutput(outbox: outbox, answers: answers, early: early, slowReaders: slowReaders, encodings: encodings)
        let live = LiveReads(context, content, indexes, queries, suspendedRequests)
        reads = ReadRequests(context, content, places, indexes, permissions, suspendedRequests, answers, live)
        let initial = InitialContent(context, format, pipeline, registry, output: output)
        observers = ObserveRequests(
            context, indexes, registry, permissions, reads, live, answers, initial, Resumption(context, content, places, ring),
            QueryMoves(content, places, registry, permissions, live, publisher, answers))
        let charges = WriteCharges(context, content, refusals)
        let committer = WriteCommitter(content, commits, disconnects, permissions, charges, answers)
        let staging = WriteStaging(context, journal, logGuard, indexes, suspendedRequests, answers, committer)
        let largeWrites = LargeWrites(
            context, pipeline, commits, precheck, suspendedRequests, answers, committer, staging, refusals)
        writes = WriteRequests(context, pipeline, commits, disconnects, answers, charges, committer, largeWrites)
        let about = SessionRequests(context, sessions, permissions, precheck, suspendedRequests, disconnects, output)
        handler = RequestHandler(context, batch, output, suspendedRequests, updates, reads, observers, writes, about)
        loop = RequestLoop(context, pipeline, outbox, indexes, disconnects, handler)
        rollback = Rollback(context, pipeline, updates, commits, sessions, suspendedRequests, handler)
        peers?.connect(
            pipeline, commits, suspendedRequests, writes, disconnects, sessions, loop, handler, output, follows: follows)
    }
}
