import JSONTree
import SecurityRules

/// The line of stages that every commit passes: those of clients, and those that the hub makes itself.
///
/// ```
/// writes ─► server values ─► shape ─► candidate ─► permission ─► compare ─► consequences ─► install ─► tell
///           ServerValues  WriteShape  Candidate  WritePermission            WriteOrigin   Content,    ReadPermissions,
///                                                                                         Batch,      Publisher
///                                                                                         RecentCommits
/// ```
/// A large write passes the stages up to the comparison in the background (`PreparedWrite`), and the rest here. Where a stage of its own
/// fits, such as defaults (behind the shape) or derived writes (a consequence), it stands between two of these.
/// Confined to the database queue.
final class CommitLine {
    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let log: LogGuard
    private let permissions: ReadPermissions
    private let publisher: Publisher
    private let refusals: RefusalReports
    private(set) var recent: RecentCommits

    init(
        _ context: EngineContext, _ content: Content, _ batch: Batch, _ log: LogGuard, _ permissions: ReadPermissions,
        _ publisher: Publisher, _ refusals: RefusalReports
    ) {
        self.context = context
        self.content = content
        self.batch = batch
        self.log = log
        self.permissions = permissions
        self.publisher = publisher
        self.refusals = refusals
        recent = RecentCommits(after: content.sequence, places: context.limits.recentPlaces, commits: context.limits.recentCommits)
    }

    // MARK: Small commits

    /// Writes all or nothing, in order, and tells the observers. O(depth · writes + observers touched)
    /// - Returns: the commit's sequence number; that of the last commit when nothing was to be written.
    func commit(_ writes: [TreeWrite], if condition: Condition? = nil, by origin: WriteOrigin) throws(Failure) -> UInt64 {
        var work = Int.max
        return try commit(writes, if: condition, by: origin, textWork: &work)
    }

    /// - Parameter work: that the rules may do on texts; what they did is taken off.
    func commit(
        _ writes: [TreeWrite], if condition: Condition? = nil, by origin: WriteOrigin, textWork work: inout Int
    ) throws(Failure) -> UInt64 {
        let candidate = try Candidate(writes, on: content.root, now: context.clock())
        // Permission is asked before the hash, so that a stranger learns nothing about the content (contract §4.6).
        try permit(candidate, .write, origin, textWork: &work)
        if let condition {
            // A large one is compared in the background. That was always overtaken, so whether it holds is not known.
            guard let isSame = content.root.node(at: condition.path).hasHash(condition.hash, within: context.limits.hashNodes) else {
                throw .overtaken
            }
            if !isSame { throw .dataStale }
        }
        guard !writes.isEmpty else { return content.sequence }
        try log.mustTakeWrites()
        context.meter.spend(writes.count)
        let paths = writes.map(\.path)
        let old = install(candidate.tree, candidate.operations, origin, at: paths)
        permissions.recheckDependents(of: paths, old: old)
        publisher.publish(paths, old: old)
        return content.sequence
    }

    /// Refuses writes that are not made now, but could not be either.
    func check(_ writes: [TreeWrite], by origin: WriteOrigin) throws(Failure) {
        var work = Int.max
        try check(writes, by: origin, textWork: &work)
    }

    /// - Parameter work: that the rules may do on texts; what they did is taken off.
    func check(_ writes: [TreeWrite], by origin: WriteOrigin, textWork work: inout Int) throws(Failure) {
        try permit(try Candidate(writes, on: content.root, now: context.clock()), .onDisconnect, origin, textWork: &work)
    }

    private func permit(
        _ candidate: Candidate, _ request: RuledRequest, _ origin: WriteOrigin, textWork work: inout Int
    ) throws(Failure) {
        let permission = WritePermission(rules: content.rules, origin: origin)
        if permission.allows(candidate, textWork: &work) { return }
        refusals.report(request) { _ in permission.question(candidate) }
        throw .permissionDenied
    }

    // MARK: Prepared commits

    /// Makes a write that was prepared on the tree of now: O(depth), and what its observers need.
    /// - Parameter stage: what the log has of it already.
    func commit(_ write: PreparedWrite, by origin: WriteOrigin, stage: (any StagedOperations)?) throws(Failure) -> UInt64 {
        try log.mustTakeWrites()
        context.meter.counters.prepared += 1
        let isFollowed = write.operations.count <= context.limits.followedPlaces
        let paths = isFollowed ? write.operations.map(\.path) : [write.common]
        let old = install(write.candidate, write.operations, origin, at: paths, stage: stage)
        batch.retire(old)
        permissions.recheckDependents(of: [write.common], old: old)
        publisher.publish(prepared: write, old: old)
        return content.sequence
    }

    // MARK: Installing

    /// - Returns: the tree before.
    private func install(
        _ tree: Node, _ operations: [TreeWrite.Operation], _ origin: WriteOrigin, at paths: [Path], stage: (any StagedOperations)? = nil
    ) -> Node {
        let old = content.install(tree)
        context.meter.counters.commits += 1
        if case .system(let cause) = origin.cause { context.meter.counters.systemCommits[cause, default: 0] += 1 }
        batch.append(Commit(sequence: content.sequence, operations: operations, pending: origin.consequences, stage: stage))
        recent.record(paths, sequence: content.sequence)
        return old
    }

    /// A commit that leaves the tree as it is, and changes what sessions leave behind.
    func record(_ changes: [PendingChange]) { batch.append(Commit(sequence: content.skip(), operations: [], pending: changes)) }

    // MARK: Recent commits

    /// From now on what is written is kept for a write that is being prepared, until `unfollow`.
    func follow() { recent.follow() }
    func unfollow() { recent.leave() }

    /// Commits after this one were taken back.
    func rollBack(to sequence: UInt64) { recent.rollBack(to: sequence) }
}
