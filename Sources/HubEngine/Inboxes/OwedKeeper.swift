import Journal
import JSONTree
import SecurityRules

/// Makes the rows that commits owe (`.inbox`), and the removals that follow from others, in commits of their own, so many in a turn, one
/// node's behind another's.
///
/// ```
/// commit owes ─► who is reached: beside the queue, in the tree of then ─► kept, a part in a turn ─► rows, a part in a turn ─► over
/// start, rollback ─► what is owed still ─┴──────────────────────────────────────────────────────┴─ with how far it came, in one commit
/// ```
/// All that it goes by is journalled with the commits (`OwedRows`), so that nothing is done twice and nothing is left out, wherever the hub
/// was stopped. A row that is refused by itself is left out, and reported.
///
/// Confined to the database queue.
final class OwedKeeper: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityLine
    private let log: LogGuard
    /// The rules of the commits whose rows are owed, until it is known who is reached. Of an earlier process: those of now.
    private var rules: [Int64: RuleSet] = [:]
    private var isWorking = false
    /// Number of the work: what was begun before commits were taken back is of no use.
    private var work = 0
    /// Rows of the next commit: fewer where too much would follow.
    private var part: Int
    /// The last commits, as far as they wait for the log.
    private var waiting: [UInt64] = []
    /// Called when it is known of all that is owed who is reached.
    private var listeners: [@Sendable () -> Void] = []
    /// Makes the commits; asked for, as it tells the keeper of what they owe.
    var commits: () -> CommitLine? = { nil }
    /// Whether others come before it still.
    var mustWait: () -> Bool = { false }

    /// Keys that are kept with one commit.
    private static let listedAtOnce = 1_000
    /// Own commits, and those of all, that may wait for the log before more are made, and ms until that is looked at again.
    private static let waitingCommits = 4
    private static let waitingCommitsOfAll = 1_000
    private static let waitMs: Int64 = 2

    init(_ context: EngineContext, _ content: Content, _ durability: DurabilityLine, _ log: LogGuard) {
        self.context = context
        self.content = content
        self.durability = durability
        self.log = log
        part = context.limits.continuedAtOnce
    }

    /// Goes on with what is owed: at the start, and after commits were taken back.
    func begin() {
        work += 1
        rules = rules.filter { content.owed[$0.key] != nil }
        (isWorking, waiting, part) = (false, [], context.limits.continuedAtOnce)
        goOn()
    }

    /// Nothing is made any more.
    func stop() {
        work += 1
        rules = [:]
        context.meter.counters.owedRows = 0
        let bodies = listeners
        listeners = []
        for body in bodies { body() }
    }

    /// A commit owes something.
    func note() {
        for item in content.owed.items where !item.isListed && rules[item.id] == nil { rules[item.id] = content.rules }
        goOn()
    }

    /// Calls back when it is known of all that is owed who is reached, at once if it is.
    func whenListed(_ body: @escaping @Sendable () -> Void) {
        if isListed { body() } else { listeners.append(body) }
    }

    /// Whether that is known.
    var isListed: Bool { content.owed.items.allSatisfy(\.isListed) }

    private func goOn() {
        count()
        guard !isWorking, !content.owed.isEmpty else { return tellListeners() }
        isWorking = true
        next()
    }

    private func next() {
        let number = work
        context.queue.async { [self] in turn(number) }
    }

    /// Does the next part. Finding out who is reached comes first: the trees are kept until then.
    private func turn(_ number: Int) {
        guard number == work else { return }
        if mustPause { return pause { $0.turn(number) } }
        guard let item = content.owed.items.first(where: { !$0.isListed }) ?? content.owed.items.first else {
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

    private func pause(_ work: @escaping @Sendable (OwedKeeper) -> Void) {
        context.later(ms: log.isDiskRefusing ? Int64(context.limits.retryMs) : Self.waitMs) { [weak self] in if let self { work(self) } }
    }

    // MARK: Who is reached

    private func list(_ item: OwedRows.Item, _ number: Int) {
        let rules = rules[item.id] ?? content.rules
        if let base = item.base, let removals = ContinuedRemovals(item.terms) {
            return context.background.run(.upkeep) { [self] in
                let reached = removals.list(rules, in: base)
                context.queue.async { [self] in take(reached[...], item.id, number) }
            }
        }
        guard let base = item.base, let rows = ContinuedRows(item.terms) else { return end(item) }
        context.background.run(.upkeep) { [self] in
            let reached = rules.reached(by: rows, in: base)
            context.queue.async { [self] in
                if let reached { take(reached[...], item.id, number) } else { lose(rows, item.id, number) }
            }
        }
    }

    /// Keeps some of those who are reached.
    private func take(_ reached: ArraySlice<Key>, _ id: Int64, _ number: Int) {
        guard number == work, let item = content.owed[id] else { return isOver(number, releasing: reached) }
        if mustPause { return pause { $0.take(reached, id, number) } }
        // A part may have been kept before commits were taken back, or the hub was stopped.
        let rest = item.lastListed.map { last in reached.drop { $0 <= last } } ?? reached
        let (part, left) = (rest.prefix(Self.listedAtOnce), rest.dropFirst(Self.listedAtOnce))
        settle(.list(id, Array(part), isLast: left.isEmpty))
        if !left.isEmpty { return context.queue.async { [self] in take(left, id, number) } }
        rules[id] = nil
        if let base = item.base { context.release([base]) }
        isOver(number, releasing: reached)
    }

    /// The rules do not say any more who is reached: those of a hub that was stopped in the moment in which that was found out.
    private func lose(_ rows: ContinuedRows, _ id: Int64, _ number: Int) {
        guard number == work, let item = content.owed[id] else { return isOver(number) }
        if mustPause { return pause { $0.lose(rows, id, number) } }
        commits()?.report(rows.lost, at: rows.source)
        end(item)
    }

    private func isOver(_ number: Int, releasing reached: ArraySlice<Key> = []) {
        context.release([reached])
        guard number == work else { return }
        if content.owed.isEmpty { rules = [:] }
        tellListeners()
        next()
    }

    private func tellListeners() {
        guard !listeners.isEmpty, isListed else { return }
        let bodies = listeners
        listeners = []
        for body in bodies { body() }
    }

    // MARK: Rows and removals

    /// The next part of what is owed; nil for what no hub has kept.
    private func writes(_ item: OwedRows.Item, _ reached: [Key]) -> (writes: [TreeWrite], cause: SystemCause, kind: ConsequenceKind)? {
        if item.removes { return (item.removals(reached, in: content.root), .removal, .removes) }
        guard let rows = ContinuedRows(item.terms) else { return nil }
        let writes = reached.compactMap { key -> TreeWrite? in
            let place = rows.place(of: key)
            guard !item.without.contains(key), content.root.node(at: place) != rows.value else { return nil }
            return TreeWrite(place, WriteValue(rows.value))
        }
        return (writes, .inbox, .inbox)
    }

    private func makeNext(_ item: OwedRows.Item) {
        let reached = item.next(part)
        guard let (writes, cause, kind) = writes(item, reached) else { return end(item) }
        let done = OwedChange.advance(item.id, reached.count)
        guard !writes.isEmpty else {
            settle(done)
            return next()
        }
        context.meter.beginTurn()
        do throws(Failure) {
            _ = try commits()?.commit(writes, by: .system(cause), settling: done)
            context.meter.counters.systemWrites[kind, default: 0] += writes.count
            // Rows may have as much follow, and as many observers, as others: what has taken a long turn is less in the next one.
            part = context.meter.work > context.limits.turnWork / 4 ? max(1, part / 2) : min(part * 2, context.limits.continuedAtOnce)
            finishTurn()
        } catch {
            durability.finishBatch()
            if log.isRefusing { return next() }
            // More would follow than may, or a `.validate` refuses one of them: from fewer, down to one, which is left out.
            if reached.count > 1 { part = max(1, reached.count / 4) } else { settle(done) }
        }
        next()
    }

    private func end(_ item: OwedRows.Item) {
        rules[item.id] = nil
        settle(.end(item.id))
        tellListeners()
        next()
    }

    /// A commit that changes what is owed, and nothing else.
    private func settle(_ change: OwedChange) {
        context.meter.beginTurn()
        commits()?.record([.owed(change)])
        finishTurn()
    }

    private func finishTurn() {
        if durability.isBehind { waiting.append(content.sequence) }
        count()
        durability.finishBatch()
    }

    private func count() { context.meter.counters.owedRows = content.owed.items.reduce(0) { $0 + $1.left } }
}
