public import JSONTree

/// Whether a write is allowed, and the dependencies of that decision: the data that must be unchanged for it to hold on a later tree.
public struct WriteDecision: Sendable {
    public let isAllowed: Bool
    /// Places that the rules read, in the tree before or after, except inside the written data. While
    /// none of them changes in what rules see of a place (whether it exists, has children, its leaf and its priority), and no
    /// ancestor of a written place appears or vanishes, the decision holds for the same `auth`, `now` and write.
    public let dependencies: Set<Path>
    /// Those of them at which everything below counts as well.
    public let wholes: Set<Path>
    /// Whether the rules read the stored data at or below a written place: then that must not change either.
    public let looksAtOverwritten: Bool
    /// Whether the rules read more places than the limit: then nothing may change. `dependencies` is empty.
    public let looksAtAnything: Bool
}

extension RuleSet {
    /// Decides as `allowsWrite` and records the dependencies. Costs several times as much as the decision.
    /// - Parameter limit: most dependencies to record; above it the decision depends on everything.
    public func decideWrite(
        _ locations: [Path], validating added: [Path] = [], old: Node, new: Node, auth: Node, now: Int64, keeping limit: Int
    ) -> WriteDecision {
        let recorder = DependencyRecorder(limit: limit)
        let isAllowed = Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: nil, dependencies: recorder) {
            $0.allowsWrite(locations, validating: added)
        }
        return WriteDecision(
            isAllowed: isAllowed, dependencies: recorder.places, wholes: recorder.wholes, looksAtOverwritten: recorder.readsOverwritten,
            looksAtAnything: recorder.hasOverflowed)
    }
}
