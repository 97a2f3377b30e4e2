import Journal
import JSONTree
import SecurityRules

/// What follows from a commit by the rules, as a stage of `CommitPipeline`: further writes of the same commit, rows and removals that later
/// commits continue, nodes that expire, and the index of copies.
///
/// ```
/// candidate ─► find ─► prepare ─► the commit is installed ─► apply ─► counters, expiry, index of copies
///               └ refused: too many, or impossible
/// ```
/// Confined to the database queue.
final class ConsequenceStage {
    private let context: EngineContext
    private let content: Content
    private let refusals: RefusalReports
    /// The index of existing copies.
    let copies: CopyIndexStore
    /// The index of watches.
    let watches: WatchIndexStore
    /// The expiring nodes; nil in unit tests and on a follower.
    var expiry: ExpiringNodes?
    /// Called with the consequences of a commit.
    var onFound: (Consequences) -> Void = { _ in }
    /// A delivery, and the form in which it is stored.
    typealias AdmittedDelivery = (delivery: StoredDelivery, node: Node)
    /// Selects the deliveries of a commit that are stored, or refuses the commit. The second argument says whether a client made it.
    var admitsDeliveries: ([RuleDelivery], Bool) throws(Failure) -> [AdmittedDelivery] = { found, _ throws(Failure) in
        found.map { delivery in
            let stored = StoredDelivery(delivery)
            return (stored, stored.contentNode)
        }
    }
    /// Called with the deliveries that a commit has stored.
    var onStored: ([(id: Key, admitted: AdmittedDelivery)]) -> Void = { _ in }
    /// Called after a commit that did not update the counters.
    var onUncounted: () -> Void = {}

    init(_ context: EngineContext, _ content: Content, _ refusals: RefusalReports, _ copies: CopyIndexStore, _ watches: WatchIndexStore) {
        self.context = context
        self.content = content
        self.refusals = refusals
        self.copies = copies
        self.watches = watches
    }

    /// Builds the indexes of copies and watches.
    func beginIndexes() {
        copies.begin()
        watches.begin()
    }

    // MARK: Finding

    /// Keys scanned for consequences per unit of work, paths evaluated per unit of work, and units of work per condition.
    private static let keysForWork = 2
    private static let askedForWork = 2
    private static let workOfEvaluation = 2

