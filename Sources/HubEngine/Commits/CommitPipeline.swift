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
    private let refusals: RefusalReports
    private(set) var recent: RecentCommits
    /// Commits applied to the current tree in place.
    private(set) var plainCommits = 0
    /// The index of existing copies; nil in unit tests.
    var copies: CopyIndexStore?
    /// Called with the consequences of a commit, if the rules have counters.
    var onCounted: (Consequences) -> Void = { _ in }
    /// Called after a commit that did not update the counters.
    var onUncounted: () -> Void = {}
    /// Expires nodes; nil in unit tests and on a follower.
    var expiry: ExpiryScheduler?
    /// Continues pending inbox rows and removals; nil in unit tests and on a follower.
    var inboxBackfill: InboxBackfill?
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
        var work = Int.max
        return try commit(
            writes, if: condition, by: origin, mayWait: mayWait, settling: settled, textWork: &work, includesMessages: true, admitting: admit)
    }

    /// - Parameters:
    ///   - work: remaining text work of the rules; reduced by the work done.
    ///   - includesMessages: whether a refusal contains the rules' messages. Finding these has a work limit of its own.
    func commit(
        _ writes: [TreeWrite], if condition: Condition? = nil, by origin: WriteOrigin, mayWait: Bool = false,
        settling settled: PendingInboxChange? = nil, textWork work: inout Int, includesMessages: Bool = false,
        admitting admit: (Consequences) throws(Failure) -> Void = { _ in }
    ) throws(Failure) -> UInt64? {
        // Charged also if the rules refuse the write.
        context.meter.spend(writes.depthWork)
        if condition == nil, settled == nil, let plain = PlainWrite(writes, origin, content),
            try commit(plain, origin, textWork: &work, includesMessages: includesMessages)
        {
            return content.sequence
        }
        let shaping = WriteShaping(content.rules, origin, textWork: work)
        var candidate = try Candidate(writes, on: content.root, now: context.clock(), shaping: shaping)
        // The permission is checked before the hash, so that an unauthorized client learns nothing about the content (contract §4.6).
        try permit(candidate, .write, origin, textWork: &work, includesMessages: includesMessages)
        if let condition {
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
        var found: Consequences?
        let limits = consequenceLimits(origin, writes: writes.count)
        if let consequences = CommitConsequences(content.rules, origin, limits, copies: copies?.index) {
            found = try follow(&candidate, consequences, origin, textWork: &work)
        }
        let paths = candidate.touched
        let readers = precheck.touched(by: paths, making: candidate.tree)
        if mayWait, precheck.needsPrecheck(about: readers, in: candidate.tree) { return nil }
        let values = candidate.values()
        let expiring = try expiry?.prepare(values.map(ExpiryScheduler.WrittenNodes.values) ?? .places(candidate.stored), new: candidate.tree)
        if let found { try admit(found) }
        context.meter.spend(writes.count)
        let rows = pendingInboxChanges(found, in: candidate.tree, origin, at: paths, writing: candidate.paths, settling: settled)
        let old = install(
            candidate.tree, first: pendingRemovalChanges(found), candidate.operations, also: (expiring?.times ?? []) + rows, origin, at: paths)
        if let expiring { expiry?.commit(expiring) }
        if content.rules.hasIndexedCopies { copies?.update(paths, exist: values != nil, old: old) }
        if let found { count(found) }
        permissions.recheck(readers)
        publisher.publish(paths, old: old, update: origin.update, value: found == nil ? candidate.onlyValue : nil)
        return content.sequence
    }

    /// Commits a plain write to the current tree in place, if the old tree is not needed for anything else.
    /// - Returns: false when nothing was done: the commit needs all stages.
    private func commit(_ write: PlainWrite, _ origin: WriteOrigin, textWork work: inout Int, includesMessages: Bool) throws(Failure) -> Bool {
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
                value, at: path, on: content.root, auth: origin.identity.auth, now: now, making: &made, textWork: &work)
        {
            throw refused(.write, at: path, includesMessages: includesMessages) {
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

    /// Adds the consequences of a candidate, if any.
    private func follow(
        _ candidate: inout Candidate, _ consequences: CommitConsequences, _ origin: WriteOrigin, textWork work: inout Int
    ) throws(Failure) -> Consequences? {
        let (base, tree, now) = (candidate.base, candidate.tree, candidate.now)
        do throws(CommitConsequences.Refusal) {
            // A place and its priority may be written beside places below it.
            let paths = candidate.paths.count > 1 ? candidate.paths.outermost : candidate.paths
            let found = try find(consequences, paths, old: base, new: tree, now: now, textWork: &work)
            if let found { candidate.add(found) }
            return found
        } catch {
            try refuse(error, WritePermission(rules: content.rules, origin: origin).question(candidate), origin)
            return nil
        }
    }

    /// Finds what follows from a write, and charges for the search whatever it finds.
    /// - Parameter outermost: the written places, ascending; none contains another.
    /// - Returns: nil when nothing follows.
    private func find(
        _ consequences: CommitConsequences, _ outermost: [Path], old: Node, new: Node, now: Int64, textWork work: inout Int
    ) throws(CommitConsequences.Refusal) -> Consequences? {
        guard let found = try consequences.find(outermost: outermost, old: old, new: new, now: now) else { return nil }
        context.meter.spend(
            found.keysScanned / Self.keysForWork + found.stepCount / Self.askedForWork + found.evaluated * Self.workOfEvaluation)
        if found.isEmpty { return nil }
        try consequences.admit(found, old: old, now: now, textWork: &work)
        return found
    }

    private func count(_ found: Consequences) {
        context.meter.derive(found.bytes)
        context.meter.spend(found.bytes / RequestLoop.bytesEncodedForWork)
        if content.rules.hasCounters { onCounted(found) }
        if !found.continued.isEmpty || found.continuedRemovals != nil { inboxBackfill?.rowsAdded() }
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
        settling settled: PendingInboxChange? = nil
    ) -> [JournalOperation] {
        if settled == nil, content.pendingRows.isEmpty, found == nil { return [] }
        var changes: [JournalOperation] = settled.map { [.pendingRows($0)] } ?? []
        for item in content.pendingRows.items {
            if item.removes {
                // Of the hub's own writes, only copies and inbox rows can recreate nodes of a pending removal.
                let made = (found?.writes ?? []).filter { $0.kind == .copy || $0.kind == .inbox }.map(\.path)
                let own = if case .system = origin.cause { [Path]() } else { written }
                context.meter.spend((own.count + made.count) / RequestLoop.childrenForWork)
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

    /// Reports why a node cannot expire as the rules demand.
    func report(_ fault: ConsequenceFault, at path: Path) {
        refusals.report(.write, of: path) { now in
            var question = RuleQuestion(
                operation: .write([path]), rules: content.rules, old: content.root, new: content.root, auth: RuleSet.hubAuth, now: now)
            (question.isOfHub, question.fault) = (true, fault)
            return question
        }
    }

    /// Refuses writes that are for later (onDisconnect), if the rules would refuse them now.
    func check(_ writes: [TreeWrite], by origin: WriteOrigin) throws(Failure) {
        var work = Int.max
        try check(writes, by: origin, textWork: &work)
    }

    /// - Parameter work: remaining text work of the rules; reduced by the work done.
    func check(_ writes: [TreeWrite], by origin: WriteOrigin, textWork work: inout Int) throws(Failure) {
        context.meter.spend(writes.count + writes.depthWork)
        let permission = WritePermission(rules: content.rules, origin: origin)
        if let write = permission.firstImpossible(writes, now: context.clock()) {
            throw refused(.onDisconnect, at: write.path, includesMessages: false) {
                permission.question(write, on: content.root, now: context.clock())
            }
        }
        let shaping = WriteShaping(content.rules, origin, textWork: work)
        let candidate = try Candidate(writes, on: content.root, now: context.clock(), shaping: shaping)
        try permit(candidate, .onDisconnect, origin, textWork: &work, includesMessages: false)
    }

    private func permit(
        _ candidate: Candidate, _ request: RuledRequest, _ origin: WriteOrigin, textWork work: inout Int, includesMessages: Bool
    ) throws(Failure) {
        let permission = WritePermission(rules: content.rules, origin: origin)
        if permission.allows(candidate, textWork: &work) { return }
        throw refused(request, at: candidate.paths.first ?? .root, includesMessages: includesMessages) { permission.question(candidate) }
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
        let found = try consequences(of: write, by: origin)
        let (tree, more) = (found?.tree ?? write.candidate, found?.paths ?? [])
        // The consequences are few and compared here. The rest was compared in the background.
        let changed = write.changed.with(more.filter { content.root.node(at: $0) != tree.node(at: $0) })
        let readers = precheck.touched(byMany: changed, making: tree)
        if mayWait, precheck.needsPrecheck(about: readers, in: tree) { return nil }
        let isFollowed = write.operations.count <= context.limits.followedPlaces
        let paths = (isFollowed ? write.paths : [write.commonAncestor]) + more
        let expiring = try expiry?.prepare(.places(isFollowed ? write.stored + more : more), many: isFollowed ? nil : write.expiring, new: tree)
        if let found { try admit(found) }
        context.meter.counters.prepared += 1
        let rows = pendingInboxChanges(found, in: tree, origin, at: paths, writing: write.paths)
        let following = (found?.operations ?? []) + (expiring?.times ?? []) + rows
        let old = install(
            tree, first: pendingRemovalChanges(found), write.operations, also: following, origin, at: paths, stage: stage)
        if let expiring { expiry?.commit(expiring) }
        if content.rules.hasIndexedCopies { copies?.update(write.copied + more, old: old) }
        if let found { count(found) }
        batch.retire(old)
        batch.retire(write)
        permissions.recheck(readers)
        if more.isEmpty {
            publisher.publish(prepared: write, old: old, update: origin.update)
        } else {
            publisher.publish(changed, old: old, areCompared: true, update: origin.update)
        }
        return content.sequence
    }

    /// The consequences of a prepared write, on the current tree.
    private func consequences(of write: PreparedWrite, by origin: WriteOrigin) throws(Failure) -> Consequences? {
        let limits = consequenceLimits(origin, writes: write.paths.count)
        guard let consequences = CommitConsequences(content.rules, origin, limits, copies: copies?.index) else { return nil }
        var work = Int.max
        do throws(CommitConsequences.Refusal) {
            return try find(
                consequences, write.followed, old: content.root, new: write.candidate, now: context.clock(), textWork: &work)
        } catch {
            let question = RuleQuestion(
                operation: .write(write.paths), rules: content.rules, old: content.root, new: write.candidate, auth: origin.identity.auth,
                now: context.clock())
            try refuse(error, question, origin)
            return nil
        }
    }

    // MARK: Installing

    /// - Returns: the tree before.
    private func install(
        _ tree: Node, first: [JournalOperation] = [], _ operations: [JournalOperation], also more: [JournalOperation] = [],
        _ origin: WriteOrigin, at paths: [Path], stage: JournalStage? = nil
    ) -> Node {
        if !first.isEmpty { content.apply(first) }
        let old = content.install(tree)
        var more = more
        if let forwarded = origin.forwarded { more.append(.peer(.done(forwarded.mark, at: content.sequence))) }
        if !more.isEmpty { content.apply(more) }
        context.meter.counters.commits += 1
        if case .system(let cause) = origin.cause { context.meter.counters.systemCommits[cause, default: 0] += 1 }
        batch.append(first: first, operations, also: more, pending: origin.pendingChanges, as: content.sequence, stage: stage)
        recent.record(paths, sequence: content.sequence)
        if case .imported = origin.cause { onUncounted() }
        ring?.record(paths, old: old)
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

    /// From now on commits are recorded for a write that is being prepared, until `unfollow`.
    func retainRecent() { recent.retain() }
    func releaseRecent() { recent.release() }

    /// Commits after this one were rolled back.
    func rollBack(to sequence: UInt64) {
        recent.rollBack(to: sequence)
        ring?.rollBack()
    }
}
