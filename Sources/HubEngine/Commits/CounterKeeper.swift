import JSONTree
import Scheduling
import SecurityRules

/// Has the rules' counters right after what no commit has kept them in: a start, a deploy, an import, a new node with a large set.
/// All sets are counted beside the queue; what was found to be wrong is corrected by its difference, so that what commits have
/// changed meanwhile stays.
///
/// ```
/// begin ─► tree of now: counted in the background ─► differences ─► queue: so many in a turn, as commits of the hub
///            └ commits go on, and keep the counters in the same steps ┘
/// ```
/// Confined to the database queue.
final class CounterKeeper: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityLine
    private let log: LogGuard
    private let commits: CommitLine
    private let derived: DerivedData
    private var isCounting = false
    private var hasEnded = false
    /// Whether what is found is of no use, for commits were taken back.
    private var isStale = false
    /// Whether to count once more when this is done.
    private var mustCountAgain = false
    /// When this count began, steady ms.
    private var beganAt: Int64 = 0
    /// Counters of nodes that were made since the tree that is counted: they were counted by themselves.
    private var counted: Set<Path> = []

    /// Counters that are corrected in one turn.
    private static let correctedAtOnce = 200

    init(
        _ context: EngineContext, _ content: Content, _ durability: DurabilityLine, _ log: LogGuard, _ commits: CommitLine,
        _ derived: DerivedData
    ) {
        self.context = context
        self.content = content
        self.durability = durability
        self.log = log
        self.commits = commits
        self.derived = derived
    }

    /// Counts everything, if the rules have counters.
    func begin() {
        if hasEnded { return }
        guard content.rules.hasCounters else { return derived.hold(.counters) }
        derived.begin(.counters)
        guard !isCounting else { return mustCountAgain = true }
        (isCounting, isStale, mustCountAgain) = (true, false, false)
        beganAt = context.scheduler.steadyMs
        context.meter.counters.countings += 1
        let (rules, root, number) = (content.rules, content.root, content.rulesNumber)
        context.background.run(.upkeep) { [self] in
            let found = rules.countAll(in: root)
            context.queue.async { [self] in correct(found[...], number, atOnce: Self.correctedAtOnce) }
        }
    }

    /// Nothing is counted any more.
    func stop() {
        (hasEnded, isStale) = (true, true)
        derived.hold(.counters)
    }

    /// A commit has counted sets of new nodes.
    func note(_ found: Consequences) {
        if isCounting { counted.formUnion(found.counted) }
        if found.needsCounting { begin() }
    }

    /// Commits were taken back, perhaps some that had corrected.
    func rolledBack() {
        if isCounting { isStale = true } else { begin() }
    }

    /// - Parameter most: counters of this turn.
    private func correct(_ found: ArraySlice<CounterCorrection>, _ number: Int, atOnce most: Int) {
        guard number == content.rulesNumber, !isStale else {
            context.release([found])
            return end(mayWait: false)
        }
        if found.isEmpty {
            // The list of all of them: as long as there are nodes with counters.
            context.release([found])
            // Those of large new nodes meanwhile have a count of their own.
            derived.hold(.counters)
            return end(mayWait: true)
        }
        if log.isRefusing {
            // What others write then is refused as well.
            context.later(ms: Int64(context.limits.retryMs)) { [weak self] in
                self?.correct(found, number, atOnce: most)
            }
            return
        }
        context.meter.beginTurn()
        let part = found.prefix(most)
        var next = min(most * 2, Self.correctedAtOnce)
        var writes: [TreeWrite] = []
        for correction in part where !counted.contains(correction.path) {
            switch correction.outcome(in: content.root) {
            case .isRight: break
            case .write(let value): writes.append(TreeWrite(correction.path, WriteValue(value)))
            case .countAgain: mustCountAgain = true
            }
        }
        if !writes.isEmpty {
            // What would follow from so many at once may be too much: then from fewer in a turn, down to one.
            if (try? commits.commit(writes, by: .system(.counters))) == nil, part.count > 1 {
                durability.finishBatch()
                return context.queue.async { [self] in correct(found, number, atOnce: max(1, part.count / 4)) }
            }
            // Each counter may have as much follow: what has taken a turn's work is not to be twice as much in the next one.
            if context.meter.work > context.limits.turnWork / 4 { next = max(1, most / 2) }
        }
        durability.finishBatch()
        context.queue.async { [self, next] in correct(found.dropFirst(part.count), number, atOnce: next) }
    }

    private func end(mayWait: Bool) {
        isCounting = false
        if !counted.isEmpty { context.release([counted]) }
        counted = []
        context.meter.publish()
        guard isStale || mustCountAgain else { return }
        // Clients may ask for it with each new node: what counts all takes a fifth of the time at most.
        let waitMs = mayWait ? 4 * (context.scheduler.steadyMs - beganAt) : 0
        if waitMs <= 0 { return begin() }
        isCounting = true
        context.later(ms: waitMs) { [self] in
            isCounting = false
            begin()
        }
    }
}
