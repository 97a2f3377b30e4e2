import Journal
import JSONTree
import Scheduling
import SecurityRules

/// Expires nodes that are due (`.expire`), and keeps the times of their last writes where the rules use them.
///
/// ```
/// start, deploy, rollback ─► all nodes: ExpirySearch ─────┐
/// commit ─► nodes above, at, below the written paths ──────┴─► index: when to check which node
///                 └─ too many: ExpirySearch ──────────┘                │ check time reached, up to N in a turn
///                                                              due? ─► commit as the hub ─► index
/// ```
/// The index only holds check times. Whether a node is due is decided from the tree at that moment, so nothing expires twice, whatever the
/// index holds.
/// Times are wall clock times. The clock may be set, so it is checked periodically.
/// Confined to the database queue.
final class ExpiryScheduler: @unchecked Sendable {
    // Sendable: timers only hop back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let commits: CommitPipeline
    private let refusals: RefusalReports
    /// Whether other work still comes first.
    private let mustWait: () -> Bool
    private let search: ExpirySearch
    /// The nodes, which each commit updates.
    let nodes: ExpiringNodes
    /// When the next check runs, steady ms.
    private var wakesAt = Int64.max
    private var wake: ScheduledWork?
    /// Whether requests must wait for the nodes that became due while the hub was down.
    private(set) var blocksRequests = false
    /// Nodes due by this time, in wall clock ms, expire before any request is carried out.
    private var startupDeadline = Int64.min
    /// The wall clock at the last check.
    private var lastCheck = Int64.min
    /// Called when requests may be carried out.
    var onFirstDone: () -> Void = {}

    init(
        _ context: EngineContext, _ content: Content, _ durability: DurabilityQueue, _ log: LogGuard, _ derived: DerivedData,
        _ commits: CommitPipeline, _ refusals: RefusalReports, mustWait: @escaping () -> Bool
    ) {
        self.context = context
        self.content = content
        self.durability = durability
        self.log = log
        self.commits = commits
        self.refusals = refusals
        self.mustWait = mustWait
        search = ExpirySearch(context, content, durability, log, derived, commits, mustWait: mustWait)
        nodes = ExpiringNodes(context, content, refusals)
        nodes.onCommitted = { [weak self] open, old in
            if !open.isEmpty { self?.search.follow(open, old: old) }
            self?.schedule()
        }
        search.onFound = { [weak self] path, due in self?.nodes.index.set(path, due) }
        search.onAllFound = { [weak self] found in self?.nodes.index.adopt(&found.index) }
        search.onTurn = { [weak self] in self?.found() }
    }

    // MARK: All nodes

    /// Starts over, for new rules.
    /// - Parameter isStart: whether nodes that are due now expire before any request.
    func begin(isStart: Bool = false) {
        nodes.reset(most: context.limits.expiringNodes)
        if isStart { startupDeadline = context.clock() }
        let wasFirst = blocksRequests
        blocksRequests = (isStart || blocksRequests) && content.rules.hasExpiry
        searchAll()
        // Requests no longer wait for expiries.
        if wasFirst, !blocksRequests { onFirstDone() }
    }

    /// Searches for all nodes with an `.expire`, and for stored write times that the rules no longer need.
    func searchAll() {
        nodes.index.beginSearch()
        search.begin()
    }

    private func found() {
        // Requests may have waited for it.
        if blocksRequests { checkDue() } else { schedule() }
    }

    /// Stops expiring nodes.
    func stop() {
        search.stop()
        wake?.cancel()
        (wakesAt, blocksRequests) = (.max, false)
        nodes.reset(most: 0)
        context.meter.counters.expiringNodes = 0
    }

    private func due(_ path: Path) -> Int64? {
        content.rules.due(at: path, in: content.root, written: content.written.time(of: path))
    }

    // MARK: Ends

    /// Schedules a check for when the next node is due, or soon, because the clock may be set.
    private func schedule() {
        context.meter.counters.expiringNodes = nodes.index.count
        guard !isPreparing, let next = nodes.index.next else { return }
        let wait = max(0, min(next.subtractingReportingOverflow(context.clock()).partialValue, context.limits.clockCheckMs))
        wakeUp(ms: next <= context.clock() ? 0 : wait)
    }

