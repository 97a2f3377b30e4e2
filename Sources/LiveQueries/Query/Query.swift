public import JSONTree

/// Which children of a place are asked for, in what order, how many. Equal queries share a view.
///
///     order, range, limit      plain: an index of the order finds the children, and a window of it holds none of them
///     where, near, within      the matching children are held, or counted
public struct Query: Sendable, Hashable {
    /// One reference, since a query is passed along with each request, and most requests have none.
    private final class Parts: Sendable {
        let tree: TreeQuery
        let filter: Filter
        let area: Area?
        let isByPosition: Bool
        let least: Int
        let isPlain: Bool

        init(_ tree: TreeQuery, _ filter: Filter, _ area: Area?, isByPosition: Bool, least: Int, isPlain: Bool) {
            (self.tree, self.filter, self.area) = (tree, filter, area)
            (self.isByPosition, self.least, self.isPlain) = (isByPosition, least, isPlain)
        }
    }

    private let parts: Parts

    /// Where the children of a query lie.
    enum Area: Hashable {
        case near(NearQuery)
        case within(WithinQuery)
    }

    private var area: Area? { parts.area }

    /// Order, range and limit: of a plain query as its client wrote it, of another with the defaults filled in. No order by position, or for `all`.
    public var tree: TreeQuery { parts.tree }
    /// The conditions of `where`.
    public var filter: Filter { parts.filter }
    /// The circle of `near`.
    public var near: NearQuery? { if case .near(let near)? = area { near } else { nil } }
    /// The region of `within`.
    public var within: WithinQuery? { if case .within(let within)? = area { within } else { nil } }
    /// True if children are selected by their positions, with `near` or `within`.
    public var hasArea: Bool { area != nil }
    /// The position fields of the children; nil for a query that does not ask for positions, or whose place declares none.
    public var fields: GeoFields? {
        switch area {
        case .near(let near): near.fields
        case .within(let within): within.fields
        case nil: nil
        }
    }
    /// True if only positions order the children: by distance for `near`, not at all for `within`. Events then name no sibling.
    public var isByPosition: Bool { parts.isByPosition }
    /// For a count: fewer children than this are reported as 0.
    public var least: Int { parts.least }
    /// True for order, range and limit alone, as its client wrote them; false for a count with a `least`.
    public var isPlain: Bool { parts.isPlain }
    /// Order, range and limit of a plain query; nil for another one. Only these exist in the realtime protocol.
    public var plain: TreeQuery? { isPlain ? tree : nil }

    private init(_ tree: TreeQuery, _ filter: Filter, _ area: Area?, isByPosition: Bool, least: Int = 0, isPlain: Bool = false) {
        parts = Parts(tree, filter, area, isByPosition: isByPosition, least: least, isPlain: isPlain)
    }

    /// A plain query, as its client wrote it.
    public init(_ tree: TreeQuery) { self.init(tree, .all, nil, isByPosition: false, isPlain: true) }

    /// - Parameters:
    ///   - tree: without an order, a query with `near` is ordered by distance, one with `within` by key if it has a limit and not at all
    ///     otherwise, and any other by priority.
    /// - Throws: `QueryFault` for parts that cannot be combined.
    public init(
        _ tree: TreeQuery = TreeQuery(index: .key), where filter: Filter = .all, near: NearQuery? = nil, within: WithinQuery? = nil
    ) throws(QueryFault) {
        if let within {
            guard near == nil else { throw .malformed("within", "and \"near\" exclude each other") }
            try self.init(tree, filter, within)
            return
        }
        guard let near else {
            self.init(filter.isEmpty ? tree : Self.complete(tree), filter, nil, isByPosition: false, isPlain: filter.isEmpty)
            return
        }
        guard tree.index == nil else {
            if near.limit != nil {
                throw .malformed("near.limit", "counts the nearest; with an \"orderBy\" it is \"limitToFirst\" or \"limitToLast\"")
            }
            if near.metres == nil { throw .malformed("near", "needs a \"radius\" where an \"orderBy\" stands beside it") }
            self.init(Self.complete(tree), filter, .near(near), isByPosition: false)
            return
        }
        guard tree.start == nil, tree.end == nil else { throw .malformed("near", "a range needs an \"orderBy\" beside it") }
        if tree.limit != nil, tree.keeps == .last, tree.viewFrom != nil {
            throw .malformed("near", "the farthest cannot be asked for: \"limitToLast\" needs an \"orderBy\" beside it")
        }
        let limit = [near.limit, tree.limit].compactMap { $0 }.min()
        if near.metres == nil, limit == nil { throw .malformed("near", "needs a \"radius\" or a \"limit\"") }
        let circle = NearQuery(centre: near.centre, metres: near.metres, limit: nil, fields: near.fields)
        self.init(TreeQuery(index: nil, limit: limit, viewFrom: .first), filter, .near(circle), isByPosition: true)
    }

    private init(_ tree: TreeQuery, _ filter: Filter, _ within: WithinQuery) throws(QueryFault) {
        guard tree.index == nil else {
            self.init(Self.complete(tree), filter, .within(within), isByPosition: false)
            return
        }
        guard tree.start == nil, tree.end == nil else { throw .malformed("within", "a range needs an \"orderBy\" beside it") }
        guard tree.limit != nil else {
            self.init(TreeQuery(index: nil), filter, .within(within), isByPosition: true)
            return
        }
        var byKey = tree
        byKey.index = .key
        self.init(Self.complete(byKey), filter, .within(within), isByPosition: false)
    }

