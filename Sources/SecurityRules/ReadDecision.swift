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

    func note(_ keys: ContiguousArray<Key>) { places.insert(Path(keys)) }
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
