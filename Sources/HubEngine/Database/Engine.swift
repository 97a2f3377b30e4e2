import Journal
import JSONTree
import SecurityRules

/// A database's engine: its parts (`EngineParts`), in the role of the writer or of a follower. Callbacks to the role are set in `connect`.
/// Everything here runs on the database queue.
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
    private let consequences: ConsequenceStage
    /// Nil without a cluster.
    private let peers: PeerComponents?
    #if DEBUG
        /// For checks of invariants.
        let parts: EngineParts
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
        // Commits of another writer are never rolled back.
        let parts = EngineParts(
            context, format, rules: rules, start: start, journal: journal, keepsHistory: !journal.isImmediate && follows == nil,
            epoch: epoch, follows: follows != nil, writer: { writerRole?.writer() }, link: link, refusals: listener, outlet: outlet)
        (self.context, content, durability, loop) = (context, parts.content, parts.durability, parts.loop)
        (updates, derived, peers) = (parts.updates, parts.derived, parts.peers)
        consequences = parts.commits.consequences
        dataCount = DataCount(context, content)
        roles = RoleController(
            context, parts.pipeline, parts.rollback, loop, SessionHandover(context, durability, parts.disconnects, peers), writerRole,
            epoch: follows == nil ? epoch : max(epoch, 1) - 1
        ) {
            WriterTerm(context, parts.pipeline, parts.commits, parts.disconnects, parts.derived, parts.refusals, parts.loop)
        } makeFollower: {
            Follower(context, parts.pipeline, parts.commits, journal, parts.peers?.forwarding, pending: $0)
        }
        #if DEBUG
            self.parts = parts
        #endif
        connect(parts)
        if let follows { roles.follow(follows) } else { roles.write() }
    }

    /// Connects the parts with the role. The callbacks do not retain it. The parts that each commit uses are not referenced weakly, because
    /// an object with weak references has a slower reference count.
    private func connect(_ parts: EngineParts) {
        durability.onRefused = { [weak self] in self?.roles.refused($0) }
        durability.onLost = { [weak self] in self?.roles.lost($0) }
        durability.onReleased = { [weak self] in
            self?.loop.scheduleTurn()
            self?.roles.advance()
        }
        parts.logGuard.onSuperseded = { [weak self] in self?.roles.superseded($0) }
        parts.logGuard.onTaken = { [weak self] in self?.roles.term?.logTaken() }
        parts.logGuard.onFound = { [weak self] in self?.roles.term?.found($0) }
        parts.permissions.onStreamCancelled = { [weak sessions = parts.sessions] in sessions?.end($0) }
        parts.suspendedRequests.onResumed = { [weak self] items, client in self?.loop.resume(items, of: client) }
    }

    /// Replaces the rules. Observers that the new rules refuse are cancelled before they receive anything else.
    func deploy(_ rules: RuleSet) {
        context.queue.assertCurrent()
        content.deploy(rules)
        updates.recheckRules()
        derived.restart {
            roles.term?.counters.begin()
            consequences.beginIndexes()
            roles.term?.expiry.begin()
        }
        durability.finishBatch()
    }

    /// Counts the rules' counters and indexes the copies and watches in the recovered tree.
    func countAll() {
        context.queue.assertCurrent()
        roles.term?.counters.begin()
        consequences.beginIndexes()
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

    /// Continues the deliveries that an earlier process left.
    func resumeDeliveries() {
        context.queue.assertCurrent()
        roles.term?.deliveries?.begin()
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
