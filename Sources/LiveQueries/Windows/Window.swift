public import JSONTree

/// What a live query shows of a place: the matching children in its order, up to its limit. Updated as children change.
///
/// | query | holds |
/// |---|---|
/// | in an order, with conditions, a circle or a region | all matches; with a limit, the shown children and a reserve after them (`MatchWindow`) |
/// | the nearest n | the same, in order of distance |
/// | a circle by distance, a region without an order | only the count: old and new positions decide. With a rare condition in a large one, all matches |
///
/// By distance, events name no `previous`, since the distances define the order. In a region without an order there is none.
public struct Window: Sendable {
    /// Where a window finds its children.
    public enum Source {
        /// The place's children in the query's order.
        case order(OrderedChildren)
        /// The points of the place's children, for a circle or a region.
        case points(GeoIndex)
    }

    public let query: Query
    /// True if all matches are held, so that no order is needed to find the next ones.
    public let holdsAll: Bool
    private let selection: Selection
    private let settings: WindowSettings
    /// The held children; nil for a circle or a region that holds none.
    private var held: MatchWindow?
    /// Number of shown children of such a circle.
    private var inside = 0
    /// True if the last search for more points reached its limit. The next search must run off the queue (`searched`).
    public private(set) var needsBackgroundSearch = false

    private init(empty query: Query, holdsAll: Bool, _ settings: WindowSettings) {
        self.query = query
        self.holdsAll = holdsAll || query.tree.limit == nil
        self.settings = settings
        selection = Selection(query)
    }

    /// Searches as far as the limit needs.
    /// - Parameter source: points for a query by distance; otherwise points of its circle, or the children in its order.
    public init(_ query: Query, over place: Node, from source: Source, _ settings: WindowSettings = WindowSettings()) {
        if case .found(let window) = Self.searched(query, over: place, from: source, visits: .max, settings) {
            self = window
        } else {
            self.init(empty: query, holdsAll: false, settings)
        }
    }

    /// - Parameters:
    ///   - holdsAll: true if a circle by distance, or a region without an order, holds all its matches.
    ///   - most: maximum number of matches of a query without a limit.
    ///   - visits: maximum number of children, or of cells and points, visited.
    public static func searched(
        _ query: Query, over place: Node, from source: Source, holdsAll: Bool = false, atMost most: Int = .max, visits: Int,
        _ settings: WindowSettings = WindowSettings()
    ) -> WindowSearch<Window> {
        if case .order = source { assert(!query.isByPosition, "a query by position needs points") }
        var window = Window(empty: query, holdsAll: holdsAll, settings)
        let (children, selection) = (place.children, window.selection)
        if case .points(let index) = source, query.tree.limit == nil || !query.isByPosition {
            guard query.isByPosition else {
                guard case .found(let keys) = index.keys(within: query, visits: visits) else { return .tooManyVisits }
                let window = Window(query, over: place, among: keys, holdsAll: true, atMost: most, settings)
                return window.map { .found($0) } ?? .tooManyMatches
            }
            var found: ContiguousArray<ChildPlace> = []
            let isComplete = selection.visit(index, children, visits: visits) { place in
                window.inside += 1
                if holdsAll { found.append(place) }
                return window.inside <= most
            }
            if window.inside > most { return .tooManyMatches }
            if !isComplete { return .tooManyVisits }
            if holdsAll { window.hold(found) }
            return .found(window)
        }
        let wanted = query.tree.limit == nil && most < .max ? most + 1 : .max
        var (left, isComplete) = (visits, true)
        let found = MatchWindow(limit: query.tree.limit, keepsLast: query.keepsLast, settings) {
            selection.next(in: source, children, after: $0, wanted: min($1, wanted), visits: &left, &isComplete)
        }
        window.held = found
        if query.tree.limit == nil, found.held.count > most { return .tooManyMatches }
        if query.isByPosition { return isComplete ? .found(window) : .tooManyVisits }
        return found.frontier != nil && (query.tree.limit == nil || found.isShort) ? .tooManyVisits : .found(window)
    }

    /// - Parameters:
    ///   - candidates: keys that include all matches, found by the index of a condition or by points.
    ///   - holdsAll: true if all matches are held in any case, because no order exists to find the next ones.
    ///   - most: maximum number of matches of a query that holds all.
    /// - Returns: nil for more matches.
    public init?(
        _ query: Query, over place: Node, among candidates: some Sequence<Key>, holdsAll: Bool = false, atMost most: Int = .max,
        _ settings: WindowSettings = WindowSettings()
    ) {
        self.init(empty: query, holdsAll: holdsAll, settings)
        var matches: ContiguousArray<ChildPlace> = []
        let children = place.children
        for key in candidates {
            guard let child = children[key], selection.admits(child) else { continue }
            guard let place = selection.place(key, child, selection.point(of: child)) else { continue }
            matches.append(place)
            if self.holdsAll, matches.count > most { return nil }
        }
        hold(matches)
    }

