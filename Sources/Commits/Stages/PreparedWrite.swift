package import Journal
package import JSONTree
import SecurityRules

/// A large write that was decided and applied to a recent tree, on any queue. It can be committed to the current tree if none of its
/// dependencies has changed. Commits at other paths are merged in (`mergeCommits`).
///
/// ```
/// base ───── other commits ─────► root
///   │ writes, rules (background)    │ mergeCommits: O(paths written by others)
/// candidate ──────────────────────► the next root
/// ```
package struct PreparedWrite: Sendable {
    /// The tree on which it was prepared, and the same tree with the writes applied.
    package private(set) var base: Node
    package private(set) var candidate: Node
    package let operations: [JournalOperation]
    /// The paths of the operations, ascending.
    package let paths: [Path]
    /// The paths at which nothing is stored because of a `.drop`.
    private let dropped: Set<Path>
    /// The deepest common ancestor of all written paths.
    package let commonAncestor: Path
    /// The written paths whose content changes, ascending. All paths once another client has written at one of them.
    package private(set) var changed: [Path]
    /// Ascending and disjoint: `followed` are the paths with consequences, `copied` those around which there may be copies. Computed here,
    /// because the rules must be the same when it is committed.
    package let followed: [Path]
    package let copied: [Path]
    /// Orders of children with the write applied.
    package var orders = PreparedOrders()
    /// The paths at, above or below which nodes expire.
    package let expiring: WrittenPlaces
    /// All written paths.
    private let written: WrittenPlaces
    /// The paths that the rules read, and their ancestors (`aboveDependencies`).
    private let dependencies: Set<Path>
    /// Dependencies for which the whole subtree counts.
    private let subtreeDependencies: Set<Path>
    private let aboveDependencies: Set<Path>
    /// Whether the result or the permission depends on the data that it overwrites.
    private let restsOnOverwritten: Bool
    private let restsOnEverything: Bool
    /// Whether it removes a node. An ancestor left without children loses its priority.
    private let removes: Bool
    private let compared: (path: Path, node: Node)?
    /// Whether the stored values differ from those sent.
    package let isShaped: Bool

    /// The paths without those at which nothing is stored.
    package var stored: [Path] { dropped.isEmpty ? paths : paths.filter { !dropped.contains($0) } }

    package enum Outcome: Sendable {
        case ready(PreparedWrite)
        case refused(Failure, RuleQuestion?)
    }

    /// Decides a write and applies it to a tree. O(its size · depth)
    /// - Parameter limit: recorded dependencies at most; beyond it the decision depends on everything.
    package static func prepare(
        _ asked: WriteRequest, _ permission: WritePermission, on base: Node, now: Int64, dependencies limit: Int
    ) -> Outcome {
        if let write = permission.firstImpossible(asked.writes, now: now) {
            let question = permission.question(write, on: base, now: now)
            return .refused(question.refusal, question)
        }
        let candidate: Candidate
        do throws(Failure) {
            let shaping = WriteShaping(permission.rules, permission.origin, dependencies: limit)
            candidate = try Candidate(asked.writes, on: base, now: now, shaping: shaping)
        } catch { return .refused(error, nil) }
        let decision = permission.decide(candidate, keeping: limit)
        if decision?.isAllowed == false {
            let question = permission.question(candidate)
            return .refused(question.refusal, question)
        }
        if let condition = asked.condition, !base.node(at: condition.path).hasHash(condition.hash) { return .refused(.dataStale, nil) }
        return .ready(PreparedWrite(asked, candidate, decision, permission.rules))
    }

    private init(_ asked: WriteRequest, _ made: Candidate, _ decision: WriteDecision?, _ rules: RuleSet) {
        let (base, candidate) = (made.base, made.tree)
        self.base = base
        self.candidate = candidate
        (operations, paths) = (made.operations, made.paths.ascending())
        changed = paths.filter { base.node(at: $0) != candidate.node(at: $0) }
        followed = rules.hasConsequences ? paths.filter { rules.mayFollow(from: $0) }.outermost : []
        copied = rules.hasIndexedCopies ? paths.filter { rules.mayHoldCopies(around: $0) }.outermost : []
        var commonAncestor = asked.writes.first?.path ?? .root
        var (written, expiring) = (WrittenPlaces(), WrittenPlaces())
        for path in made.paths {
            while !commonAncestor.contains(path) { commonAncestor = commonAncestor.parent }
            written.insert(path)
            if !made.dropped.contains(path), rules.mayExpire(around: path) { expiring.insert(path) }
        }
        self.commonAncestor = commonAncestor
        (self.written, self.expiring) = (written, expiring)
        let shape = made.shapeDependencies
        (isShaped, dropped) = (made.isShaped, made.dropped)
        dependencies = (decision?.dependencies ?? []).union(shape?.dependencies ?? [])
        subtreeDependencies = (decision?.subtreeDependencies ?? []).union(shape?.subtreeDependencies ?? [])
        var above: Set<Path> = []
        for path in dependencies {
            var place = path
            while !place.isRoot {
                place = place.parent
                if !above.insert(place).inserted { break }
            }
        }
        aboveDependencies = above
        // Where a `.drop` removed the write, the old content stays.
        restsOnOverwritten = decision?.dependsOnOverwritten == true || shape?.dependsOnOverwritten == true || !made.dropped.isEmpty
            || asked.writes.contains { $0.part == .priority || $0.value.deferred.contains { $0.value != .timestamp } }
        restsOnEverything = decision?.dependsOnEverything == true || shape?.dependsOnEverything == true
        removes = operations.contains { if case .set(_, .null) = $0 { true } else { false } }
        compared = asked.condition.map { ($0.path, base.node(at: $0.path)) }
    }

    /// Merges the commits made since `base`. O(paths · depth)
    /// - Parameters:
    ///   - root: the current tree.
    ///   - others: the paths written between `base` and `root`.
    /// - Returns: false if they wrote data on which the write may depend. Then it must be prepared again.
    package mutating func mergeCommits(_ root: Node, _ others: [Path]) -> Bool {
        if others.isEmpty { return true }
        guard !restsOnEverything else { return false }
        if let compared, !root.node(at: compared.path).isIdentical(to: compared.node) { return false }
        for path in others {
            guard keepsDependencies(path, root), merge(path, root) else { return false }
        }
        base = root
        return true
    }

    /// Whether the rules would decide the same after another commit wrote at this path.
    private func keepsDependencies(_ path: Path, _ root: Node) -> Bool {
        if dependencies.isEmpty { return true }
        if aboveDependencies.contains(path) { return false }
        for depth in 0...path.depth {
            let place = Path(path.keys.prefix(depth))
            guard dependencies.contains(place) else { continue }
            let (before, after) = (base.node(at: place), root.node(at: place))
            if !(subtreeDependencies.contains(place) ? before.isIdentical(to: after) : before.hasSameSurface(as: after)) { return false }
        }
        return true
    }

    /// Copies data committed by others into the candidate. It takes the subtree of the highest node on the path that contains no written
    /// path. So the order of the two writes does not matter.
    private mutating func merge(_ path: Path, _ root: Node) -> Bool {
        var (mark, before, after) = (written.tree, base, root)
        var mayLosePriority = false
        for (depth, key) in path.keys.enumerated() {
            guard mark.hasChildren else { return overwrites() }
            // An ancestor of a written path. If it appeared, vanished or got another priority, the result might differ.
            guard before.isSameParent(as: after) else { return false }
            if removes, !after.priority.isNull { mayLosePriority = true }
            // With a child that this write does not touch, neither this ancestor nor any above it can become empty.
            if mayLosePriority, min(before.childCount, after.childCount) > mark.childCount { mayLosePriority = false }
            (mark, before, after) = (mark.child(key), before.child(key), after.child(key))
            // Between two operations, an ancestor may be empty in one tree only. It then loses its priority in that tree only.
            if mayLosePriority, before.exists != after.exists { return false }
            if mark.isNull { return replace(path.keys.prefix(depth + 1), by: after) }
        }
        if mark.hasChildren { return false }
        return overwrites()
    }

    /// The other commit wrote at a written path. This write replaces it, as if the other had come first.
    private mutating func overwrites() -> Bool {
        if changed.count < paths.count { changed = paths }
        return !restsOnOverwritten
    }

    private mutating func replace(_ keys: ArraySlice<Key>, by value: Node) -> Bool {
        if candidate.node(at: keys).isIdentical(to: value) { return true }
        let above = candidate
        candidate.set(value, at: Path(keys))
        var (before, after) = (above, candidate)
        for key in keys {
            guard before.hasSameSurface(as: after) else { return false }
            (before, after) = (before.child(key), after.child(key))
        }
        return true
    }
}

extension Node {
    /// Whether a write below gives the same result in both: both are parents (or absent) with equal priority, or both are the same leaf.
    fileprivate func isSameParent(as other: Node) -> Bool {
        let areParents = (isNull || hasChildren) && (other.isNull || other.hasChildren)
        return areParents ? priority == other.priority : self == other
    }
}
