public import JSONTree

/// Removals of one commit with too many consequences for it; these follow in later commits. They are computed off the queue: those of
/// removed nodes in the tree before the commit, which still has the nodes; those of changed nodes in the tree after it, because they apply
/// to what the commit has written, too.
///
/// ```
/// commit removes /posts/p ─► consequences exceed a bound ─► pending: ["posts/p"], with the tree before
///                                                           └─► targets of `.removes`, copies: a part in each later commit
/// commit changes /posts/p ─► the targets exceed a bound ──► pending: ["timeline/$/p"], with the tree after
/// ```
public struct ContinuedRemovals: Sendable, Equatable {
    /// Stands for every key of a target; not a legal key of data.
    static let wildcard = Key("$")

    /// The places that the commit removed; none lies below another.
    public let places: [Path]
    /// The targets of `.removes` on a change, with `$` for every key.
    public let targets: [Path]
    /// The time of the commit, ms since the epoch.
    let now: Int64

    init(_ places: [Path], targets: [Path] = [], now: Int64) { (self.places, self.targets, self.now) = (places, targets, now) }

    /// The places and targets in the form that explanations print, with `*` for every key.
    public var shownTargets: [Path] { targets.map { Path($0.keys.map { $0 == Self.wildcard ? "*" : $0 }) } }

    /// The part that belongs to the tree before the commit, and the one that belongs to the tree after it.
    public var ofRemovals: ContinuedRemovals { ContinuedRemovals(places, now: now) }
    public var ofChanges: ContinuedRemovals { ContinuedRemovals([], targets: targets, now: now) }
    public var isEmpty: Bool { places.isEmpty && targets.isEmpty }

    /// The first removed place or target, used in reports.
    public var source: Path { places.first ?? targets.first ?? .root }

    /// The form in which it is stored beside the tree.
    public var terms: Node {
        func list(_ paths: [Path]) -> Node { .object(paths.enumerated().map { (Key(index: $0), Node.string($1.relativeText)) }) }
        return .object([(Self.time, .int(now)), (Self.removed, list(places)), (Self.aimed, list(targets))].filter { $0.1.exists })
    }

    /// Nil for terms of rows, and for terms that no hub has stored.
    public init?(_ terms: Node) {
        guard Self.areDescribed(by: terms) else { return nil }
        func list(_ name: Key) -> [Path] {
            terms.child(name).children.compactMap { if case .string(let text) = $1 { Path(relative: text.string) } else { nil } }
        }
        (places, targets) = (list(Self.removed), list(Self.aimed))
        now = if case .int(let ms) = terms.child(Self.time) { ms } else { 0 }
    }

    /// Whether stored terms describe removals. O(1)
    public static func areDescribed(by terms: Node) -> Bool { terms.child(removed).exists || terms.child(aimed).exists }

    private static let (time, removed, aimed) = (Key("now"), Key("removed"), Key("targets"))
}

extension RuleSet {
    /// The places removed as consequences of the removals, ascending. O(size of the removed data + keys that the templates' wildcards range over)
    /// - Parameter tree: the tree before the commit; for targets the tree after it.
    public func removed(by removals: ContinuedRemovals, in tree: Node) -> [Path] {
        var limits = ConsequenceLimits()
        (limits.writes, limits.bytes, limits.keys, limits.stepCount) = (.max, .max, .max, .max)
        var after = tree
        for place in removals.places { after.set(.null, at: place) }
        var round = ConsequenceRound(
            program, before: tree, after: after, Consequences(tree: after), limits, first: nil, textWork: program.textWork, base: tree,
            candidate: after, now: removals.now, index: nil, scope: .only)
        // Cannot fail: there are no bounds, and values that name no place are skipped.
        try? round.run(removals.places)
        var paths = Set(round.result.writes.map(\.path))
        for target in removals.targets { expand(target, 0, tree, .root, &paths) }
        return paths.sorted()
    }

    private func expand(_ target: Path, _ level: Int, _ node: Node, _ path: Path, _ found: inout Set<Path>) {
        guard node.exists else { return }
        guard level < target.depth else { return _ = found.insert(path) }
        let key = target.keys[level]
        guard key == ContinuedRemovals.wildcard else {
            return expand(target, level + 1, node.child(key), path.appending(key), &found)
        }
        for (key, child) in node.children { expand(target, level + 1, child, path.appending(key), &found) }
    }
}

extension Consequences {
    /// Defers the consequences of removals to later commits.
    /// - Parameter fault: the bound that they would exceed in this commit.
    mutating func continueRemovals(
        _ removed: [Path], _ limits: ConsequenceLimits, now: Int64, _ fault: ConsequenceFault
    ) throws(ConsequenceFault) {
        switch limits.continuesRemovals {
        case .always: break
        case .withinBound:
            if continued.count + limits.pendingBySource.values.reduce(0, +) >= limits.continuations {
                throw ConsequenceFault(reason: .tooManyContinuations(limits.continuations), rule: fault.rule, path: fault.path)
            }
        case .never: throw fault
        }
        bytes += (removed + deferredTargets).reduce(0) { $0 + $1.memoryBytes }
        guard bytes <= limits.bytes else { throw fault }
        continuedRemovals = ContinuedRemovals(removed, targets: deferredTargets, now: now)
    }

    /// Charges the failed computation in full, up to the bound that it met.
    mutating func addCost(of bound: ConsequenceFault.Reason) {
        switch bound {
        case .tooManyKeys(let limit): keysScanned += limit
        case .tooManyProcessed(let limit), .tooManyWrites(let limit): stepCount += limit
        default: break
        }
    }
}
