public import JSONTree

/// The children in a circle, or the nearest ones, that a filter selects, in order of distance. Updated as children or the centre move. A circle in
/// another order is a `FilteredWindow`.
///
/// There are two kinds:
///
/// | query | holds |
/// |---|---|
/// | a radius | only the count: a child's old and new position decide. With a rare condition in a large circle, all matches |
/// | the nearest n | these children, and a reserve after them (`MatchWindow`) |
///
/// Events name no `previous`, since the distances define the order.
public struct NearWindow: Sendable {
    public private(set) var query: LiveQuery
    private var centre: GeoPoint
    private let reach: Double
    private let settings: WindowSettings
    /// Number of shown children, for a circle that holds none.
    private var shown = 0
    /// The held children; nil for such a circle.
    private var held: MatchWindow<NearPlace>?
    /// True if the last search for more reached its limit. The next search must run off the queue (`searched`).
    public private(set) var needsBackgroundSearch = false

    /// - Parameter index: the points of the place's children.
    /// - Returns: nil for a query that is not ordered by distance.
    public init?(_ query: LiveQuery, over place: Node, _ index: GeoIndex, _ settings: WindowSettings = WindowSettings()) {
        guard case .found(let window) = Self.searched(query, over: place, index, visits: .max, settings) else { return nil }
        self = window
    }

    private init?(empty query: LiveQuery, _ settings: WindowSettings) {
        guard let near = query.near, query.isByDistance else { return nil }
        (self.query, self.settings) = (query, settings)
        (centre, reach) = (near.centre, near.reach)
    }

    /// Finds a query's result by the points of the place.
    /// - Parameters:
    ///   - holdsAll: true if all matches of a circle without a limit are held.
    ///   - most: maximum number of matches of such a circle.
    ///   - visits: maximum number of cells and points visited.
    public static func searched(
        _ query: LiveQuery, over place: Node, _ index: GeoIndex, holdsAll: Bool = false, atMost most: Int = .max, visits: Int,
        _ settings: WindowSettings = WindowSettings()
    ) -> WindowSearch<NearWindow> {
        guard var window = NearWindow(empty: query, settings) else { return .tooManyMatches }
        let (children, filter, centre, reach) = (place.children, query.filter, window.centre, window.reach)
        guard query.tree.limit == nil else {
            var isComplete = true
            window.held = MatchWindow(limit: query.tree.limit, keepsLast: false, settings) {
                next(index, children, filter, centre, reach, after: $0, wanted: $1, visits: visits, &isComplete)
            }
            return isComplete ? .found(window) : .tooManyVisits
        }
        var found: ContiguousArray<NearPlace> = []
        let isComplete = index.visit(centre, reach, visits: visits) { entry, chordSquared in
            guard index.admits(entry.key, filter, children) else { return true }
            window.shown += 1
            if holdsAll { found.append(NearPlace(chordSquared: chordSquared, key: entry.key)) }
            return window.shown <= most
        }
        if window.shown > most { return .tooManyMatches }
        if !isComplete { return .tooManyVisits }
        if holdsAll { window.hold(found) }
        return .found(window)
    }

    /// The same, given keys that include all children that the filter selects, found by the index of one of its conditions.
    /// - Returns: nil for more than `most` matches without a limit, and for a query that is not ordered by distance.
    public init?(
        _ query: LiveQuery, over place: Node, among candidates: some Sequence<Key>, _ fields: GeoFields, atMost most: Int = .max,
        _ settings: WindowSettings = WindowSettings()
    ) {
        guard let window = NearWindow(empty: query, settings) else { return nil }
        self = window
        var found: ContiguousArray<NearPlace> = []
        let children = place.children
        for key in candidates {
            guard let child = children[key], query.filter.admits(child) else { continue }
            guard let place = nearPlace(key, fields.point(of: child)) else { continue }
            found.append(place)
            if query.tree.limit == nil, found.count > most { return nil }
        }
        hold(found)
    }

    /// - Parameter found: all matches, in any order.
    private mutating func hold(_ found: ContiguousArray<NearPlace>) {
        let found = ContiguousArray(found.sorted { $0.order($1) < 0 })
        held = MatchWindow(limit: query.tree.limit, keepsLast: false, settings, all: found)
    }

    /// True for a circle that holds no children.
    var isCircle: Bool { held == nil }

    /// Calls `body` with the children that such a circle shows.
    private func forEachShown(_ children: ChildMap, _ index: GeoIndex, _ body: (Key, Node, _ chordSquared: Double) -> Void) {
        let filter = query.filter
        index.visit(centre, reach) { entry, chordSquared in
            let child = children[entry.key] ?? .null
            index.asked += 1
            if filter.isEmpty || filter.admits(child) { body(entry.key, child, chordSquared) }
            return true
        }
    }

