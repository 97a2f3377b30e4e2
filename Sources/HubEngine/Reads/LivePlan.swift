import JSONTree
import LiveQueries

/// From where the children of a live query with conditions are looked for: from what promises the fewest.
///
/// | start | looks at |
/// |---|---|
/// | an index of the rules, by a condition | the children that the condition selects |
/// | the order of the query | its range, up to the limit and as many more as do not match |
/// | every child | all |
///
/// Without an index that can be used, a place with more children than `unindexedChildren` is refused, with the line that is missing.
/// A start whose order cannot be kept now is none: the next best takes its place.
struct LivePlan: Sendable {
    enum Start: Sendable {
        /// The ranges of an index that a condition selects.
        case index(TreeQuery.Index, OrderedChildren, [TreeQuery])
        case order(OrderedChildren)
        case all
    }

    let query: LiveQuery
    let showing: LiveQueryView.Showing
    let start: Start
    /// Children that will be looked at, about.
    let looks: Int
    /// The same at most: where those that match come last.
    var worst: Int { if case .order = start { range } else { looks } }
    /// Children in the range of the query's order.
    var range = 0

    enum Answer {
        case ready(LivePlan)
        /// This order has to be there first.
        case waits(TreeQuery.Index)
    }

    /// What was found.
    enum Found: Sendable {
        case window(FilteredWindow)
        case count(Int)
        /// More than may be held.
        case tooMany
    }

    // MARK: Choosing

    /// O(conditions · log n)
    /// - Parameters:
    ///   - refused: orders that there is no room for, each with the reason.
    ///   - mustKeep: whether the order is to be kept that an observer's limit is filled from.
    static func find(
        _ query: LiveQuery, _ showing: LiveQueryView.Showing, at path: Path, over node: Node, _ indexes: IndexKeeper,
        without refused: [TreeQuery.Index: Failure] = [:], mustKeep: Bool = true
    ) -> Result<Answer, Failure> {
        let count = node.childCount
        // How many children there are is known.
        if showing == .count, query.filter.isEmpty, query.tree.start == nil, query.tree.end == nil {
            return .success(.ready(LivePlan(query: query, showing: showing, start: .all, looks: 0)))
        }
        var best = LivePlan(query: query, showing: showing, start: .all, looks: count)
        var isIndexed = count <= indexes.unindexedChildren
        for condition in query.filter.conditions {
            let ordering = condition.ordering
            guard let ranges = condition.ranges(by: ordering), !indexes.isMissing(ordering, path) else { continue }
            if refused[ordering] != nil { continue }
            isIndexed = true
            if count <= indexes.inlineChildren { continue }
            switch indexes.order(node, at: path, by: ordering, mustKeep: false) {
            case nil: return .success(.waits(ordering))
            case .failure(let failure)?: return .failure(failure)
            case .success(let children)?:
                let selected = ranges.reduce(0) { $0 + $1.extent(in: children).count }
                if selected < best.looks {
                    best = LivePlan(query: query, showing: showing, start: .index(ordering, children, ranges), looks: selected)
                }
            }
        }
        let ordering = query.tree.orderedBy
        if showing == .children, query.keptOrder != nil, count > indexes.unindexedChildren, indexes.isMissing(ordering, path) {
            return .failure(.missingIndex(ordering, path))
        }
        let hasRange = query.tree.start != nil || query.tree.end != nil
        let isKept = showing == .children && query.keptOrder != nil
        // Without it a limit could not be filled again.
        if isKept, let refusal = refused[ordering] { return .failure(refusal) }
        let usesOrder = refused[ordering] == nil && (hasRange || (showing == .children && query.tree.limit != nil))
        if usesOrder, ordering == .key || !indexes.isMissing(ordering, path) { isIndexed = isIndexed || ordering != .key || hasRange }
        guard isIndexed else { return .failure(refused.values.first ?? .missingCondition(query, path)) }
        guard usesOrder else { return .success(.ready(best)) }
        switch indexes.order(node, at: path, by: ordering, mustKeep: mustKeep && isKept) {
        case nil: return .success(.waits(ordering))
        case .failure(let failure)?: return .failure(failure)
        case .success(let children)?:
            var range = query.tree
            range.limit = nil
            let inRange = range.extent(in: children).count
            // Of those in the range so many match as of all.
            var looks = inRange
            if let limit = query.tree.limit, showing == .children {
                looks = min(inRange, (limit + WindowSettings().reserve) * max(1, count / max(1, best.looks)))
            }
            if looks <= best.looks { best = LivePlan(query: query, showing: showing, start: .order(children), looks: looks, range: inRange) }
            return .success(.ready(best))
        }
    }

