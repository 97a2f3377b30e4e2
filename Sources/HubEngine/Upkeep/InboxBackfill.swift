import Journal
import JSONTree
import SecurityRules

/// Continues pending inbox rows (`.inbox`), rows of watches and removals in follow-up commits, a limited number per turn, one source node after the other.
///
/// ```
/// commit ─► recipients: in the background, in the tree of that commit ─► stored, a part per turn ─► rows, a part per turn ─► done
/// start, rollback ─► remaining rows ────────┴─────────────────────────────────────────────────────┴─ with its progress, in one commit
/// ```
/// All of its state is journalled with the commits (`PendingInboxRows`). So nothing is repeated or lost, wherever the hub was stopped. A row that
/// is refused on its own is skipped and reported.
///
/// Confined to the database queue.
final class InboxBackfill: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let commits: CommitPipeline
    private let refusals: RefusalReports
    /// Whether other work still comes first.
    private let mustWait: () -> Bool
    /// The rules of the commits that left rows pending, until the recipients are known. For commits of an earlier process: the current
    /// rules.
    private var rules: [Int64: RuleSet] = [:]
    private var isWorking = false
    /// Incremented when it starts over. Results of work begun before a rollback are discarded.
    private var work = 0
    /// Rows of the next commit: fewer if they have too many consequences.
    private var part: Int
    /// Its last commits that still wait for the log.
    private var waiting: [UInt64] = []
    /// Called when the recipients of all pending rows are known.
    private var listeners: [@Sendable () -> Void] = []

    /// Recipients stored per commit.
    private static let listedAtOnce = 1_000
    /// Own commits, and commits of all, waiting for the log above which it pauses; and ms until that is checked again.
    private static let waitingCommits = 4
    private static let waitingCommitsOfAll = 1_000
    private static let waitMs: Int64 = 2

    init(
        _ context: EngineContext, _ content: Content, _ durability: DurabilityQueue, _ log: LogGuard, _ commits: CommitPipeline,
        _ refusals: RefusalReports, mustWait: @escaping () -> Bool
    ) {
        self.context = context
        self.content = content
        self.durability = durability
        self.log = log
        self.commits = commits
        self.refusals = refusals
        self.mustWait = mustWait
        part = context.limits.continuedAtOnce
    }

    /// Continues pending work, at the start and after a rollback.
    func begin() {
        work += 1
        rules = rules.filter { content.pendingRows[$0.key] != nil }
        (isWorking, waiting, part) = (false, [], context.limits.continuedAtOnce)
        resume()
    }

    /// Stops all work.
    func stop() {
        work += 1
        rules = [:]
        context.meter.counters.owedRows = 0
        let bodies = listeners
        listeners = []
        for body in bodies { body() }
    }

    /// A commit has left rows or removals pending.
    func rowsAdded() {
        for item in content.pendingRows.items where !item.isListed && rules[item.id] == nil { rules[item.id] = content.rules }
        resume()
    }

    /// Calls back when the recipients of all pending rows are known; at once if they are.
    func whenRecipientsKnown(_ body: @escaping @Sendable () -> Void) {
        if isListed { body() } else { listeners.append(body) }
    }

    /// Whether the recipients of all pending rows are known.
    var isListed: Bool { content.pendingRows.items.allSatisfy(\.isListed) }

    private func resume() {
        count()
        guard !isWorking, !content.pendingRows.isEmpty else { return notifyListeners() }
        isWorking = true
        next()
    }

    private func next() {
        let number = work
        context.queue.async { [self] in turn(number) }
    }

    /// Does the next part. Recipients are determined first, because the old trees are retained until then.
    private func turn(_ number: Int) {
        guard number == work else { return }
        if mustPause { return pause { $0.turn(number) } }
        guard let item = content.pendingRows.items.first(where: { !$0.isListed }) ?? content.pendingRows.items.first else {
            isWorking = false
            count()
            return context.meter.publish()
        }
        item.isListed ? makeNext(item) : list(item, number)
    }

    // MARK: Pauses

    private var mustPause: Bool {
        waiting.removeAll { $0 <= durability.durable.sequence || !durability.isBehind }
        return log.isRefusing || mustWait() || waiting.count >= Self.waitingCommits || durability.waitingCommits > Self.waitingCommitsOfAll
    }

    private func pause(_ work: @escaping @Sendable (InboxBackfill) -> Void) {
        context.later(ms: log.isDiskRefusing ? Int64(context.limits.retryMs) : Self.waitMs) { [weak self] in if let self { work(self) } }
    }

    // MARK: Recipients

    private func list(_ item: PendingInboxRows.Item, _ number: Int) {
        let rules = rules[item.id] ?? content.rules
        if let base = item.base, let removals = ContinuedRemovals(item.terms) {
            return context.compute { removals.list(rules, in: base) } then: { [self] in store($0[...], item.id, number) }
        }
        guard let base = item.base, let rows = ContinuedRows(item.terms) else { return end(item) }
        context.compute { rules.reached(by: rows, in: base) } then: { [self] reached in
            if let reached { store(reached[...], item.id, number) } else { lose(rows, item.id, number) }
        }
    }

    /// Stores a part of the recipients.
    private func store(_ reached: ArraySlice<Key>, _ id: Int64, _ number: Int) {
        guard number == work, let item = content.pendingRows[id] else { return isOver(number, releasing: reached) }
        if mustPause { return pause { $0.store(reached, id, number) } }
        // A part may have been stored before a rollback or a restart.
        let rest = item.lastListed.map { last in reached.drop { $0 <= last } } ?? reached
        let (part, left) = (rest.prefix(Self.listedAtOnce), rest.dropFirst(Self.listedAtOnce))
        settle(.list(id, Array(part), isLast: left.isEmpty))
        if !left.isEmpty { return context.queue.async { [self] in store(left, id, number) } }
        rules[id] = nil
        if let base = item.base { context.release([base]) }
        isOver(number, releasing: reached)
    }

    /// Ends rows whose recipients the current rules no longer determine. That happens if the hub was stopped before the recipients were
    /// stored.
    private func lose(_ rows: ContinuedRows, _ id: Int64, _ number: Int) {
        guard number == work, let item = content.pendingRows[id] else { return isOver(number) }
        if mustPause { return pause { $0.lose(rows, id, number) } }
        refusals.report(rows.lost, at: rows.source)
        end(item)
    }

    private func isOver(_ number: Int, releasing reached: ArraySlice<Key> = []) {
        context.release([reached])
        guard number == work else { return }
        if content.pendingRows.isEmpty { rules = [:] }
        notifyListeners()
        next()
    }

    private func notifyListeners() {
        guard !listeners.isEmpty, isListed else { return }
        let bodies = listeners
        listeners = []
        for body in bodies { body() }
    }

    // MARK: Rows and removals

    /// The writes of the next part; nil if their description is unreadable.
    private func writes(_ item: PendingInboxRows.Item, _ reached: [Key]) -> (writes: [TreeWrite], cause: SystemCause, kind: ConsequenceKind)? {
        if item.removes { return (item.removals(reached, in: content.root), .removal, .removes) }
        if ContinuedHits.areDescribed(by: item.terms) { return (hits(reached), .watch, .watch) }
        guard let rows = ContinuedRows(item.terms) else { return nil }
        let writes = reached.compactMap { key -> TreeWrite? in
            let place = rows.place(of: key)
            guard !item.without.contains(key), content.root.node(at: place) != rows.value else { return nil }
            return TreeWrite(place, WriteValue(rows.value))
        }
        return (writes, .inbox, .inbox)
    }

    /// The rows of these hits. Two may have one place: then the later one counts.
    private func hits(_ keys: [Key]) -> [TreeWrite] {
        let rows = content.rules.rows(of: keys.compactMap { ContinuedHits.pair(of: $0) }, in: content.root, now: context.clock())
        let last = Dictionary(rows.map { ($0.path, $0.value) }) { $1 }
        return last.keys.sorted().compactMap { path in
            guard let value = last[path], content.root.node(at: path) != value else { return nil }
            return TreeWrite(path, WriteValue(value))
        }
    }

    private func makeNext(_ item: PendingInboxRows.Item) {
        let reached = item.next(part)
        guard let (writes, cause, kind) = writes(item, reached) else { return end(item) }
        let done = PendingInboxChange.advance(item.id, reached.count)
        guard !writes.isEmpty else {
            settle(done)
            return next()
        }
        context.meter.beginTurn()
        do throws(Failure) {
            _ = try commits.commit(writes, by: .system(cause), settling: done)
            context.meter.counters.systemWrites[kind, default: 0] += writes.count
            // Rows may have as many consequences and observers as other writes. After a long turn, the next one writes fewer.
            part = context.meter.work > context.limits.turnWork / 4 ? max(1, part / 2) : min(part * 2, context.limits.continuedAtOnce)
            finishTurn()
        } catch {
            durability.finishBatch()
            if log.isRefusing { return next() }
            // Too many consequences, or a `.validate` refuses one row: retry with fewer, down to one, which is then skipped.
            if reached.count > 1 { part = max(1, reached.count / 4) } else { settle(done) }
        }
        next()
    }

    private func end(_ item: PendingInboxRows.Item) {
        rules[item.id] = nil
        settle(.end(item.id))
        notifyListeners()
        next()
    }

    /// A commit that changes only the pending rows and removals.
    private func settle(_ change: PendingInboxChange) {
        context.meter.beginTurn()
        commits.record([.pendingRows(change)])
        finishTurn()
    }

    private func finishTurn() {
        if durability.isBehind { waiting.append(content.sequence) }
        count()
        durability.finishBatch()
    }

    private func count() { context.meter.counters.owedRows = content.pendingRows.items.reduce(0) { $0 + $1.left } }
}
