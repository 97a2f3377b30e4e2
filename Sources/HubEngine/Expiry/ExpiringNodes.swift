import Journal
import JSONTree
import SecurityRules

/// The nodes with an `.expire`, as far as they are known: when to check which, and which could not expire. Every commit updates it; the
/// `ExpiryScheduler` fills it and expires the nodes that are due. Confined to the database queue.
final class ExpiringNodes {
    private let context: EngineContext
    private let content: Content
    private let refusals: RefusalReports
    /// When to check which node.
    var index: ExpiryIndex
    /// The node being expired, the current time, and when it was due.
    var ending: (path: Path, at: Int64, due: Int64)?
    /// How often an expiry left or made a node due, since no node was due.
    private var dueAgain: [Path: Int] = [:]
    /// Nodes that could not expire, with the number of tries since they were last written.
    private var refused: [Path: Int] = [:]
    /// Called after each commit that concerns expiring nodes, with the places below which there are more of them, and the tree before.
    var onCommitted: (WrittenPlaces, Node) -> Void = { _, _ in }

    init(_ context: EngineContext, _ content: Content, _ refusals: RefusalReports) {
        self.context = context
        self.content = content
        self.refusals = refusals
        index = ExpiryIndex(most: context.limits.expiringNodes)
    }

    /// Forgets all nodes.
    /// - Parameter most: nodes to keep from now on.
    func reset(most: Int) {
        context.release([index, dueAgain, refused])
        (index, dueAgain, refused) = (ExpiryIndex(most: most), [:], [:])
    }

    /// No node is due any more.
    func noneIsDue() {
        if !dueAgain.isEmpty { context.release([dueAgain]) }
        dueAgain = [:]
    }

    /// A node is not due after all, or has expired.
    func forgetRefusals(of path: Path) { refused[path] = nil }

    // MARK: Commits

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
                refusals.report(content.rules.endlessExpiry(of: path), at: path)
            } else {
                if due == nil, !(dueAgain.isEmpty && refused.isEmpty), content.root.node(at: path).isNull {
                    (dueAgain[path], refused[path]) = (nil, nil)
                }
                index.set(path, due)
            }
        }
        onCommitted(prepared.open, prepared.old)
    }

    /// Whether a node that is due after an expiry must rest, like a refused one. Each of its rules may follow another. But a node that is
    /// put back, or whose expiry makes another one due, would expire forever.
    private func isCyclic(_ path: Path, isNew: Bool, _ now: Int64) -> Bool {
        if index.waits(path, by: now) { return false }
        dueAgain[path, default: 0] += 1
        return isNew || dueAgain[path, default: 0] > content.rules.expiryRules(at: path)
    }

    /// Tries a node again after a pause, doubled each time until a client writes it.
    /// - Parameter other: the node whose expiry made it due.
    func rest(_ path: Path, after other: Path? = nil, from now: Int64) {
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
