public import JSONTree

/// Whether a read is allowed, and the dependencies of that decision.
public struct ReadDecision: Sendable {
    public let isAllowed: Bool
    /// Places that the rules read, in the order of first reading, so that equal decisions compare equal. The decision holds for the same
    /// `auth` and `query` while two things stay unchanged. One is what rules see at each place: its existence, whether it has children, its
    /// leaf and its priority. The other is everything at and below the `subtreeDependencies`.
    public let dependencies: [Path]
    /// The dependencies on everything below a place.
    public let subtreeDependencies: Set<Path>

    /// A refusal that holds for any data.
    public static let refused = ReadDecision(isAllowed: false, dependencies: [], subtreeDependencies: [])
}

/// Records the places that one evaluation reads.
final class DependencyRecorder {
    private(set) var places: Set<Path> = []
    /// The places in the order of first reading.
    private(set) var ordered: [Path] = []
    /// The places below which everything was read.
    private(set) var subtreeDependencies: Set<Path> = []
    /// Whether more places were read than the limit; then none are kept.
    private(set) var hasOverflowed = false
    /// Whether the old tree was read at or below the written place.
    private(set) var readsOverwritten = false
    /// The depth of the written place, when the walk is at or below it. There the new tree is the written data and not a dependency, and
    /// reads of the old tree only set `readsOverwritten`.
    var writtenDepth = Int.max
    private let limit: Int

    /// - Parameter limit: the most places to keep.
    init(limit: Int = .max) { self.limit = limit }

    func record(_ keys: ContiguousArray<Key>, whole: Bool) {
        guard !hasOverflowed else { return }
        let place = Path(keys)
        if whole { subtreeDependencies.insert(place) }
        if places.insert(place).inserted { ordered.append(place) }
        guard places.count > limit else { return }
        hasOverflowed = true
        (places, ordered, subtreeDependencies) = ([], [], [])
    }

    func recordWritten(_ tree: Tree) {
        if tree == .old { readsOverwritten = true }
    }
}

extension RuleSet {
    /// Decides like `allowsRead` and records the dependencies; most rules have none.
    public func decideRead(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables? = nil) -> ReadDecision {
        let dependencies = DependencyRecorder()
        let isAllowed = Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query, dependencies: dependencies) {
            $0.grantsRead(path)
        }
        return ReadDecision(isAllowed: isAllowed, dependencies: dependencies.ordered, subtreeDependencies: dependencies.subtreeDependencies)
    }
}
