import Journal
import JSONTree
import SecurityRules

/// The stages that every commit passes: those of clients, and those of the hub itself.
///
/// ```
/// writes ─► server values ─► shape ─► candidate ─► permission ─► compare ─► consequences ─► readers ─► install ─► notify
///           ServerValues  WriteShape  Candidate  WritePermission        ConsequenceStage │          Content,    ReadPermissions,
///                                     WriteShaping                              PermissionPrecheck  Batch,      Publisher
///                                                                                                   RecentCommits
/// ```
/// One small value without consequences is written to the current tree in place, without a candidate (`PlainWrite`).
/// A large write passes the stages up to the comparison in the background (`PreparedWrite`), and the rest here.
/// A commit that may wait stops at its readers if the rules must be evaluated for too many of them. It then counts as large, whatever its
/// size.
/// The candidate holds the writes as the rules' `.drop` and `.default` have changed them (`WriteShaping`).
/// Confined to the database queue.
final class CommitPipeline {
    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let log: LogGuard
    private let precheck: PermissionPrecheck
    private let permissions: ReadPermissions
    private let publisher: Publisher
    private let refusals: RefusalReports
    /// What follows from a commit by the rules.
    let consequences: ConsequenceStage
    /// Keeps commits for observers that resume.
    private let ring: CommitRing
    private(set) var recent: RecentCommits
    /// Commits applied to the current tree in place.
    private(set) var plainCommits = 0

    init(
        _ context: EngineContext, _ content: Content, _ batch: Batch, _ log: LogGuard, _ precheck: PermissionPrecheck,
        _ permissions: ReadPermissions, _ publisher: Publisher, _ refusals: RefusalReports, _ consequences: ConsequenceStage, _ ring: CommitRing
    ) {
        self.context = context
        self.content = content
        self.batch = batch
        self.log = log
        self.precheck = precheck
        self.permissions = permissions
        self.publisher = publisher
        self.refusals = refusals
        self.consequences = consequences
        self.ring = ring
        let limits = context.limits
        recent = RecentCommits(
            after: content.sequence, places: limits.recentPlaces, bytes: limits.recentBytes, commits: limits.recentCommits)
    }

    // MARK: Small commits

    /// Nodes hashed per unit of work.
    private static let hashedForWork = 2

    /// Commits all writes or none, in order, and notifies the observers. O(depth · writes + observers affected)
    /// - Parameters:
    ///   - mayWait: if true, nothing is done when the comparison is large or the rules must be evaluated for many observers.
    ///   - settled: the pending rows or removals that these writes complete or continue.
    ///   - admit: may refuse the consequences before the commit.
    /// - Returns: the commit's sequence number; that of the last commit if there was nothing to write. Nil if nothing was done.
    func commit(
        _ writes: [TreeWrite], if condition: Condition? = nil, by origin: WriteOrigin, mayWait: Bool = false,
        settling settled: PendingInboxChange? = nil, admitting admit: (Consequences) throws(Failure) -> Void = { _ in }
    ) throws(Failure) -> UInt64? {
        let proposal = Proposal(writes, by: origin)
        proposal.condition = condition
        proposal.settled = settled
        return try commit(proposal, mayWait: mayWait, admitting: admit)
    }

    func commit(
        _ proposal: Proposal, mayWait: Bool = false, admitting admit: (Consequences) throws(Failure) -> Void = { _ in }
    ) throws(Failure) -> UInt64? {
        let (writes, origin) = (proposal.writes, proposal.origin)
        // Charged also if the rules refuse the write.
        context.meter.spend(writes.depthWork)
        if proposal.condition == nil, proposal.settled == nil, proposal.deliveries.isEmpty,
            let plain = PlainWrite(writes, origin, content.rules, hasPendingRows: !content.pendingRows.isEmpty),
            try commit(plain, origin, proposal)
        {
            return content.sequence
        }
        let shaping = WriteShaping(content.rules, origin, textWork: proposal.textWork)
        var candidate = try Candidate(writes, on: content.root, now: context.clock(), shaping: shaping)
        // The permission is checked before the hash, so that an unauthorized client learns nothing about the content (contract §4.6).
        try permit(candidate, .write, proposal)
        if let condition = proposal.condition {
            var hashed = 0
            let isSame = content.root.node(at: condition.path).hasHash(condition.hash, within: context.limits.hashNodes, work: &hashed)
            context.meter.spend(hashed / Self.hashedForWork)
            guard let isSame else {
                // A large node is compared in the background. If every such attempt was overtaken, the result is unknown.
                if mayWait { return nil }
                throw .overtaken
            }
            if !isSame { throw .dataStale }
        }
        guard !writes.isEmpty else { return content.sequence }
        try mustTake(origin)
        // A place and its priority may be written beside places below it.
        let found = try consequences.find(
            candidate.paths.count > 1 ? candidate.paths.outermost : candidate.paths, writes: writes.count, to: candidate.tree,
            now: candidate.now, proposal, WritePermission(rules: content.rules, origin: origin).question(candidate))
        if let found { candidate.add(found) }
        return try commit(AcceptedCommit(candidate, found), proposal, mayWait: mayWait, admitting: admit)
    }

