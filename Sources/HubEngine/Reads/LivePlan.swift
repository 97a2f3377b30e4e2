import JSONTree
import LiveQueries

/// The start of a search for a live query's children: the one expected to visit the fewest.
///
/// | start | visits |
/// |---|---|
/// | an index of the rules, by a condition | the children that the condition selects |
/// | the order of the query | its range, up to the limit plus non-matching children before it |
/// | the points of the place, for `near` and `within` | the circle or the region, or the nearest first, up to the limit |
/// | every child | all |
///
/// Without a usable index, a place with more children than `unindexedChildren` is refused; the error names the missing rule line. A start whose order
/// cannot be kept now is skipped for the next best. If a few steps through the points already find the result, planning stops. Every search visits at
/// most `liveQuerySteps` children.
struct LivePlan: Sendable {
    enum Start: Sendable {
        /// The ranges of an index that a condition selects.
        case index(TreeQuery.Index, OrderedChildren, [TreeQuery])
        case order(OrderedChildren)
        case points(GeoIndex)
        case all
    }

    let query: Query
    let showing: LiveQueryView.Showing
    var start: Start
    /// Estimated number of visited children. `worst` is the maximum, reached if matching children come last.
    var visits: Int
    var worst: Int
    /// True if an order of the rules exists from which a circle's limit takes the next children. Otherwise all matches are held.
    var refills = false
    /// True if a circle or a region without a limit holds all its matches. Otherwise each answer scans them.
    var holdsCircle = false
    /// A result that a few steps have found while planning.
    var found: Found?

    enum Answer {
        case ready(LivePlan)
        /// This order must be ready first.
        case waits(TreeQuery.Index)
    }

    /// The result of a search.
    enum Found: Sendable {
        case window(Window)
        case count(Int)
        /// More matches than may be held.
        case tooMany
        /// More children to visit than allowed.
        case tooManySteps
    }

    private init(_ query: Query, _ showing: LiveQueryView.Showing, _ start: Start, visits: Int) {
        (self.query, self.showing, self.start, self.visits, worst) = (query, showing, start, visits, visits)
    }

    /// A copy that can run off the queue.
    var detached: LivePlan {
        guard case .points(let index) = start else { return self }
        var plan = self
        plan.start = .points(index.snapshot())
        return plan
    }

    // MARK: Choosing

