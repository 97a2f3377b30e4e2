public import JSONTree

/// Removals of one commit whose consequences are too many for it: they follow in later commits. What they are is found out beside the
/// queue, in the tree before the commit.
///
/// ```
/// commit removes /posts/p ─► more than a bound would follow ─► owed: ["posts/p"], with the tree before
///                                                               └─► targets of `.removes`, copies: a part in each later commit
/// ```
public struct ContinuedRemovals: Sendable, Equatable {
    /// What the commit has removed; none lies below another.
    public let places: [Path]

    init(_ places: [Path]) { self.places = places }

    /// The first one: what reports name.
    public var source: Path { places.first ?? .root }

    /// As it is kept beside the tree.
    public var terms: Node {
        [Self.name: .object(places.enumerated().map { (Key(index: $0), Node.string($1.relativeText)) })]
    }

    /// Nil for what no hub has kept, and for rows.
    public init?(_ terms: Node) {
        guard Self.areDescribed(by: terms) else { return nil }
        places = terms.child(Self.name).children.compactMap { if case .string(let text) = $1 { Path(relative: text.string) } else { nil } }
    }

    /// Whether terms are of removals. O(1)
    public static func areDescribed(by terms: Node) -> Bool { terms.child(name).exists }

    private static let name = Key("removed")
}

extension RuleSet {
    /// The places that are removed because of removals, ascending. O(what was removed, and what the templates' wildcards range over)
    /// - Parameter tree: the one before the commit.
    public func removed(by removals: ContinuedRemovals, in tree: Node) -> [Path] {
        var limits = ConsequenceLimits()
        (limits.writes, limits.bytes, limits.keys, limits.asked) = (.max, .max, .max, .max)
        var after = tree
        for place in removals.places { after.set(.null, at: place) }
        var round = ConsequenceRound(
            program, before: tree, after: after, Consequences(tree: after), limits, first: nil, textWork: program.textWork, base: tree,
            now: 0, index: nil, scope: .only)
        // Without bounds, and with values that name no place left out, there is nothing to fail.
        try? round.run(removals.places)
        return round.result.writes.map(\.path).sorted()
    }
}

extension Consequences {
    /// Leaves the consequences of removals to commits behind this one.
    /// - Parameter fault: the bound that they would exceed here.
    mutating func continueRemovals(
        _ removed: [Path], _ limits: ConsequenceLimits, _ fault: ConsequenceFault
    ) throws(ConsequenceFault) {
        switch limits.continuesRemovals {
        case .always: break
        case .withinBound:
            if continued.count + limits.owing.values.reduce(0, +) >= limits.continuations {
                throw ConsequenceFault(reason: .tooManyContinuations(limits.continuations), rule: fault.rule, path: fault.path)
            }
        case .never: throw fault
        }
        bytes += removed.reduce(0) { $0 + $1.memoryBytes }
        guard bytes <= limits.bytes else { throw fault }
        continuedRemovals = ContinuedRemovals(removed)
    }

    /// What was looked at until a bound was met has cost as much.
    mutating func addCost(of bound: ConsequenceFault.Reason) {
        switch bound {
        case .tooManyKeys(let limit): keysLookedAt += limit
        case .tooManyAsked(let limit), .tooManyWrites(let limit): asked += limit
        default: break
        }
    }
}
