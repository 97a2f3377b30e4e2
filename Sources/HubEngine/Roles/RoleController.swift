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
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let rollback: Rollback
    private let loop: RequestLoop
    let sessions: SessionHandover
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
    private let makeTerm: () -> WriterTerm
    private let makeFollower: ([PendingSession]) -> Follower

    /// Claims tried while commits are still to be applied, and ms between them.
    private static let claims = 250
    private static let claimMs: Int64 = 20

    /// - Parameters:
    ///   - makeTerm: starts the writer's upkeep.
    ///   - makeFollower: creates a follower, from the pending onDisconnect writes.
    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ rollback: Rollback, _ loop: RequestLoop, _ sessions: SessionHandover,
        _ writerRole: WriterRole?, epoch: UInt64, makeTerm: @escaping () -> WriterTerm,
        makeFollower: @escaping ([PendingSession]) -> Follower
    ) {
        self.context = context
        (durability, log) = (pipeline.durability, pipeline.log)
        (self.rollback, self.loop, self.sessions) = (rollback, loop, sessions)
        (self.writerRole, self.epoch) = (writerRole, epoch)
        (self.makeTerm, self.makeFollower) = (makeTerm, makeFollower)
    }

    // MARK: Beginning

    /// Starts as the permanent writer.
    func write() {
        requestedRole = .write
        term = makeTerm()
    }

    /// Starts as a follower.
    /// - Parameter pending: the pending onDisconnect writes.
    func follow(_ pending: [PendingSession]) {
        role = .following
        log.follow()
        let follower = makeFollower(pending)
        self.follower = follower
        sessions.follow()
        follower.onApplied = { [weak self] in self?.applied($0) }
        follower.onEnd = { [weak self] in self?.giveUp($0) }
        follower.begin()
    }

    /// The pending onDisconnect writes of all sessions.
    var pendingSessions: [PendingSession] { follower?.pendingSessions ?? sessions.pending }

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
        nextID += 1
        let claim = again ?? follower.claim(id: nextID, epoch: max(epoch, follower.epoch) + 1)
        if case .claiming = role { role = .claiming(claim) } else { become(.claiming(claim)) }
        follower.append(claim) { [self] in refused(claim, $0) }
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
        sessions.beginWriting(follower?.pendingSessions ?? [])
        follower?.end()
        follower = nil
        durability.begin(epoch: epoch)
        log.begin()
        term = makeTerm()
        become(.writing)
        term?.begin()
        loop.handle([])
        sessions.hasBegunWriting()
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
        loop.scheduleTurn()
        switch role {
        case .yielding: becomeFollower()
        case .writing where isSuperseded(by: error): superseded(error)
        default: term?.rolledBack()
        }
    }

    /// An immediate journal failed to store commits whose output was sent.
    func lost(_ error: JournalError) { log.refused(error) }

    /// Another hub has written. No commit waits for the log any more.
    func superseded(_ error: JournalError) {
        guard case .writing = role, isSuperseded(by: error) else { return }
        requestedRole = .follow
        becomeFollower(error)
    }

    private func isSuperseded(by error: JournalError) -> Bool { writerRole != nil && CommitRefusal(error) == .conflict }

    private func becomeFollower(_ reason: JournalError? = nil) {
        endTerm()
        durability.follow()
        follow(sessions.endWriting())
        become(.following, reason)
        loop.scheduleTurn()
        advance()
    }

    private func endTerm() {
        sessions.stopWriting()
        term?.end()
        term = nil
    }
}