    /// O(conditions · log n), plus a few steps through the points.
    /// - Parameters:
    ///   - points: the points of the place's children, for `near` and `within`.
    ///   - refused: orders that the limits do not allow, with the reasons.
    ///   - mustKeep: true if the order that fills an observer's limit must be kept.
    static func find(
        _ query: Query, _ showing: LiveQueryView.Showing, at path: Path, over node: Node, _ indexes: IndexStore, points: GeoIndex?,
        _ limits: EngineLimits, without refused: [TreeQuery.Index: Failure] = [:], mustKeep: Bool = true
    ) -> Result<Answer, Failure> {
        let count = node.childCount
        // The number of children is known without a search.
        if showing == .count, !query.hasArea, query.filter.isEmpty, query.tree.start == nil, query.tree.end == nil {
            var plan = LivePlan(query, showing, .all, visits: 0)
            plan.found = .count(count)
            return .success(.ready(plan))
        }
        var best = LivePlan(query, showing, .all, visits: count)
        var isIndexed = count <= limits.unindexedChildren
        if let points, query.hasArea {
            best = around(points, query, showing, over: node, limits)
            if best.found != nil || best.worst <= limits.inlineChildren { return .success(.ready(best)) }
            isIndexed = true
        }
        // Number of all children that are in the circle or the region, or match.
        var selected = best.worst
        for condition in query.filter.conditions {
            let ordering = condition.ordering
            guard let ranges = condition.ranges(by: ordering), !indexes.isMissing(ordering, path) else { continue }
            if refused[ordering] != nil { continue }
            isIndexed = true
            if count <= limits.inlineChildren { continue }
            switch indexes.order(node, at: path, by: ordering, mustKeep: false) {
            case nil: return .success(.waits(ordering))
            case .failure(let failure)?: return .failure(failure)
            case .success(let children)?:
                guard let found = indexes.extent(ranges, in: children, below: selected) else { continue }
                selected = found
                // Searching the nearest first may visit this many children until the limit is full.
                if query.isByPosition, let limit = query.tree.limit, showing == .children {
                    best.visits = min(best.worst, expected(limit, limits, selected, of: count))
                    if best.visits < found { continue }
                }
                let holdsCircle = best.holdsCircle
                best = LivePlan(query, showing, .index(ordering, children, ranges), visits: found)
                best.holdsCircle = holdsCircle
            }
        }
        let ordering = query.tree.orderedBy
        if showing == .children, query.keptOrder != nil, count > limits.unindexedChildren, indexes.isMissing(ordering, path) {
            return .failure(.missingIndex(ordering, path))
        }
        let hasRange = query.tree.start != nil || query.tree.end != nil
        let isKept = showing == .children && query.tree.limit != nil
        // Without its order, a limit could not be refilled.
        if showing == .children, query.keptOrder != nil, let refusal = refused[ordering] { return .failure(refusal) }
        var usesOrder = refused[ordering] == nil && (hasRange || isKept)
        if query.hasArea { usesOrder = usesOrder && !query.isByPosition && !indexes.isCharged(ordering, path) }
        if usesOrder, ordering == .key || !indexes.isMissing(ordering, path) { isIndexed = isIndexed || ordering != .key || hasRange }
        guard isIndexed else { return .failure(refused.values.first ?? .missingCondition(query, path)) }
        guard usesOrder else { return .success(.ready(best)) }
        switch indexes.order(node, at: path, by: ordering, mustKeep: mustKeep && isKept) {
        case nil: return .success(.waits(ordering))
        case .failure(let failure)?:
            return query.hasArea ? .success(.ready(best)) : .failure(failure)
        case .success(let children)?:
            var range = query.tree
            range.limit = nil
            let inRange = indexes.extent([range], in: children, below: .max) ?? 0
            // Assume that the range has the same share of matches as the whole place.
            var visits = inRange
            if let limit = query.tree.limit, showing == .children { visits = min(inRange, expected(limit, limits, selected, of: count)) }
            if visits <= best.visits {
                best = LivePlan(query, showing, .order(children), visits: visits)
                best.worst = inRange
            }
            best.refills = isKept
            return .success(.ready(best))
        }
    }

    /// Estimated number of children visited until a limit and its reserve are full.
    private static func expected(_ limit: Int, _ limits: EngineLimits, _ selected: Int, of count: Int) -> Int {
        let (wanted, each) = (limit + limits.windows.reserve, max(1, count / max(1, selected)))
        return wanted.multipliedReportingOverflow(by: each).overflow ? .max : wanted * each
    }

    /// A plan that starts from the points, with the result if a few steps find it.
    private static func around(
        _ points: GeoIndex, _ query: Query, _ showing: LiveQueryView.Showing, over node: Node, _ limits: EngineLimits
    ) -> LivePlan {
        let (within, isExact) = points.estimate(within: query, visits: limits.windows.firstVisits)
        var plan = LivePlan(query, showing, .points(points), visits: within)
        if showing == .count {
            if query.isCountedByCells, isExact { plan.found = .count(within) }
            return plan
        }
        guard query.isByPosition else { return plan }
        guard let limit = query.tree.limit else {
            plan.holdsCircle = within > (query.filter.isEmpty ? limits.liveQueryChildren : limits.inlineChildren)
            return plan
        }
        if query.filter.isEmpty { plan.visits = min(within, limit) }
        // With conditions, each point costs as much as several cells.
        let visits = limits.windows.firstVisits / (query.filter.isEmpty ? 1 : 4)
        if case .found(let window) = Window.searched(query, over: node, from: .points(points), visits: visits, limits.windows) {
            plan.found = .window(window)
        }
        return plan
    }

    /// True if the rules declare a line that the query can start from, whatever the data.
    static func isDeclared(_ query: Query, at path: Path, _ indexes: IndexStore) -> Bool {
        let ordering = query.tree.orderedBy
        if query.hasArea || (ordering != .key && !indexes.isMissing(ordering, path)) { return true }
        return query.filter.conditions.contains { condition in
            let ordering = condition.ordering
            return condition.ranges(by: ordering) != nil && !indexes.isMissing(ordering, path)
        }
    }

    // MARK: Running

