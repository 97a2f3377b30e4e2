public import JSONTree

/// A live query on the children of a place: which children, in what order, how many. Equal queries share a view.
public struct LiveQuery: Sendable, Hashable {
    /// Order, range and limit, with their defaults filled in.
    public let tree: TreeQuery
    public let filter: Filter
    public let near: NearQuery?
    /// True if children are ordered by distance.
    public let isByDistance: Bool
    /// For a count: fewer children than this are reported as 0.
    public private(set) var least = 0

    /// - Parameters:
    ///   - tree: without an order, a query with `near` is ordered by distance, and any other by priority.
    /// - Throws: `QueryFault` for parts that cannot be combined.
    public init(_ tree: TreeQuery = TreeQuery(index: .key), where filter: Filter = .all, near: NearQuery? = nil) throws(QueryFault) {
        self.filter = filter
        isByDistance = near != nil && tree.index == nil
        var tree = tree
        if let near, isByDistance {
            guard tree.start == nil, tree.end == nil else { throw .malformed("near", "a range needs an \"orderBy\" beside it") }
            if tree.limit != nil, tree.keeps == .last, tree.viewFrom != nil {
                throw .malformed("near", "the farthest cannot be asked for: \"limitToLast\" needs an \"orderBy\" beside it")
            }
            let limit = [near.limit, tree.limit].compactMap { $0 }.min()
            tree = TreeQuery(index: nil, limit: limit, viewFrom: .first)
            self.near = NearQuery(centre: near.centre, metres: near.metres, limit: nil, fields: near.fields)
            if near.metres == nil, limit == nil { throw .malformed("near", "needs a \"radius\" or a \"limit\"") }
        } else {
            if let near {
                if near.limit != nil {
                    throw .malformed("near.limit", "counts the nearest; with an \"orderBy\" it is \"limitToFirst\" or \"limitToLast\"")
                }
                if near.metres == nil { throw .malformed("near", "needs a \"radius\" where an \"orderBy\" stands beside it") }
            }
            self.near = near
            let keeps = tree.keeps
            tree.index = tree.orderedBy
            tree.viewFrom = tree.limit == nil ? nil : keeps
            if var start = tree.start {
                start.inclusive = start.isInclusive
                tree.start = start
            }
            if var end = tree.end {
                end.inclusive = end.isInclusive
                tree.end = end
            }
        }
        self.tree = tree
    }

    private init(_ tree: TreeQuery, _ filter: Filter, _ near: NearQuery?, isByDistance: Bool, least: Int = 0) {
        (self.tree, self.filter, self.near, self.isByDistance, self.least) = (tree, filter, near, isByDistance, least)
    }

    /// All children of the place, unordered: the query of a count that reports fewer than `least` children as 0.
    public static func all(least: Int) -> LiveQuery { LiveQuery(TreeQuery(), .all, nil, isByDistance: false, least: least) }
    public var selectsAll: Bool { tree.index == nil && near == nil }

    /// The same query for a count that reports fewer than `least` children as 0.
    public func counted(least: Int) -> LiveQuery { LiveQuery(tree, filter, near, isByDistance: isByDistance, least: least) }

    /// The count to report for a number of matches.
    public func reportedCount(_ matches: Int) -> Int {
        let count = min(matches, tree.limit ?? .max)
        return count < least ? 0 : count
    }

    /// The same query with another centre.
    public func moved(to centre: GeoPoint) -> LiveQuery {
        guard var near else { return self }
        near.centre = centre
        return LiveQuery(tree, filter, near, isByDistance: isByDistance, least: least)
    }

    /// The same query with another circle. A query for the nearest children without a radius gets only the centre.
    /// - Parameter grid: metres; see `NearQuery.grid`.
    public func around(_ centre: GeoPoint, metres: Double?, grid: Double?) -> LiveQuery {
        guard let near else { return self }
        var other = NearQuery(centre: centre, metres: near.metres == nil ? nil : metres, limit: near.limit, fields: near.fields)
        other.grid = grid
        return LiveQuery(tree, filter, other, isByDistance: isByDistance, least: least)
    }

    /// The same query with the position fields of the children.
    public func located(by fields: GeoFields?) -> LiveQuery {
        guard var near else { return self }
        near.fields = fields
        return LiveQuery(tree, filter, near, isByDistance: isByDistance, least: least)
    }

    /// The shown children in the query's order, with metres from the centre if it has one. O(n log n)
    /// - Parameter shown: an object of the children that the query shows.
    public func inOrder(_ shown: Node) -> [(key: Key, child: Node, distance: Double?)] {
        let children = shown.children
        func chordSquared(_ child: Node) -> Double? {
            guard let near else { return nil }
            return near.fields?.point(of: child)?.chordSquared(near.centre)
        }
        if isByDistance {
            let places = children.map { NearPlace(chordSquared: chordSquared($0.1) ?? .infinity, key: $0.0) }.sorted { $0.order($1) < 0 }
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
        guard !isByDistance else { return [] }
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