    /// Whether the rules have a line that a query can start from, whatever there is.
    static func isDeclared(_ query: LiveQuery, at path: Path, _ indexes: IndexKeeper) -> Bool {
        let ordering = query.tree.orderedBy
        if query.near != nil || (ordering != .key && !indexes.isMissing(ordering, path)) { return true }
        return query.filter.conditions.contains { condition in
            let ordering = condition.ordering
            return condition.ranges(by: ordering) != nil && !indexes.isMissing(ordering, path)
        }
    }

    // MARK: Carrying out

    /// O(looks · log n). On any thread.
    func carryOut(over node: Node, _ limits: EngineLimits) -> Found {
        let most = query.tree.limit == nil ? limits.liveQueryChildren : .max
        if showing == .count { return .count(count(over: node)) }
        switch start {
        case .order(let children):
            let window = FilteredWindow(query, over: node, in: children, atMost: most, limits.windows)
            return window.map { .window($0) } ?? .tooMany
        case .index(_, let children, let ranges):
            let keys = ranges.lazy.flatMap { $0.select(from: children).map(\.key) }
            return FilteredWindow(query, over: node, among: keys, atMost: most, limits.windows).map { .window($0) } ?? .tooMany
        case .all:
            let keys = node.children.lazy.map(\.key)
            return FilteredWindow(query, over: node, among: keys, atMost: most, limits.windows).map { .window($0) } ?? .tooMany
        }
    }

    private func count(over node: Node) -> Int {
        switch start {
        case .order(let children): return query.matches(over: node, in: children, nil)
        case .index(_, let children, let ranges):
            return query.matches(over: node, among: ranges.lazy.flatMap { $0.select(from: children).map(\.key) })
        case .all: return query.matches(over: node, in: nil, nil)
        }
    }
}

extension LiveQueries.Condition {
    /// The order in which what it selects lies together.
    fileprivate var ordering: TreeQuery.Index {
        if case .has(let key) = test { return .child(path.appending(key)) }
        return path.isRoot ? .value : .child(path)
    }

    /// The ranges of an order by the condition's path in which all children lie that it selects, none twice; nil where it selects by
    /// something else.
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
        // Whatever there is: nothing comes first.
        case .has: return [range(.bool(false), nil)]
        case .notEqual: return nil
        }
    }
}

extension Text {
    /// The first text behind all that begin with this one, in the order of texts (UTF-16 code units); nil where there is none.
    fileprivate var behindPrefix: Text? {
        var scalars = Array(string.unicodeScalars)
        while let last = scalars.popLast() {
            // In that order the supplementary planes come between U+D7FF and U+E000.
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
    /// The first line that would help.
    fileprivate static func missingCondition(_ query: LiveQuery, _ path: Path) -> Failure {
        let named = query.filter.conditions.first { $0.ranges(by: .value) != nil }
        let ordering = named?.ordering ?? query.tree.orderedBy
        guard ordering != .key else {
            return Failure(.missingIndex, "The conditions need an index of one of them that is not \"!=\".")
        }
        // One line for all members of a set.
        if case .has? = named?.test, let set = named?.path { return .missingIndex(.child(set.appending(Key("*"))), path) }
        return .missingIndex(ordering, path)
    }
}
