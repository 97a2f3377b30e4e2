import JSONTree

/// The children that match a query, and which of them its limit shows. Updated as children change.
///
/// ```
///   in order   ▇ ▇ ▇ ▇ ▇ │ ▒ ▒ ▒ ▒ ▒ ▒ │ · · ? · ? ·
///              shown    edge  reserve frontier   not held: found again by an index
/// ```
/// All matches up to the frontier are held, so a child that leaves is replaced from the reserve. When the reserve runs low, a limited number of
/// children after the frontier is scanned for the next matches. Without a frontier, all matches are held. The order is reversed for a limit that
/// keeps the last children, so the shown ones are always the first of those held.
struct MatchWindow: Sendable {
    /// One child that a commit changed, at its positions in the window's order. Nil where it does not match.
    struct Change {
        let key: Key
        let old: ChildPlace?
        let new: ChildPlace?
    }

    /// The change of one child that is or was shown.
    struct Step {
        enum Kind { case entered, left, stayed }

        let kind: Kind
        let key: Key
        /// Its current position; its old one if it has left.
        let place: ChildPlace
        let hasMoved: Bool
        /// The index of its change; -1 for a child that was not changed itself.
        let change: Int
    }

    /// Finds the next matches after a position. `frontier` is the last position scanned; nil if the scan reached the end.
    typealias Refill = (_ after: ChildPlace?, _ wanted: Int) -> (found: ContiguousArray<ChildPlace>, frontier: ChildPlace?)

    private(set) var held: SortedChunks
    let limit: Int?
    private let settings: WindowSettings
    /// All matches up to this position are held; nil if all matches are held.
    private(set) var frontier: ChildPlace?
    /// The last position shown; nil if all held children are shown.
    private var edge: ChildPlace?

    /// - Parameters:
    ///   - first: finds the first matches.
    init(limit: Int?, keepsLast: Bool, _ settings: WindowSettings, first: Refill) {
        self.limit = limit
        self.settings = settings
        let found = first(nil, limit.map { $0 + settings.reserve } ?? .max)
        held = SortedChunks(found.found, isDescending: keepsLast)
        frontier = found.frontier
        if let limit, held.count >= limit { edge = held[held.position(at: limit - 1)] }
    }

    /// - Parameters:
    ///   - found: all matches, in the window's order.
    ///   - canRefill: true if matches far after the limit can be found again. Otherwise they are held as well.
    init(limit: Int?, keepsLast: Bool, _ settings: WindowSettings, all found: ContiguousArray<ChildPlace>, canRefill: Bool = true) {
        var settings = settings
        if !canRefill { settings.complete = .max }
        let kept = (limit ?? 0) + settings.reserve
        let isCut = limit != nil && canRefill && found.count > max(kept + settings.reserve, settings.complete)
        self.init(limit: limit, keepsLast: keepsLast, settings) { _, _ in
            isCut ? (ContiguousArray(found.prefix(kept)), found[kept - 1]) : (found, nil)
        }
    }

    var shownCount: Int { min(held.count, limit ?? .max) }
    /// True if fewer children are shown than may exist: the scan after the frontier reached its limit for one commit.
    var isShort: Bool { frontier != nil && held.count < (limit ?? 0) }
    /// True if the next matches should be looked up before the window becomes short.
    var needsFill: Bool { frontier != nil && held.count < (limit ?? 0) + settings.reserve / 4 }

    /// Calls `body` with the shown children in the query's order, and with the key of each preceding sibling.
    func forEachShown(_ body: (ChildPlace, _ previous: Key?) -> Void) {
        if !held.isDescending {
            var (left, previous) = (shownCount, Key?.none)
            held.forEach { place in
                if left == 0 { return false }
                left -= 1
                body(place, previous)
                previous = place.key
                return true
            }
            return
        }
        var shown: ContiguousArray<ChildPlace> = []
        held.forEach { place in
            if shown.count == shownCount { return false }
            shown.append(place)
            return true
        }
        for i in shown.indices.reversed() { body(shown[i], i + 1 < shown.count ? shown[i + 1].key : nil) }
    }

    /// The key of the preceding shown sibling in the query's order; nil for the first child. O(log n)
    func previous(of place: ChildPlace) -> Key? {
        let at = held.position(of: place)
        if !held.isDescending { return held.before(at).map { held[$0].key } }
        guard at != held.end else { return nil }
        let next = held.after(at)
        guard next != held.end else { return nil }
        let other = held[next]
        if let edge, held.order(other, edge) > 0 { return nil }
        return other.key
    }

