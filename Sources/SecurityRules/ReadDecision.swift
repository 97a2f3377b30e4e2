public import JSONTree

/// Whether a read is allowed, and what that was concluded from.
public struct ReadDecision: Sendable {
    public let isAllowed: Bool
    /// Places in the data that the rules looked at. While none of them changes in what rules see of a place (whether it
    /// exists, has children, its leaf and its priority), the decision stands for the same `auth` and `query`.
    public let dependencies: [Path]
}

/// Collects the places that one evaluation looks at.
final class DependencyRecorder {
    private(set) var places: Set<Path> = []
    /// Whether more places were looked at than are kept; then none is.
    private(set) var hasOverflowed = false
    /// Whether the stored tree was looked at where it is written over.
    private(set) var looksAtOverwritten = false
    /// Depth of the written place that the walk is at or below. From there on the new tree is what was written: it is no
    /// dependency, and of the old one only that it was looked at is noted.
    var writtenDepth = Int.max
    private let limit: Int

    /// - Parameter limit: places that are kept.
    init(limit: Int = .max) { self.limit = limit }

    func note(_ keys: ContiguousArray<Key>) {
        guard !hasOverflowed else { return }
        places.insert(Path(keys))
        guard places.count > limit else { return }
        hasOverflowed = true
        places = []
    }

    func noteWritten(_ tree: Tree) {
        if tree == .old { looksAtOverwritten = true }
    }
}

extension RuleSet {
    /// Decides as `allowsRead` and tells which data the decision rests on; none for most rules.
    public func decideRead(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables = .none) -> ReadDecision {
        let dependencies = DependencyRecorder()
        let isAllowed = Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query, dependencies: dependencies) {
            $0.grantsRead(path)
        }
        return ReadDecision(isAllowed: isAllowed, dependencies: Array(dependencies.places))
    }
}