    /// The same with all defaults filled in, so that equal queries are equal values.
    private static func complete(_ tree: TreeQuery) -> TreeQuery {
        var complete = tree
        complete.index = tree.orderedBy
        complete.viewFrom = tree.limit == nil ? nil : tree.keeps
        complete.start?.inclusive = tree.start?.isInclusive
        complete.end?.inclusive = tree.end?.isInclusive
        return complete
    }

    public static func == (a: Query, b: Query) -> Bool {
        a.parts === b.parts
            || a.isPlain == b.isPlain && a.tree == b.tree && a.filter == b.filter && a.area == b.area && a.isByPosition == b.isByPosition
                && a.least == b.least
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(tree)
        hasher.combine(filter)
        hasher.combine(area)
    }

    /// All children of the place, unordered: the query of a count that reports fewer than `least` children as 0.
    public static func all(least: Int) -> Query { Query(TreeQuery(), .all, nil, isByPosition: false, least: least) }
    public var selectsAll: Bool { !isPlain && tree.index == nil && !hasArea }

    /// The same query for a count that reports fewer than `least` children as 0.
    public func counted(least: Int) -> Query {
        Query(isPlain ? Self.complete(tree) : tree, filter, area, isByPosition: isByPosition, least: least)
    }

    /// The count to report for a number of matches.
    public func reportedCount(_ matches: Int) -> Int {
        let count = min(matches, tree.limit ?? .max)
        return count < least ? 0 : count
    }

    /// The same query with another centre of its `near`, or another region of its `within`.
    /// - Returns: nil if the query has the other, or neither.
    public func moved(to move: QueryMove) -> Query? {
        switch (area, move) {
        case (.near(var near), .centre(let centre)):
            near.centre = centre
            return Query(tree, filter, .near(near), isByPosition: isByPosition, least: least)
        case (.within(let before), .within(var within)):
            within.fields = before.fields
            return Query(tree, filter, .within(within), isByPosition: isByPosition, least: least)
        default: return nil
        }
    }

    /// The same query with another circle. A query for the nearest children without a radius gets only the centre.
    /// - Parameter grid: metres; see `NearQuery.grid`.
    public func around(_ centre: GeoPoint, metres: Double?, grid: Double?) -> Query {
        guard let near else { return self }
        var other = NearQuery(centre: centre, metres: near.metres == nil ? nil : metres, limit: near.limit, fields: near.fields)
        other.grid = grid
        return Query(tree, filter, .near(other), isByPosition: isByPosition, least: least)
    }

    /// The same query with the position fields of the children.
    /// - Parameter stored: the region that was read at the place of a `within`; nil for a query without such a place.
    public func located(by fields: GeoFields?, within stored: Region? = nil) -> Query {
        switch area {
        case .near(var near):
            near.fields = fields
            return Query(tree, filter, .near(near), isByPosition: isByPosition, least: least)
        case .within(var within):
            within.fields = fields
            if let stored { within.region = stored }
            return Query(tree, filter, .within(within), isByPosition: isByPosition, least: least)
        case nil: return self
        }
    }

    /// True if a position is in the circle or the region of the query.
    func areaContains(_ point: GeoPoint) -> Bool {
        switch area {
        case .near(let near): near.contains(point)
        case .within(let within): within.region?.contains(point) ?? false
        case nil: true
        }
    }

    /// The shown children in the query's order, with metres from the centre if it has one. O(n log n), O(n) for a plain query by key
    /// - Parameter shown: an object of the children that the query shows.
    public func inOrder(_ shown: Node) -> [(key: Key, child: Node, distance: Double?)] {
        let children = shown.children
        if isPlain && tree.orderedBy == .key || isByPosition && near == nil { return children.map { ($0.0, $0.1, nil) } }
        func chordSquared(_ child: Node) -> Double? {
            guard let near else { return nil }
            return near.fields?.point(of: child)?.chordSquared(near.centre)
        }
        if isByPosition {
            let places = children.map { ChildPlace(chordSquared: chordSquared($0.1) ?? .infinity, key: $0.0) }.sorted { $0.order($1) < 0 }
            return places.map { ($0.key, children[$0.key] ?? .null, GeoPoint.metres(chordSquared: $0.chordSquared)) }
        }
        let places = children.map { tree.orderedBy.place($0.0, $0.1) }.sorted { $0.order($1) < 0 }
        return places.map { place in
            let child = children[place.key] ?? .null
            return (place.key, child, chordSquared(child).map { GeoPoint.metres(chordSquared: $0) })
        }
    }

    public var keepsLast: Bool { tree.limit != nil && tree.keeps == .last }

    /// The bounds of the range as conditions that each selected child fulfils.
    var rangeConditions: [Condition] {
        guard !isByPosition else { return [] }
        let path: Path
        switch tree.orderedBy {
        case .child(let child): path = child
        case .value: path = .root
        case .key, .priority: return []
        }
        var conditions: [Condition] = []
        // A bound with a key excludes some children of its value, but not all.
        if let start = tree.start, let constant = Constant(start.value) { conditions.append(Condition(path, .above(constant, orEqual: true))) }
        if let end = tree.end, let constant = Constant(end.value) { conditions.append(Condition(path, .below(constant, orEqual: true))) }
        if conditions.count == 2, let start = tree.start?.value, let end = tree.end?.value, start.valueOrder(end) == 0 {
            return Constant(start).map { [Condition(path, .equal($0))] } ?? []
        }
        return conditions
    }
}

/// What `move` changes of a query: the centre of its circle, or its region.
public enum QueryMove: Sendable, Hashable {
    case centre(GeoPoint)
    case within(WithinQuery)
}
