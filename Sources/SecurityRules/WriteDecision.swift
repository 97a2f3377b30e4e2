public import JSONTree

/// Whether a write is allowed, and what that was concluded from: everything that must be the same for it to stand on a later tree.
public struct WriteDecision: Sendable {
    public let isAllowed: Bool
    /// Places that the rules looked at, in the tree before or in the one after, other than in what the write puts there. While
    /// none of them changes in what rules see of a place (whether it exists, has children, its leaf and its priority), and no
    /// written place gains or loses what is above it, the decision stands for the same `auth`, `now` and write.
    public let dependencies: Set<Path>
    /// Whether the rules looked at what is stored at or below a written place: then that must not change either.
    public let looksAtOverwritten: Bool
    /// Whether the rules looked at more places than were to be kept: then nothing may change. `dependencies` is empty.
    public let looksAtAnything: Bool
}

extension RuleSet {
    /// Decides as `allowsWrite` and tells which data the decision rests on. Costs several times what the decision does.
    /// - Parameter limit: dependencies that are told; with more of them the decision rests on everything.
    public func decideWrite(
        _ locations: [Path], old: Node, new: Node, auth: Node, now: Int64, keeping limit: Int
    ) -> WriteDecision {
        let recorder = DependencyRecorder(limit: limit)
        let isAllowed = Evaluator.run(program, old: old, new: new, auth: auth, now: now, query: .none, dependencies: recorder) {
            $0.allowsWrite(locations)
        }
        return WriteDecision(
            isAllowed: isAllowed, dependencies: recorder.places, looksAtOverwritten: recorder.looksAtOverwritten,
            looksAtAnything: recorder.hasOverflowed)
    }
}