    /// - Parameter found: all matches, in any order.
    private mutating func hold(_ found: ContiguousArray<ChildPlace>) {
        let sorted = ContiguousArray(found.sorted { query.keepsLast ? $1.order($0) < 0 : $0.order($1) < 0 })
        held = MatchWindow(
            limit: query.tree.limit, keepsLast: query.keepsLast, settings, all: sorted, canRefill: query.isByPosition || !holdsAll)
    }

    /// Number of children shown.
    public var count: Int { held?.shownCount ?? inside }
    /// True if fewer children are shown than may exist, because finding the next ones took too long.
    public var isShort: Bool { held?.isShort ?? false }
    var needsFill: Bool { held?.needsFill ?? false }
    /// Number of children held, shown or not.
    public var heldCount: Int { held?.held.count ?? 0 }
    /// True for a circle or a region that holds no children.
    var isCircle: Bool { held == nil }
    /// The squared chord up to which changes affect the window; nil for one that is not ordered by distance.
    var concern: Double? { query.isByPosition ? held?.frontier?.chordSquared ?? selection.circle?.reach : nil }

    /// Calls `body` with the keys of the shown children, in the query's order. Unordered for a circle that holds no children.
    /// - Parameter index: the points of the place, for such a circle.
    func forEachShown(_ children: ChildMap, _ index: GeoIndex?, _ body: (Key) -> Void) {
        if let held { return held.forEachShown { place, _ in body(place.key) } }
        guard let index else { return }
        selection.visit(index, children) { place in
            body(place.key)
            return true
        }
    }

    // MARK: Changes

    /// Applies the change of one child to a circle or a region that holds no children.
    /// - Parameters: the squared chords to the child's old and new position, infinite for none, and whether the filter selects it there. For a
    ///   region 0 in it, and infinite outside.
    /// - Returns: the event; nil if the circle shows the child neither before nor after.
    @inline(__always)
    mutating func step(_ write: ChildWrite, from old: Double, _ was: Bool, to new: Double, _ now: Bool) -> LiveEvent? {
        let hasDistance = selection.circle != nil
        let reach = selection.circle?.reach ?? .infinity
        let (was, now) = (was && old <= reach && old < .infinity, now && new <= reach && new < .infinity)
        if now {
            let metres = hasDistance ? GeoPoint.metres(chordSquared: new) : nil
            if was { return LiveEvent(.changed, write.key, write.new, distance: metres, hasMoved: old != new) }
            inside += 1
            return LiveEvent(.added, write.key, write.new, distance: metres)
        }
        guard was else { return nil }
        inside -= 1
        let metres = hasDistance ? GeoPoint.metres(chordSquared: new < .infinity ? new : old) : nil
        return LiveEvent(.removed, write.key, write.old, distance: metres, why: write.new.exists ? .left : .deleted)
    }

    /// The fast path for the usual commit, which changes one child, without lists.
    /// - Parameter event: set to the event of the shown change, if any.
    /// - Returns: false, with nothing changed, if the caller must use `apply`.
    mutating func applyAlone(_ seen: borrowing FilteredWrite, _ event: inout LiveEvent?) -> Bool {
        var step: MatchWindow.Step?
        guard held?.applyAlone(selection.change(seen), &step) ?? false else { return false }
        if let step { event = step.event(of: seen.write, previous: previous(of: step), distance: metres(of: step, from: seen.oldPoint, to: seen.newPoint)) }
        return true
    }

    /// Applies a commit. O(changes · log n)
    /// - Parameters:
    ///   - writes: the changed children with the results of the filter, each once.
    ///   - place: the place after the commit.
    ///   - source: its children after the commit. If nil, no next matches are looked up.
    ///   - visits: maximum number of children, or of cells and points, visited to find the next matches; reduced by those visited.
    mutating func apply(
        _ writes: ContiguousArray<FilteredWrite>, over place: Node, from source: Source?, visits: inout Int,
        _ events: inout ContiguousArray<LiveEvent>
    ) {
        if isCircle {
            for seen in writes {
                let (old, new) = (selection.chordSquared(seen.oldPoint) ?? .infinity, selection.chordSquared(seen.newPoint) ?? .infinity)
                if let event = step(seen.write, from: old, seen.was, to: new, seen.now) { events.append(event) }
            }
            return
        }
        let changes = ContiguousArray(writes.map { selection.change($0) })
        var steps: ContiguousArray<MatchWindow.Step> = []
        refill(place.children, from: source, visits: &visits) { $0.apply(changes, &steps, refill: $1) }
        appendEvents(steps, writes, place.children, &events)
    }

    /// Continues the search for matches, if fewer are shown than may exist.
    mutating func fill(
        over place: Node, from source: Source, visits: inout Int, _ events: inout ContiguousArray<LiveEvent>
    ) {
        var steps: ContiguousArray<MatchWindow.Step> = []
        refill(place.children, from: source, visits: &visits) { $0.fill(&steps, refill: $1) }
        appendEvents(steps, [], place.children, &events)
    }

