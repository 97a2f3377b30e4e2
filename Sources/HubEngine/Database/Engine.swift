import Dispatch
import Journal
import JSONTree
import SecurityRules

/// A database's engine: its parts, and how they are connected. Each part owns its state and gets its dependencies when it is made;
/// callbacks to parts that are made later are set at the end. Everything here runs on the database queue.
///
/// ```
/// RequestLoop ─► RequestHandler ─► ReadRequests, ObserveRequests, WriteRequests, Sessions   (large work: Parking)
///                                       WriteRequests, DisconnectWrites ─► CommitLine ─► ReadPermissions, Publisher
/// DurabilityLine ◄─ Batch, Outbox ◄─────────────── what all of them have done and say
///       └─ the log refuses ─► Rollback
/// Follower ─► CommitLine                        in a database that applies what another writes
/// ```
final class Engine: @unchecked Sendable {
    // Sendable: confined to the database queue, which its entries check.
    let context: EngineContext
    let content: Content
    private let durability: DurabilityLine
    private let indexes: IndexKeeper
    private let permissions: ReadPermissions
    private let disconnects: DisconnectWrites
    /// Nil in a database that takes writes itself.
    private let follower: Follower?
    let loop: RequestLoop
    private let rollback: Rollback

    /// - Parameter follows: the pending onDisconnect writes, for a database that applies the commits of another writer; else nil.
    init(
        _ context: EngineContext, rules: RuleSet, start: (root: Node, sequence: UInt64), journal: any Journal, epoch: UInt64,
        follows: [PendingSession]?, refusals listener: (any RefusalListener)?, outlet: @escaping Outlet
    ) {
        let content = Content(root: start.root, sequence: start.sequence, rules: rules)
        let places = PlaceTrie()
        // Commits of another writer are never rolled back.
        let batch = Batch(keepsHistory: !journal.isImmediate && follows == nil)
        let outbox = Outbox(lanes: context.lanes)
        let encodings = EncodingLine(context.background, context.budget, heavier: EncodingLine(context.background, context.budget))
        let refusals = RefusalReports(context, content, listener)
        let durability = DurabilityLine(context, content, batch, outbox, journal: journal, epoch: epoch, outlet: outlet)
        let guardian = LogGuard(context, content, durability, journal: journal, follows: follows != nil)
        let pipeline = BatchPipeline(content: content, batch: batch, durability: durability, log: guardian)

        let indexes = IndexKeeper(context, content, places, durability)
        let registry = ObserverRegistry(context, content, places, indexes, batch, durability)
        let slowReaders = SlowReaders(context, places, batch, outbox, durability)
        let foresight = PermissionForesight(context, content, places)
        let permissions = ReadPermissions(context, content, places, registry, foresight, outbox, refusals)
        let publisher = Publisher(context, content, places, indexes, batch, outbox, slowReaders, encodings)

        let commits = CommitLine(context, content, batch, guardian, foresight, permissions, publisher, refusals)
        let disconnects = DisconnectWrites(context, content, batch, durability, guardian, foresight, commits)
        let sessions = Sessions(batch, outbox, slowReaders, registry, disconnects, removalsAtOnce: context.limits.removalsAtOnce)
        let parking = Parking(context, batch, durability, indexes, commits, sessions, slowReaders)

        let early = EarlyAnswers(content, batch, durability, guardian, places, permissions)
        let answers = Answers(context, outbox, early, slowReaders, encodings)
        let output = ClientOutput(outbox: outbox, answers: answers, early: early, slowReaders: slowReaders, encodings: encodings)
        let reads = ReadRequests(context, content, places, indexes, permissions, parking, answers)
        let observers = ObserveRequests(context, pipeline, indexes, registry, permissions, reads, output: output)
        let writes = WriteRequests(
            context, content, batch, journal, guardian, commits, disconnects, permissions, foresight, parking, answers, refusals)
        let parts = RequestParts(
            sessions: sessions, reads: reads, observers: observers, writes: writes, disconnects: disconnects, parking: parking)
        let handler = RequestHandler(context, batch, permissions, foresight, publisher, parts: parts, output: output)
        let loop = RequestLoop(context, pipeline, outbox, indexes, disconnects, handler)
        let rollback = Rollback(context, pipeline, outbox, indexes, permissions, commits, parts: parts, handler, loop)

        // Callbacks do not retain the parts that they call.
        durability.onRefused = { [weak rollback = rollback] in rollback?.run($0) }
        durability.onLost = { [weak guardian] in guardian?.refused($0) }
        durability.onReleased = { [weak loop] in loop?.scheduleTurn() }
        guardian.onTaken = { [weak loop] in loop?.handle([]) }
        guardian.onFound = { [weak commits, weak disconnects] batch in
            for commit in batch.commits {
                commits?.apply(commit)
                disconnects?.found(commit)
            }
        }
        indexes.onShown = { [weak batch, weak publisher] path, ordering in
            batch?.record(.show(path, ordering))
            publisher?.publish(path, ordering)
        }
        indexes.cancel = { [weak permissions] observation, client in permissions?.cancel(observation, of: client) }
        permissions.onStreamCancelled = { [weak sessions] in sessions?.end($0) }
        parking.onResumed = { [weak loop] items, client in loop?.resume(items, of: client) }

        self.context = context
        self.content = content
        self.durability = durability
        self.indexes = indexes
        self.permissions = permissions
        self.disconnects = disconnects
        self.loop = loop
        follower = follows.map { Follower(context, content, commits, durability, guardian, pending: $0) }
        follower?.follow(journal)
        self.rollback = rollback
    }

    /// Replaces the rules. Observers that the new rules refuse are cancelled before they receive anything else.
    func deploy(_ rules: RuleSet) {
        dispatchPrecondition(condition: .onQueue(context.queue))
        content.deploy(rules)
        indexes.recheckDeclarations()
        permissions.recheckAllObservers()
        durability.finishBatch()
    }

    /// Makes the onDisconnect writes of the sessions of an earlier process.
    func fireAbandoned(_ sessions: [PendingSession]) {
        dispatchPrecondition(condition: .onQueue(context.queue))
        for session in sessions { disconnects.fire(session) }
        durability.finishBatch()
    }

    /// The pending onDisconnect writes of all sessions.
    var pendingSessions: [PendingSession] {
        dispatchPrecondition(condition: .onQueue(context.queue))
        return follower?.pendingSessions ?? disconnects.pendingSessions
    }
}
