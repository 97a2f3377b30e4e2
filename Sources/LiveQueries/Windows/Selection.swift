import JSONTree

/// Which children a query selects, and their positions in its order.
struct Selection: Sendable {
    private let order: TreeQuery.Index
    private let lower: OrderBound?
    private let upper: OrderBound?
    private let keepsLast: Bool
    private let filter: Filter
    private let isByPosition: Bool
    private let fields: GeoFields?
    /// The centre, and the square of the chord of the radius.
    let circle: (centre: GeoPoint, reach: Double)?
    /// The region of `within`.
    let region: Region?

    init(_ query: Query) {
        (order, keepsLast) = (query.tree.orderedBy, query.keepsLast)
        (lower, upper) = query.isByPosition ? (nil, nil) : (query.tree.lowerBound, query.tree.upperBound)
        (filter, isByPosition, fields) = (query.filter, query.isByPosition, query.fields)
        circle = query.near.map { ($0.centre, $0.reach) }
        region = query.within?.region
    }

    /// True if the conditions select a child.
    @inline(__always)
    func admits(_ child: Node) -> Bool { filter.isEmpty || filter.admits(child) }

    /// The same for a child found by its point.
    @inline(__always)
    private func admits(_ key: Key, _ children: ChildMap, _ index: GeoIndex) -> Bool {
        if filter.isEmpty { return true }
        index.asked += 1
        return filter.admits(children[key] ?? .null)
    }

    func point(of child: Node) -> GeoPoint? { fields?.point(of: child) }

    /// The squared chord from the centre; in a region, which has no distances, 0. Nil outside of a region, and without a position.
    func chordSquared(_ point: GeoPoint?) -> Double? {
        guard let point else { return nil }
        if let region { return region.contains(point) ? 0 : nil }
        return circle.map { point.chordSquared($0.centre) }
    }

    /// Calls `body` with the matching children in the circle or the region, unordered, until it returns false.
    /// - Parameter most: maximum number of cells and points visited.
    /// - Returns: false if the maximum is reached.
    @discardableResult
    func visit(_ index: GeoIndex, _ children: ChildMap, visits most: Int = .max, _ body: (ChildPlace) -> Bool) -> Bool {
        if let region {
            return index.visit(region, visits: most) { entry in
                guard admits(entry.key, children, index) else { return true }
                return body(ChildPlace(chordSquared: 0, key: entry.key))
            }
        }
        guard let circle else { return true }
        return index.visit(circle.centre, circle.reach, visits: most) { entry, chordSquared in
            guard admits(entry.key, children, index) else { return true }
            return body(ChildPlace(chordSquared: chordSquared, key: entry.key))
        }
    }

    /// A child's position in the order; nil outside of the range, the circle or the region.
    @inline(__always)
    func place(_ key: Key, _ child: Node, _ point: GeoPoint?) -> ChildPlace? {
        if let circle {
            guard let chordSquared = point?.chordSquared(circle.centre), chordSquared <= circle.reach else { return nil }
            if isByPosition { return ChildPlace(chordSquared: chordSquared, key: key) }
        } else if let region {
            guard let point, region.contains(point) else { return nil }
            if isByPosition { return ChildPlace(chordSquared: 0, key: key) }
        }
        let child = order.place(key, child)
        guard lower?.admitsAsStart(child) ?? true, upper?.admitsAsEnd(child) ?? true else { return nil }
        return ChildPlace(child)
    }

    @inline(__always)
    func change(_ seen: borrowing FilteredWrite) -> MatchWindow.Change {
        let key = seen.write.key
        return MatchWindow.Change(
            key: key, old: seen.was ? place(key, seen.write.old, seen.oldPoint) : nil,
            new: seen.now ? place(key, seen.write.new, seen.newPoint) : nil)
    }

    /// The next matches after a position.
    /// - Parameters:
    ///   - visits: maximum number of children, or of cells and points, visited; reduced by those visited.
    ///   - isComplete: set to false if a search through points reached it.
    /// - Returns: the matches, and the last position searched; nil at the end.
    func next(
        in source: Window.Source, _ children: ChildMap, after: ChildPlace?, wanted: Int, visits: inout Int, _ isComplete: inout Bool
    ) -> (found: ContiguousArray<ChildPlace>, frontier: ChildPlace?) {
        if wanted == 0 { return ([], after) }
        switch source {
        case .order(let ordered): return next(in: ordered, children, after: after, wanted: wanted, visits: &visits)
        case .points(let index):
            guard let circle else { return ([], nil) }
            var found: ContiguousArray<ChildPlace> = []
            var frontier: ChildPlace?
            let before = index.visits
            isComplete = index.nearest(to: circle.centre, within: circle.reach, after: after, visits: visits) { place in
                if admits(place.key, children, index) { found.append(place) }
                frontier = place
                return found.count < wanted
            }
            visits -= index.visits - before
            if !isComplete { return (found, frontier ?? after) }
            return (found, found.count < wanted ? nil : frontier)
        }
    }

    private func next(
        in ordered: OrderedChildren, _ children: ChildMap, after: ChildPlace?, wanted: Int, visits: inout Int
    ) -> (found: ContiguousArray<ChildPlace>, frontier: ChildPlace?) {
        var found: ContiguousArray<ChildPlace> = []
        if visits <= 0 { return (found, after) }
        var (left, last, frontier) = (visits, after, ChildPlace?.none)
        func look(_ child: OrderedChild) -> Bool {
            if left == 0 {
                frontier = last
                return false
            }
            left -= 1
            let place = ChildPlace(child)
            last = place
            if matches(child.key, children) { found.append(place) }
            if found.count < wanted { return true }
            frontier = place
            return false
        }
        let bound = after.map { OrderBound(excluding: $0.child) }
        if keepsLast {
            ordered.descend(from: bound ?? upper) { (lower?.admitsAsStart($0) ?? true) && look($0) }
        } else {
            ordered.ascend(from: bound ?? lower) { (upper?.admitsAsEnd($0) ?? true) && look($0) }
        }
        visits = left
        return (found, frontier)
    }

    /// True if the conditions, and the circle or the region, select a child.
    private func matches(_ key: Key, _ children: ChildMap) -> Bool {
        if filter.isEmpty, circle == nil, region == nil { return true }
        guard let child = children[key], admits(child) else { return false }
        if let region { return point(of: child).map { region.contains($0) } ?? false }
        return circle.map { circle in point(of: child).map { $0.chordSquared(circle.centre) <= circle.reach } ?? false } ?? true
    }
}
