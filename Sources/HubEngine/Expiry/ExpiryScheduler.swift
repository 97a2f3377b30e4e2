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
    private let search: ExpirySearch
    private var index: ExpiryIndex
    /// When the next check runs, steady ms.
    private var wakesAt = Int64.max
    private var wake: ScheduledWork?
    /// Whether requests must wait for the nodes that became due while the hub was down.
    private(set) var blocksRequests = false
    /// Nodes due by this time, in wall clock ms, expire before any request is carried out.
    private var startupDeadline = Int64.min
    /// The wall clock at the last check.
    private var lastCheck = Int64.min
    /// The node being expired, the current time, and when it was due.
    private var ending: (path: Path, at: Int64, due: Int64)?
    /// How often an expiry left or made a node due, since no node was due.
    private var dueAgain: [Path: Int] = [:]
    /// Nodes that could not expire, with the number of tries since they were last written.
    private var refused: [Path: Int] = [:]
    /// The commit pipeline, which calls back into this class for each commit.
    var commits: () -> CommitPipeline? = { nil } {
        didSet { search.commits = commits }
    }
    /// Whether other work still comes first.
    var mustWait: () -> Bool = { false } {
        didSet { search.mustWait = mustWait }
    }
    /// Called when requests may be carried out.
    var onFirstDone: () -> Void = {}

    init(_ context: EngineContext, _ content: Content, _ durability: DurabilityQueue, _ log: LogGuard, _ derived: DerivedData) {
        self.context = context
        self.content = content
        self.durability = durability
        self.log = log
        search = ExpirySearch(context, content, durability, log, derived)
        index = ExpiryIndex(most: context.limits.expiringNodes)
        search.onFound = { [weak self] path, due in self?.index.set(path, due) }
        search.onAllFound = { [weak self] found in self?.index.adopt(&found.index) }
        search.onTurn = { [weak self] in self?.found() }
    }

    // MARK: All nodes

    /// Starts over, for new rules.
    /// - Parameter isStart: whether nodes that are due now expire before any request.
    func begin(isStart: Bool = false) {
        context.release([index, dueAgain, refused])
        (dueAgain, refused) = ([:], [:])
        if isStart { startupDeadline = context.clock() }
        index = ExpiryIndex(most: context.limits.expiringNodes)
        let wasFirst = blocksRequests
        blocksRequests = (isStart || blocksRequests) && content.rules.hasExpiry
        searchAll()
        // Requests no longer wait for expiries.
        if wasFirst, !blocksRequests { onFirstDone() }
    }

    /// Searches for all nodes with an `.expire`, and for stored write times that the rules no longer need.
    func searchAll() {
        index.beginSearch()
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
        context.release([index, dueAgain, refused])
        (index, dueAgain, refused) = (ExpiryIndex(most: 0), [:], [:])
        context.meter.counters.expiringNodes = 0
    }

    // MARK: Commits

    /// The nodes that a commit writes.
    enum WrittenNodes {
        /// Values at paths of which none lies above or below another.
        case values([(path: Path, value: Node)])
        case places([Path])

        var count: Int {
            switch self {
            case .values(let values): values.count
            case .places(let paths): paths.count
            }
        }

        subscript(i: Int) -> (path: Path, value: Node?) {
            switch self {
            case .values(let values): (values[i].path, values[i].value)
            case .places(let paths): (paths[i], nil)
            }
        }
    }

    /// A commit's changes to the expiry state; computed before the commit.
    struct PreparedChanges {
        /// Nodes that may have a new due time, with the written values where known.
        fileprivate var nodes: [(path: Path, value: Node?)] = []
        /// Their write times, for the journal.
        fileprivate(set) var times: [JournalOperation] = []
        /// Paths around which there are more such nodes.
        fileprivate var open = WrittenPlaces()
        fileprivate let old: Node
        fileprivate let now: Int64
    }

    /// Finds the nodes with an `.expire` that a commit affects. O(depth of its paths + nodes written below such rules)
    /// - Parameters:
    ///   - written: the nodes written.
    ///   - more: further written paths, which are searched in the background.
    /// - Throws: when it adds more nodes with a stored write time than allowed.
    func prepare(_ written: WrittenNodes, many more: WrittenPlaces? = nil, new: Node) throws(Failure) -> PreparedChanges? {
        let rules = content.rules
        guard rules.hasExpiry else { return nil }
        var prepared = PreparedChanges(old: content.root, now: context.clock())
        var left = context.limits.inlineChildren
        if let more { prepared.open = more }
        var above: Set<Path> = []
        for i in 0..<written.count {
            let (path, value) = written[i]
            let isAll = rules.visitExpiring(path, old: prepared.old, new: new, atMost: &left) {
                if $0.depth == path.depth { return prepared.nodes.append(($0, value)) }
                // A node above several paths is visited once for each of them.
                if $0.depth > path.depth || above.insert($0).inserted { prepared.nodes.append(($0, nil)) }
            }
            guard isAll, prepared.nodes.count <= context.limits.inlineChildren else {
                for i in i..<written.count where rules.mayExpire(around: written[i].path) { prepared.open.insert(written[i].path) }
                break
            }
        }
        if case .places = written { prepared.nodes = prepared.nodes.map(\.path).ascending().withoutRepeated().map { ($0, nil) } }
        let timed = rules.readsWritten ? prepared.nodes.map(\.path).filter { rules.readsWritten(at: $0) } : []
        prepared.times = timed.filter { !new.node(at: $0).exists && content.written[$0] != nil }.map { .written($0, nil) }
        var room = context.limits.expiryEntries - content.written.count + prepared.times.count
        for path in timed where new.node(at: path).exists {
            if content.written[path] == nil {
                // Nodes that existed before such rules may stay without a write time.
                if room <= 0, prepared.old.node(at: path).isNull { throw .tooManyExpiring(context.limits.expiryEntries) }
                if room <= 0 { continue }
                room -= 1
            }
            prepared.times.append(.written(path, prepared.now))
        }
        // The write times of the remaining nodes follow in later commits. Until then this entry holds them.
        if !prepared.open.isEmpty, rules.readsWritten {
            prepared.times.append(.open(content.sequence + 1, OpenWrite(ms: prepared.now, places: prepared.open)))
        }
        context.meter.spend(prepared.nodes.count / 2)
        return prepared
    }

    /// Applies the prepared changes after their commit.
    func commit(_ prepared: PreparedChanges) {
        let dues = content.rules.dues(of: prepared.nodes, in: content.root) { content.written.time(of: $0) }
        for (i, due) in dues.enumerated() {
            let path = prepared.nodes[i].path
            if ending == nil, !refused.isEmpty { refused[path] = nil }
            if let ending, let due, due <= ending.at, isCyclic(path, isNew: !prepared.old.node(at: path).exists, ending.at) {
                if path == ending.path, due > ending.due {
                    // A node due very often: it catches up with the present in steps of `clockCheckMs`.
                    index.set(path, ending.at + context.limits.clockCheckMs)
                    continue
                }
                rest(path, after: ending.path, from: ending.at)
                commits()?.report(content.rules.endlessExpiry(of: path), at: path)
            } else {
                if due == nil, !(dueAgain.isEmpty && refused.isEmpty), content.root.node(at: path).isNull {
                    (dueAgain[path], refused[path]) = (nil, nil)
                }
                index.set(path, due)
            }
        }
        if !prepared.open.isEmpty { search.follow(prepared.open, old: prepared.old) }
        schedule()
    }

    /// Whether a node that is due after an expiry must rest, like a refused one. Each of its rules may follow another. But a node that is
    /// put back, or whose expiry makes another one due, would expire forever.
    private func isCyclic(_ path: Path, isNew: Bool, _ now: Int64) -> Bool {
        if index.waits(path, by: now) { return false }
        dueAgain[path, default: 0] += 1
        return isNew || dueAgain[path, default: 0] > content.rules.expiryRules(at: path)
    }

    private func due(_ path: Path) -> Int64? {
        content.rules.due(at: path, in: content.root, written: content.written.time(of: path))
    }

    // MARK: Ends

    /// Schedules a check for when the next node is due, or soon, because the clock may be set.
    private func schedule() {
        context.meter.counters.expiringNodes = index.count
        guard !isPreparing, let next = index.next else { return }
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
            return index.count > 0 ? wakeUp(ms: Int64(context.limits.retryMs)) : ()
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
            let (path, time) = index.pop(by: now)
        {
            end(path, by: time, now)
            ended += 1
        }
        durability.finishBatch()
        // All known due nodes have expired.
        if ended == 0, index.horizon <= now { return search.coversAll ? () : searchAll() }
        let next = index.next ?? .max
        if ended == 0 || next > now {
            context.meter.counters.expiryLagMs = 0
            if !dueAgain.isEmpty { context.release([dueAgain]) }
            dueAgain = [:]
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
        guard let due = rules.due(at: path, in: root, written: written) else { return refused[path] = nil }
        // Other nodes may be due before it.
        guard due <= time else { return index.set(path, due) }
        // If that is impossible now, it is tried again: the result of the rules may depend on the time or on other paths.
        var patches = 0
        defer { context.meter.spend(patches) }
        let writes: [SystemWrite]
        do throws(ConsequenceFault) {
            writes = try rules.expiry(of: path, in: root, written: written, now: now, patches: &patches)
        } catch {
            commits()?.report(error, at: path)
            return rest(path, from: now)
        }
        do throws(Failure) {
            ending = (path, now, due)
            defer { ending = nil }
            _ = try commits()?.commit(writes.map { TreeWrite($0.path, WriteValue($0.value)) }, by: .system(.expiry))
            context.meter.counters.expired += 1
            context.meter.counters.systemWrites[.expire, default: 0] += writes.count
            context.meter.counters.expiryLagMs = max(0, now - due)
            let next = self.due(path)
            if next ?? .max > now { refused[path] = nil }
            // Reached if the commit changed nothing here; otherwise `commit(_:)` has already set the check time.
            if let next { index.set(path, max(next, now + context.limits.expiryRetryMs)) }
        } catch { rest(path, from: now) }
    }

    /// Tries a node again after a pause, doubled each time until a client writes it.
    /// - Parameter other: the node whose expiry made it due.
    private func rest(_ path: Path, after other: Path? = nil, from now: Int64) {
        let times = max(refused[path, default: 0], other.flatMap { refused[$0] } ?? 0)
        if refused.count >= context.limits.expiringNodes {
            context.release([refused])
            refused = [:]
        }
        refused[path] = times + 1
        index.set(path, now + min(context.limits.expiryRetryMostMs, context.limits.expiryRetryMs << min(times, 20)))
    }
}

extension Failure {
    static func tooManyExpiring(_ limit: Int) -> Failure {
        Failure(.tooBig, "At most \(limit) nodes may have an '.expire' that asks when they were written.")
    }
}
