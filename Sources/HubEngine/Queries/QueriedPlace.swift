import JSONTree
import LiveQueries

/// The live queries of one place (`PlaceQueries`), with their observers.
///
/// Confined to the database queue, but for `queries` while these are lent to a background thread.
final class QueriedPlace {
    let path: Path
    /// While they are lent, only their new owner uses them.
    let queries: PlaceQueries
    /// By what they show, and by the view of the queries that each is of.
    private var named: [Name: View] = [:]
    private var byQuery: [ObjectIdentifier: View] = [:]
    /// Set while the queries follow a large change beside the queue: the content that observers were told of last.
    var told: Node?
    /// Whether commits were taken back meanwhile.
    var isUndone = false
    /// Of views that show too few, what their observers will be told when the others have been found.
    private var deferred: [ObjectIdentifier: [ContiguousArray<LiveEvent>]] = [:]
    /// Whether a look for more is under way, and how many searches for more are, off the queue.
    var isFilling = false
    var searches = 0
    /// Whether the points of the children are being collected.
    var isCollecting = false
    /// Views that look for more when their order is there again.
    var unordered: ContiguousArray<LiveQueryView> = []
    /// Requests that wait until something of that is done: each looks again.
    var waiting: [() -> Void] = []
    /// When it was last used, steady ms.
    var usedAt: Int64 = 0
    /// Children that its queries hold, and that have a point, as they were counted last; and those held when each view was looked at last.
    var held = 0
    var points = 0
    var heldWhenLookedAt = 0
    /// Children that its views held, all together, when each was counted last.
    private(set) var counted = 0
    /// Views that may have no observer any more, or not yet.
    var emptied: [View] = []
    /// Views of which observers are still to be told all.
    var owing: [View] = []
    /// Views whose observers are about to end.
    var ending: Set<ObjectIdentifier> = []

    private struct Name: Hashable {
        let query: LiveQuery
        let showing: LiveQueryView.Showing
    }

    init(_ path: Path, _ settings: WindowSettings) {
        self.path = path
        queries = PlaceQueries(settings)
    }

    /// Whether the queries follow a large change beside the queue.
    var isLent: Bool { told != nil }
    /// Whether something of it is under way, or waited for.
    var isBusy: Bool { isLent || isFilling || searches > 0 || isCollecting || !waiting.isEmpty }
    var count: Int { named.count }
    var views: [View] { Array(named.values) }
    /// Whether observers will be told something that they have not been told yet.
    var owes: Bool { isLent || !deferred.isEmpty }

    func view(of query: LiveQuery, _ showing: LiveQueryView.Showing) -> View? { named[Name(query: query, showing: showing)] }
    func view(of view: LiveQueryView) -> View? { byQuery[ObjectIdentifier(view)] }

    /// How many views take their next children from an order.
    func views(needing ordering: TreeQuery.Index) -> Int {
        named.values.count { ($0.shown as? LiveQueryShown)?.view.refillOrder == ordering }
    }

    /// Takes in a view of the queries.
    func add(_ view: LiveQueryView, lanes: Int) -> View {
        if let known = self.view(of: view) { return known }
        let shown = LiveQueryShown(view, self)
        counted += shown.held
        let made = View(path: path, query: .live(view.query), shown: shown, lanes: lanes)
        named[Name(query: view.query, showing: view.showing)] = made
        byQuery[ObjectIdentifier(view)] = made
        // Until an observer takes it.
        emptied.append(made)
        return made
    }

    /// Forgets a view without observers. Not while the queries are lent.
    func remove(_ view: LiveQueryView) {
        named[Name(query: view.query, showing: view.showing)] = nil
        if let known = byQuery.removeValue(forKey: ObjectIdentifier(view))?.shown as? LiveQueryShown { counted -= known.held }
        deferred[ObjectIdentifier(view)] = nil
        queries.remove(view)
    }

    /// Counts the children that each view holds. Not while the queries are lent. O(views)
    /// - Returns: the views that hold more or fewer than before.
    func recount() -> [View] {
        counted = queries.held
        return named.values.filter { ($0.shown as? LiveQueryShown)?.recount() ?? false }
    }

