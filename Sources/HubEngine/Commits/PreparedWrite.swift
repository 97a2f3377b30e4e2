import Journal
import JSONTree
import SecurityRules

/// A large write that was decided and made on a tree of a moment ago, on any queue. It can be made on the tree of now when
/// nothing that it rests on has changed; what others have written elsewhere is taken over (`follow`).
///
/// ```
/// base ───── others write ─────► root
///   │ writes, rules (background)   │ follow: O(what others wrote)
/// candidate ─────────────────────► the next root
/// ```
struct PreparedWrite: Sendable {
    /// The tree that it rests on, and that tree with the writes made.
    private(set) var base: Node
    private(set) var candidate: Node
    let operations: [JournalOperation]
    /// Where they write, ascending.
    let paths: [Path]
    /// Those of them of which nothing is stored, by a `.drop`.
    private let dropped: Set<Path>
    /// The deepest place that holds all that is written.
    let common: Path
    /// The written places whose content is another than before, ascending; all of them once another client has written there.
    private(set) var changed: [Path]
    /// Those of the paths from which something follows by the rules, and those at, above or below which copies may be; ascending, and none
    /// contains another. Found here, as the rules are the same when it is made.
    let followed: [Path]
    let copied: [Path]
    /// Orders of children as they are with the write made.
    var orders = PreparedOrders()
    /// Those of the paths at, above or below which are nodes that end by time.
    let expiring: WrittenPlaces
    /// All of them.
    private let written: WrittenPlaces
    /// The places that the rules read, and their ancestors.
    private let dependencies: Set<Path>
    /// Those of them at which everything below counts as well.
    private let wholes: Set<Path>
    private let aboveDependencies: Set<Path>
    /// Whether what it writes, or whether it may, was concluded from what is stored where it writes.
    private let restsOnOverwritten: Bool
    private let restsOnEverything: Bool
    /// Whether it removes something. A place above that is left without children loses its priority.
    private let removes: Bool
    private let compared: (path: Path, node: Node)?
    /// Whether something else is stored than was sent.
    let isShaped: Bool

    /// The paths without those of which nothing is stored.
    var stored: [Path] { dropped.isEmpty ? paths : paths.filter { !dropped.contains($0) } }

    enum Outcome: Sendable {
        case ready(PreparedWrite)
        case refused(Failure, RuleQuestion?)
    }

    /// Decides and makes a write on a tree. O(its size · depth)
    /// - Parameter limit: places in the data on which the decision may rest; with more of them it rests on everything.
    static func prepare(
        _ asked: AskedWrite, _ permission: WritePermission, on base: Node, now: Int64, dependencies limit: Int
    ) -> Outcome {
        if let question = permission.firstImpossible(asked.writes, on: base, now: now) { return .refused(question.refusal, question) }
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

    private init(_ asked: AskedWrite, _ made: Candidate, _ decision: WriteDecision?, _ rules: RuleSet) {
        let (base, candidate) = (made.base, made.tree)
        self.base = base
        self.candidate = candidate
        (operations, paths) = (made.operations, made.paths.ascending())
        changed = paths.filter { base.node(at: $0) != candidate.node(at: $0) }
        followed = rules.hasConsequences ? paths.filter { rules.mayFollow(from: $0) }.outermost : []
        copied = rules.hasIndexedCopies ? paths.filter { rules.mayHoldCopies(around: $0) }.outermost : []
        var common = asked.writes.first?.path ?? .root
        var (written, expiring) = (WrittenPlaces(), WrittenPlaces())
        for path in made.paths {
            while !common.contains(path) { common = common.parent }
            written.insert(path)
            if !made.dropped.contains(path), rules.mayExpire(around: path) { expiring.insert(path) }
        }
        self.common = common
        (self.written, self.expiring) = (written, expiring)
        let shape = made.shapeDependencies
        (isShaped, dropped) = (made.isShaped, made.dropped)
        dependencies = (decision?.dependencies ?? []).union(shape?.dependencies ?? [])
        wholes = (decision?.wholes ?? []).union(shape?.wholes ?? [])
        var above: Set<Path> = []
        for path in dependencies {
            var place = path
            while !place.isRoot {
                place = place.parent
                if !above.insert(place).inserted { break }
            }
        }
        aboveDependencies = above
        // What is written where it has something dropped stays.
        restsOnOverwritten = decision?.looksAtOverwritten == true || shape?.looksAtOverwritten == true || !made.dropped.isEmpty
            || asked.writes.contains { $0.part == .priority || $0.value.deferred.contains { $0.value != .timestamp } }
        restsOnEverything = decision?.looksAtAnything == true || shape?.looksAtAnything == true
        removes = operations.contains { if case .set(_, .null) = $0 { true } else { false } }
        compared = asked.condition.map { ($0.path, base.node(at: $0.path)) }
    }

    /// Takes over what others have written since. O(places · depth)
    /// - Parameters:
    ///   - root: the tree of now.
    ///   - others: the places that were written between `base` and it.
    /// - Returns: false when something was written that the write may rest on; it is to be prepared anew then.
    mutating func follow(_ root: Node, _ others: some Collection<Path>) -> Bool {
        if others.isEmpty { return true }
        guard !restsOnEverything else { return false }
        if let compared, !root.node(at: compared.path).isIdentical(to: compared.node) { return false }
        for path in others {
            guard standsBeside(path, root), takeOver(path, root) else { return false }
        }
        base = root
        return true
    }

    /// Whether the rules would see the same after a write at a place.
    private func standsBeside(_ path: Path, _ root: Node) -> Bool {
        if dependencies.isEmpty { return true }
        if aboveDependencies.contains(path) { return false }
        for depth in 0...path.depth {
            let place = Path(path.keys.prefix(depth))
            guard dependencies.contains(place) else { continue }
            let (before, after) = (base.node(at: place), root.node(at: place))
            if !(wholes.contains(place) ? before.isIdentical(to: after) : before.hasSameSurface(as: after)) { return false }
        }
        return true
    }

    /// Brings what is stored by now beside the written places into the candidate: the whole of the highest place on the way
    /// that holds none of them, as it is, so that nothing depends on the order of the two writes.
    private mutating func takeOver(_ path: Path, _ root: Node) -> Bool {
        var (mark, before, after) = (written.tree, base, root)
        var mayLosePriority = false
        for (depth, key) in path.keys.enumerated() {
            guard mark.hasChildren else { return overwrites() }
            // Above a written place: gained, lost or with another priority, it might come out differently.
            guard before.isSameParent(as: after) else { return false }
            if removes, !after.priority.isNull { mayLosePriority = true }
            // With a child that is not written it is never empty, and so is nothing above it.
            if mayLosePriority, min(before.childCount, after.childCount) > mark.childCount { mayLosePriority = false }
            (mark, before, after) = (mark.child(key), before.child(key), after.child(key))
            // Between two operations a place above may be empty in one tree and not in the other, and loses its priority in that one only.
            if mayLosePriority, before.exists != after.exists { return false }
            if mark.isNull { return replace(path.keys.prefix(depth + 1), by: after) }
        }
        if mark.hasChildren { return false }
        return overwrites()
    }

    /// Writes there by others meanwhile are overwritten, as if they had come first.
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
    /// Whether something written below comes out the same in both: neither is a leaf, or both the same one, and what has to stay
    /// with the place is.
    fileprivate func isSameParent(as other: Node) -> Bool {
        let areParents = (isNull || hasChildren) && (other.isNull || other.hasChildren)
        return areParents ? priority == other.priority : self == other
    }
}
