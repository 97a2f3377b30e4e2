import Journal
import JSONTree
import SecurityRules

/// Finds nodes with an `.expire` beside the database queue, and takes them there: when they were written, and when to look at them.
///
/// ```
/// all: start, deploy, rollback ─┐   a part, beside the queue         so many in a turn
///                               ├─► ExpiryWalk ─► time is missing ─► times ─► journal, due ─► index ─┐
/// a large write ────────────────┘        ▲   └── all, and nothing to be stored: due ─► FoundNodes    │
///                                        └───────────── the next part ───────────────────────────────┘
/// ```
/// Of all nodes those that nothing is to be stored of are not taken one by one: they are put in order beside the queue, and the index has
/// them at once in the end. Others write meanwhile: what a commit changes the index knows from that, and those that are taken count as they
/// are then. The nodes of a large write have its time all along (`OpenWrite`), so that nothing waits for the search; with the last of them
/// that entry goes.
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
    /// All are known that nothing was to be stored of.
    var onAllFound: (FoundNodes) -> Void = { _ in }
    /// A turn has taken some, or could not: the disk refuses.
    var onTurn: () -> Void = {}

    /// Nodes of a part that are taken in one turn: some 2 ms.
    private static let takenAtOnce = 200
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
        let found = FoundNodes(most: context.limits.expiringNodes, entries: context.limits.expiryEntries)
        goOn(Job(number, rules, .all(found), ExpiryWalk(rules, WrittenPlaces(.root), old: .null, new: root)))
        for (commit, write) in content.written.open {
            goOn(Job(number, rules, .write(commit), ExpiryWalk(rules, write.places, old: .null, new: root)))
        }
    }

    /// What is being looked for is of no use any more.
    func stop() {
        number += 1
        isOfAll = false
        derived.hold(.expiry)
    }

    /// Looks for what the last commit has changed at places that were written there.
    /// - Parameter old: the tree before it.
    func follow(_ places: WrittenPlaces, old: Node) {
        goOn(Job(number, content.rules, .write(content.sequence), ExpiryWalk(content.rules, places, old: old, new: content.root)))
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
        guard job.number == number else { return context.release([found, job]) }
        // A disk that refuses has no times recorded: it all begins again when it takes commits.
        if log.isDiskRefusing {
            context.release([found, job])
            context.later(ms: Int64(context.limits.retryMs)) { [weak self, of = job.number] in if let self, of == number { begin() } }
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
        if isOver, case .write(let commit) = job.subject, content.written.open[commit] != nil { times.append(.open(commit, nil)) }
        if !times.isEmpty { commits()?.record(times) }
        let dues = content.rules.dues(at: Array(part), in: content.root) { content.written.time(of: $0) }
        for (path, due) in zip(part, dues) { onFound(path, due) }
        context.meter.spend(part.count / 2)
        durability.finishBatch()
        if !rest.isEmpty {
            context.queue.async { [self] in take(rest, job) }
        } else {
            // They were made beside the queue, and are let go of there.
            context.release([found])
            end(job)
        }
        onTurn()
    }

    /// A part has been taken.
    private func end(_ job: Job) {
        guard job.isOver else { return goOn(job) }
        switch job.subject {
        case .all(let found):
            onAllFound(found)
            context.release([found])
            goOn(Job(job.number, job.rules, .idleTimes, job.walk))
        case .idleTimes:
            isOfAll = false
            derived.hold(.expiry)
            context.release([job])
        // It holds a tree of before.
        case .write: context.release([job])
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
                case .write: time = content.written.time(of: path)
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

/// Nodes that were found beside the queue, for the index.
final class FoundNodes: @unchecked Sendable {
    // Sendable: one part of a search after the other has it, then the queue.
    var index: ExpiryIndex
    /// Times that may be stored of nodes that ask when they were written.
    fileprivate let entries: Int

    fileprivate init(most: Int, entries: Int) { (index, self.entries) = (ExpiryIndex(most: most), entries) }
}

/// What is being looked for, and how far that has come.
private struct Job: Sendable {
    enum Subject {
        /// All nodes.
        case all(FoundNodes)
        /// Times that are stored and not asked for any more.
        case idleTimes
        /// The nodes of a large write, by the number of its commit.
        case write(UInt64)
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
        case .all(let all):
            walk.new = root
            let room = all.entries - written.count
            // Only what is to be stored takes the queue's time.
            while found.isEmpty, walk.next != nil {
                let nodes = walk.nodes(lookingAt: Self.lookedAtOnce)
                let dues = rules.dues(at: nodes, in: root) { written.time(of: $0) }
                for (path, due) in zip(nodes, dues) {
                    if found.count < room, rules.asksWhenWritten(at: path), written.time(of: path) == nil {
                        found.append(path)
                    } else if let due {
                        all.index.set(path, due)
                    }
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
