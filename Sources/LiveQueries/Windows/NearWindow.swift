public import JSONTree

/// The children within a circle, or the nearest of them, that a filter selects: followed as children, or the centre, move.
///
/// Three kinds, by what has to be held:
///
/// | query | holds |
/// |---|---|
/// | a radius, by distance | nothing but the count: where a child is and was decides |
/// | the nearest so many | those, and a reserve behind them (`MatchWindow`) |
/// | a radius, ordered by a field | all of the circle, in that order |
///
/// By distance, events name no `previous`: the distances say the order.
public struct NearWindow: Sendable {
    public private(set) var query: LiveQuery
    private var centre: GeoPoint
    private let reach: Double
    private let settings: WindowSettings
    /// Children of a circle by distance without a limit.
    private var shown = 0
    /// One of the two, or none for such a circle.
    private var byDistance: MatchWindow<NearPlace>?
    private var byField: MatchWindow<OrderedChild>?
    private let lower: OrderBound?
    private let upper: OrderBound?

    /// - Parameter index: the points of the place's children.
    public init?(_ query: LiveQuery, over place: Node, _ index: GeoIndex, _ settings: WindowSettings = WindowSettings()) {
        guard let near = query.near else { return nil }
        self.query = query
        self.settings = settings
        centre = near.centre
        reach = near.reach
        (lower, upper) = query.isByDistance ? (nil, nil) : (query.tree.lowerBound, query.tree.upperBound)
        search(place, index)
    }

    /// Finds what is held anew.
    private mutating func search(_ place: Node, _ index: GeoIndex) {
        let children = place.children
        if isCircle {
            shown = 0
            forEachShown(children, index) { _, _, _ in shown += 1 }
            return
        }
        if query.isByDistance {
            let (centre, reach, filter, settings) = (centre, reach, query.filter, settings)
            byDistance = MatchWindow(limit: query.tree.limit, keepsLast: false, settings) {
                Self.next(index, children, filter, centre, reach, after: $0, wanted: $1, visits: settings.firstVisits)
            }
            return
        }
        var found: ContiguousArray<OrderedChild> = []
        _ = index.visit(0, centre, reach) { entry, _ in
            let child = children[entry.key] ?? .null
            if query.filter.admits(child), let place = fieldPlace(entry.key, child) { found.append(place) }
            return true
        }
        found.sort { query.keepsLast ? $1.order($0) < 0 : $0.order($1) < 0 }
        var unbounded = settings
        unbounded.complete = .max
        byField = MatchWindow(limit: query.tree.limit, keepsLast: query.keepsLast, unbounded) { _, _ in (found, nil) }
    }

    /// Whether it is a circle of which nothing is held.
    var isCircle: Bool { query.isByDistance && query.tree.limit == nil }

    /// Calls `body` with what such a circle shows.
    private func forEachShown(_ children: ChildMap, _ index: GeoIndex, _ body: (Key, Node, _ chordSquared: Double) -> Void) {
        let filter = query.filter
        _ = index.visit(0, centre, reach) { entry, chordSquared in
            let child = children[entry.key] ?? .null
            if filter.isEmpty || filter.admits(child) { body(entry.key, child, chordSquared) }
            return true
        }
    }

    private func fieldPlace(_ key: Key, _ child: Node) -> OrderedChild? {
        let place = query.tree.orderedBy.place(key, child)
        return (lower?.admitsAsStart(place) ?? true) && (upper?.admitsAsEnd(place) ?? true) ? place : nil
    }

    private static func next(
        _ index: GeoIndex, _ children: ChildMap, _ filter: Filter, _ centre: GeoPoint, _ reach: Double, after: NearPlace?, wanted: Int,
        visits: Int
    ) -> (found: ContiguousArray<NearPlace>, frontier: NearPlace?) {
        var found: ContiguousArray<NearPlace> = []
        var left = visits
        var frontier: NearPlace?
        if wanted == 0 { return (found, after) }
        index.nearest(to: centre, within: reach, after: after) { place in
            if filter.isEmpty || filter.admits(children[place.key] ?? .null) { found.append(place) }
            left -= 1
            if found.count < wanted, left > 0 { return true }
            frontier = place
            return false
        }
        return (found, frontier)
    }

