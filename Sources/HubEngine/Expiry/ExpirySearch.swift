import Journal
import JSONTree
import SecurityRules

/// Finds nodes with an `.expire` beside the database queue, and takes them there: when they were written, and when to look at them.
///
/// ```
/// all: start, deploy, rollback ─┐   a part, beside the queue      so many in a turn
///                               ├─► ExpiryWalk ─────────────────► times ─► journal, due ─► index ─┐
/// a large write ────────────────┘        ▲                                                        │
///                                        └───────────── the next part ────────────────────────────┘
/// ```
/// No more is held than a part. Others write meanwhile: each node counts as it is when it is taken. The nodes of a large write have its
/// time all along (`OpenWrite`), so that nothing waits for the search; with the last of them that entry goes.
///
/// Confined to the database queue.
final class ExpirySearch: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityLine
    private let log: LogGuard
    private let derived: DerivedData
    /// Counts the searches of all nodes; what began before the last of them is of no use.
    private var number = 0
    /// Whether all nodes are being looked for.
    private(set) var isOfAll = false
    /// Makes the commits.
    var commits: () -> CommitLine? = { nil }
    /// Whether others come before it still.
    var mustWait: () -> Bool = { false }
    /// A node is due at a time, or never.
    var onFound: (Path, Int64?) -> Void = { _, _ in }
    /// A turn has taken some, or could not: the disk refuses.
    var onTurn: () -> Void = {}

    /// Nodes of a part that are taken in one turn.
    private static let takenAtOnce = 500
    /// Commits that may wait for the journal before more nodes are taken or end, and ms until that is looked at again.
    static let waitingCommits = 1_000
    static let waitMs: Int64 = 2

    init(_ context: EngineContext, _ content: Content, _ durability: DurabilityLine, _ log: LogGuard, _ derived: DerivedData) {
        self.context = context
        self.content = content
        self.durability = durability
        self.log = log
        self.derived = derived
    }

    /// Looks for all nodes, for those of large writes that have no times yet, and for times that are not asked for any more.
    func begin() {
        number += 1
        let (rules, root) = (content.rules, content.root)
        isOfAll = rules.hasExpiry || !content.written.isEmpty
        guard isOfAll else { return derived.hold(.expiry) }
        derived.begin(.expiry)
        goOn(Job(number, rules, .all, ExpiryWalk(rules, WrittenPlaces(.root), old: .null, new: root)))
        for (commit, write) in content.written.open {
            goOn(Job(number, rules, .write(commit, ms: write.ms, before: nil), ExpiryWalk(rules, write.places, old: .null, new: root)))
        }
    }

    /// Looks for what the last commit has changed at places that were written there.
    /// - Parameters:
    ///   - old: the tree before it.
    ///   - before: what was known of times before it.
    func follow(_ places: WrittenPlaces, ms: Int64, old: Node, before: WrittenTimes) {
        let walk = ExpiryWalk(content.rules, places, old: old, new: content.root)
        goOn(Job(number, content.rules, .write(content.sequence, ms: ms, before: before), walk))
    }

    private func goOn(_ job: Job) {
        let (root, written, now) = (content.root, content.written, context.clock())
        context.background.run(.upkeep) { [self] in
            var job = job
            let found = job.findPart(root, written, now: now)
            context.queue.async { [self, job] in take(found[...], job) }
        }
    }

    /// Takes what is left of a part.
    private func take(_ found: ArraySlice<Path>, _ job: Job) {
        guard job.number == number else { return context.release([found]) }
        // A disk that refuses has no times recorded: it all begins again when it takes commits.
        if log.isDiskRefusing {
            context.later(ms: Int64(context.limits.retryMs)) { [weak self] in if let self, job.number == number { begin() } }
            return onTurn()
        }
        if mustWait() || log.isRefusing || durability.waitingCommits > Self.waitingCommits {
            context.later(ms: Self.waitMs) { [self] in take(found, job) }
            return
        }
        context.meter.beginTurn()
        let (part, rest) = (found.prefix(Self.takenAtOnce), found.dropFirst(Self.takenAtOnce))
        let isOver = rest.isEmpty && job.isOver
        var times = self.times(of: part, job)
        if isOver, case .write(let commit, _, _) = job.subject, content.written.open[commit] != nil { times.append(.open(commit, nil)) }
        if !times.isEmpty { commits()?.record(times) }
        for path in part {
            let due = content.rules.due(at: path, in: content.root, written: content.written.time(of: path))
            onFound(path, due)
        }
        context.meter.spend(part.count / 2)
        durability.finishBatch()
        if !rest.isEmpty { context.queue.async { [self] in take(rest, job) } } else { end(job) }
        onTurn()
    }

    /// A part has been taken.
    private func end(_ job: Job) {
        guard job.isOver else { return goOn(job) }
        switch job.subject {
        case .all: goOn(Job(job.number, job.rules, .idleTimes, job.walk))
        case .idleTimes:
            isOfAll = false
            derived.hold(.expiry)
        case .write: break
        }
    }

    /// What is to be stored of times of nodes that were found.
    private func times(of found: ArraySlice<Path>, _ job: Job) -> [JournalOperation] {
        var operations: [JournalOperation] = []
        var room = context.limits.expiryEntries - content.written.count
        let now = context.clock()
        for path in found {
            let known = content.written[path]
            var time: Int64?
            if content.rules.asksWhenWritten(at: path), content.root.node(at: path).exists {
                switch job.subject {
                // One that was there before such rules counts as written now; those of open writes get the time of these.
                case .all: time = known ?? (content.written.time(of: path) == nil ? now : nil)
                case .idleTimes: time = known
                case .write(_, let ms, let before?): time = known == before[path] ? ms : known ?? ms
                case .write(_, let ms, nil): time = max(known ?? ms, ms)
                }
            }
            if time == known { continue }
            if known == nil, room <= 0 { continue }
            room += (known == nil ? 0 : 1) - (time == nil ? 0 : 1)
            operations.append(.written(path, time))
        }
        return operations
    }
}

