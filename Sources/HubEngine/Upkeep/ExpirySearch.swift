import Journal
import JSONTree
import SecurityRules

/// Finds nodes with an `.expire` in the background, and hands them to the database queue: their write times and check times.
///
/// ```
/// all: start, deploy, rollback ─┐   a part, in the background       up to N in a turn
///                               ├─► ExpiryWalk ─► time is missing ─► times ─► journal, due ─► index ─┐
/// a large write ────────────────┘        ▲   └── all, and no time to store: due ─► FoundNodes        │
///                                        └───────────── the next part ───────────────────────────────┘
/// ```
/// In a search of all nodes, those without a time to store are not handed over one by one. They are ordered in the background, and the
/// index adopts them at the end.
/// Commits continue meanwhile. The index gets their changes directly, and nodes handed over are checked in the current tree.
/// The nodes of a large write share its time until then (`OpenWrite`), so nothing waits for the search. The entry is removed with the last
/// of them.
///
/// Confined to the database queue.
final class ExpirySearch: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let derived: DerivedData
    private let commits: CommitPipeline
    /// Whether other work still comes first.
    private let mustWait: () -> Bool
    /// Number of the last search of all nodes. Results of earlier ones are discarded.
    private var number = 0
    /// Whether a search of all nodes is running.
    private(set) var coversAll = false
    /// Reports a node's due time; nil for never.
    var onFound: (Path, Int64?) -> Void = { _, _ in }
    /// Reports all nodes without a time to store.
    var onAllFound: (FoundNodes) -> Void = { _ in }
    /// Called after a turn that handed over nodes, or could not because the disk refuses.
    var onTurn: () -> Void = {}

    /// Nodes of a part handed over in one turn: some 2 ms.
    private static let takenAtOnce = 200
    /// Commits waiting for the journal above which no nodes are handed over or expire, and ms until that is checked again.
    static let waitingCommits = 1_000
    static let waitMs: Int64 = 2

    init(
        _ context: EngineContext, _ content: Content, _ durability: DurabilityQueue, _ log: LogGuard, _ derived: DerivedData,
        _ commits: CommitPipeline, mustWait: @escaping () -> Bool
    ) {
        self.context = context
        self.content = content
        self.durability = durability
        self.log = log
        self.derived = derived
        self.commits = commits
        self.mustWait = mustWait
    }

    /// Searches for all nodes, for nodes of large writes without a stored time, and for stored times that the rules no longer need.
    func begin() {
        number += 1
        let (rules, root) = (content.rules, content.root)
        coversAll = rules.hasExpiry || !content.written.isEmpty
        guard coversAll else { return derived.hold(.expiry) }
        derived.begin(.expiry)
        let found = FoundNodes(most: context.limits.expiringNodes, entries: context.limits.expiryEntries)
        searchNext(Search(number, rules, .all(found), ExpiryWalk(rules, WrittenPlaces(.root), old: .null, new: root)))
        for (commit, write) in content.written.open {
            searchNext(Search(number, rules, .write(commit), ExpiryWalk(rules, write.places, old: .null, new: root)))
        }
    }

    /// Discards the current searches.
    func stop() {
        number += 1
        coversAll = false
        derived.hold(.expiry)
    }

    /// Searches for nodes that the last commit changed at these paths.
    /// - Parameter old: the tree before it.
    func follow(_ places: WrittenPlaces, old: Node) {
        searchNext(Search(number, content.rules, .write(content.sequence), ExpiryWalk(content.rules, places, old: old, new: content.root)))
    }

    private func searchNext(_ job: Search) {
        let (root, written, now) = (content.root, content.written, context.clock())
        context.compute {
            var job = job
            return (found: job.findPart(root, written, now: now), job: job)
        } then: { [self] part in
            handOver(part.found[...], part.job)
        }
    }

    /// Hands over the rest of a part.
    private func handOver(_ found: ArraySlice<Path>, _ job: Search) {
        guard job.number == number else { return context.release([found, job]) }
        // While the disk refuses, no times can be stored. The search starts over when it accepts commits.
        if log.isDiskRefusing {
            context.release([found, job])
            context.later(ms: Int64(context.limits.retryMs)) { [weak self, of = job.number] in if let self, of == number { begin() } }
            return onTurn()
        }
        if mustWait() || log.isRefusing || durability.waitingCommits > Self.waitingCommits {
            context.later(ms: Self.waitMs) { [self] in handOver(found, job) }
            return
        }
        context.meter.beginTurn()
        let (part, rest) = (found.prefix(Self.takenAtOnce), found.dropFirst(Self.takenAtOnce))
        let isOver = rest.isEmpty && job.isOver
        var times = self.times(of: part, job)
        if isOver, case .write(let commit) = job.subject, content.written.open[commit] != nil { times.append(.open(commit, nil)) }
        if !times.isEmpty { commits.record(times) }
        let dues = content.rules.dues(at: Array(part), in: content.root) { content.written.time(of: $0) }
        for (path, due) in zip(part, dues) { onFound(path, due) }
        context.meter.spend(part.count / 2)
        durability.finishBatch()
        if !rest.isEmpty {
            context.queue.async { [self] in handOver(rest, job) }
        } else {
            // They were allocated in the background and are released there.
            context.release([found])
            end(job)
        }
        onTurn()
    }

    /// A part has been handed over completely.
    private func end(_ job: Search) {
        guard job.isOver else { return searchNext(job) }
        switch job.subject {
        case .all(let found):
            onAllFound(found)
            context.release([found])
            searchNext(Search(job.number, job.rules, .idleTimes, job.walk))
        case .idleTimes:
            coversAll = false
            derived.hold(.expiry)
            context.release([job])
        // It retains an old tree.
        case .write: context.release([job])
        }
    }

    /// The write times to store or remove for the nodes found.
    private func times(of found: ArraySlice<Path>, _ job: Search) -> [JournalOperation] {
        var operations: [JournalOperation] = []
        var room = context.limits.expiryEntries - content.written.count
        let now = context.clock()
        for path in found {
            let known = content.written[path]
            var time: Int64?
            if content.rules.readsWritten(at: path), content.root.node(at: path).exists {
                switch job.subject {
                // A node that existed before such rules counts as written now; a node of an open write gets that write's time.
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

/// Nodes found in the background, for the index.
final class FoundNodes: @unchecked Sendable {
    // Sendable: passed from one part of a search to the next, then to the queue.
    var index: ExpiryIndex
    /// Write times that may be stored.
    fileprivate let entries: Int

    fileprivate init(most: Int, entries: Int) { (index, self.entries) = (ExpiryIndex(most: most), entries) }
}

/// The subject of a search, and its progress.
private struct Search: Sendable {
    enum Subject {
        /// All nodes.
        case all(FoundNodes)
        /// Stored write times that the rules no longer need.
        case idleTimes
        /// The nodes of a large write, by the number of its commit.
        case write(UInt64)
    }

    /// Number of the search of all nodes during which it began.
    let number: Int
    let rules: RuleSet
    let subject: Subject
    private(set) var walk: ExpiryWalk
    /// Whether the part found was the last one.
    private(set) var isOver = false

    /// Keys and nodes scanned for a part.
    private static let lookedAtOnce = 10_000

    init(_ number: Int, _ rules: RuleSet, _ subject: Subject, _ walk: ExpiryWalk) {
        (self.number, self.rules, self.subject, self.walk) = (number, rules, subject, walk)
    }

    /// Finds the next nodes for which there is something to do, on any queue.
    mutating func findPart(_ root: Node, _ written: WrittenTimes, now: Int64) -> [Path] {
        var found: [Path] = []
        switch subject {
        case .write:
            found = walk.nodes(lookingAt: Self.lookedAtOnce)
            isOver = walk.next == nil
        case .all(let all):
            walk.new = root
            let room = all.entries - written.count
            // Only nodes with a time to store take time on the queue.
            while found.isEmpty, walk.next != nil {
                let nodes = walk.nodes(lookingAt: Self.lookedAtOnce)
                let dues = rules.dues(at: nodes, in: root) { written.time(of: $0) }
                for (path, due) in zip(nodes, dues) {
                    if found.count < room, rules.readsWritten(at: path), written.time(of: path) == nil {
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
                if !rules.readsWritten(at: path) || root.node(at: path).isNull { found.append(path) }
            }
            isOver = found.count < Self.lookedAtOnce
        }
        return found
    }
}