    /// - Parameter isComplete: set to false if `visits` was reached.
    private static func next(
        _ index: GeoIndex, _ children: ChildMap, _ filter: Filter, _ centre: GeoPoint, _ reach: Double, after: NearPlace?, wanted: Int,
        visits: Int, _ isComplete: inout Bool
    ) -> (found: ContiguousArray<NearPlace>, frontier: NearPlace?) {
        var found: ContiguousArray<NearPlace> = []
        if wanted == 0 { return (found, after) }
        var frontier: NearPlace?
        isComplete = index.nearest(to: centre, within: reach, after: after, visits: visits) { place in
            if index.admits(place.key, filter, children) { found.append(place) }
            frontier = place
            return found.count < wanted
        }
        if !isComplete { return (found, frontier ?? after) }
        return (found, found.count < wanted ? nil : frontier)
    }

    /// Number of children shown.
    public var count: Int { held?.shownCount ?? shown }
    /// True if fewer children are shown than may exist, because finding the next ones took too long.
    public var isShort: Bool { held?.isShort ?? false }
    var needsFill: Bool { held?.needsFill ?? false }
    /// Number of children held, shown or not.
    public var heldCount: Int { held?.held.count ?? 0 }

    /// The squared chord up to which changes affect the window.
    var concern: Double { held?.frontier?.chordSquared ?? reach }
    var place: GeoPoint { centre }

    /// Calls `body` with the keys of the shown children, in the query's order. Unordered for a circle that holds no children.
    func forEachShown(_ children: ChildMap, _ index: GeoIndex, _ body: (Key) -> Void) {
        if isCircle { forEachShown(children, index) { key, _, _ in body(key) } }
        held?.forEachShown { place, _ in body(place.key) }
    }

    /// The shown children as events for a new observer.
    public func initial(over place: Node, _ index: GeoIndex) -> ContiguousArray<LiveEvent> {
        var events: ContiguousArray<LiveEvent> = []
        let children = place.children
        if isCircle {
            var found: ContiguousArray<(place: NearPlace, child: Node)> = []
            forEachShown(children, index) { found.append((NearPlace(chordSquared: $2, key: $0), $1)) }
            found.sort { $0.place.order($1.place) < 0 }
            for (place, child) in found {
                events.append(LiveEvent(.added, place.key, child, distance: GeoPoint.metres(chordSquared: place.chordSquared)))
            }
        }
        held?.forEachShown { place, _ in
            let metres = GeoPoint.metres(chordSquared: place.chordSquared)
            events.append(LiveEvent(.added, place.key, children[place.key] ?? .null, distance: metres))
        }
        return events
    }

    /// Applies the change of one child to a circle that holds no children.
    /// - Parameters: the squared chords to the child's old and new position, infinite for none, and whether the filter selects it there.
    /// - Returns: the event; nil if the circle shows the child neither before nor after.
    @inline(__always)
    mutating func step(_ write: ChildWrite, from old: Double, _ was: Bool, to new: Double, _ now: Bool) -> LiveEvent? {
        let (was, now) = (was && old <= reach && old < .infinity, now && new <= reach && new < .infinity)
        if now {
            let metres = GeoPoint.metres(chordSquared: new)
            if was { return LiveEvent(.changed, write.key, write.new, distance: metres, hasMoved: old != new) }
            shown += 1
            return LiveEvent(.added, write.key, write.new, distance: metres)
        }
        guard was else { return nil }
        shown -= 1
        let metres = GeoPoint.metres(chordSquared: new < .infinity ? new : old)
        return LiveEvent(.removed, write.key, write.old, distance: metres, why: write.new.exists ? .left : .deleted)
    }

    /// The fast path for the usual commit, which changes one child, without lists.
    /// - Parameter event: set to the event of the shown change, if any.
    /// - Returns: false, with nothing changed, if the caller must use `apply`.
    mutating func applyAlone(_ seen: borrowing FilteredWrite, _ event: inout LiveEvent?) -> Bool {
        let key = seen.write.key
        let change = MatchWindow<NearPlace>.Change(
            key: key, old: seen.was ? nearPlace(key, seen.oldPoint) : nil, new: seen.now ? nearPlace(key, seen.newPoint) : nil)
        var step: MatchWindow<NearPlace>.Step?
        guard held?.applyAlone(change, &step) ?? false else { return false }
        guard let step else { return true }
        let chordSquared = step.kind == .left ? seen.newPoint?.chordSquared(centre) : step.place.chordSquared
        let metres = GeoPoint.metres(chordSquared: chordSquared ?? step.place.chordSquared)
        event = step.event(of: seen.write, previous: nil, distance: metres)
        return true
    }

    /// Applies a commit. O(changes · log n)
    /// - Parameters:
    ///   - writes: the changed children with the results of the filter, each once.
    ///   - place: the place after the commit.
    ///   - index: its points after the commit.
    ///   - visits: maximum number of cells and points visited to find the next ones; reduced by those visited.
    mutating func apply(
        _ writes: ContiguousArray<FilteredWrite>, over place: borrowing Node, _ index: GeoIndex, visits: inout Int,
        _ events: inout ContiguousArray<LiveEvent>
    ) {
        if isCircle {
            for seen in writes {
                let old = seen.oldPoint?.chordSquared(centre) ?? .infinity
                let new = seen.newPoint?.chordSquared(centre) ?? .infinity
                if let event = step(seen.write, from: old, seen.was, to: new, seen.now) { events.append(event) }
            }
            return
        }
        var changes: ContiguousArray<MatchWindow<NearPlace>.Change> = []
        for seen in writes {
            changes.append(
                MatchWindow.Change(
                    key: seen.write.key, old: seen.was ? nearPlace(seen.write.key, seen.oldPoint) : nil,
                    new: seen.now ? nearPlace(seen.write.key, seen.newPoint) : nil))
        }
        var steps: ContiguousArray<MatchWindow<NearPlace>.Step> = []
        refill(place, index, visits: &visits) { $0.apply(changes, &steps, refill: $1) }
        appendEvents(steps, writes, place, &events)
    }