    private func wakeUp(ms: Int64) {
        let time = context.scheduler.steadyMs + ms
        guard time < wakesAt else { return }
        wake?.cancel()
        wakesAt = time
        if ms == 0 {
            wake = nil
            return context.queue.async { [weak self] in self?.wakes(at: time) }
        }
        wake = context.later(ms: ms) { [weak self] in self?.wakes(at: time) }
    }

    private func wakes(at time: Int64) {
        guard time == wakesAt else { return }
        wakesAt = .max
        checkDue()
    }

    /// Expires due nodes, within the work of a turn.
    private func checkDue() {
        if log.isDiskRefusing {
            unblockRequests()
            return nodes.index.count > 0 ? wakeUp(ms: Int64(context.limits.retryMs)) : ()
        }
        if isPreparing { return }
        // The log is closed briefly while onDisconnect writes are applied, which come first.
        if mustWait() || log.isRefusing || durability.waitingCommits > ExpirySearch.waitingCommits {
            return wakeUp(ms: ExpirySearch.waitMs)
        }
        let now = context.clock()
        defer { lastCheck = now }
        // The clock was set back: a node resting until a time of the old clock would rest too long.
        if now + context.limits.clockCheckMs < lastCheck { return searchAll() }
        context.meter.beginTurn()
        var ended = 0
        while ended < context.limits.expiredAtOnce, context.meter.work < context.limits.turnWork / 4,
            let (path, time) = nodes.index.pop(by: now)
        {
            end(path, by: time, now)
            ended += 1
        }
        durability.finishBatch()
        // All known due nodes have expired.
        if ended == 0, nodes.index.horizon <= now { return search.coversAll ? () : searchAll() }
        let next = nodes.index.next ?? .max
        if ended == 0 || next > now {
            context.meter.counters.expiryLagMs = 0
            nodes.noneIsDue()
        }
        // Requests do not wait for nodes that became due through expiries since.
        if ended == 0 || next > min(now, startupDeadline) { unblockRequests() }
        context.meter.publish()
        schedule()
    }

    /// Whether requests wait and the search is not complete: the earliest node must expire first, so none expires yet.
    private var isPreparing: Bool { blocksRequests && search.coversAll }

    private func unblockRequests() {
        guard blocksRequests else { return }
        blocksRequests = false
        onFirstDone()
    }

    /// - Parameter time: its check time.
    private func end(_ path: Path, by time: Int64, _ now: Int64) {
        let (rules, root, written) = (content.rules, content.root, content.written.time(of: path))
        context.meter.spend(1)
        guard let due = rules.due(at: path, in: root, written: written) else { return nodes.forgetRefusals(of: path) }
        // Other nodes may be due before it.
        guard due <= time else { return nodes.index.set(path, due) }
        // If that is impossible now, it is tried again: the result of the rules may depend on the time or on other paths.
        var patches = 0
        defer { context.meter.spend(patches) }
        let writes: [SystemWrite]
        do throws(ConsequenceFault) {
            writes = try rules.expiry(of: path, in: root, written: written, now: now, patches: &patches)
        } catch {
            refusals.report(error, at: path)
            return nodes.rest(path, from: now)
        }
        do throws(Failure) {
            nodes.ending = (path, now, due)
            defer { nodes.ending = nil }
            _ = try commits.commit(writes.map { TreeWrite($0.path, WriteValue($0.value)) }, by: .system(.expiry))
            context.meter.counters.expired += 1
            context.meter.counters.systemWrites[.expire, default: 0] += writes.count
            context.meter.counters.expiryLagMs = max(0, now - due)
            let next = self.due(path)
            if next ?? .max > now { nodes.forgetRefusals(of: path) }
            // Reached if the commit changed nothing here; otherwise `ExpiringNodes.commit` has already set the check time.
            if let next { nodes.index.set(path, max(next, now + context.limits.expiryRetryMs)) }
        } catch { nodes.rest(path, from: now) }
    }
}