    /// Of those that wait for an order, all that are still there.
    func takeUnordered() -> ContiguousArray<LiveQueryView> {
        defer { unordered = [] }
        return unordered.filter { byQuery[ObjectIdentifier($0)] != nil }
    }

    /// What observers of a view are told now: nothing yet while it shows too few.
    /// - Parameters:
    ///   - change: nil for what was deferred before.
    ///   - content: as it is after the change.
    func release(_ change: LiveQueryView.Change?, of view: LiveQueryView, _ content: Node) -> LiveChange? {
        if view.isShort {
            if let events = change?.events { deferred[ObjectIdentifier(view), default: []].append(events) }
            return nil
        }
        let earlier = deferred.isEmpty ? [] : deferred.removeValue(forKey: ObjectIdentifier(view)) ?? []
        if change == nil, earlier.allSatisfy(\.isEmpty) { return nil }
        return told(change, earlier, of: view, content)
    }

    /// Commits of which the observers of a view are still to be told.
    func deferredCount(of view: LiveQueryView) -> Int { deferred.isEmpty ? 0 : deferred[ObjectIdentifier(view)]?.count ?? 0 }

    /// All that a view shows.
    func all(of view: LiveQueryView, _ content: Node) -> LiveChange { told(nil, [], of: view, content) }

    /// What a view shows other than another one.
    func told(_ change: LiveQueryView.Change, of view: LiveQueryView, _ content: Node) -> LiveChange { told(change, [], of: view, content) }

    private func told(
        _ change: LiveQueryView.Change?, _ earlier: [ContiguousArray<LiveEvent>], of view: LiveQueryView, _ content: Node
    ) -> LiveChange {
        LiveChange(change: change, earlier: earlier, query: view.query, count: view.count) { [self] in queries.shown(view, over: content) }
    }
}

/// What a live query shows. `QueryKeeper` moves it along with the others of its place: here only all of it is asked for.
final class LiveQueryShown: LiveView {
    let view: LiveQueryView
    private unowned let place: QueriedPlace
    /// Children that it held when they were counted last; those of the view itself must not be read while the queries are lent.
    private(set) var held: Int
    init(_ view: LiveQueryView, _ place: QueriedPlace) {
        self.view = view
        self.place = place
        held = view.held
    }

    /// Counts the children that it holds. Not while the queries are lent.
    /// - Returns: whether it holds more or fewer than before.
    func recount() -> Bool {
        defer { held = view.held }
        return held != view.held
    }

    var showsWrites: Bool { false }
    var counts = false

    func apply(_ commit: PlaceChange, at place: ObservedPlace) -> Difference? { nil }
    func concerned(by writes: WrittenBelow) -> Range<Int> { writes.range.lowerBound..<writes.range.lowerBound }
    func move(along writes: WrittenBelow, at place: ObservedPlace) -> Difference? { nil }
    func reset(over node: Node, at place: ObservedPlace) {}

    func all(of node: Node, at place: ObservedPlace) -> Difference? {
        if self.place.isLent || view.isShort {
            if let view = self.place.view(of: view) { self.place.owing.append(view) }
            return nil
        }
        return .live(self.place.all(of: view, node))
    }

    /// The keys of what it shows. O(shown · log n)
    func keys(of node: Node) -> ContiguousArray<Key> { place.queries.shown(view, over: node) }
}

/// What became of a live query.
struct LiveChange {
    /// Nil where nothing is said but what it shows now.
    let change: LiveQueryView.Change?
    /// The events of commits before, which were not told as it showed too few then.
    let earlier: [ContiguousArray<LiveEvent>]
    let query: LiveQuery
    /// How many children it shows now.
    let count: Int
    /// All of them, in the query's order if it has one; to be asked at once, or never. O(shown · log n)
    let keys: () -> ContiguousArray<Key>

    /// Whether nothing is said of what has changed.
    var isWhole: Bool { change == nil && earlier.isEmpty }
    /// Whether the number of children may differ from before.
    var hasOtherCount: Bool {
        if isWhole || !earlier.isEmpty { return true }
        if case .count? = change { return true }
        return change?.events.contains { $0.kind == .added || $0.kind == .removed } ?? false
    }
    /// The events of one commit after the other.
    var commits: [ContiguousArray<LiveEvent>] { earlier + (change.map { [$0.events] } ?? []) }
}
