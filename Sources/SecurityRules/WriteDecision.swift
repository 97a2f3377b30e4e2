public import JSONTree

/// Whether a write is allowed, and the dependencies of that decision: the data that must stay unchanged for it to hold on a later tree.
public struct WriteDecision: Sendable {
    public let isAllowed: Bool
    /// Places that the rules read, in the tree before or after, except inside the written data. The decision holds for the same `auth`,
    /// `now` and write while two things stay unchanged. One is what rules see at each place: its existence, whether it has children, its
    /// leaf and its priority. The other is the existence of every ancestor of a written place.
    public let dependencies: Set<Path>
    /// The dependencies on everything below a place.
    public let subtreeDependencies: Set<Path>
    /// Whether the rules read the stored data at or below a written place: then that data must not change either.
    public let dependsOnOverwritten: Bool
    /// Whether the rules read more places than the limit: then no data may change. `dependencies` is empty.
    public let dependsOnEverything: Bool
}

extension RuleSet {
    /// Decides like `allowsWrite` and records the dependencies. Costs several times as much as `allowsWrite`.
    /// - Parameter limit: the most dependencies to record; beyond it the decision depends on all data.
    public func decideWrite(
        _ locations: [Path], validating added: [Path] = [], old: Node, new: Node, auth: Node, now: Int64, keeping limit: Int
    ) -> WriteDecision {
        let recorder = DependencyRecorder(limit: limit)
        let isAllowed = Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: nil, dependencies: recorder) {
            $0.allowsWrite(locations, validating: added)
        }
        return WriteDecision(
            isAllowed: isAllowed, dependencies: recorder.places, subtreeDependencies: recorder.subtreeDependencies,
            dependsOnOverwritten: recorder.readsOverwritten, dependsOnEverything: recorder.hasOverflowed)
    }
}