/// What is being looked for, and how far that has come.
private struct Job: Sendable {
    enum Subject {
        /// All nodes; and times that are stored and not asked for any more.
        case all, idleTimes
        /// The nodes of a large write, by the number of its commit, and the times of before it, unless that was in an earlier process.
        case write(UInt64, ms: Int64, before: WrittenTimes?)
    }

    /// The search of all nodes since which it goes on.
    let number: Int
    let rules: RuleSet
    let subject: Subject
    private(set) var walk: ExpiryWalk
    /// Whether there is nothing behind the part that was found.
    private(set) var isOver = false

    /// Keys and nodes that are looked at for a part.
    private static let lookedAtOnce = 10_000

    init(_ number: Int, _ rules: RuleSet, _ subject: Subject, _ walk: ExpiryWalk) {
        (self.number, self.rules, self.subject, self.walk) = (number, rules, subject, walk)
    }

    /// Finds the next nodes that something is to be done with, on any queue.
    mutating func findPart(_ root: Node, _ written: WrittenTimes, now: Int64) -> [Path] {
        var found: [Path] = []
        switch subject {
        case .write:
            found = walk.nodes(lookingAt: Self.lookedAtOnce)
            isOver = walk.next == nil
        case .all:
            walk.new = root
            // Where nothing ends, nothing is told to the queue.
            while found.isEmpty, walk.next != nil {
                found = walk.nodes(lookingAt: Self.lookedAtOnce).filter { path in
                    let time = written.time(of: path)
                    if time == nil, rules.asksWhenWritten(at: path) { return true }
                    return rules.due(at: path, in: root, written: time) != nil
                }
            }
            isOver = walk.next == nil
        case .idleTimes:
            written.forEach { path, _ in
                guard found.count < Self.lookedAtOnce else { return }
                if !rules.asksWhenWritten(at: path) || root.node(at: path).isNull { found.append(path) }
            }
            isOver = found.count < Self.lookedAtOnce
        }
        return found
    }
}
