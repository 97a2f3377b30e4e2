public import JSONTree

/// Whether a read is allowed, and the dependencies of that decision.
public struct ReadDecision: Sendable {
    public let isAllowed: Bool
    /// Places in the data that the rules read, in the order of first reading, so that equal decisions compare equal. While none of
    /// them changes in what rules see of a place (whether it exists, has children, its leaf and its priority), and nothing at or below one
    /// of `wholes`, the decision holds for the same `auth` and `query`.
    public let dependencies: [Path]
    /// Those of them at which everything below counts as well.
    public let wholes: Set<Path>

    /// Refused, whatever the data is.
    public static let refused = ReadDecision(isAllowed: false, dependencies: [], wholes: [])
}

/// Records the places that one evaluation reads.
final class DependencyRecorder {
    private(set) var places: Set<Path> = []
    /// The same in the order of first reading.
    private(set) var ordered: [Path] = []
    /// Those of them of which everything below was read.
    private(set) var wholes: Set<Path> = []
    /// Whether more places were read than the limit; then none is kept.
    private(set) var hasOverflowed = false
    /// Whether the stored tree was read where it is overwritten.
    private(set) var readsOverwritten = false
    /// Depth of the written place that the walk is at or below. There the new tree is the written data and no dependency, and reads of
    /// the old one are recorded only by `readsOverwritten`.
    var writtenDepth = Int.max
    private let limit: Int

    /// - Parameter limit: most places to keep.
    init(limit: Int = .max) { self.limit = limit }

    func record(_ keys: ContiguousArray<Key>, whole: Bool) {
        guard !hasOverflowed else { return }
        let place = Path(keys)
        if whole { wholes.insert(place) }
        if places.insert(place).inserted { ordered.append(place) }
        guard places.count > limit else { return }
        hasOverflowed = true
        (places, ordered, wholes) = ([], [], [])
    }

    func recordWritten(_ tree: Tree) {
        if tree == .old { readsOverwritten = true }
    }
}

extension RuleSet {
    /// Decides as `allowsRead` and records the dependencies; most rules have none.
    public func decideRead(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables? = nil) -> ReadDecision {
        let dependencies = DependencyRecorder()
        let isAllowed = Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query, dependencies: dependencies) {
            $0.grantsRead(path)
        }
        return ReadDecision(isAllowed: isAllowed, dependencies: dependencies.ordered, wholes: dependencies.wholes)
    }
}
