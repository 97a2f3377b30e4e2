public import JSONTree

/// All live queries of one place, followed as its children change: of each commit the views that it concerns, with their events.
///
/// ```
///                         ┌► PredicateIndex ─► selectors ─┐
///   child, old and new ───┤                               ├─► views that match before or after ─► their windows ─► events
///                         └► CircleIndex (old and new place) ┘                                     └ refilled from an order, or GeoIndex
/// ```
/// The work follows the views that the change concerns. Nothing is computed anew by a commit, unless it writes the place as a whole.
///
/// Confined to the database queue. Orders that windows are refilled from are the caller's, who brings them up to date first.
public final class PlaceQueries {
    /// The place's children in an order, after the commit; nil where it is not known at the moment.
    public typealias Orders = (TreeQuery.Index) -> OrderedChildren?
    public typealias Told = (LiveQueryView, LiveQueryView.Change) -> Void

    private struct Name: Hashable {
        let query: LiveQuery
        let showing: LiveQueryView.Showing
    }

    let settings: WindowSettings
    /// The points of the children, once there is one.
    public private(set) var index: GeoIndex?
    private var views: [Name: LiveQueryView] = [:]
    private var selectors: [LiveQueryView.Selector.Name: LiveQueryView.Selector] = [:]
    var bySlot: ContiguousArray<LiveQueryView.Selector?> = []
    private var freeSlots: [Int] = []
    var byCircle: ContiguousArray<LiveQueryView?> = []
    private var freeCircles: [Int] = []
    var predicates = PredicateIndex()
    var circles = CircleIndex()
    /// Views whose circles are to be listed anew when the commit has been told.
    var unlisted: ContiguousArray<LiveQueryView> = []
    /// Views that hold few and may find more, for `takeUnfilled`.
    var unfilled: ContiguousArray<LiveQueryView> = []
    /// Children that all views hold, shown or not: some 50 bytes each.
    public internal(set) var held = 0
    /// Where the child that is looked at was and is.
    var oldPoint: GeoPoint?
    var newPoint: GeoPoint?
    /// What the commit that is followed may still look at to find next matches.
    var refillLooks = 0
    /// Number of the change that is looked at.
    var change = 0
    /// Filters that were asked: for tests, which count work and not time.
    public internal(set) var evaluations = 0
    /// Children that were found by their keys, and circles that a change was measured to.
    var visited = 0
    var measured = 0
    /// All that was looked at so far, to be charged to whoever caused it, in cells and points of some 50 ns.
    public var looks: Int {
        let children = visited + (index?.asked ?? 0)
        return evaluations + measured + Self.looksOfChild * children + (index?.looks ?? 0)
    }
    /// As many cells and points as a child that is found by its key and asked about.
    public static let looksOfChild = 8

    public init(_ settings: WindowSettings = WindowSettings()) { self.settings = settings }

    public var count: Int { views.count }
    public var all: [LiveQueryView] { Array(views.values) }

    /// Takes the points of the children as they are: built in the background, and brought up to date (`GeoIndex.follow`).
    public func adopt(_ index: GeoIndex) { self.index = index }

    /// Whether the look for more has not come to its end for a view.
    public var hasUnfilled: Bool { !unfilled.isEmpty }

    /// The views for which that is so, or some of them: to be filled.
    public func takeUnfilled(atMost most: Int) -> ContiguousArray<LiveQueryView> {
        let taken = ContiguousArray(unfilled.suffix(most))
        unfilled.removeLast(taken.count)
        for view in taken { view.isUnfilled = false }
        return taken
    }

    /// Lists a view that holds few and may find more.
    public func listUnfilled(_ view: LiveQueryView) {
        guard view.needsFill, !view.isUnfilled, !view.isSearched else { return }
        view.isUnfilled = true
        unfilled.append(view)
    }

    /// The keys of what a view shows: in the order of the query, of a circle of which nothing is held in none. O(shown · log n)
    public func shown(_ view: LiveQueryView, over place: Node) -> ContiguousArray<Key> {
        var keys: ContiguousArray<Key> = []
        view.filtered?.forEachShown { keys.append($0) }
        if let index { view.near?.forEachShown(place.children, index) { keys.append($0) } }
        visited += keys.count
        return keys
    }

