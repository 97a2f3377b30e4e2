import Journal
import JSONTree

/// Switches between writer and follower while clients and observers stay connected (`Role`).
///
/// ```
/// following: Follower applies commits from the log; writes are refused
///     │ the log has a commit of the new epoch after all applied commits
///     ▼
/// writing: WriterTerm does the writer's upkeep; commits go to the log
///     │ another hub has written: Rollback to the durable state; or all commits are settled
///     ▼
/// following, after the last durable commit
/// ```
/// If the log accepts the first commit of an epoch, no commit lies between it and the applied ones, and none of an older epoch can follow.
/// Confined to the database queue.
final class RoleController: @unchecked Sendable {
    // Sendable: completions of the journal only hop back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let journal: any Journal
    private let commits: CommitPipeline
    private let disconnects: DisconnectWrites
    private let rollback: Rollback
    private let loop: RequestLoop
    private let derived: DerivedData
    /// Nil without a cluster.
    var peers: PeerComponents?
    /// Nil if the role never changes.
    private let writerRole: WriterRole?
    private(set) var role = Role.writing
    /// The writer's upkeep; nil unless this database is the writer.
    private(set) var term: WriterTerm?
    private var follower: Follower?
    private var requestedRole = WriterRole.RequestedRole.follow
    /// The newest epoch of any writer.
    private var epoch: UInt64
    /// Tries of the current claim.
    private var attempts = 0
    private var nextID = UInt64.random(in: 1 << 47..<1 << 48)
    /// Connects a new term to the other parts that it calls.
    var connect: (WriterTerm) -> Void = { _ in }
    /// Pending onDisconnect writes of other hubs' sessions, while this hub is the writer.
    private(set) var pendingElsewhere: [PendingSession] = []

