import JSONTree
import LiveQueries

/// Refills views that show too few children, a few views per turn. Their observers are notified once a view shows all it should.
///
/// ```
/// fillLater ─► a turn: some views are refilled ─► notified ─┬─► all shown: waiting requests resume
///     ▲            └─ their order is missing: they wait for it (`resume`)
///     └──────────────────────────────── more views ───────────┘
/// ```
/// A view of the nearest children is searched from scratch off the queue, if its next children are far away in the index.
///
/// Confined to the database queue.
final class WindowRefill: @unchecked Sendable {
    // Sendable: closures that capture it only return to the queue.
    private let context: EngineContext
    private let content: Content
    private let places: QuerySetStore
    private let notifier: QueryNotifier

    /// Views refilled in one turn.
    static let filledAtOnce = 4

    init(_ context: EngineContext, _ content: Content, _ places: QuerySetStore, _ notifier: QueryNotifier) {
        self.context = context
        self.content = content
        self.places = places
        self.notifier = notifier
    }

    func fillLater(_ place: ObservedQuerySet) {
        if place.isFilling || place.isInBackground || !place.queries.hasUnfilled { return }
        place.isFilling = true
        context.queue.async { [self, place = Transferred(place)] in fill(place.value) }
    }

    private func fill(_ place: ObservedQuerySet) {
        context.queue.assertCurrent()
        place.isFilling = false
        guard places.contains(place), !place.isInBackground else { return }
        let node = content.root.node(at: place.path)
        let orders = places.orders(place, over: node)
        for query in place.queries.takeUnfilled(atMost: Self.filledAtOnce) {
            if let ordering = query.refillOrder, orders(ordering) == nil {
                place.unordered.append(query)
                continue
            }
            let wasShort = query.isShort
            let change = query.needsBackgroundSearch ? nil : places.metered(place) { place.queries.fill(query, over: node, in: orders) }
            if query.needsBackgroundSearch {
                search(query, at: place, over: node)
                if change == nil { continue }
            }
            if wasShort { notifier.recordLateNotification(at: place) }
            notifier.notify(query, change, at: place, of: node) { notifier.onChanged($0, $1, node, content.sequence) }
        }
        places.updateTotals(place)
        fillLater(place)
        notifier.notifyComplete(place)
        places.resumeWaiting(place)
        places.finishWork()
    }

    // MARK: Off the queue

    /// Searches for everything that a view shows, off the queue, on the current points.
    private func search(_ query: LiveQueryView, at place: ObservedQuerySet, over node: Node) {
        guard let points = place.queries.index?.snapshot() else { return }
        place.searches += 1
        place.queries.beginSearch(query)
        context.meter.counters.liveQueriesFound += 1
        let limits = context.limits
        let (place, query, asked) = (Transferred(place), Transferred(query), query.query)
        context.compute {
            Window.searched(asked, over: node, from: .points(points), visits: limits.liveQuerySteps, limits.windows)
        } then: { [self] found in
            searched(query.value, found, at: place.value, over: node)
        }
    }

    private func searched(_ query: LiveQueryView, _ found: WindowSearch<Window>, at place: ObservedQuerySet, over node: Node) {
        context.queue.assertCurrent()
        place.searches -= 1
        guard places.contains(place), let view = place.view(of: query) else { return settle(place) }
        // List the view again when the queries are back.
        if place.isInBackground {
            place.waiting.append { [self] _ in search(again: query, at: place) }
            return places.finishWork()
        }
        let now = content.root.node(at: place.path)
        switch found {
        case .tooManyMatches: break
        case .tooManyVisits: places.endLater(view, at: place, .tooManySteps(context.limits.liveQuerySteps))
        case .found(var window):
            guard let source = places.source(of: query.query, at: place, over: now),
                window.follow(from: node, to: now, from: source, atMost: context.limits.followedChanges)
            else {
                search(again: query, at: place)
                break
            }
            notifier.recordLateNotification(at: place)
            place.queries.endSearch(query)
            let change = places.metered(place) { place.queries.replace(query, with: window, over: now) }
            notifier.notify(query, change, at: place, of: now) { notifier.onChanged($0, $1, now, content.sequence) }
        }
        places.updateTotals(place)
        fillLater(place)
        notifier.notifyComplete(place)
        settle(place)
    }

    private func search(again query: LiveQueryView, at place: ObservedQuerySet) {
        guard places.contains(place), place.view(of: query) != nil else { return }
        place.queries.endSearch(query)
        fillLater(place)
    }

    private func settle(_ place: ObservedQuerySet) {
        if places.contains(place) { places.resumeWaiting(place) }
        places.finishWork()
    }

    /// An order of a place is ready again. Refills the views that wait for it.
    func resume(_ place: ObservedQuerySet) {
        if place.isInBackground { return }
        relist(place)
        fillLater(place)
    }

    /// Lists the views that waited for an order for another refill.
    func relist(_ place: ObservedQuerySet) {
        if place.unordered.isEmpty { return }
        for view in place.takeUnordered() { place.queries.listUnfilled(view) }
    }
}
