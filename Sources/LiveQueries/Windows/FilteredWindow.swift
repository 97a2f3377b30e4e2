public import JSONTree

/// The window of a query with conditions, and perhaps a circle: matching children in an order, within a range, up to a limit. Updated as children
/// change.
public struct FilteredWindow: Sendable {
    public let query: LiveQuery
    /// True if all matches are held, so that no order is needed to find the next ones.
    public let holdsAll: Bool
    private let lower: OrderBound?
    private let upper: OrderBound?
    private var window: MatchWindow<OrderedChild>
    private let maxVisits: Int

    /// - Parameter children: the place's children in the query's order. Visits as many as the limit needs.
    public init(_ query: LiveQuery, over place: Node, in children: OrderedChildren, _ settings: WindowSettings = WindowSettings()) {
        self.init(query, over: place, in: children, wanted: .max, visits: .max, settings)
    }

    /// The same within bounds.
    /// - Parameters:
    ///   - most: maximum number of matches of a query without a limit.
    ///   - visits: maximum number of children visited.
    public static func searched(
        _ query: LiveQuery, over place: Node, in children: OrderedChildren, atMost most: Int, visits: Int,
        _ settings: WindowSettings = WindowSettings()
    ) -> WindowSearch<FilteredWindow> {
        let window = FilteredWindow(query, over: place, in: children, wanted: most == .max ? most : most + 1, visits: visits, settings)
        if query.tree.limit == nil, window.heldCount > most { return .tooManyMatches }
        let isCutShort = window.window.frontier != nil && (query.tree.limit == nil || window.isShort)
        return isCutShort ? .tooManyVisits : .found(window)
    }

    private init(
        _ query: LiveQuery, over place: Node, in children: OrderedChildren, wanted most: Int, visits: Int, _ settings: WindowSettings
    ) {
        self.query = query
        holdsAll = query.tree.limit == nil
        (lower, upper) = (query.tree.lowerBound, query.tree.upperBound)
        maxVisits = settings.visits
        let scan = Scan(query, lower, upper, place.children)
        window = MatchWindow(limit: query.tree.limit, keepsLast: query.keepsLast, settings) {
            scan.next(in: children, after: $0, wanted: min($1, most), visits: visits)
        }
    }

    /// - Parameters:
    ///   - candidates: keys that include all matches, found by the index of a condition or by points.
    ///   - holdsAll: true if all matches are held in any case, because no order exists to find the next ones.
    ///   - most: maximum number of matches of a query that holds all.
    /// - Returns: nil for more matches.
    public init?(
        _ query: LiveQuery, over place: Node, among candidates: some Sequence<Key>, holdsAll: Bool = false, atMost most: Int = .max,
        _ settings: WindowSettings = WindowSettings()
    ) {
        self.query = query
        self.holdsAll = holdsAll || query.tree.limit == nil
        (lower, upper) = (query.tree.lowerBound, query.tree.upperBound)
        maxVisits = settings.visits
        let scan = Scan(query, lower, upper, place.children)
        let order = query.tree.orderedBy
        var matches: ContiguousArray<OrderedChild> = []
        for key in candidates {
            let child = place.child(key)
            guard scan.matches(child), scan.admits(order.place(key, child)) else { continue }
            matches.append(order.place(key, child))
            if self.holdsAll, matches.count > most { return nil }
        }
        matches.sort { query.keepsLast ? $1.order($0) < 0 : $0.order($1) < 0 }
        window = MatchWindow(
            limit: query.tree.limit, keepsLast: query.keepsLast, settings, all: matches, canRefill: !self.holdsAll)
    }

    /// A circle in an order, by the points of the place. Holds all its matches.
    public init?(_ query: LiveQuery, over place: Node, _ index: GeoIndex, _ settings: WindowSettings = WindowSettings()) {
        guard case .found(let keys) = index.keys(within: query, visits: .max) else { return nil }
        self.init(query, over: place, among: keys, holdsAll: true, settings)
    }

    /// Number of children shown.
    public var count: Int { window.shownCount }
    /// True if fewer children are shown than may exist, because finding the next ones took too long.
    public var isShort: Bool { window.isShort }
    var needsFill: Bool { window.needsFill }
    /// Number of children held, shown or not.
    public var heldCount: Int { window.held.count }

    /// Calls `body` with the keys of the shown children, in the query's order.
    func forEachShown(_ body: (Key) -> Void) { window.forEachShown { place, _ in body(place.key) } }