    /// O(visits · log n). On any thread, for a `detached` plan.
    func carryOut(over node: Node, _ limits: EngineLimits) -> Found {
        if let found { return found }
        let steps = limits.liveQuerySteps
        switch start {
        case .order(let children):
            if showing == .count { return worst > steps ? .tooManySteps : .count(query.matches(over: node, in: children)) }
            return search(from: .order(children), over: node, limits)
        case .points(let index):
            if showing == .count { return query.matches(over: node, around: index, visits: steps).map { .count($0) } ?? .tooManySteps }
            if query.isByPosition { return search(from: .points(index), over: node, limits) }
            guard case .found(let found) = index.keys(within: query, visits: steps) else { return .tooManySteps }
            return select(among: found, over: node, limits)
        case .index(_, let children, let ranges):
            if visits > steps { return .tooManySteps }
            return select(among: ranges.lazy.flatMap { $0.select(from: children).map(\.key) }, over: node, limits)
        case .all:
            if visits > steps { return .tooManySteps }
            return select(among: node.children.lazy.map(\.key), over: node, limits)
        }
    }

    private func search(from source: Window.Source, over node: Node, _ limits: EngineLimits) -> Found {
        let (most, steps) = (limits.liveQueryChildren, limits.liveQuerySteps)
        switch Window.searched(query, over: node, from: source, holdsAll: holdsCircle, atMost: most, visits: steps, limits.windows) {
        case .found(let window): return .window(window)
        case .tooManyMatches: return .tooMany
        case .tooManyVisits: return .tooManySteps
        }
    }

    /// The query's result, given keys that include all its matches.
    private func select(among keys: some Sequence<Key>, over node: Node, _ limits: EngineLimits) -> Found {
        let most = limits.liveQueryChildren
        if showing == .count { return .count(query.matches(over: node, among: keys)) }
        let holdsAll = query.hasArea && !query.isByPosition && !refills
        let window = Window(query, over: node, among: keys, holdsAll: holdsAll, atMost: most, limits.windows)
        return window.map { .window($0) } ?? .tooMany
    }
}

extension LiveQueries.Condition {
    /// The order in which the children that the condition selects are contiguous.
    fileprivate var ordering: TreeQuery.Index {
        if case .has(let key) = test { return .child(path.appending(key)) }
        return path.isRoot ? .value : .child(path)
    }

    /// Disjoint ranges of an order that contain all children that the condition selects. Nil for a condition that ranges cannot express.
    fileprivate func ranges(by ordering: TreeQuery.Index) -> [TreeQuery]? {
        func range(_ start: Node?, _ end: Node?) -> TreeQuery {
            TreeQuery(index: ordering, start: start.map { .init(value: $0) }, end: end.map { .init(value: $0) })
        }
        switch test {
        case .equal(let constant): return [range(constant.value, constant.value)]
        case .oneOf(let constants): return constants.map { range($0.value, $0.value) }
        case .above(let constant, _): return [range(constant.value, nil)]
        case .below(let constant, _): return [range(nil, constant.value)]
        case .prefix(let text): return [range(.string(text), text.behindPrefix.map { .string($0) })]
        // Any existing value: only nulls come before `false`.
        case .has: return [range(.bool(false), nil)]
        case .notEqual: return nil
        }
    }
}

extension Text {
    /// The first text after all texts with this prefix, in text order (UTF-16 code units); nil if none exists.
    fileprivate var behindPrefix: Text? {
        var scalars = Array(string.unicodeScalars)
        while let last = scalars.popLast() {
            // In UTF-16 order, the supplementary planes come between U+D7FF and U+E000.
            let next: UInt32? =
                switch last.value {
                case 0xD7FF: 0x10000
                case 0x10FFFF: 0xE000
                case 0xFFFF: nil
                default: last.value + 1
                }
            guard let scalar = next.flatMap(Unicode.Scalar.init) else { continue }
            scalars.append(scalar)
            return Text(String(String.UnicodeScalarView(scalars)))
        }
        return nil
    }
}

extension Failure {
    /// Names the first rule line that would help.
    fileprivate static func missingCondition(_ query: Query, _ path: Path) -> Failure {
        let named = query.filter.conditions.first { $0.ranges(by: .value) != nil }
        let ordering = named?.ordering ?? query.tree.orderedBy
        guard ordering != .key else {
            return Failure(.missingIndex, "The conditions need an index of one of them that is not \"!=\".")
        }
        // One line covers all members of a set.
        if case .has? = named?.test, let set = named?.path { return .missingIndex(.child(set.appending(Key("*"))), path) }
        return .missingIndex(ordering, path)
    }
}