    /// Finds what follows from a write that the rules permit, and charges for the search whatever it finds.
    /// - Parameters:
    ///   - outermost: the written places, ascending; none contains another. Evaluated if the rules have consequences.
    ///   - writes: number of writes in the commit.
    ///   - question: the write, for the report of a refusal.
    /// - Returns: nil when nothing follows.
    func find(
        _ outermost: @autoclosure () -> [Path], writes: Int, to new: Node, now: Int64, _ proposal: Proposal,
        _ question: @autoclosure () -> RuleQuestion
    ) throws(Failure) -> Consequences? {
        let (origin, old) = (proposal.origin, content.root)
        let limits = consequenceLimits(origin, writes: writes)
        guard let consequences = CommitConsequences(content.rules, origin, limits, copies: copies.index, watches: watchState) else {
            return nil
        }
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

    private var watchState: WatchState {
        let hits = content.watchHits
        return WatchState(index: watches.index) { hits.mutedUntil(watch: $0.watch, number: $0.number, item: $0.item) }
    }

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

    // MARK: Committing

    /// The operations that a commit stores besides its writes and consequences.
    struct PreparedOperations {
        /// Logged before its other operations, and after them.
        let first: [JournalOperation]
        let more: [JournalOperation]
        fileprivate let deliveries: [(id: Key, admitted: AdmittedDelivery)]
        fileprivate let expiring: ExpiringNodes.PreparedChanges?
    }

    /// Prepares the rest of a commit that has passed the rules.
    /// - Parameter admit: may refuse the consequences.
    func prepare(
        _ accepted: AcceptedCommit, _ proposal: Proposal, admitting admit: (Consequences) throws(Failure) -> Void
    ) throws(Failure) -> PreparedOperations {
        let found = accepted.found
        let expiring = try expiry?.prepare(accepted.expiring, many: accepted.manyExpiring, new: accepted.tree)
        if let found { try admit(found) }
        context.meter.spend(proposal.writes.count)
        // Most commits have nothing else to store.
        guard found != nil || proposal.settled != nil || !proposal.deliveries.isEmpty || !content.pendingRows.isEmpty || !content.watchHits.isEmpty
        else { return PreparedOperations(first: [], more: expiring?.times ?? [], deliveries: [], expiring: expiring) }
        let rows = hitChanges(found, accepted) + pendingInboxChanges(
            found, in: accepted.tree, proposal.origin, at: accepted.paths, writing: accepted.written, settling: proposal.settled)
        let (removals, deliveries) = (pendingRemovals(found), try deliveries(found, proposal.origin))
        let stored = deliveries.map { JournalOperation.delivery($0.id, $0.admitted.node) } + proposal.deliveries
        return PreparedOperations(
            first: removals.before, more: (expiring?.times ?? []) + rows + removals.after + stored, deliveries: deliveries,
            expiring: expiring)
    }

    /// Follows a commit that was just installed.
    /// - Parameter old: the tree before it.
    func apply(_ accepted: AcceptedCommit, _ prepared: PreparedOperations, _ origin: WriteOrigin, old: Node) {
        if case .imported = origin.cause { onUncounted() }
        if let expiring = prepared.expiring { expiry?.commit(expiring) }
        if content.rules.hasIndexedCopies { copies.update(accepted.copied, exist: accepted.exist, old: old) }
        if content.rules.hasWatches { watches.update(accepted.changed ?? accepted.paths, old: old) }
        if let found = accepted.found { count(found) }
        if !prepared.deliveries.isEmpty { onStored(prepared.deliveries) }
    }

    /// Follows a commit of another writer, whose consequences are among its writes.
    func apply(_ paths: [Path], old: Node) {
        if content.rules.hasIndexedCopies { copies.update(paths, old: old) }
        if content.rules.hasWatches { watches.update(paths, old: old) }
    }

    private func count(_ found: Consequences) {
        context.meter.counters.deliveriesLeftOut += found.deliveriesLeftOut
        context.meter.derive(found.bytes)
        context.meter.spend(found.bytes / RequestCost.bytesEncodedForWork)
        onFound(found)
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

    // MARK: Deliveries

    /// The deliveries of the next commit, with ids. Counts of notifications cause none, so that no counting ever sends the next one.
    private func deliveries(_ found: Consequences?, _ origin: WriteOrigin) throws(Failure) -> [(id: Key, admitted: AdmittedDelivery)] {
        guard let found, !found.deliveries.isEmpty else { return [] }
        if case .system(.delivery) = origin.cause { return [] }
        context.meter.spend(found.deliveries.count)
        let isRequest = if case .request = origin.cause { true } else { false }
        let (sequence, now) = (content.sequence + 1, context.clock())
        return try admitsDeliveries(found.deliveries, isRequest).enumerated().map {
            (StoredDelivery.id(sequence, $0, at: now), $1)
        }
    }

    // MARK: Hits of watches

    /// A commit's changes to the hits that watches remember: those of watches and children that it removes, and its own.
    private func hitChanges(_ found: Consequences?, _ accepted: AcceptedCommit) -> [JournalOperation] {
        var changes: [JournalOperation] = []
        if !content.watchHits.isEmpty {
            for path in accepted.changed ?? accepted.paths {
                changes += content.watchHits.gone(at: path, in: accepted.tree).map { .watch(.forget($0)) }
            }
        }
        for hit in found?.hits ?? [] {
            let pair = hit.pair
            changes.append(.watch(.muted(watch: pair.watch, number: pair.number, item: pair.item, until: hit.mutedUntil)))
        }
        context.meter.spend(changes.count)
        return changes
    }

    // MARK: Pending rows and removals

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
                // Of the hub's own writes, only copies, inbox rows and hits can recreate nodes of a pending removal.
                let made = (found?.writes ?? []).filter { [.copy, .inbox, .watch].contains($0.kind) }.map(\.path)
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
        if let hits = found?.continuedHits, !hits.isEmpty {
            // The number before it is that of removals.
            let id = content.pendingRows.nextID + Int64(found?.continued.count ?? 0) + 1
            changes.append(.pendingRows(.begin(id, source: .root, most: hits.count, ContinuedHits.terms)))
            changes.append(.pendingRows(.list(id, hits.map { ContinuedHits.key(of: $0) }, isLast: true)))
        }
        return changes
    }

    /// The pending removals of a commit that has too many consequences: those that refer to the tree before the commit are logged before its
    /// other operations, those that refer to the tree after it behind them.
    private func pendingRemovals(_ found: Consequences?) -> (before: [JournalOperation], after: [JournalOperation]) {
        guard let removals = found?.continuedRemovals else { return ([], []) }
        let id = content.pendingRows.nextID + Int64(found?.continued.count ?? 0)
        func begin(_ part: ContinuedRemovals, _ id: Int64) -> [JournalOperation] {
            if part.isEmpty { return [] }
            return [.pendingRows(.begin(id, source: part.source, most: part.places.count + part.targets.count, part.terms))]
        }
        return (begin(removals.ofRemovals, id), begin(removals.ofChanges, id + 1))
    }
}