    /// The shown children as events for a new observer.
    public func initial(over place: Node) -> ContiguousArray<LiveEvent> {
        var events: ContiguousArray<LiveEvent> = []
        let children = place.children
        window.forEachShown {
            let child = children[$0.key] ?? .null
            events.append(LiveEvent(.added, $0.key, child, previous: $1, distance: query.near?.metres(to: child)))
        }
        return events
    }

    /// Applies a commit. O(changes · log n)
    /// - Parameters:
    ///   - writes: the changed children with the results of the filter, each once.
    ///   - place: the place after the commit.
    ///   - children: its children in the query's order after the commit. If nil, no next matches are looked up.
    ///   - visits: maximum number of children visited to find the next ones; reduced by those visited.
    mutating func apply(
        _ writes: ContiguousArray<FilteredWrite>, over place: Node, in children: OrderedChildren?, visits: inout Int,
        _ events: inout ContiguousArray<LiveEvent>
    ) {
        let order = query.tree.orderedBy
        let scan = Scan(query, lower, upper, place.children)
        var changes: ContiguousArray<MatchWindow<OrderedChild>.Change> = []
        for seen in writes {
            let was = seen.was && scan.contains(seen.oldPoint)
            let now = seen.now && scan.contains(seen.newPoint)
            changes.append(
                MatchWindow.Change(
                    key: seen.write.key, old: was ? scan.admitted(order.place(seen.write.key, seen.write.old)) : nil,
                    new: now ? scan.admitted(order.place(seen.write.key, seen.write.new)) : nil))
        }
        var steps: ContiguousArray<MatchWindow<OrderedChild>.Step> = []
        var left = visits
        window.apply(changes, &steps) { [maxVisits] after, wanted in
            guard let children else { return ([], after) }
            let most = min(maxVisits, left)
            return scan.next(in: children, after: after, wanted: wanted, visits: most) { left -= $0 }
        }
        visits = max(0, left)
        appendEvents(steps, writes, scan, &events)
    }

    /// Updates a window over `old`, computed off the queue, to `new`, another state of the same place.
    /// - Parameters:
    ///   - children: the children of the new state in the query's order.
    ///   - most: as for `ChildMap.changes(since:atMost:)`.
    /// - Returns: false, with the window unchanged, if more than `most` differs.
    public mutating func follow(from old: Node, to new: Node, in children: OrderedChildren?, atMost most: Int) -> Bool {
        if old.isIdentical(to: new) { return true }
        guard let writes = FilteredWrite.between(old, new, query.filter, query.near?.fields, atMost: most) else { return false }
        var events: ContiguousArray<LiveEvent> = []
        var visits = maxVisits
        apply(writes, over: new, in: children, visits: &visits, &events)
        return true
    }

    /// Continues the search for matches, if fewer are shown than may exist.
    mutating func fill(over place: Node, in children: OrderedChildren, _ events: inout ContiguousArray<LiveEvent>) {
        let scan = Scan(query, lower, upper, place.children)
        var steps: ContiguousArray<MatchWindow<OrderedChild>.Step> = []
        window.fill(&steps) { [maxVisits] in scan.next(in: children, after: $0, wanted: $1, visits: maxVisits) }
        appendEvents(steps, [], scan, &events)
    }

    private func appendEvents(
        _ steps: ContiguousArray<MatchWindow<OrderedChild>.Step>, _ writes: ContiguousArray<FilteredWrite>, _ scan: Scan,
        _ events: inout ContiguousArray<LiveEvent>
    ) {
        for step in steps {
            let previous = step.kind == .left ? nil : window.previous(of: step.place)
            var metres: Double?
            if let near = query.near {
                let seen = step.change >= 0 ? writes[step.change] : nil
                metres = seen.flatMap { ($0.newPoint ?? $0.oldPoint)?.metres(to: near.centre) }
                if seen == nil { metres = near.metres(to: scan.children[step.key] ?? .null) }
            }
            events.append(step.event(of: writes, previous: previous, distance: metres) { scan.children[$0] ?? .null })
        }
    }

    /// The events between another window's result on the place and this one's. O(children shown by either · log n)
    func difference(from old: FilteredWindow, over place: Node) -> ContiguousArray<LiveEvent> {
        window.difference(from: old.window, over: place, to: place, isOrdered: true) { [query] in
            query.near?.metres(to: place.child($0.key))
        }
    }
}

extension NearQuery {
    /// Metres from the centre to a child; nil if it has no position.
    fileprivate func metres(to child: Node) -> Double? { fields?.point(of: child)?.metres(to: centre) }
}