    /// Children that are shown.
    public var count: Int { byDistance?.shownCount ?? byField?.shownCount ?? shown }
    /// Whether fewer are shown than there may be, as it took too long to find the next ones.
    public var isShort: Bool { byDistance?.isShort ?? false }
    var needsFill: Bool { byDistance?.needsFill ?? false }
    /// Children that are held, shown or not.
    public var heldCount: Int { byDistance?.held.count ?? byField?.held.count ?? 0 }

    /// The square of the chord up to which changes concern the window.
    var concern: Double { byDistance?.frontier?.chordSquared ?? reach }
    var place: GeoPoint { centre }

    /// Calls `body` with the keys of those that are shown: in the order of the query, of a circle of which nothing is held in none.
    func forEachShown(_ children: ChildMap, _ index: GeoIndex, _ body: (Key) -> Void) {
        if isCircle { forEachShown(children, index) { key, _, _ in body(key) } }
        byDistance?.forEachShown { place, _ in body(place.key) }
        byField?.forEachShown { place, _ in body(place.key) }
    }

    /// What is shown, as events for one who knows nothing yet.
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
        byDistance?.forEachShown { place, _ in
            let metres = GeoPoint.metres(chordSquared: place.chordSquared)
            events.append(LiveEvent(.added, place.key, children[place.key] ?? .null, distance: metres))
        }
        byField?.forEachShown { place, previous in
            let child = children[place.key] ?? .null
            let metres = index.fields.point(of: child)?.metres(to: centre)
            events.append(LiveEvent(.added, place.key, child, previous: previous, distance: metres))
        }
        return events
    }

    /// The commit of one child, of a circle of which nothing is held.
    /// - Parameters: the squares of the chords to where the child was and is; infinite for nowhere. Whether the filter selects it then.
    /// - Returns: the event; nil where the circle shows it neither before nor after.
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

    /// The usual commit, of one child, without lists.
    /// - Parameter event: what differs of what is shown, if anything does.
    /// - Returns: false, with nothing changed, where `apply` has to be asked.
    mutating func applyAlone(_ seen: borrowing SeenWrite, _ event: inout LiveEvent?) -> Bool {
        guard query.isByDistance else { return false }
        let key = seen.write.key
        let change = MatchWindow<NearPlace>.Change(
            key: key, old: seen.was ? nearPlace(key, seen.oldPoint) : nil, new: seen.now ? nearPlace(key, seen.newPoint) : nil)
        var step: MatchWindow<NearPlace>.Step?
        guard byDistance?.applyAlone(change, &step) ?? false else { return false }
        guard let step else { return true }
        let chordSquared = step.kind == .left ? seen.newPoint?.chordSquared(centre) : step.place.chordSquared
        let metres = GeoPoint.metres(chordSquared: chordSquared ?? step.place.chordSquared)
        event = step.event(of: seen.write, previous: nil, distance: metres)
        return true
    }

    /// Moves along with a commit. O(changes · log n)
    /// - Parameters:
    ///   - writes: what the filter sees of the changed children, each once.
    ///   - place: the place after the commit.
    ///   - index: its points after the commit.
    mutating func apply(
        _ writes: ContiguousArray<SeenWrite>, over place: borrowing Node, _ index: GeoIndex, _ events: inout ContiguousArray<LiveEvent>
    ) {
        if isCircle {
            for seen in writes {
                let old = seen.oldPoint?.chordSquared(centre) ?? .infinity
                let new = seen.newPoint?.chordSquared(centre) ?? .infinity
                if let event = step(seen.write, from: old, seen.was, to: new, seen.now) { events.append(event) }
            }
            return
        }
        if query.isByDistance {
            var changes: ContiguousArray<MatchWindow<NearPlace>.Change> = []
            for seen in writes {
                changes.append(
                    MatchWindow.Change(
                        key: seen.write.key, old: seen.was ? nearPlace(seen.write.key, seen.oldPoint) : nil,
                        new: seen.now ? nearPlace(seen.write.key, seen.newPoint) : nil))
            }
            var steps: ContiguousArray<MatchWindow<NearPlace>.Step> = []
            let (centre, reach, filter, visits, node) = (centre, reach, query.filter, settings.visits, copy place)
            byDistance?.apply(changes, &steps) {
                Self.next(index, node.children, filter, centre, reach, after: $0, wanted: $1, visits: visits)
            }
            tell(steps, writes, node, &events)
            return
        }
        var changes: ContiguousArray<MatchWindow<OrderedChild>.Change> = []
        for seen in writes {
            let (was, now) = (seen.was && contains(seen.oldPoint), seen.now && contains(seen.newPoint))
            changes.append(
                MatchWindow.Change(
                    key: seen.write.key, old: was ? fieldPlace(seen.write.key, seen.write.old) : nil,
                    new: now ? fieldPlace(seen.write.key, seen.write.new) : nil))
        }
        var steps: ContiguousArray<MatchWindow<OrderedChild>.Step> = []
        byField?.apply(changes, &steps) { after, _ in ([], after) }
        let children = place.children
        for step in steps {
            let previous = step.kind == .left ? nil : byField?.previous(of: step.place)
            let point: GeoPoint?
            if step.change >= 0 {
                point = writes[step.change].newPoint ?? writes[step.change].oldPoint
            } else {
                point = index.fields.point(of: children[step.key] ?? .null)
            }
            events.append(step.event(of: writes, previous: previous, distance: point?.metres(to: centre)) { children[$0] ?? .null })
        }
    }

    /// Brings a window over `old` up to `new`, another state of the same place: for one that was made beside the queue.
    /// - Parameters:
    ///   - index: the points of the new state.
    ///   - most: as with `ChildMap.changes(since:atMost:)`.
    /// - Returns: false, with the window unchanged, when that is not enough.
    public mutating func follow(from old: Node, to new: Node, _ index: GeoIndex, atMost most: Int) -> Bool {
        if old.isIdentical(to: new) { return true }
        guard let writes = SeenWrite.between(old, new, query.filter, index.fields, atMost: most) else { return false }
        var events: ContiguousArray<LiveEvent> = []
        apply(writes, over: new, index, &events)
        return true
    }

    /// Goes on to look for matches, where fewer are shown than there may be.
    mutating func fill(over place: Node, _ index: GeoIndex, _ events: inout ContiguousArray<LiveEvent>) {
        var steps: ContiguousArray<MatchWindow<NearPlace>.Step> = []
        let (centre, reach, filter, visits) = (centre, reach, query.filter, settings.visits)
        byDistance?.fill(&steps) { Self.next(index, place.children, filter, centre, reach, after: $0, wanted: $1, visits: visits) }
        tell(steps, [], place, &events)
    }

    private func tell(
        _ steps: ContiguousArray<MatchWindow<NearPlace>.Step>, _ writes: ContiguousArray<SeenWrite>, _ place: borrowing Node,
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

    /// Moves the centre: what has left, what came in, and for those that stay their new distance. O(what is held)
    mutating func move(to centre: GeoPoint, over place: Node, _ index: GeoIndex) -> ContiguousArray<LiveEvent> {
        let old = self
        self.centre = centre
        query = query.moved(to: centre)
        search(place, index)
        return difference(from: old, over: place, index)
    }

    /// The events that lead from what another window of the place showed to what this one shows. O(what both show)
    public func difference(from old: NearWindow, over place: Node, _ index: GeoIndex) -> ContiguousArray<LiveEvent> {
        let (centre, fields) = (centre, index.fields)
        // What has left is told with the distance at which it is now.
        func metres(_ key: Key) -> Double? { fields.point(of: place.child(key))?.metres(to: centre) }
        if isCircle {
            func places(_ window: NearWindow) -> MatchWindow<NearPlace> {
                var found: ContiguousArray<NearPlace> = []
                window.forEachShown(place.children, index) { key, _, chordSquared in
                    found.append(NearPlace(chordSquared: chordSquared, key: key))
                }
                found.sort { $0.order($1) < 0 }
                return MatchWindow(limit: nil, keepsLast: false, settings) { _, _ in (found, nil) }
            }
            return places(self).difference(from: places(old), over: place, to: place, isOrdered: false) { metres($0.key) }
        }
        if let now = byDistance, let was = old.byDistance {
            return now.difference(from: was, over: place, to: place, isOrdered: false) { metres($0.key) }
        }
        if let now = byField, let was = old.byField {
            return now.difference(from: was, over: place, to: place, isOrdered: true) { metres($0.key) }
        }
        return []
    }

    @inline(__always)
    private func nearPlace(_ key: Key, _ point: GeoPoint?) -> NearPlace? {
        guard let chordSquared = point?.chordSquared(centre), chordSquared <= reach else { return nil }
        return NearPlace(chordSquared: chordSquared, key: key)
    }

    @inline(__always)
    private func contains(_ point: GeoPoint?) -> Bool { (point?.chordSquared(centre)).map { $0 <= reach } ?? false }
}