    /// Applies changes of children, at most one per child. O(changes · log n), plus what `refill` scans.
    /// - Parameter steps: receives the differences of the shown children: those that left, then the others in the query's order.
    mutating func apply(_ changes: ContiguousArray<Change>, _ steps: inout ContiguousArray<Step>, refill: Refill) {
        var step: Step?
        if changes.count == 1, applyAlone(changes[0], &step) {
            if let step { steps.append(step) }
            return
        }
        let oldEdge = edge
        let oldBound = edge ?? frontier
        let oldFrontier = frontier
        // How many held children lie up to the old edge.
        var upToEdge = limit ?? 0
        for change in changes {
            let old = change.old.flatMap { isWithin($0, oldFrontier) ? $0 : nil }
            let new = change.new.flatMap { isWithin($0, oldFrontier) ? $0 : nil }
            if let old, let oldEdge, isWithin(old, oldEdge) { upToEdge -= 1 }
            if let new, let oldEdge, isWithin(new, oldEdge) { upToEdge += 1 }
            if let old, let new, held.replace(old, with: new) { continue }
            if let old { held.remove(old) }
            if let new { held.insert(new) }
        }
        fill(refill)
        edge = newEdge(oldEdge, upToEdge)
        collect(changes, oldBound, &steps)
        trim()
    }

    /// Continues the scan after the frontier, for a window that is short.
    mutating func fill(_ steps: inout ContiguousArray<Step>, refill: Refill) {
        let oldBound = edge ?? frontier
        let oldEdge = edge
        fill(refill)
        edge = newEdge(oldEdge, limit ?? 0)
        collect([], oldBound, &steps)
    }

    /// The fast path for the usual change of one child, without lists. Handles any change of a window without a limit. With a limit, handles a shown
    /// child that stays between its neighbours, or a child beyond the frontier before and after.
    /// - Parameter step: set to the difference, if any.
    /// - Returns: false, with nothing changed, for any other change.
    mutating func applyAlone(_ change: Change, _ step: inout Step?) -> Bool {
        let old = change.old.flatMap { isWithin($0, frontier) ? $0 : nil }
        let new = change.new.flatMap { isWithin($0, frontier) ? $0 : nil }
        guard let old, let new else {
            if limit != nil { return old == nil && new == nil }
            if let old {
                held.remove(old)
                step = Step(kind: .left, key: change.key, place: old, hasMoved: false, change: 0)
            } else if let new {
                held.insert(new)
                step = Step(kind: .entered, key: change.key, place: new, hasMoved: false, change: 0)
            }
            return true
        }
        let hasMoved = held.order(old, new) != 0
        if hasMoved, limit == nil {
            if !held.replace(old, with: new) {
                held.remove(old)
                held.insert(new)
            }
        } else if limit != nil {
            guard isWithin(old, edge), isWithin(new, edge) else { return false }
            if hasMoved, !held.replace(old, with: new) { return false }
            // The edge itself is one of the shown children.
            if hasMoved, let edge, held.order(old, edge) == 0 { self.edge = new }
        }
        step = Step(kind: .stayed, key: change.key, place: new, hasMoved: hasMoved, change: 0)
        return true
    }

    /// True if a position is not after a bound; nil is after all positions.
    @inline(__always)
    private func isWithin(_ place: ChildPlace, _ bound: ChildPlace?) -> Bool { bound.map { held.order(place, $0) <= 0 } ?? true }

    /// Looks up the next matches if the reserve is low.
    private mutating func fill(_ refill: Refill) {
        guard let limit, let frontier, held.count < limit + settings.reserve / 4 else { return }
        let next = refill(frontier, limit + settings.reserve - held.count)
        held.append(next.found)
        self.frontier = next.frontier
    }

    /// - Parameter upToEdge: number of held children up to the old edge.
    private func newEdge(_ oldEdge: ChildPlace?, _ upToEdge: Int) -> ChildPlace? {
        guard let limit, held.count >= limit else { return nil }
        guard let oldEdge else { return held[held.position(at: limit - 1)] }
        var at = held.position(behind: oldEdge)
        if upToEdge >= limit {
            for _ in 0...(upToEdge - limit) { at = held.before(at) ?? at }
        } else {
            for _ in 0..<(limit - 1 - upToEdge) { at = held.after(at) }
        }
        return held[at]
    }