    /// A search begins, off the queue, for what a view shows: it is not among the `unfilled` until that has ended.
    public func beginSearch(_ view: LiveQueryView) {
        view.isSearched = true
        if view.isUnfilled { unfilled.removeAll { $0 === view } }
        view.isUnfilled = false
    }

    /// The search has ended; without a result (`replace`) the view is among the `unfilled` again.
    public func endSearch(_ view: LiveQueryView) {
        view.isSearched = false
        listUnfilled(view)
    }

    // MARK: Views

    public func existingView(_ query: LiveQuery, _ showing: LiveQueryView.Showing) -> LiveQueryView? {
        views[Name(query: query, showing: showing)]
    }

    /// A view of the children that a query selects in an order: of `window`, which shows the place as it is now.
    public func add(_ window: FilteredWindow) -> LiveQueryView {
        add(window.query, .children) { $0.filtered = window }
    }

    /// The same of a circle.
    public func add(_ window: NearWindow) -> LiveQueryView {
        add(window.query, .children) { ($0.near, $0.isCircle) = (window, window.isCircle) }
    }

    /// A view of how many children there are.
    /// - Parameter matches: how many match now, whatever the limit (`LiveQuery.matches`).
    public func add(countOf query: LiveQuery, matches: Int) -> LiveQueryView {
        add(query, .count) { $0.total = matches }
    }

    private func add(_ query: LiveQuery, _ showing: LiveQueryView.Showing, _ fill: (LiveQueryView) -> Void) -> LiveQueryView {
        if let known = existingView(query, showing) { return known }
        let view = LiveQueryView(query, showing, selector(for: query))
        fill(view)
        held += view.held
        listUnfilled(view)
        views[Name(query: query, showing: showing)] = view
        if query.near != nil {
            view.circle = freeCircles.popLast() ?? byCircle.count
            if view.circle == byCircle.count { byCircle.append(view) } else { byCircle[view.circle] = view }
            list(view)
        }
        view.selector.views.append(view)
        return view
    }