extension GeoIndex {
    /// The keys of the children within the circle of a query.
    public func keys(within query: LiveQuery, visits most: Int) -> WindowSearch<ContiguousArray<Key>> {
        guard let near = query.near else { return .tooManyMatches }
        var keys: ContiguousArray<Key> = []
        let isComplete = visit(near.centre, near.outerReach, visits: most) { entry, _ in
            keys.append(entry.key)
            return true
        }
        return isComplete ? .found(keys) : .tooManyVisits
    }
}

/// Scans children in an order for those that match.
private struct Scan {
    let query: LiveQuery
    let lower: OrderBound?
    let upper: OrderBound?
    let children: ChildMap
    private let near: NearQuery?
    private let reach: Double

    init(_ query: LiveQuery, _ lower: OrderBound?, _ upper: OrderBound?, _ children: ChildMap) {
        self.query = query
        self.lower = lower
        self.upper = upper
        self.children = children
        (near, reach) = (query.near, query.near?.reach ?? .infinity)
    }

    /// True if the conditions and the circle select a child.
    func matches(_ child: Node) -> Bool {
        guard query.filter.isEmpty || query.filter.admits(child) else { return false }
        guard let near else { return true }
        return contains(near.fields?.point(of: child))
    }

    /// True if the query has no circle, or the circle contains the point.
    func contains(_ point: GeoPoint?) -> Bool {
        guard let near else { return true }
        return (point?.chordSquared(near.centre)).map { $0 <= reach } ?? false
    }

    private var isUnconditional: Bool { query.filter.isEmpty && near == nil }
    func admits(_ child: OrderedChild) -> Bool { (lower?.admitsAsStart(child) ?? true) && (upper?.admitsAsEnd(child) ?? true) }
    func admitted(_ child: OrderedChild) -> OrderedChild? { admits(child) ? child : nil }

    func next(
        in ordered: OrderedChildren, after place: OrderedChild?, wanted: Int, visits: Int, spend: (Int) -> Void = { _ in }
    ) -> (found: ContiguousArray<OrderedChild>, frontier: OrderedChild?) {
        var found: ContiguousArray<OrderedChild> = []
        if visits <= 0 { return (found, place) }
        var left = visits
        defer { spend(visits - left) }
        var (last, frontier) = (place, OrderedChild?.none)
        func look(_ child: OrderedChild) -> Bool {
            if left == 0 {
                frontier = last
                return false
            }
            left -= 1
            last = child
            if isUnconditional || matches(children[child.key] ?? .null) { found.append(child) }
            if found.count < wanted { return true }
            frontier = child
            return false
        }
        let bound = place.map { OrderBound(excluding: $0) }
        if query.keepsLast {
            ordered.descend(from: bound ?? upper) { (lower?.admitsAsStart($0) ?? true) && look($0) }
        } else {
            ordered.ascend(from: bound ?? lower) { (upper?.admitsAsEnd($0) ?? true) && look($0) }
        }
        return (found, frontier)
    }
}

extension MatchWindow {
    /// The events between another window's result on an earlier state and this one's. O(shown · log n)
    /// - Parameters:
    ///   - isOrdered: true if events name the preceding sibling.
    func difference(
        from old: MatchWindow, over before: Node, to after: Node, isOrdered: Bool, distance: (Place) -> Double?
    ) -> ContiguousArray<LiveEvent> {
        var events: ContiguousArray<LiveEvent> = []
        var was: [Key: Place] = [:]
        old.forEachShown { place, _ in was[place.key] = place }
        var now: Set<Key> = []
        forEachShown { place, _ in now.insert(place.key) }
        let (earlier, later) = (before.children, after.children)
        old.forEachShown { place, _ in
            if now.contains(place.key) { return }
            let why = later[place.key] == nil ? LiveEvent.Reason.deleted : .left
            events.append(LiveEvent(.removed, place.key, earlier[place.key] ?? .null, distance: distance(place), why: why))
        }
        forEachShown { place, previous in
            let child = later[place.key] ?? .null
            let previous = isOrdered ? previous : nil
            guard let earlierPlace = was[place.key] else {
                events.append(LiveEvent(.added, place.key, child, previous: previous, distance: distance(place)))
                return
            }
            let hasMoved = earlierPlace.order(place) != 0
            let old = earlier[place.key] ?? .null
            let isSame = old.isIdentical(to: child) || old == child
            if isSame, !hasMoved, distance(place) == nil { return }
            events.append(
                LiveEvent(
                    isSame ? .moved : .changed, place.key, child, previous: previous, distance: distance(place), hasMoved: hasMoved))
        }
        return events
    }
}