    /// The last stages of every commit that has passed the rules: its readers, what expires, and its installation.
    private func commit(
        _ accepted: AcceptedCommit, _ proposal: Proposal, mayWait: Bool, admitting admit: (Consequences) throws(Failure) -> Void
    ) throws(Failure) -> UInt64? {
        let (tree, origin) = (accepted.tree, proposal.origin)
        let readers = accepted.changed.map { precheck.touched(byMany: $0, making: tree) } ?? precheck.touched(by: accepted.paths, making: tree)
        if mayWait, precheck.needsPrecheck(about: readers, in: tree) { return nil }
        let prepared = try consequences.prepare(accepted, proposal, admitting: admit)
        let old = install(accepted, first: prepared.first, also: prepared.more, origin)
        consequences.apply(accepted, prepared, origin, old: old)
        permissions.recheck(readers)
        publisher.publish(accepted, old: old, update: origin.update)
        return content.sequence
    }

    /// Commits a plain write to the current tree in place, if the old tree is not needed for anything else.
    /// - Returns: false when nothing was done: the commit needs all stages.
    private func commit(_ write: PlainWrite, _ origin: WriteOrigin, _ proposal: Proposal) throws(Failure) -> Bool {
        let (path, value, fanOut) = (write.path, write.value, publisher.single)
        defer { fanOut.forget() }
        guard !ring.isKeeping, !precheck.hasDependents(around: path), fanOut.collect(around: path) else { return false }
        let notifies = fanOut.hasObservers
        if notifies, !fanOut.canSend(value, at: path) { return false }
        guard let before = write.compare(with: content.root, compares: notifies) else { return false }
        let now = context.clock()
        var made: Node?
        if origin.isRuled,
            !content.rules.allowsWrite(
                value, at: path, on: content.root, auth: origin.identity.auth, now: now, making: &made, textWork: &proposal.textWork)
        {
            throw refused(.write, at: path, includesMessages: proposal.includesMessages) {
                WritePermission(rules: content.rules, origin: origin).question(TreeWrite(path, WriteValue(value)), on: content.root, now: now)
            }
        }
        try log.mustAcceptWrites()
        context.meter.spend(1 + path.depth / 8)
        if let made { _ = content.install(made) } else { content.write(value, at: path) }
        plainCommits += 1
        context.meter.counters.commits += 1
        batch.append(.set(path, value), as: content.sequence)
        recent.record(path, sequence: content.sequence)
        if notifies, before == .other { fanOut.notify(value, at: path) }
        return true
    }

    private func mustTake(_ origin: WriteOrigin) throws(Failure) {
        try log.mustAcceptWrites()
        // This follower was removed meanwhile. It will send the request again if it comes back.
        if let forwarded = origin.forwarded, content.peers[forwarded.mark.hub]?.joined != forwarded.joined { throw .hubGone }
    }

    // MARK: Permission

    /// Refuses writes that are for later (onDisconnect), if the rules would refuse them now.
    func check(_ writes: [TreeWrite], by origin: WriteOrigin) throws(Failure) {
        let proposal = Proposal(writes, by: origin)
        try check(proposal)
    }

    func check(_ proposal: Proposal) throws(Failure) {
        proposal.includesMessages = false
        let (writes, origin) = (proposal.writes, proposal.origin)
        context.meter.spend(writes.count + writes.depthWork)
        let permission = WritePermission(rules: content.rules, origin: origin)
        if let write = permission.firstImpossible(writes, now: context.clock()) {
            throw refused(.onDisconnect, at: write.path, includesMessages: false) {
                permission.question(write, on: content.root, now: context.clock())
            }
        }
        let shaping = WriteShaping(content.rules, origin, textWork: proposal.textWork)
        let candidate = try Candidate(writes, on: content.root, now: context.clock(), shaping: shaping)
        try permit(candidate, .onDisconnect, proposal)
    }

    private func permit(_ candidate: Candidate, _ request: RuledRequest, _ proposal: Proposal) throws(Failure) {
        let permission = WritePermission(rules: content.rules, origin: proposal.origin)
        if permission.allows(candidate, textWork: &proposal.textWork) { return }
        throw refused(request, at: candidate.paths.first ?? .root, includesMessages: proposal.includesMessages) { permission.question(candidate) }
    }