    /// Claims tried while commits are still to be applied, and ms between them.
    private static let claims = 250
    private static let claimMs: Int64 = 20

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, journal: any Journal, _ commits: CommitPipeline, _ disconnects: DisconnectWrites,
        _ rollback: Rollback, _ loop: RequestLoop, _ derived: DerivedData, _ writerRole: WriterRole?, epoch: UInt64
    ) {
        self.context = context
        (content, batch, durability, log) = (pipeline.content, pipeline.batch, pipeline.durability, pipeline.log)
        (self.journal, self.commits, self.disconnects, self.rollback) = (journal, commits, disconnects, rollback)
        (self.loop, self.derived, self.writerRole, self.epoch) = (loop, derived, writerRole, epoch)
    }

    private var pipeline: BatchPipeline { BatchPipeline(content: content, batch: batch, durability: durability, log: log) }

    // MARK: Beginning

    /// Starts as the permanent writer.
    func write() {
        requestedRole = .write
        beginTerm()
    }

    private func beginTerm() {
        let term = WriterTerm(context, pipeline, commits, derived, loop)
        connect(term)
        self.term = term
    }

    /// Starts as a follower.
    /// - Parameter pending: the pending onDisconnect writes.
    func follow(_ pending: [PendingSession]) {
        role = .following
        log.follow()
        follower = Follower(context, content, commits, durability, log, pending: pending)
        follower?.forwarding = peers?.forwarding
        peers?.forwarding?.isFollowing = true
        follower?.onApplied = { [weak self] in self?.applied($0) }
        follower?.onEnd = { [weak self] in self?.giveUp($0) }
        follower?.follow(journal)
    }

    /// The pending onDisconnect writes of all sessions.
    var pendingSessions: [PendingSession] { follower?.pendingSessions ?? disconnects.pendingSessions + pendingElsewhere }

    // MARK: Requested role

    func request(_ role: WriterRole.RequestedRole) {
        context.queue.assertCurrent()
        (requestedRole, attempts) = (role, 0)
        advance()
    }

    /// Takes the next step towards the requested role, if it is possible now.
    func advance() {
        switch role.step(requestedRole: requestedRole, isBehind: durability.isBehind) {
        case nil: break
        case .claim: claim()
        case .withdraw: become(.following)
        case .yield: yield()
        case .follow: becomeFollower()
        }
    }

    private func become(_ role: Role, _ reason: JournalError? = nil) {
        self.role = role
        context.meter.publish()
        writerRole?.roleDidChange(role.shown, reason)
    }

    // MARK: Following → writing

    private func claim(again: JournalBatch? = nil) {
        guard let follower, !follower.hasEnded else { return }
        var claim = JournalBatch(after: content.sequence)
        claim.append([])
        nextID += 1
        (claim.id, claim.epoch) = (nextID, max(epoch, follower.epoch) + 1)
        if let again { claim = again }
        if case .claiming = role { role = .claiming(claim) } else { become(.claiming(claim)) }
        journal.append(claim) { [self, claim] result in
            guard case .failure(let error) = result else { return }
            context.queue.async { [self] in refused(claim, error) }
        }
    }

    private func refused(_ claim: JournalBatch, _ error: JournalError) {
        guard role.isClaimed(by: claim) else { return }
        attempts += 1
        switch error {
        // The log has commits that were not applied yet.
        case .conflict, .superseded:
            guard attempts < Self.claims else { return giveUp(error) }
            again(claim, ms: Self.claimMs) { $0.claim() }
        case .closed, .regressed: giveUp(error)
        // Appending it again reveals its outcome.
        case .unknown: again(claim, ms: Int64(context.limits.retryMs)) { $0.claim(again: claim) }
        default: again(claim, ms: Int64(context.limits.retryMs)) { $0.claim() }
        }
    }

    private func again(_ claim: JournalBatch, ms: Int64, _ body: @escaping @Sendable (RoleController) -> Void) {
        context.later(ms: ms) { [weak self] in
            guard let self, role.isClaimed(by: claim) else { return }
            body(self)
        }
    }

    private func giveUp(_ error: JournalError) {
        guard case .claiming = role else { return }
        requestedRole = .follow
        become(.following, error)
    }

    /// A batch from the log was applied.
    private func applied(_ batch: JournalBatch) {
        guard role.isClaimed(by: batch) else { return }
        epoch = batch.epoch
        begin()
    }

    private func begin() {
        let own = Set(disconnects.pendingSessions.map(\.id))
        let pending = follower?.pendingSessions ?? []
        disconnects.dropDeferred(besides: Set(pending.map(\.id)))
        pendingElsewhere = pending.filter { !own.contains($0.id) }
        if let remote = peers?.remote { pendingElsewhere = remote.begin(adopting: pendingElsewhere) }
        peers?.forwarding?.isFollowing = false
        follower?.end()
        follower = nil
        batch.keepsHistory = !journal.isImmediate
        durability.begin(epoch: epoch)
        log.begin()
        beginTerm()
        become(.writing)
        term?.begin()
        loop.handle([])
        peers?.forwarding?.writerChanged()
        if !pendingElsewhere.isEmpty { fireLater(epoch) }
        advance()
    }

    // MARK: Writing → following

    private func yield() {
        log.follow()
        endTerm()
        durability.finishBatch()
        become(.yielding)
        advance()
    }

    /// The log has refused commits of this hub.
    func refused(_ error: JournalError) {
        rollback.run(error)
        commits.copies?.begin()
        switch role {
        case .yielding: becomeFollower()
        case .writing where isSuperseded(by: error): superseded(error)
        default: term?.rolledBack()
        }
    }

    /// Another hub has written. No commit waits for the log any more.
    func superseded(_ error: JournalError) {
        guard case .writing = role, isSuperseded(by: error) else { return }
        requestedRole = .follow
        becomeFollower(error)
    }

    private func isSuperseded(by error: JournalError) -> Bool { writerRole != nil && CommitRefusal(error) == .conflict }

    private func becomeFollower(_ reason: JournalError? = nil) {
        endTerm()
        batch.keepsHistory = false
        let pending = pendingSessions
        pendingElsewhere = []
        if let peers {
            peers.remote?.end()
            disconnects.handOver { peers.forwarding?.takeOver($0, leaving: $1) } ended: { peers.hasEnded($0) }
        }
        follow(pending)
        become(.following, reason)
        loop.scheduleTurn()
        advance()
    }

    private func endTerm() {
        term?.end()
        term = nil
    }

    // MARK: Sessions of other hubs

    /// Sessions of vanished hubs end if they have not come back after `presenceMs`.
    private func fireLater(_ epoch: UInt64) {
        context.later(ms: context.limits.presenceMs) { [weak self] in
            guard let self, case .writing = role, self.epoch == epoch else { return }
            applyAbandoned { _ in true }
        }
    }

    /// Applies the onDisconnect writes of other hubs' sessions.
    /// - Parameter isGone: whether a session has ended.
    func applyAbandoned(where isGone: (PendingSession) -> Bool) {
        guard case .writing = role else { return }
        let gone = pendingElsewhere.filter(isGone)
        guard !gone.isEmpty else { return }
        let ids = Set(gone.map(\.id))
        pendingElsewhere.removeAll { ids.contains($0.id) }
        disconnects.applyAbandoned(gone)
        durability.finishBatch()
    }
}
