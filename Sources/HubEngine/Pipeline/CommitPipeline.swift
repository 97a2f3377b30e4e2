import Journal
import JSONTree
import SecurityRules

/// The stages that every commit passes: those of clients, and those of the hub itself.
///
/// ```
/// writes ─► server values ─► shape ─► candidate ─► permission ─► compare ─► consequences ─► readers ─► install ─► notify
///           ServerValues  WriteShape  Candidate  WritePermission         CommitConsequences  │        Content,    ReadPermissions,
///                                     WriteShaping                               PermissionPrecheck  Batch,      Publisher
///                                                                                                     RecentCommits
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
    private let fanOut: SingleWriteFanOut
    let refusals: RefusalReports
    private(set) var recent: RecentCommits
    /// Commits applied to the current tree in place.
    private(set) var plainCommits = 0
    /// The index of existing copies; nil in unit tests.
    var copies: CopyIndexStore?
    /// Called with the consequences of a commit.
    var onConsequences: (Consequences) -> Void = { _ in }
    /// Called after a commit that did not update the counters.
    var onUncounted: () -> Void = {}
    /// The expiring nodes; nil in unit tests and on a follower.
    var expiry: ExpiringNodes?
    /// Keeps commits for observers that resume.
    var ring: CommitRing?

    init(
        _ context: EngineContext, _ content: Content, _ batch: Batch, _ log: LogGuard, _ precheck: PermissionPrecheck,
        _ permissions: ReadPermissions, _ publisher: Publisher, _ refusals: RefusalReports
    ) {
        self.context = context
        self.content = content
        self.batch = batch
        self.log = log
        self.precheck = precheck
        self.permissions = permissions
        self.publisher = publisher
        fanOut = publisher.single
        self.refusals = refusals
        let limits = context.limits
        recent = RecentCommits(
            after: content.sequence, places: limits.recentPlaces, bytes: limits.recentBytes, commits: limits.recentCommits)
    }

    // MARK: Small commits

    /// Nodes hashed per unit of work.
    private static let hashedForWork = 2
    /// Keys scanned for consequences per unit of work, paths evaluated per unit of work, and units of work per condition.
    private static let keysForWork = 2
    private static let askedForWork = 2
    private static let workOfEvaluation = 2

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
        if proposal.condition == nil, proposal.settled == nil,
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
        let found = try follow(
            candidate.paths.count > 1 ? candidate.paths.outermost : candidate.paths, writes: writes.count, to: candidate.tree,
            now: candidate.now, proposal, WritePermission(rules: content.rules, origin: origin).question(candidate))
        if let found { candidate.add(found) }
        return try commit(AcceptedCommit(candidate, found), proposal, mayWait: mayWait, admitting: admit)
    }

    /// The last stages of every commit that has passed the rules: its readers, what expires, and its installation.
    private func commit(
        _ accepted: AcceptedCommit, _ proposal: Proposal, mayWait: Bool, admitting admit: (Consequences) throws(Failure) -> Void
    ) throws(Failure) -> UInt64? {
        let (tree, found, origin) = (accepted.tree, accepted.found, proposal.origin)
        let readers = accepted.changed.map { precheck.touched(byMany: $0, making: tree) } ?? precheck.touched(by: accepted.paths, making: tree)
        if mayWait, precheck.needsPrecheck(about: readers, in: tree) { return nil }
        let expiring = try expiry?.prepare(accepted.expiring, many: accepted.manyExpiring, new: tree)
        if let found { try admit(found) }
        context.meter.spend(proposal.writes.count)
        let rows = pendingInboxChanges(found, in: tree, origin, at: accepted.paths, writing: accepted.written, settling: proposal.settled)
        let old = install(accepted, first: pendingRemovalChanges(found), also: (expiring?.times ?? []) + rows, origin)
        if let expiring { expiry?.commit(expiring) }
        if content.rules.hasIndexedCopies { copies?.update(accepted.copied, exist: accepted.exist, old: old) }
        if let found { count(found) }
        permissions.recheck(readers)
        publisher.publish(accepted, old: old, update: origin.update)
        return content.sequence
    }

    /// Commits a plain write to the current tree in place, if the old tree is not needed for anything else.
    /// - Returns: false when nothing was done: the commit needs all stages.
    private func commit(_ write: PlainWrite, _ origin: WriteOrigin, _ proposal: Proposal) throws(Failure) -> Bool {
        let (path, value) = (write.path, write.value)
        defer { fanOut.forget() }
        guard ring?.isKeeping != true, !precheck.hasDependents(around: path), fanOut.collect(around: path) else { return false }
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
        recent.record(CollectionOfOne(path), sequence: content.sequence)
        if notifies, before == .other { fanOut.notify(value, at: path) }
        return true
    }

    /// Finds what follows from a write that the rules permit, and charges for the search whatever it finds.
    /// - Parameters:
    ///   - outermost: the written places, ascending; none contains another. Evaluated if the rules have consequences.
    ///   - writes: number of writes in the commit.
    ///   - question: the write, for the report of a refusal.
    /// - Returns: nil when nothing follows.
    private func follow(
        _ outermost: @autoclosure () -> [Path], writes: Int, to new: Node, now: Int64, _ proposal: Proposal,
        _ question: @autoclosure () -> RuleQuestion
    ) throws(Failure) -> Consequences? {
        let (origin, old) = (proposal.origin, content.root)
        let limits = consequenceLimits(origin, writes: writes)
        guard let consequences = CommitConsequences(content.rules, origin, limits, copies: copies?.index) else { return nil }
        do throws(CommitConsequences.Refusal) {
            guard let found = try consequences.find(outermost: outermost(), old: old, new: new, now: now) else { return nil }
            context.meter.spend(
                found.keysScanned / Self.keysForWork + found.stepCount / Self.askedForWork + found.evaluated * Self.workOfEvaluation)
            if found.isEmpty { return nil }
            try consequences.admit(found, old: old, now: now, textWork: &proposal.textWork)
            return found
        } catch {
            try refuse(error, question(), origin)
            return nil
        }
    }

    private func count(_ found: Consequences) {
        context.meter.derive(found.bytes)
        context.meter.spend(found.bytes / RequestCost.bytesEncodedForWork)
        onConsequences(found)
        // Writes of one kind are adjacent. Indexing avoids copying the writes.
        let writes = found.writes
        var (first, work) = (0, 0)
        for i in writes.indices {
            work += 1 + writes[i].path.depth / 8
            guard i + 1 == writes.count || writes[i + 1].kind != writes[first].kind else { continue }
            context.meter.counters.systemWrites[writes[first].kind, default: 0] += i + 1 - first
            first = i + 1
        }
        context.meter.spend(work)
    }

    private func mustTake(_ origin: WriteOrigin) throws(Failure) {
        try log.mustAcceptWrites()
        // This follower was removed meanwhile. It will send the request again if it comes back.
        if let forwarded = origin.forwarded, content.peers[forwarded.mark.hub]?.joined != forwarded.joined { throw .hubGone }
    }

    // MARK: Pending rows and removals

    /// The limits of a commit's consequences, given the rows and removals already pending.
    /// - Parameter writes: number of writes in the commit.
    private func consequenceLimits(_ origin: WriteOrigin, writes: Int) -> ConsequenceLimits {
        var limits = context.limits.consequences
        switch origin.cause {
        // A continued removal is pending already, and may always be continued again.
        case .system(.removal): limits.continuesRemovals = .always
        // Several are retried as fewer, which keeps the counters in the same commits. A single one must succeed.
        case .system(.accountDeletion): limits.continuesRemovals = writes > 1 ? .never : .always
        default: break
        }
        for item in content.pendingRows.items {
            limits.pendingRows += item.left
            limits.pendingBySource[item.source, default: 0] += 1
        }
        return limits
    }

    /// A commit's changes to pending rows and removals: those it adds, and those it ends because their source node was removed or imported
    /// again.
    /// - Parameters:
    ///   - written: the paths written directly, without consequences.
    ///   - settled: a further change that the commit makes to them.
    private func pendingInboxChanges(
        _ found: Consequences?, in tree: Node, _ origin: WriteOrigin, at paths: [Path], writing written: [Path],
        settling settled: PendingInboxChange?
    ) -> [JournalOperation] {
        if settled == nil, content.pendingRows.isEmpty, found == nil { return [] }
        var changes: [JournalOperation] = settled.map { [.pendingRows($0)] } ?? []
        for item in content.pendingRows.items {
            if item.removes {
                // Of the hub's own writes, only copies and inbox rows can recreate nodes of a pending removal.
                let made = (found?.writes ?? []).filter { $0.kind == .copy || $0.kind == .inbox }.map(\.path)
                let own = if case .system = origin.cause { [Path]() } else { written }
                context.meter.spend((own.count + made.count) / RequestCost.childrenForWork)
                changes += item.kept(by: own + made, old: content.root, in: tree)
                continue
            }
            let isReplaced = !origin.isFollowed && paths.contains { $0.contains(item.source) }
            if isReplaced || !tree.node(at: item.source).exists { changes.append(.pendingRows(.end(item.id))) }
        }
        for (i, continued) in (found?.continued ?? []).enumerated() {
            let id = content.pendingRows.nextID + Int64(i)
            changes.append(.pendingRows(.begin(id, source: continued.rows.source, most: continued.most, continued.rows.terms)))
        }
        return changes
    }

    /// The pending removals of a commit that has too many consequences. Logged before its other operations, because the tree before the
    /// commit determines what follows.
    private func pendingRemovalChanges(_ found: Consequences?) -> [JournalOperation] {
        guard let removals = found?.continuedRemovals else { return [] }
        let id = content.pendingRows.nextID + Int64(found?.continued.count ?? 0)
        return [.pendingRows(.begin(id, source: removals.source, most: removals.places.count, removals.terms))]
    }

    /// Refuses a commit because of its consequences. The hub's own commits proceed without them, because data of a deleted account must not
    /// stay. Several account deletions or counter corrections at once are refused, to be retried as fewer.
    private func refuse(_ refusal: CommitConsequences.Refusal, _ asked: RuleQuestion, _ origin: WriteOrigin) throws(Failure) {
        var question = asked
        question.consequences = context.limits.consequences
        question.isRuled = origin.isRuled
        if case .write(let paths) = question.operation { refusals.report(.write, of: paths.first ?? .root) { _ in question } }
        // Charge the failed search in full.
        if case .fault(let fault) = refusal {
            switch fault.reason {
            case .tooManyKeys(let limit): context.meter.spend(limit / Self.keysForWork)
            case .tooManyProcessed(let limit): context.meter.spend(limit / Self.askedForWork)
            default: break
            }
        }
        guard case .system(let cause) = origin.cause, !origin.mustBeValid else { throw refusal.failure }
        // Several writes are retried as fewer, so that their consequences are kept. A single wrong counter would be recounted forever.
        if case .write(let paths) = asked.operation, paths.count > 1 { throw refusal.failure }
        if cause == .counters { return }
        // This commit does not update the counters.
        onUncounted()
    }

    /// Reports why the hub's own write at a path is impossible.
    func report(_ fault: ConsequenceFault, at path: Path) { refusals.report(fault, at: path) }

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
        let found = try follow(
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
        if case .imported = origin.cause { onUncounted() }
        ring?.record(accepted.paths, old: old)
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
        if content.rules.hasIndexedCopies { copies?.update(paths, old: old) }
        context.meter.counters.commits += 1
        if paths.isEmpty { return }
        context.meter.spend(paths.count)
        recent.record(paths, sequence: commit.sequence)
        ring?.record(paths, old: old)
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
        ring?.rollBack()
    }
}