    /// Reports that the rules refuse a write.
    /// - Parameter question: called only where the refusal is explained, as it may cost a candidate.
    /// - Returns: the error that the client gets.
    private func refused(_ request: RuledRequest, at path: Path, includesMessages: Bool, _ question: () -> RuleQuestion) -> Failure {
        refusals.report(request, of: path) { _ in question() }
        return includesMessages && content.rules.hasMessages ? question().refusal : .permissionDenied
    }

    // MARK: Prepared commits

    /// Commits a prepared write to the current tree: O(depth), plus the work for its observers.
    /// - Parameters:
    ///   - stage: the operations already stored in the journal.
    ///   - mayWait: if true, nothing is done when the rules must be evaluated for many observers.
    /// - Returns: the commit's sequence number; nil if nothing was done.
    func commit(
        _ write: PreparedWrite, by origin: WriteOrigin, stage: JournalStage?, mayWait: Bool,
        admitting admit: (Consequences) throws(Failure) -> Void = { _ in }
    ) throws(Failure) -> UInt64? {
        try mustTake(origin)
        let proposal = Proposal([], by: origin)
        let now = context.clock()
        let found = try consequences.find(
            write.followed, writes: write.paths.count, to: write.candidate, now: now, proposal,
            RuleQuestion(
                operation: .write(write.paths), rules: content.rules, old: content.root, new: write.candidate, auth: origin.identity.auth,
                now: now))
        let accepted = AcceptedCommit(write, found, on: content.root, followedPlaces: context.limits.followedPlaces, stage)
        guard let sequence = try commit(accepted, proposal, mayWait: mayWait, admitting: admit) else { return nil }
        context.meter.counters.prepared += 1
        batch.retire(write)
        return sequence
    }

    // MARK: Installing

    /// - Returns: the tree before.
    private func install(
        _ accepted: AcceptedCommit, first: [JournalOperation], also more: [JournalOperation], _ origin: WriteOrigin
    ) -> Node {
        if !first.isEmpty { content.apply(first) }
        let old = content.install(accepted.tree)
        var more = more
        if let forwarded = origin.forwarded { more.append(.peer(.done(forwarded.mark, at: content.sequence))) }
        if !more.isEmpty { content.apply(more) }
        context.meter.counters.commits += 1
        if case .system(let cause) = origin.cause { context.meter.counters.systemCommits[cause, default: 0] += 1 }
        batch.append(
            first: first, accepted.operations, also: accepted.moreOperations + more, pending: origin.pendingChanges, as: content.sequence,
            stage: accepted.stage)
        if accepted.changed != nil { batch.retire(old) }
        recent.record(accepted.paths, sequence: content.sequence)
        ring.record(accepted.paths, old: old)
        return old
    }

    /// A commit that leaves the tree unchanged and changes pending onDisconnect writes.
    /// - Parameter forwarded: the forwarded request that it carries out.
    func record(_ changes: [PendingChange], by forwarded: RemoteMark? = nil) {
        let sequence = content.skip()
        guard let forwarded else { return batch.append([], pending: changes, as: sequence) }
        let done = [JournalOperation.peer(.done(forwarded.mark, at: sequence))]
        content.apply(done)
        batch.append(done, pending: changes, as: sequence)
    }

    /// A commit that changes only state outside the tree: write times, pending rows and removals, peers.
    func record(_ changes: [JournalOperation]) {
        content.apply(changes)
        batch.append(changes, pending: [], as: content.skip())
    }

    // MARK: Durable commits

    /// Installs a commit that the journal already has (of another writer, or found after a rollback), and notifies the observers.
    func apply(_ commit: Commit) {
        var tree = content.root
        var paths: [Path] = []
        for operation in commit.operations {
            tree.apply(operation)
            // An addition to a value that the same commit has set is part of that change.
            if let path = operation.path, paths.last?.contains(path) != true { paths.append(path) }
        }
        let readers = precheck.touched(by: paths, making: tree)
        // As in the journal: operations before the first change of the tree refer to the tree before it.
        let first = commit.operations.firstIndex { $0.path != nil } ?? commit.operations.endIndex
        content.apply(commit.operations[..<first])
        let old = content.install(tree, as: commit.sequence)
        content.apply(commit.operations[first...])
        consequences.apply(paths, old: old)
        context.meter.counters.commits += 1
        if paths.isEmpty { return }
        context.meter.spend(paths.count)
        recent.record(paths, sequence: commit.sequence)
        ring.record(paths, old: old)
        batch.retire(old)
        permissions.recheck(readers)
        publisher.publish(paths, old: old)
    }

    // MARK: Recent commits

    /// From now on commits are recorded for a write that is being prepared, until `releaseRecent`.
    func retainRecent() { recent.retain() }
    func releaseRecent() { recent.release() }

    /// Commits after this one were rolled back.
    func rollBack(to sequence: UInt64) {
        recent.rollBack(to: sequence)
        ring.rollBack()
    }
}