    /// Changes the held children, and searches after the frontier if more are needed.
    private mutating func refill(
        _ children: ChildMap, from source: Source?, visits: inout Int, _ body: (inout MatchWindow, MatchWindow.Refill) -> Void
    ) {
        guard var window = held else { return }
        // So that it is changed in place.
        held = nil
        var (left, isComplete) = (visits, true)
        body(&window) { [selection] after, wanted in
            guard let source else { return ([], after) }
            return selection.next(in: source, children, after: after, wanted: wanted, visits: &left, &isComplete)
        }
        visits = max(0, left)
        needsBackgroundSearch = !isComplete && window.needsFill
        held = window
    }

    /// Updates a window over `old`, computed off the queue, to `new`, another state of the same place.
    /// - Parameters:
    ///   - source: the children of the new state.
    ///   - most: as for `ChildMap.changes(since:atMost:)`.
    /// - Returns: false, with the window unchanged, if more than `most` differs.
    public mutating func follow(from old: Node, to new: Node, from source: Source?, atMost most: Int) -> Bool {
        if old.isIdentical(to: new) { return true }
        guard let writes = FilteredWrite.between(old, new, query.filter, query.fields, atMost: most) else { return false }
        var events: ContiguousArray<LiveEvent> = []
        var visits = settings.visits
        apply(writes, over: new, from: source, visits: &visits, &events)
        return true
    }

    // MARK: Events

    private func appendEvents(
        _ steps: ContiguousArray<MatchWindow.Step>, _ writes: ContiguousArray<FilteredWrite>, _ children: ChildMap,
        _ events: inout ContiguousArray<LiveEvent>
    ) {
        for step in steps {
            let isChanged = step.change >= 0
            let old = isChanged ? writes[step.change].oldPoint : selection.point(of: children[step.key] ?? .null)
            let metres = metres(of: step, from: old, to: isChanged ? writes[step.change].newPoint : nil)
            events.append(step.event(of: writes, previous: previous(of: step), distance: metres) { children[$0] ?? .null })
        }
    }

    private func previous(of step: MatchWindow.Step) -> Key? {
        query.isByPosition || step.kind == .left ? nil : held?.previous(of: step.place)
    }

    /// Metres from the centre to a child; for one that has left, to its new position if it has one.
    private func metres(of step: MatchWindow.Step, from old: GeoPoint?, to new: GeoPoint?) -> Double? {
        guard let circle = selection.circle else { return nil }
        guard query.isByPosition else { return (new ?? old)?.metres(to: circle.centre) }
        let moved = step.kind == .left ? new?.chordSquared(circle.centre) : nil
        return GeoPoint.metres(chordSquared: moved ?? step.place.chordSquared)
    }

    /// The events between another window's result on the place and this one's. O(children shown by either · log n)
    /// - Parameter index: the points of the place, for circles.
    func difference(from old: Window, over place: Node, _ index: GeoIndex?) -> ContiguousArray<LiveEvent> {
        let (children, selection) = (place.children, selection)
        // A child that has left is reported with its current distance.
        return matches(children, index).difference(from: old.matches(children, index), over: children, isOrdered: !query.isByPosition) {
            selection.point(of: children[$0.key] ?? .null).flatMap { point in selection.circle.map { point.metres(to: $0.centre) } }
        }
    }

    private func matches(_ children: ChildMap, _ index: GeoIndex?) -> MatchWindow {
        if let held { return held }
        var found: ContiguousArray<ChildPlace> = []
        if let index {
            selection.visit(index, children) { place in
                found.append(place)
                return true
            }
        }
        found.sort { $0.order($1) < 0 }
        return MatchWindow(limit: nil, keepsLast: false, settings, all: found)
    }
}

extension GeoIndex {
    /// The number of children in the circle or the region of a query, as `estimate(in:visits:)` for a circle.
    public func estimate(within query: Query, visits most: Int) -> (count: Int, isExact: Bool) {
        if let near = query.near { return estimate(in: near, visits: most) }
        return query.within?.region.map { estimate(in: $0, visits: most) } ?? (count, true)
    }

    /// The keys of the children within the circle or the region of a query.
    public func keys(within query: Query, visits most: Int) -> WindowSearch<ContiguousArray<Key>> {
        var keys: ContiguousArray<Key> = []
        if let region = query.within?.region {
            let isComplete = visit(region, visits: most) { entry in
                keys.append(entry.key)
                return true
            }
            return isComplete ? .found(keys) : .tooManyVisits
        }
        guard let near = query.near else { return .tooManyMatches }
        let isComplete = visit(near.centre, near.outerReach, visits: most) { entry, _ in
            keys.append(entry.key)
            return true
        }
        return isComplete ? .found(keys) : .tooManyVisits
    }
}

/// The result of a search for a window's children.
public enum WindowSearch<Found: Sendable>: Sendable {
    case found(Found)
    /// More matches than may be held or shown.
    case tooManyMatches
    /// The search reached its maximum number of visits.
    case tooManyVisits
}
