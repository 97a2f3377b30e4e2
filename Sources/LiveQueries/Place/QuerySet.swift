public import JSONTree

/// All live queries of one place, updated as its children change. For each commit, finds the affected views and computes their events.
///
/// ```
///                         ┌► PredicateIndex ─► selectors ─┐
///   child, old and new ───┤                               ├─► views that match before or after ─► their windows ─► events
///                         └► CircleIndex, RegionIndex (old and new place) ┘                        └ refilled from an order, or GeoIndex
/// ```
/// The cost depends on the views that a change affects. A commit recomputes nothing from scratch, unless it overwrites the place.
///
/// Confined to the database queue. The caller owns the orders that refill windows, and updates them first.
public final class QuerySet {
    /// The place's children in an order, after the commit; nil if not available now.
    public typealias Orders = (TreeQuery.Index) -> OrderedChildren?
    public typealias Notify = (LiveQueryView, LiveQueryView.Change) -> Void

    private struct Name: Hashable {
        let query: Query
        let showing: LiveQueryView.Showing
    }

    let settings: WindowSettings
    /// The point index of the children, once it exists.
    public private(set) var index: GeoIndex?
    private var views: [Name: LiveQueryView] = [:]
    private var selectors: [LiveQueryView.Selector.Name: LiveQueryView.Selector] = [:]
    var bySlot: ContiguousArray<LiveQueryView.Selector?> = []
    private var freeSlots: [Int] = []
    var byCircle: ContiguousArray<LiveQueryView?> = []
    private var freeCircles: [Int] = []
    var predicates = PredicateIndex()
    var circles = CircleIndex()
    /// The regions of `within`, by the same numbers.
    var regions = RegionIndex()
    /// Views whose circles must be listed again after the commit.
    var circlesToRelist: ContiguousArray<LiveQueryView> = []
    /// Views that hold few children and may find more, for `takeUnfilled`.
    var unfilled: ContiguousArray<LiveQueryView> = []
    /// Number of children that all views hold, shown or not: about 50 bytes each.
    public internal(set) var held = 0
    /// The old and the new position of the child being processed.
    var oldPoint: GeoPoint?
    var newPoint: GeoPoint?
    /// Steps that the current commit may still spend on finding next matches.
    var refillVisits = 0
    /// Number of the change being processed.
    var change = 0
    /// Number of evaluated filters. For tests, which measure work instead of time.
    public internal(set) var evaluations = 0
    /// Number of children looked up by key, and of circles and regions that a change was measured to.
    var visited = 0
    var measured = 0
    /// All work so far, in units of a visited cell or point of about 50 ns. Charged to the request that caused it.
    public var visits: Int {
        let children = visited + (index?.asked ?? 0)
        return evaluations + measured + Self.visitsPerChild * children + (index?.visits ?? 0)
    }
    /// The cost of looking up a child by key and evaluating a filter on it, in the same unit.
    public static let visitsPerChild = 8

    public init(_ settings: WindowSettings = WindowSettings()) { self.settings = settings }

    public var count: Int { views.count }
    public var all: [LiveQueryView] { Array(views.values) }

    /// Takes a point index that was built in the background and updated to the current state (`GeoIndex.follow`).
    public func adopt(_ index: GeoIndex) { self.index = index }

    /// True if some views have not finished searching for more children.
    public var hasUnfilled: Bool { !unfilled.isEmpty }

    /// Removes and returns up to `most` of these views, so that the caller fills them.
    public func takeUnfilled(atMost most: Int) -> ContiguousArray<LiveQueryView> {
        let taken = ContiguousArray(unfilled.suffix(most))
        unfilled.removeLast(taken.count)
        for view in taken { view.isUnfilled = false }
        return taken
    }

    /// Lists a view that holds few children and may find more.
    public func listUnfilled(_ view: LiveQueryView) {
        guard view.needsFill, !view.isUnfilled, !view.isSearched else { return }
        view.isUnfilled = true
        unfilled.append(view)
    }

    /// The keys of a view's shown children, in the query's order. Unordered for a circle that holds no children. O(shown · log n)
    public func shown(_ view: LiveQueryView, over place: Node) -> ContiguousArray<Key> {
        var keys: ContiguousArray<Key> = []
        view.window?.forEachShown(place.children, index) { keys.append($0) }
        visited += keys.count
        return keys
    }

    /// Marks the start of a search for a view off the queue. The view is not listed in `unfilled` until the search ends.
    public func beginSearch(_ view: LiveQueryView) {
        view.isSearched = true
        if view.isUnfilled { unfilled.removeAll { $0 === view } }
        view.isUnfilled = false
    }