    /// Changes the held children, and searches after the frontier if more are needed.
    /// - Parameter visits: maximum number of cells and points visited; reduced by those visited.
    private mutating func refill(
        _ place: borrowing Node, _ index: GeoIndex, visits: inout Int,
        _ body: (inout MatchWindow<NearPlace>, MatchWindow<NearPlace>.Refill) -> Void
    ) {
        guard var window = held else { return }
        held = nil
        let (centre, reach, filter, children, most, before) = (centre, reach, query.filter, place.children, visits, index.visits)
        var isComplete = true
        body(&window) { Self.next(index, children, filter, centre, reach, after: $0, wanted: $1, visits: most, &isComplete) }
        held = window
        visits = max(0, visits - (index.visits - before))
        needsBackgroundSearch = !isComplete && window.needsFill
    }

    /// Updates a window over `old`, computed off the queue, to `new`, another state of the same place.
    /// - Parameters:
    ///   - index: the points of the new state.
    ///   - most: as for `ChildMap.changes(since:atMost:)`.
    /// - Returns: false, with the window unchanged, if more than `most` differs.
    public mutating func follow(from old: Node, to new: Node, _ index: GeoIndex, atMost most: Int) -> Bool {
        if old.isIdentical(to: new) { return true }
        guard let writes = FilteredWrite.between(old, new, query.filter, index.fields, atMost: most) else { return false }
        var events: ContiguousArray<LiveEvent> = []
        var visits = settings.visits
        apply(writes, over: new, index, visits: &visits, &events)
        return true
    }

    /// Continues the search for matches, if fewer are shown than may exist.
    mutating func fill(over place: Node, _ index: GeoIndex, _ events: inout ContiguousArray<LiveEvent>) {
        var steps: ContiguousArray<MatchWindow<NearPlace>.Step> = []
        var visits = settings.visits
        refill(place, index, visits: &visits) { $0.fill(&steps, refill: $1) }
        appendEvents(steps, [], place, &events)
    }

    private func appendEvents(
        _ steps: ContiguousArray<MatchWindow<NearPlace>.Step>, _ writes: ContiguousArray<FilteredWrite>, _ place: borrowing Node,
        _ events: inout ContiguousArray<LiveEvent>
    ) {
        for step in steps {
            var chordSquared = step.place.chordSquared
            if step.kind == .left, step.change >= 0, let point = writes[step.change].newPoint {
                chordSquared = point.chordSquared(centre)
            }
            let metres = GeoPoint.metres(chordSquared: chordSquared)
            events.append(step.event(of: writes, previous: nil, distance: metres) { [place = copy place] in place.child($0) })
        }
    }

    /// The events between another window's result on the place and this one's. O(children shown by either)
    public func difference(from old: NearWindow, over place: Node, _ index: GeoIndex) -> ContiguousArray<LiveEvent> {
        let (centre, fields) = (centre, index.fields)
        func places(_ window: NearWindow) -> MatchWindow<NearPlace> {
            if let held = window.held { return held }
            var found: ContiguousArray<NearPlace> = []
            window.forEachShown(place.children, index) { key, _, chordSquared in
                found.append(NearPlace(chordSquared: chordSquared, key: key))
            }
            found.sort { $0.order($1) < 0 }
            return MatchWindow(limit: nil, keepsLast: false, settings, all: found)
        }
        // A child that has left is reported with its current distance.
        return places(self).difference(from: places(old), over: place, to: place, isOrdered: false) {
            fields.point(of: place.child($0.key))?.metres(to: centre)
        }
    }

    @inline(__always)
    private func nearPlace(_ key: Key, _ point: GeoPoint?) -> NearPlace? {
        guard let chordSquared = point?.chordSquared(centre), chordSquared <= reach else { return nil }
        return NearPlace(chordSquared: chordSquared, key: key)
    }
}

extension GeoIndex {
    /// True if a filter selects a child.
    @inline(__always)
    fileprivate func admits(_ key: Key, _ filter: Filter, _ children: ChildMap) -> Bool {
        if filter.isEmpty { return true }
        asked += 1
        return filter.admits(children[key] ?? .null)
    }
}

/// The result of a search for a window's children.
public enum WindowSearch<Window: Sendable>: Sendable {
    case found(Window)
    /// More matches than may be held or shown.
    case tooManyMatches
    /// The search reached its maximum number of visits.
    case tooManyVisits
}
