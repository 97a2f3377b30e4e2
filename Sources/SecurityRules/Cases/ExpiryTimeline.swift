import JSONTree

/// Simulates expiry in a small tree as the clock advances, scanning the whole tree each time. The initial data counts as written at the
/// start.
struct ExpiryTimeline {
    private let rules: RuleSet
    private var tree: Node
    private var now: Int64
    /// When nodes were written since the start.
    private var written: [Path: Int64] = [:]
    private let begin: Int64
    /// What left the hub since the start.
    private(set) var sent: [RuleDelivery] = []
    /// Until when watches are silent about what they have found.
    private var muted: [WatchPair: Int64]

    /// A node that could not end as its rules say.
    struct Fault: Error {
        let message: String
    }

    /// Most nodes that may end: beyond it the rules are assumed to loop.
    private static let most = 10_000

    /// - Parameter hits: those of the write before.
    init(_ rules: RuleSet, _ tree: Node, now: Int64, hits: [WatchHit]) {
        (self.rules, self.tree, self.now, begin) = (rules, tree, now, now)
        muted = Dictionary(hits.map { ($0.pair, $0.mutedUntil) }) { $1 }
    }

    /// Advances the clock.
    /// - Returns: the tree at that time.
    mutating func advance(to time: Int64) throws(Fault) -> Node {
        for _ in 0..<Self.most {
            guard let (due, path) = next, due <= time else { return tree }
            now = max(now, due)
            try end(path)
        }
        throw Fault(message: "more than \(Self.most) nodes would end by \(time)")
    }

    private var next: (Int64, Path)? {
        var (first, left): ((Int64, Path)?, Int) = (nil, .max)
        rules.visitExpiring(.root, old: .null, new: tree, atMost: &left) { path in
            guard let due = rules.due(at: path, in: tree, written: written[path] ?? begin) else { return }
            if first.map({ (due, path) < $0 }) ?? true { first = (due, path) }
        }
        return first
    }

    private mutating func end(_ path: Path) throws(Fault) {
        let (old, time) = (tree, written[path] ?? begin)
        let (writes, found): ([SystemWrite], Consequences)
        do throws(ConsequenceFault) {
            writes = try rules.expiry(of: path, in: old, written: time, now: now)
            for write in writes { tree.set(write.value, at: write.path) }
            found = try rules.consequences(of: writes.map(\.path), old: old, new: tree, by: .administrator, now: now,
                watches: WatchState { [muted] in muted[$0] })
        } catch { throw Fault(message: "\(error)") }
        var (work, left) = (rules.textWork, Int.max)
        guard rules.isValidSystemWrite(writes.map(\.path), old: old, new: tree, now: now),
            rules.admits(found, old: old, now: now, textWork: &work)
        else { throw Fault(message: "\(path) was to end at \(now), and a '.validate' refuses that") }
        sent += found.deliveries
        tree = rules.continuing(
            found.continued.map(\.rows), found.continuedRemovals, hits: found.continuedHits, old: old, in: found.tree, now: now,
            sending: &sent)
        for hit in found.hits { muted[hit.pair] = hit.mutedUntil }
        muted = muted.filter { tree.exists(at: $0.key.watch) && tree.exists(at: $0.key.item) }
        for changed in (writes + found.writes).map(\.path) {
            rules.visitExpiring(changed, old: old, new: tree, atMost: &left) { written[$0] = now }
        }
    }
}