    /// Marks the end of the search. Without a result (`replace`), the view is listed in `unfilled` again.
    public func endSearch(_ view: LiveQueryView) {
        view.isSearched = false
        listUnfilled(view)
    }

    // MARK: Views

    public func existingView(_ query: Query, _ showing: LiveQueryView.Showing) -> LiveQueryView? {
        views[Name(query: query, showing: showing)]
    }

    /// Adds a view of children. `window` shows the current state of the place.
    public func add(_ window: Window) -> LiveQueryView {
        add(window.query, .children) { ($0.window, $0.isCircle) = (window, window.isCircle) }
    }

    /// Adds a view of the number of children.
    /// - Parameter matches: the current number of matches, whatever the limit (`Query.matches`).
    public func add(countOf query: Query, matches: Int) -> LiveQueryView {
        add(query, .count) { $0.total = matches }
    }

    private func add(_ query: Query, _ showing: LiveQueryView.Showing, _ fill: (LiveQueryView) -> Void) -> LiveQueryView {
        if let known = existingView(query, showing) { return known }
        let view = LiveQueryView(query, showing, selector(for: query))
        fill(view)
        held += view.held
        listUnfilled(view)
        views[Name(query: query, showing: showing)] = view
        if query.hasArea {
            view.circle = freeCircles.popLast() ?? byCircle.count
            if view.circle == byCircle.count { byCircle.append(view) } else { byCircle[view.circle] = view }
            list(view)
            if let region = query.within?.region { measured += regions.insert(view.circle, region) }
        }
        view.selector.views.append(view)
        return view
    }

    /// Removes a view without observers.
    public func remove(_ view: LiveQueryView) {
        guard views.removeValue(forKey: Name(query: view.query, showing: view.showing)) != nil else { return }
        held -= view.held
        if view.isUnfilled { unfilled.removeAll { $0 === view } }
        if view.circle >= 0 {
            if view.query.near != nil { circles.remove(view.circle) } else { regions.remove(view.circle) }
            byCircle[view.circle] = nil
            freeCircles.append(view.circle)
        }
        let selector = view.selector
        if let at = selector.views.firstIndex(where: { $0 === view }) { selector.views.remove(at: at) }
        guard selector.views.isEmpty else { return }
        selectors[selector.name] = nil
        if selector.slot >= 0 {
            predicates.remove(selector.slot)
            bySlot[selector.slot] = nil
            freeSlots.append(selector.slot)
        }
    }

    private func selector(for query: Query) -> LiveQueryView.Selector {
        let range = query.hasArea ? [] : query.rangeConditions
        let name = LiveQueryView.Selector.Name(filter: query.filter, range: range, hasArea: query.hasArea)
        if let known = selectors[name] { return known }
        guard !query.hasArea else {
            let selector = LiveQueryView.Selector(name, slot: -1)
            selectors[name] = selector
            return selector
        }
        let slot = freeSlots.popLast() ?? bySlot.count
        let selector = LiveQueryView.Selector(name, slot: slot)
        if slot == bySlot.count { bySlot.append(selector) } else { bySlot[slot] = selector }
        // As one filter, so that the bounds of filter and range combine to the narrowest.
        predicates.insert(slot, Filter(query.filter.conditions + range).conditions)
        selectors[name] = selector
        return selector
    }

    /// True if a view's circle is listed for its current reach. A shrinking circle keeps its listing until it is half as wide. So a view of the
    /// nearest children is not listed again with each step.
    func isListed(_ view: LiveQueryView) -> Bool {
        guard let near = view.query.near else { return true }
        let concern = view.window?.concern ?? near.outerReach
        return concern <= view.reach && (concern >= view.reach / 4 || concern == near.outerReach)
    }

    /// Lists a circle for its view's current reach.
    func list(_ view: LiveQueryView) {
        guard let near = view.query.near, !isListed(view) else { return }
        let concern = view.window?.concern ?? near.outerReach
        if view.reach >= 0 { circles.remove(view.circle) }
        // Slightly more than needed, since the nearest children within a limit come and go.
        view.reach = min(near.outerReach, concern * 2)
        circles.insert(view.circle, at: near.centre, reach: view.reach)
    }

    /// Lists the circles again that a commit has changed.
    func relistCircles() {
        for view in circlesToRelist { list(view) }
        circlesToRelist.removeAll(keepingCapacity: true)
    }

