import JSONTree
import Scheduling
import SecurityRules

/// Recounts the rules' counters where no commit kept them up to date: after a start, a deploy, an import, or a new node with a large set.
/// All sets are counted in the background. A wrong counter is corrected by the difference, so that changes by commits made meanwhile are
/// kept.
///
/// ```
/// begin ─► current tree: counted in the background ─► differences ─► queue: a batch per turn, as commits of the hub
///            └ commits continue, and update the counters in the same steps ┘
/// ```
/// Confined to the database queue.
final class CounterRecount: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let commits: CommitPipeline
    private let derived: DerivedData
    private var isCounting = false
    private var hasEnded = false
    /// Whether the result must be discarded, because commits were rolled back.
    private var isStale = false
    /// Whether to count again after this count.
    private var mustCountAgain = false
    /// When this count began, steady ms.
    private var beganAt: Int64 = 0
    /// Counters that commits have counted since the counted tree.
    private var counted: Set<Path> = []
    /// Changes of the others that keep the best of their members.
    private var changes: [Path: CounterChange] = [:]

    /// Counters corrected in one turn, at most.
    private static let correctedAtOnce = 200

    init(
        _ context: EngineContext, _ content: Content, _ durability: DurabilityQueue, _ log: LogGuard, _ commits: CommitPipeline,
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
        // What commits counted before is part of this tree.
        (counted, changes) = ([], [:])
        let (rules, root, number) = (content.rules, content.root, content.rulesNumber)
        context.compute { rules.countAll(in: root) } then: { [self] found in
            correct(found[...], number, atOnce: Self.correctedAtOnce)
        }
    }

    /// Ends counting for good.
    func stop() {
        (hasEnded, isStale) = (true, true)
        derived.hold(.counters)
    }

    /// A commit has counted some sets, and changed other counters.
    func commitCounted(_ found: Consequences) {
        if isCounting {
            counted.formUnion(found.counted)
            for (path, change) in found.changedCounters { changes[path, default: change].add(change) }
        }
        if found.needsCounting { begin() }
    }

    /// Commits were rolled back, perhaps corrections among them.
    func rolledBack() {
        if isCounting { isStale = true } else { begin() }
    }

    /// - Parameter most: counters to correct in this turn.
    private func correct(_ found: ArraySlice<CounterCorrection>, _ number: Int, atOnce most: Int) {
        guard number == content.rulesNumber, !isStale else {
            context.release([found])
            return end(mayWait: false)
        }
        if found.isEmpty {
            // As long as the number of nodes with counters, so it is released off the queue.
            context.release([found])
            // Sets that became too large to count meanwhile get a count of their own.
            if !mustCountAgain { derived.hold(.counters) }
            return end(mayWait: true)
        }
        if log.isRefusing {
            // Writes of clients are refused meanwhile, too.
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
            switch correction.outcome(in: content.root, since: changes[correction.path]) {
            case .isRight: break
            case .write(let value): writes.append(TreeWrite(correction.path, WriteValue(value)))
            case .countAgain: mustCountAgain = true
            }
        }
        if !writes.isEmpty {
            // So many corrections at once may have too many consequences: retry with fewer, down to one.
            if (try? commits.commit(writes, by: .system(.counters))) == nil, part.count > 1 {
                durability.finishBatch()
                return context.queue.async { [self] in correct(found, number, atOnce: max(1, part.count / 4)) }
            }
            // Each counter may have as many consequences. After a turn that took too much work, the next one corrects half as many.
            if context.meter.work > context.limits.turnWork / 4 { next = max(1, most / 2) }
        }
        durability.finishBatch()
        context.queue.async { [self, next] in correct(found.dropFirst(part.count), number, atOnce: next) }
    }

    private func end(mayWait: Bool) {
        isCounting = false
        if !counted.isEmpty || !changes.isEmpty { context.release([counted, changes]) }
        (counted, changes) = ([], [:])
        context.meter.publish()
        guard isStale || mustCountAgain else { return }
        // Clients may trigger a count with each new node, so counting takes a fifth of the time at most.
        let waitMs = mayWait ? 4 * (context.scheduler.steadyMs - beganAt) : 0
        if waitMs <= 0 { return begin() }
        isCounting = true
        context.later(ms: waitMs) { [self] in
            isCounting = false
            begin()
        }
    }
}
