public import JSONTree

/// What a `.count` asks of callers without an account, so that counts do not tell where something is.
///
///     ".count": {"if": "query.near", "radius": 1000, "snap": 100, "least": 5, "perMinute": 30}
///
/// What bounds an attacker is the grid: a child counts as if it were at the centre of its square, so that no circles tell where within it
/// the child is. The rest makes him slower: few radii and centres, no small numbers, a rate.
public struct CountTerms: Sendable, Hashable {
    /// The least radius of a circle in metres; larger ones are twice, four times, up to 64 times as wide. Nil for any.
    public var radius: Double?
    /// The distance in metres between the centres that circles of the least radius have. Nil for any.
    public var snap: Double?
    /// Fewer children than this are told as 0. Nil: of a count with conditions a single child is.
    public var least: Int?
    /// Counts that one address may ask for in a minute. Nil for any number.
    public var perMinute: Int?
    /// The rule's place with its wildcards.
    public internal(set) var pattern = Path.root
    /// Byte of the file at which it stands.
    let offset: Int

    init(offset: Int) { self.offset = offset }

    /// Whether circles are bounded, so that nothing else may tell of positions either.
    public var boundsCircles: Bool { radius != nil || snap != nil }

    // MARK: As it is counted

    /// The widest circle, in least radii: a wider one is counted as that.
    private static let mostTimes = 64.0
    /// Squares of the grid along the least radius, at most.
    private static let squaresOfRadius = 4.0

    /// The metres of the grid that hides where children are.
    public var grid: Double? { boundsCircles ? max(snap ?? 0, (radius ?? 0) / Self.squaresOfRadius) : nil }

    /// The next radius that circles have. One below the least stays as it is, and is refused.
    public func countedRadius(_ metres: Double) -> Double {
        guard let radius, metres > radius else { return metres }
        var counted = radius
        while counted < metres, counted < radius * Self.mostTimes { counted *= 2 }
        return counted
    }

    /// The distance between the centres of circles of a radius: it grows with that.
    /// - Parameter metres: the radius as it is counted; nil for what is nearest.
    public func snap(of metres: Double?) -> Double? {
        guard let snap, let radius, let metres, metres > radius else { return snap }
        return snap * (metres / radius)
    }

    /// Fewer children than this are told as 0.
    public func least(hasConditions: Bool) -> Int { least ?? (boundsCircles && hasConditions ? 2 : 0) }

    /// Whether the terms are for somebody: for those who are nobody, and for users without a name, which everybody can become.
    public static func concern(_ auth: Node) -> Bool {
        guard auth.exists else { return true }
        return auth.child("provider") == .string("anonymous")
    }

    /// What a query of such a caller does not meet; nil when nothing is missing.
    /// - Parameter filters: what the place's `.geoIndex` names as `filter`. What `.indexOn` names besides, such as the author, is for those
    ///   who may read: a condition on it would tell strangers where somebody's children are.
    func unmet(by query: QueryVariables, filters: [String], position: [Path]) -> String? {
        guard boundsCircles || least != nil else { return nil }
        if let radius, let asked = query.radius, asked < radius {
            return "Without an account the radius is at least \(NumberText.format(radius)) m."
        }
        if query.startAt != nil || query.endAt != nil || query.equalTo != nil {
            return "Without an account a count has conditions, and no bounds of an order."
        }
        guard boundsCircles else { return nil }
        for path in query.otherConditions.union(query.conditions.keys) {
            // Members of a set are declared by one line, and so is which of them there are.
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
    /// What counts of a place ask of callers without an account; nil for nothing. O(depth)
    public func countTerms(at path: Path) -> CountTerms? { details(at: path)?.countTerms }

    /// Whether the children of a place may be counted, or those that a query selects: by the `.count` of the place; without one by the
    /// `.read` rules, as `allowsRead`.
    public func allowsCount(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables? = nil) -> Bool {
        if unmet(path, auth, query) != nil { return false }
        return Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query) { $0.grantsCount(path) }
    }

    /// Decides as `allowsCount` and records the dependencies.
    public func decideCount(_ path: Path, root: Node, auth: Node, now: Int64, query: QueryVariables? = nil) -> ReadDecision {
        if unmet(path, auth, query) != nil { return .refused }
        let dependencies = DependencyRecorder()
        let isAllowed = Evaluator.run(program, old: root, new: root, auth: auth, now: now, query: query, dependencies: dependencies) {
            $0.grantsCount(path)
        }
        return ReadDecision(isAllowed: isAllowed, dependencies: dependencies.ordered, wholes: dependencies.wholes)
    }

    /// Decides as `allowsCount`, with a trace.
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