    /// Replaces the window of a view by one that was searched for off the queue and updated to the current state.
    /// - Returns: the difference from the old window; nil if nothing differs.
    public func replace(_ view: LiveQueryView, with window: Window, over place: Node) -> LiveQueryView.Change? {
        guard let old = view.window, view.query == window.query else { return nil }
        visited += old.count + window.count
        held += window.heldCount - old.heldCount
        (view.window, view.isCircle) = (window, window.isCircle)
        list(view)
        listUnfilled(view)
        return LiveQueryView.Change(window.difference(from: old, over: place, index))
    }

    /// The difference between the results of two views of the same kind, for example after the centre moved. Nil if nothing differs.
    /// O(children shown by either)
    public func difference(from old: LiveQueryView, to new: LiveQueryView, over place: Node) -> LiveQueryView.Change? {
        visited += old.count + new.count
        if let was = old.window, let now = new.window { return LiveQueryView.Change(now.difference(from: was, over: place, index)) }
        return old.count == new.count ? nil : .count(new.count)
    }
}

extension Query {
    /// The number of matches, whatever the limit. Visits the whole range of the order, or all children.
    /// - Parameter children: the place's children in the query's order, if available.
    public func matches(over place: Node, in children: OrderedChildren?) -> Int {
        let all = place.children
        if isUnconditional { return all.count }
        let (lower, upper) = isByPosition ? (nil, nil) : (tree.lowerBound, tree.upperBound)
        guard let children, lower != nil || upper != nil else { return matches(over: place, among: all.lazy.map(\.key)) }
        var count = 0
        children.ascend(from: lower) { child in
            if let upper, !upper.admitsAsEnd(child) { return false }
            if matches(all[child.key] ?? .null) { count += 1 }
            return true
        }
        return count
    }

    /// The same for a circle or a region, by the points of the place. Without conditions, counts cells.
    /// - Parameter most: maximum number of cells and points visited.
    /// - Returns: nil if the maximum is reached.
    public func matches(over place: Node, around index: GeoIndex, visits most: Int = .max) -> Int? {
        guard hasArea else { return nil }
        if isCountedByCells {
            let (count, isExact) = index.estimate(within: self, visits: most)
            return isExact ? count : nil
        }
        guard case .found(let keys) = index.keys(within: self, visits: most) else { return nil }
        return matches(over: place, among: keys)
    }

    /// True if a circle or a region can be counted without visiting its children.
    public var isCountedByCells: Bool { hasArea && filter.isEmpty && (isByPosition || (tree.start == nil && tree.end == nil)) }

    private var isUnconditional: Bool { !hasArea && filter.isEmpty && tree.start == nil && tree.end == nil }

    /// True if the conditions, and the circle or the region, select a child.
    private func matches(_ child: Node) -> Bool {
        guard filter.isEmpty || filter.admits(child) else { return false }
        guard hasArea else { return true }
        guard let point = fields?.point(of: child) else { return false }
        return areaContains(point)
    }

    /// The same for the children with these keys, without duplicates.
    public func matches(over place: Node, among candidates: some Sequence<Key>) -> Int {
        let (lower, upper) = isByPosition ? (nil, nil) : (tree.lowerBound, tree.upperBound)
        let hasRange = lower != nil || upper != nil
        let children = place.children
        var count = 0
        for key in candidates {
            guard let child = children[key], matches(child) else { continue }
            if !hasRange {
                count += 1
                continue
            }
            let place = tree.orderedBy.place(key, child)
            if lower?.admitsAsStart(place) ?? true, upper?.admitsAsEnd(place) ?? true { count += 1 }
        }
        return count
    }

    /// The number of matches after the changes minus that before, whatever the limit.
    func surplus(of writes: ContiguousArray<FilteredWrite>) -> Int {
        let (lower, upper) = isByPosition ? (nil, nil) : (tree.lowerBound, tree.upperBound)
        func counts(_ key: Key, _ child: Node, _ point: GeoPoint?) -> Bool {
            if hasArea {
                guard let point, areaContains(point) else { return false }
            }
            if lower == nil, upper == nil { return true }
            let place = tree.orderedBy.place(key, child)
            return (lower?.admitsAsStart(place) ?? true) && (upper?.admitsAsEnd(place) ?? true)
        }
        var surplus = 0
        for seen in writes {
            if seen.was, counts(seen.write.key, seen.write.old, seen.oldPoint) { surplus -= 1 }
            if seen.now, counts(seen.write.key, seen.write.new, seen.newPoint) { surplus += 1 }
        }
        return surplus
    }

    /// The same between two states of a place; nil if they differ in more than `most` children.
    public func surplus(from old: Node, to new: Node, atMost most: Int) -> Int? {
        FilteredWrite.between(old, new, filter, fields, atMost: most).map { surplus(of: $0) }
    }
}
