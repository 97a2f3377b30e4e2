public import JSONTree

/// The bounds of a `.count` for callers without an account, so that counts do not reveal positions.
///
///     ".count": {"if": "query.near", "radius": 1000, "snap": 100, "least": 5, "perMinute": 30}
///
/// The grid limits an attacker. A child counts as if it were at the centre of its square, so circles do not reveal its place in the square.
/// The other bounds slow the attacker down: few radii and centres, no small numbers, a rate.
public struct CountTerms: Sendable, Hashable {
    /// The smallest radius of a circle in metres; larger ones are twice, four times, up to 64 times as wide. Nil allows any.
    public var radius: Double?
    /// The distance in metres between the allowed centres of the smallest circles. Nil allows any.
    public var snap: Double?
    /// Smaller counts are reported as 0. Nil: in counts with conditions, a single child is (see `least(hasConditions:)`).
    public var least: Int?
    /// Most counts per address and minute. Nil: unlimited.
    public var perMinute: Int?
    public internal(set) var pattern = Path.root
    /// The byte offset of the `.count` in the file.
    let offset: Int

    init(offset: Int) { self.offset = offset }

    /// Whether circles are bounded. Then conditions and ranges must not reveal positions either.
    public var boundsCircles: Bool { radius != nil || snap != nil }

    // MARK: Rounding

    /// The widest circle, in smallest radii: wider ones are counted as this one.
    private static let mostTimes = 64.0
    /// Most squares of the grid along the smallest radius.
    private static let squaresOfRadius = 4.0

    /// The grid size in metres that hides positions.
    public var grid: Double? { boundsCircles ? max(snap ?? 0, (radius ?? 0) / Self.squaresOfRadius) : nil }

    /// The next allowed radius. One below the smallest stays as it is, and is refused.
    public func countedRadius(_ metres: Double) -> Double {
        guard let radius, metres > radius else { return metres }
        var counted = radius
        while counted < metres, counted < radius * Self.mostTimes { counted *= 2 }
        return counted
    }

    /// The distance between allowed centres of circles of a radius: it grows with the radius.
    /// - Parameter metres: the radius after `countedRadius`; nil for a search of the nearest.
    public func snap(of metres: Double?) -> Double? {
        guard let snap, let radius, let metres, metres > radius else { return snap }
        return snap * (metres / radius)
    }

    /// The smallest count that is not reported as 0.
    public func least(hasConditions: Bool) -> Int { least ?? (boundsCircles && hasConditions ? 2 : 0) }

    /// Whether the bounds apply to a caller: to those not signed in, and to anonymous accounts, which anyone can create.
    public static func concern(_ auth: Node) -> Bool {
        guard auth.exists else { return true }
        return auth.child("provider") == .string("anonymous")
    }

    /// The bound that a query of such a caller violates; nil if none.
    /// - Parameter filters: the `filter` names of the place's `.geoIndex`. Other names of `.indexOn`, such as the author, require a read
    ///   permission: a condition on one would reveal where a user's children are.
    func unmet(by query: QueryVariables, filters: [String], position: [Path]) -> String? {
        guard boundsCircles || least != nil else { return nil }
        // The grid and the steps of centres are those of circles: a region could be fitted around a single child.
        if boundsCircles, query.within != nil { return "Without an account a count has a circle (near), and no region (within)." }
        if let radius, let asked = query.radius, asked < radius {
            return "Without an account the radius is at least \(NumberText.format(radius)) m."
        }
        if query.startAt != nil || query.endAt != nil || query.equalTo != nil {
            return "Without an account a count has conditions, and no bounds of an order."
        }
        guard boundsCircles else { return nil }
        for path in query.otherConditions.union(query.conditions.keys) {
            // A declared set, such as `types/*`, also covers conditions on its members.
            let name = path.isRoot ? ".value" : path.relativeText
            let isDeclared = RuleSet.declaration(of: name, among: filters) != nil || filters.contains(name + "/*")
            if !isDeclared || position.contains(where: { $0.contains(path) || path.contains($0) }) {
                return "Without an account conditions are on what .geoIndex names as its filter, and not on the position."
            }
        }
        return nil
    }
}

extension RuleSet {
    /// The count bounds of a place for callers without an account; nil for none. O(depth)
    public func countTerms(at path: Path) -> CountTerms? { details(at: path)?.countTerms }

    /// Whether the children of a place, or those that a query selects, may be counted. Decided by the `.count` of the place; without one by
    /// the `.read` rules, like `allowsRead`.
    public func allowsCount(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables? = nil) -> Bool {
        if unmet(path, auth, query) != nil { return false }
        return Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query) { $0.grantsCount(path) }
    }

    /// Decides like `allowsCount` and records the dependencies.
    public func decideCount(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables? = nil) -> ReadDecision {
        if unmet(path, auth, query) != nil { return .refused }
        let dependencies = DependencyRecorder()
        let isAllowed = Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query, dependencies: dependencies) {
            $0.grantsCount(path)
        }
        return ReadDecision(isAllowed: isAllowed, dependencies: dependencies.ordered, subtreeDependencies: dependencies.subtreeDependencies)
    }

    /// Decides like `allowsCount`, with a trace.
    public func explainCount(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables? = nil) -> RuleTrace {
        if let unmet = unmet(path, auth, query) {
            return RuleTrace(
                operation: .count(path), isAllowed: false, steps: [], unmet: unmet, unmetRule: "\(nearestPlace(to: path)).count")
        }
        let recorder = TraceRecorder(self)
        let isAllowed = Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query, recorder: recorder) {
            $0.grantsCount(path)
        }
        return RuleTrace(operation: .count(path), isAllowed: isAllowed, steps: recorder.steps)
    }

    private func unmet(_ path: Path, _ auth: Node, _ query: QueryVariables?) -> String? {
        guard CountTerms.concern(auth), let details = details(at: path), let terms = details.countTerms else { return nil }
        let position = details.geoIndex.map { [$0.latitude, $0.longitude] } ?? []
        return terms.unmet(by: query ?? .none, filters: details.countFilters, position: position)
    }
}