    /// - Parameter oldBound: all matches up to here were shown before; nil if all were.
    private func collect(_ changes: ContiguousArray<Change>, _ oldBound: ChildPlace?, _ steps: inout ContiguousArray<Step>) {
        // With many changes, build a set once instead of scanning them for each child that crosses the edge.
        let many = changes.count > 8 ? Set(changes.map(\.key)) : nil
        func isChanged(_ key: Key) -> Bool { many?.contains(key) ?? changes.contains { $0.key == key } }
        var ahead: ContiguousArray<Step> = []
        for i in changes.indices {
            let change = changes[i]
            let was = change.old.flatMap { isWithin($0, oldBound) ? $0 : nil }
            let now = change.new.flatMap { isWithin($0, edge) && isWithin($0, frontier) ? $0 : nil }
            switch (was, now) {
            case (let was?, nil): steps.append(Step(kind: .left, key: change.key, place: was, hasMoved: false, change: i))
            case (nil, let now?): ahead.append(Step(kind: .entered, key: change.key, place: now, hasMoved: false, change: i))
            case (let was?, let now?):
                ahead.append(Step(kind: .stayed, key: change.key, place: now, hasMoved: held.order(was, now) != 0, change: i))
            case (nil, nil): break
            }
        }
        if let edge {
            var at = held.position(behind: edge)
            while at != held.end, isWithin(held[at], oldBound) {
                let place = held[at]
                if !isChanged(place.key) { steps.append(Step(kind: .left, key: place.key, place: place, hasMoved: false, change: -1)) }
                at = held.after(at)
            }
        }
        if let oldBound {
            var at = held.position(behind: oldBound)
            while at != held.end, isWithin(held[at], edge) {
                let place = held[at]
                if !isChanged(place.key) { ahead.append(Step(kind: .entered, key: place.key, place: place, hasMoved: false, change: -1)) }
                at = held.after(at)
            }
        }
        if ahead.count > 1 { ahead.sort { $0.place.order($1.place) < 0 } }
        steps.append(contentsOf: ahead)
    }

    /// Drops held children far after the edge.
    private mutating func trim() {
        guard let limit else { return }
        let most = limit + 2 * settings.reserve
        guard held.count > (frontier == nil ? max(most, settings.complete) : most) else { return }
        held.removeAll(from: limit + settings.reserve)
        frontier = held.last
    }
}

extension MatchWindow {
    /// The events between another window's result and this one's, over the same children. O(shown · log n)
    /// - Parameter isOrdered: true if events name the preceding sibling.
    func difference(
        from old: MatchWindow, over children: ChildMap, isOrdered: Bool, distance: (ChildPlace) -> Double?
    ) -> ContiguousArray<LiveEvent> {
        var events: ContiguousArray<LiveEvent> = []
        var was: [Key: ChildPlace] = [:]
        old.forEachShown { place, _ in was[place.key] = place }
        var now: Set<Key> = []
        forEachShown { place, _ in now.insert(place.key) }
        old.forEachShown { place, _ in
            if now.contains(place.key) { return }
            events.append(LiveEvent(.removed, place.key, children[place.key] ?? .null, distance: distance(place), why: .left))
        }
        forEachShown { place, previous in
            let earlier = was[place.key]
            let hasMoved = earlier.map { $0.order(place) != 0 } ?? false
            let metres = distance(place)
            if earlier != nil, !hasMoved, metres == nil { return }
            events.append(
                LiveEvent(
                    earlier == nil ? .added : .moved, place.key, children[place.key] ?? .null, previous: isOrdered ? previous : nil,
                    distance: metres, hasMoved: hasMoved))
        }
        return events
    }
}

/// How many matches a window with a limit holds in addition to the shown ones, and how far it searches for them.
public struct WindowSettings: Sendable {
    /// Matches held after the shown ones. Below a quarter of this, the next ones are looked up. Default 64.
    package var reserve = 64
    /// Up to this many matches, all are held, so none is ever looked up. Default 1,000, about 50 KB.
    package var complete = 1_000
    /// Maximum number of children visited for one view and commit to find the next matches. The search then continues with the next commit, or with
    /// `QuerySet.fill`. Default 2,000: some ms.
    package var visits = 2_000
    /// The same for all views of a place together, in one commit. Default 10,000.
    package var visitsOfCommit = 10_000
    /// Maximum number of cells and points visited on the database queue for the first children of a circle, about 50 ns each. With conditions, a
    /// quarter of it. Larger searches run off the queue. Default 2,000.
    package var firstVisits = 2_000

    public init() {}
}
