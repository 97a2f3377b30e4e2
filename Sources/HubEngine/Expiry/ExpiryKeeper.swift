import Journal
import JSONTree
import Scheduling
import SecurityRules

/// Ends nodes when their time has come (`.expire`), and keeps when they were written, where the rules ask.
///
/// ```
/// start, deploy, rollback ─► all nodes: beside the queue ─┐
/// commit ─► nodes above, at, below what it wrote ─────────┴─► index: when to look at which
///                 └─ too many: beside the queue ──────────┘            │ its time comes, so many in a turn
///                                                              due? ─► commit as the hub ─► index
/// ```
/// The index only says when to look: what is done is decided from the tree of then, so nothing is done twice, whatever the index holds.
/// Times are those of the wall clock, which is looked at again and again, as it may be set.
///
/// Confined to the database queue.
final class ExpiryKeeper: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityLine
    private let log: LogGuard
    private var index: ExpiryIndex
    /// Nodes that are being found beside the queue, or taken from there: nothing ends meanwhile, as what was written is not known.
    private var jobs = 0
    /// Number of the scan of all nodes; an older one is of no use.
    private var scan = 0
    /// When the keeper looks next, steady ms.
    private var wakesAt = Int64.max
    private var wake: ScheduledWork?
    /// No request is carried out before what became due while the hub was down has ended.
    private(set) var comesFirst = false
    /// What had become due by then comes before all requests.
    private var firstBy = Int64.min
    /// The time of the last look at the clock.
    private var lookedAt = Int64.min
    /// The time of the end that is being made.
    private var endsAt: Int64?
    /// How often ends have left a node due or made it so, since nothing was due.
    private var dueAgain: [Path: Int] = [:]
    /// Makes the commits; asked for, as it tells the keeper of each.
    var commits: () -> CommitLine? = { nil }
    /// Whether others come before it still.
    var mustWait: () -> Bool = { false }
    /// Requests may be carried out.
    var onFirstDone: () -> Void = {}

    /// Nodes that are taken into the index in one turn.
    private static let takenAtOnce = 500
    /// Commits that may wait for the journal before more nodes end, and ms until that is looked at again.
    private static let waitingCommits = 1_000
    private static let waitMs: Int64 = 2

    init(_ context: EngineContext, _ content: Content, _ durability: DurabilityLine, _ log: LogGuard) {
        self.context = context
        self.content = content
        self.durability = durability
        self.log = log
        index = ExpiryIndex(most: context.limits.expiringNodes)
    }

    // MARK: All nodes

    /// Begins anew, for other rules.
    /// - Parameter isStart: whether what is due by now comes before all requests.
    func begin(isStart: Bool = false) {
        context.release([index, dueAgain])
        dueAgain = [:]
        if isStart { firstBy = context.clock() }
        index = ExpiryIndex(most: context.limits.expiringNodes)
        let wasFirst = comesFirst
        comesFirst = (isStart || comesFirst) && content.rules.hasExpiry
        lookForAll()
        // Nothing ends any more that requests would wait for.
        if wasFirst, !comesFirst { onFirstDone() }
    }

    /// Looks for all nodes with an `.expire`, and for times that are not asked for any more.
    func lookForAll() {
        scan += 1
        index.forgetHorizon()
        guard content.rules.hasExpiry || content.written.count > 0 else { return }
        jobs += 1
        let (rules, root, written, now, number) = (content.rules, content.root, content.written, context.clock(), scan)
        context.background.run(.upkeep) { [self] in
            var (found, left): ([(path: Path, due: Int64)], Int) = ([], .max)
            rules.visitExpiring(.root, old: .null, new: root, atMost: &left) { path in
                let isUntimed = rules.asksWhenWritten(at: path) && written[path] == nil
                let due = rules.due(at: path, in: root, written: isUntimed ? now : written[path])
                if isUntimed || due != nil { found.append((path, due ?? .max)) }
            }
            written.forEach { path, _ in
                if !rules.asksWhenWritten(at: path) || root.node(at: path).isNull { found.append((path, .max)) }
            }
            found.sort { $0.due < $1.due }
            let paths = found.map(\.path)
            context.queue.async { [self] in take(paths[...], scan: number) { _, known in known ?? now } }
        }
    }

    /// Takes nodes that were found, a part in a turn. Others have written since: each counts as it is now.
    /// - Parameter time: when a node was written, from what is known of that.
    private func take(_ found: ArraySlice<Path>, scan number: Int?, _ time: @escaping @Sendable (Path, Int64?) -> Int64) {
        let isOver = number.map { $0 != scan } ?? false
        guard !found.isEmpty, !isOver, !log.isDiskRefusing else {
            context.release([found])
            jobs -= 1
            // A disk that refuses has no times recorded: it all begins again when it takes commits.
            if !isOver, !found.isEmpty { context.later(ms: Int64(context.limits.retryMs)) { [weak self] in self?.lookForAll() } }
            return look()
        }
        if mustWait() || log.isRefusing {
            context.later(ms: Self.waitMs) { [self] in take(found, scan: number, time) }
            return
        }
        context.meter.beginTurn()
        var times: [JournalOperation] = []
        var added = 0
        for path in found.prefix(Self.takenAtOnce) {
            let (known, exists) = (content.written[path], content.root.node(at: path).exists)
            var written = exists && content.rules.asksWhenWritten(at: path) ? time(path, known) : nil
            if written != nil, known == nil {
                if content.written.count + added < context.limits.expiryEntries { added += 1 } else { written = nil }
            }
            if written != known { times.append(.written(path, written)) }
            index.set(path, exists ? content.rules.due(at: path, in: content.root, written: written) : nil)
        }
        if !times.isEmpty { commits()?.record(times) }
        durability.finishBatch()
        let rest = found.dropFirst(Self.takenAtOnce)
        if rest.isEmpty { take(rest, scan: number, time) } else { context.queue.async { [self] in take(rest, scan: number, time) } }
    }

    // MARK: Commits

    /// What a commit changes here; found before it is made.
    struct Note {
        /// Nodes that may be due at other times.
        fileprivate var paths: Set<Path> = []
        /// When they were written, for the journal.
        fileprivate(set) var times: [JournalOperation] = []
        /// Where more of them are.
        fileprivate var open: ArraySlice<Path> = []
        fileprivate let old: Node
        fileprivate let before: WrittenTimes
        fileprivate let now: Int64
    }

    /// Finds the nodes with an `.expire` that a commit touches. O(depth of its places, and what it writes below such rules)
    /// - Parameter many: more places, which are looked at beside the queue.
    /// - Throws: when it adds more nodes of which it is to be known when they were written than there may be.
    func note(_ paths: [Path], many: [Path] = [], new: Node) throws(Failure) -> Note? {
        let rules = content.rules
        guard rules.hasExpiry else { return nil }
        var note = Note(old: content.root, before: content.written, now: context.clock())
        var left = context.limits.inlineChildren
        note.open = many[...]
        for (i, path) in paths.enumerated() {
            let isAll = rules.visitExpiring(path, old: note.old, new: new, atMost: &left) { note.paths.insert($0) }
            guard isAll, note.paths.count <= context.limits.inlineChildren else {
                note.open += paths[i...]
                break
            }
        }
        let asking = note.paths.filter { rules.asksWhenWritten(at: $0) }
        note.times = asking.filter { !new.node(at: $0).exists && content.written[$0] != nil }.map { .written($0, nil) }
        var room = context.limits.expiryEntries - content.written.count + note.times.count
        for path in asking where new.node(at: path).exists {
            if content.written[path] == nil {
                // One that was there before such rules stays as it is.
                if room <= 0, note.old.node(at: path).isNull { throw .tooManyExpiring(context.limits.expiryEntries) }
                if room <= 0 { continue }
                room -= 1
            }
            note.times.append(.written(path, note.now))
        }
        context.meter.spend(note.paths.count / 2)
        return note
    }

    /// The commit is made.
    func take(_ note: Note) {
        for path in note.paths {
            let exists = content.root.node(at: path).exists
            let due = exists ? content.rules.due(at: path, in: content.root, written: content.written[path]) : nil
            if let endsAt, let due, due <= endsAt, goesRound(path, isNew: !note.old.node(at: path).exists, endsAt) {
                index.set(path, endsAt + context.limits.expiryRetryMs)
                commits()?.report(content.rules.endlessExpiry(of: path), at: path)
            } else {
                if !exists { dueAgain[path] = nil }
                index.set(path, due)
            }
        }
        if !note.open.isEmpty { follow(note) }
        schedule()
    }

    /// Whether a node that is due after an end rests for a while, as what is refused does. Each of its rules may follow another, but nodes
    /// that are put back, or whose end makes another one that is due, would end for ever.
    private func goesRound(_ path: Path, isNew: Bool, _ now: Int64) -> Bool {
        if index.waits(path, by: now) { return false }
        dueAgain[path, default: 0] += 1
        return isNew || dueAgain[path, default: 0] > content.rules.expiryRules(at: path)
    }

    /// Finds beside the queue what a large commit has changed.
    private func follow(_ note: Note) {
        jobs += 1
        let (rules, root, before, now) = (content.rules, content.root, note.before, note.now)
        context.background.run(.upkeep) { [self] in
            var (found, left) = (Set<Path>(), Int.max)
            for path in note.open { rules.visitExpiring(path, old: note.old, new: root, atMost: &left) { found.insert($0) } }
            let paths = Array(found)
            context.queue.async { [self] in
                // Where nobody has written since.
                take(paths[...], scan: nil) { path, known in known.map { $0 == before[path] ? now : $0 } ?? now }
            }
        }
    }

    // MARK: Ends

    /// Looks at the clock when the next node is due, or soon, as the clock may be set.
    private func schedule() {
        context.meter.counters.expiringNodes = index.count
        guard jobs == 0, let next = index.next else { return }
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
        look()
    }

    /// Ends what is due, as far as a turn goes.
    private func look() {
        guard jobs == 0 else { return }
        if log.isDiskRefusing {
            endFirst()
            return index.count > 0 ? wakeUp(ms: Int64(context.limits.retryMs)) : ()
        }
        // The log is closed for a moment while what sessions left behind is written, which comes first.
        if mustWait() || log.isRefusing || durability.waitingCommits > Self.waitingCommits { return wakeUp(ms: Self.waitMs) }
        let now = context.clock()
        defer { lookedAt = now }
        // What rests until a time of the clock of before would rest too long.
        if now + context.limits.clockCheckMs < lookedAt { return lookForAll() }
        context.meter.beginTurn()
        var ended = 0
        while ended < context.limits.expiredAtOnce, context.meter.work < context.limits.turnWork / 4, let path = index.pop(by: now) {
            end(path, now)
            ended += 1
        }
        durability.finishBatch()
        // All that are known and due have ended.
        if ended == 0, index.horizon <= now { return lookForAll() }
        let next = index.next ?? .max
        if ended == 0 || next > now {
            context.meter.counters.expiryLagMs = 0
            if !dueAgain.isEmpty { context.release([dueAgain]) }
            dueAgain = [:]
        }
        // Not for what ends have written since.
        if ended == 0 || next > min(now, firstBy) { endFirst() }
        context.meter.publish()
        schedule()
    }

    private func endFirst() {
        guard comesFirst else { return }
        comesFirst = false
        onFirstDone()
    }

    private func end(_ path: Path, _ now: Int64) {
        let (rules, root, written) = (content.rules, content.root, content.written[path])
        context.meter.spend(1)
        guard let due = rules.due(at: path, in: root, written: written) else { return }
        guard due <= now else { return index.set(path, due) }
        // What cannot be done now, as what rules say about it may depend on the time or on other places, is tried again.
        let again = now + context.limits.expiryRetryMs
        let writes: [SystemWrite]
        do throws(ConsequenceFault) { writes = try rules.expiry(of: path, in: root, written: written, now: now) } catch {
            commits()?.report(error, at: path)
            return index.set(path, again)
        }
        do throws(Failure) {
            endsAt = now
            defer { endsAt = nil }
            _ = try commits()?.commit(writes.map { TreeWrite($0.path, WriteValue($0.value)) }, by: .system(.expiry))
            context.meter.counters.expired += 1
            context.meter.counters.systemWrites[.expire, default: 0] += writes.count
            context.meter.counters.expiryLagMs = max(0, now - due)
            // Where the commit came to nothing; a node that it changed is known with its time already.
            if let next = rules.due(at: path, in: content.root, written: content.written[path]) { index.set(path, max(next, again)) }
        } catch { index.set(path, again) }
    }
}

extension Failure {
    static func tooManyExpiring(_ limit: Int) -> Failure {
        Failure(.tooBig, "At most \(limit) nodes may have an '.expire' that asks when they were written.")
    }
}