    /// Forgets a view without observers.
    public func remove(_ view: LiveQueryView) {
        guard views.removeValue(forKey: Name(query: view.query, showing: view.showing)) != nil else { return }
        held -= view.held
        if view.isUnfilled { unfilled.removeAll { $0 === view } }
        if view.circle >= 0 {
            circles.remove(view.circle)
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

    private func selector(for query: LiveQuery) -> LiveQueryView.Selector {
        let range = query.near == nil ? query.rangeConditions : []
        let name = LiveQueryView.Selector.Name(filter: query.filter, range: range, isNear: query.near != nil)
        if let known = selectors[name] { return known }
        guard query.near == nil else {
            let selector = LiveQueryView.Selector(name, slot: -1)
            selectors[name] = selector
            return selector
        }
        let slot = freeSlots.popLast() ?? bySlot.count
        let selector = LiveQueryView.Selector(name, slot: slot)
        if slot == bySlot.count { bySlot.append(selector) } else { bySlot[slot] = selector }
        // As one, so that bounds of the filter and of the range make the narrowest.
        predicates.insert(slot, Filter(query.filter.conditions + range).conditions)
        selectors[name] = selector
        return selector
    }

    /// Whether a view's circle is listed for what concerns it now. One that shrinks stays as it is until it is half as wide, so that a
    /// view of the nearest is not listed anew with each step.
    func isListed(_ view: LiveQueryView) -> Bool {
        guard let near = view.query.near else { return true }
        let concern = view.near?.concern ?? near.outerReach
        return concern <= view.reach && (concern >= view.reach / 4 || concern == near.outerReach)
    }

    /// Lists a circle for what concerns its view now.
    func list(_ view: LiveQueryView) {
        guard let near = view.query.near, !isListed(view) else { return }
        let concern = view.near?.concern ?? near.outerReach
        if view.reach >= 0 { circles.remove(view.circle) }
        // A little more than is needed: the nearest of a limit come and go.
        view.reach = min(near.outerReach, concern * 2)
        circles.insert(view.circle, at: near.centre, reach: view.reach)
    }

    /// Lists the circles for which that is needed after a commit.
    func listAnew() {
        for view in unlisted { list(view) }
        unlisted.removeAll(keepingCapacity: true)
    }

    /// Takes in what a view shows, as it was searched for off the queue for the place as it is now.
    /// - Returns: what it shows other than before; nil where nothing differs.
    public func replace(_ view: LiveQueryView, with window: NearWindow, over place: Node) -> LiveQueryView.Change? {
        guard let index, let old = view.near, view.query == window.query else { return nil }
        visited += old.count + window.count
        held += window.heldCount - old.heldCount
        (view.near, view.isCircle) = (window, window.isCircle)
        list(view)
        listUnfilled(view)
        return LiveQueryView.Change(window.difference(from: old, over: place, index))
    }

    /// What one view shows other than another one of the same kind, as after a move of the centre; nil where nothing differs.
    /// O(what both show)
    public func difference(from old: LiveQueryView, to new: LiveQueryView, over place: Node) -> LiveQueryView.Change? {
        visited += old.count + new.count
        if let was = old.near, let now = new.near, let index {
            return LiveQueryView.Change(now.difference(from: was, over: place, index))
        }
        if let was = old.filtered, let now = new.filtered { return LiveQueryView.Change(now.difference(from: was, over: place)) }
        return old.count == new.count ? nil : .count(new.count)
    }
}

extension LiveQuery {
    /// How many children match, whatever the limit; everything in the range of the order is looked at, or everything.
    /// - Parameter children: the place's children in the query's order, where they are at hand.
    public func matches(over place: Node, in children: OrderedChildren?) -> Int {
        let all = place.children
        if isUnconditional { return all.count }
        let (lower, upper) = isByDistance ? (nil, nil) : (tree.lowerBound, tree.upperBound)
        guard let children, lower != nil || upper != nil else { return matches(over: place, among: all.lazy.map(\.key)) }
        var count = 0
        children.ascend(from: lower) { child in
            if let upper, !upper.admitsAsEnd(child) { return false }
            if matches(all[child.key] ?? .null) { count += 1 }
            return true
        }
        return count
    }

    /// The same of a circle, by the points of the place. Without conditions its cells are counted.
    /// - Parameter most: cells and points that may be looked at.
    /// - Returns: nil where that is not enough.
    public func matches(over place: Node, around index: GeoIndex, looks most: Int = .max) -> Int? {
        guard let near else { return nil }
        if isCountedByCells { return index.count(in: near, looks: most) }
        guard case .found(let keys) = index.keys(within: self, looks: most) else { return nil }
        return matches(over: place, among: keys)
    }

    /// Whether a circle is counted without a look at its children.
    public var isCountedByCells: Bool { near != nil && filter.isEmpty && (isByDistance || (tree.start == nil && tree.end == nil)) }

    private var isUnconditional: Bool { near == nil && filter.isEmpty && tree.start == nil && tree.end == nil }

    /// Whether the conditions select a child, and the circle.
    private func matches(_ child: Node) -> Bool {
        guard filter.isEmpty || filter.admits(child) else { return false }
        guard let near else { return true }
        guard let point = near.fields?.point(of: child) else { return false }
        return near.contains(point)
    }

    /// The same of children that are named, none twice.
    public func matches(over place: Node, among candidates: some Sequence<Key>) -> Int {
        let (lower, upper) = isByDistance ? (nil, nil) : (tree.lowerBound, tree.upperBound)
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

    /// How many more children match after changes than before, whatever the limit.
    func surplus(of writes: ContiguousArray<SeenWrite>) -> Int {
        let (lower, upper) = isByDistance ? (nil, nil) : (tree.lowerBound, tree.upperBound)
        func counts(_ key: Key, _ child: Node, _ point: GeoPoint?) -> Bool {
            if let near {
                guard let point, near.contains(point) else { return false }
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

    /// The same between two states of a place; nil where they differ in more than `most` children.
    public func surplus(from old: Node, to new: Node, atMost most: Int) -> Int? {
        SeenWrite.between(old, new, filter, near?.fields, atMost: most).map { surplus(of: $0) }
    }
}
