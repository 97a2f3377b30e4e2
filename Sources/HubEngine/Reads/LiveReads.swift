import JSONTree
import LiveQueries
import Synchronization

/// Finds the result of a live query, from the start that `LivePlan` chooses. Large searches run off the queue and are then updated with the writes
/// made meanwhile.
///
/// ```
/// find ─► already known ─────────────────────────────────► view
///    ├─ queries in the background, points missing, too few children found ─► waits at the place, tries again
///    └─ LivePlan ─► here, or suspended ─► updated with writes ─► view
/// ```
/// Confined to the database queue.
final class LiveReads: @unchecked Sendable {
    // Sendable: background work that captures it only returns to the queue.
    private let context: EngineContext
    private let content: Content
    private let indexes: IndexStore
    private let updater: LiveQueryUpdater
    let places: QuerySetStore
    private let suspendedRequests: SuspendedRequests

    init(_ context: EngineContext, _ content: Content, _ indexes: IndexStore, _ updater: LiveQueryUpdater, _ suspendedRequests: SuspendedRequests) {
        self.context = context
        self.content = content
        self.indexes = indexes
        self.updater = updater
        places = updater.places
        self.suspendedRequests = suspendedRequests
    }

    private var limits: EngineLimits { context.limits }
    private static let attempts = 3

    /// A live query whose view is being found for a request.
    private struct PendingLiveQuery: Sendable {
        let query: Query
        let showing: LiveQueryView.Showing
        let path: Path
        let item: SubmittedRequest
        let done: @Sendable (Result<View, Failure>, _ isLater: Bool) -> Void
        var isLater = false
        var attempt = 0
        /// Orders that the limits do not allow.
        var refused: [TreeQuery.Index: Failure] = [:]
        var isCount: Bool { showing == .count }
    }

    /// Calls back on the queue with the view of a query: at once, or with `isLater` after the request was suspended. A view that gets no observer is
    /// removed afterwards.
    /// - Parameter query: with the position fields that the rules declare.
    func find(
        _ query: Query, _ showing: LiveQueryView.Showing, at path: Path, for item: SubmittedRequest,
        _ done: @escaping @Sendable (Result<View, Failure>, _ isLater: Bool) -> Void
    ) {
        find(PendingLiveQuery(query: query, showing: showing, path: path, item: item, done: done))
    }

    /// The current result of a view as an object, with the number of children.
    func selection(of view: View) -> Selection? {
        guard let shown = view.live else { return nil }
        let node = content.root.node(at: view.path)
        var keys: ContiguousArray<Key> = []
        if shown.view.showing == .children, let place = places[view.path] { keys = places.metered(place) { shown.keys(of: node) } }
        return Selection(value: node.selecting(keys), window: nil, count: shown.view.count)
    }

    // MARK: Finding

    private func find(_ pending: PendingLiveQuery) {
        let place = places.place(at: pending.path)
        if place.isInBackground { return wait(pending, at: place) }
        if let view = place.view(of: pending.query, pending.showing) { return finish(pending, view, at: place) }
        let node = content.root.node(at: pending.path)
        if pending.query.hasArea {
            findByPosition(pending, at: place, over: node)
        } else {
            search(pending, at: place, over: node)
        }
    }

    private func finish(_ pending: PendingLiveQuery, _ view: View, at place: ObservedQuerySet) {
        if view.live?.view.isShort == true { return wait(pending, at: place) }
        pending.done(.success(view), pending.isLater)
        places.settle(place)
    }

    private func fail(_ pending: PendingLiveQuery, _ failure: Failure, at place: ObservedQuerySet) {
        pending.done(.failure(failure), pending.isLater)
        places.settle(place)
    }

    /// Holds the suspended request that waits. Used on the database queue only.
    private final class Waiting: @unchecked Sendable {
        // Sendable: used on the database queue only.
        var suspendedRequest: SuspendedRequest?
    }

    /// Suspends the request until work at the place is done, then tries again.
    private func wait(_ pending: PendingLiveQuery, at place: ObservedQuerySet) {
        let waiting = Waiting()
        waiting.suspendedRequest = suspendedRequests.suspend(pending.item)
        // What fails is the points of the place: only circles and regions need them.
        place.waiting.append { [self] failure in again(pending, waiting, pending.query.hasArea ? failure : nil) }
    }

    private func again(_ pending: PendingLiveQuery, _ waiting: Waiting, _ failure: Failure?) {
        guard let suspended = waiting.suspendedRequest else { return }
        suspendedRequests.resumeSuspended(suspended, pending.item.client) {
            var pending = pending
            pending.isLater = true
            if let failure { fail(pending, failure, at: places.place(at: pending.path)) } else { find(pending) }
        }
    }

    // MARK: Circles and regions

    /// Searches once the points are ready.
    private func findByPosition(_ pending: PendingLiveQuery, at place: ObservedQuerySet, over node: Node) {
        guard let fields = pending.query.fields else { return fail(pending, .missingPoints(pending.path), at: place) }
        // New rules were deployed while it waited.
        guard fields == content.rules.geoFields(at: pending.path) else { return fail(pending, .changesTooFast, at: place) }
        if place.queries.index == nil, !places.hasRoom(forPoints: node.childCount) { return fail(pending, .tooManyIndexes, at: place) }
        guard updater.points.hasPoints(place, fields, over: node) else { return wait(pending, at: place) }
        search(pending, at: place, over: node)
    }

    /// Why the query's limit, or the total that live queries hold, is too large; nil if neither is.
    private func tooMuch(_ query: Query) -> Failure? {
        if let limit = query.tree.limit, limit > limits.liveQueryChildren { return .limitTooLarge(limits.liveQueryChildren) }
        return places.held > limits.liveQueryChildrenOfAll ? .tooManyLiveQueries : nil
    }

    // MARK: Searching

    private func search(_ pending: PendingLiveQuery, at place: ObservedQuerySet, over node: Node) {
        if let failure = tooMuch(pending.query) { return fail(pending, failure, at: place) }
        let points = pending.query.hasArea ? place.queries.index : nil
        let planned = places.metered(place) {
            LivePlan.find(
                pending.query, pending.showing, at: pending.path, over: node, indexes, points: points, limits, without: pending.refused)
        }
        switch planned {
        case .failure(let failure): fail(pending, failure, at: place)
        case .success(.waits(let ordering)): awaitOrder(pending, ordering, at: place, over: node)
        case .success(.ready(let plan)):
            context.meter.counters.liveQueriesFound += 1
            if plan.found != nil || plan.worst <= limits.inlineChildren {
                let asked = plan.found == nil ? plan.worst * QuerySet.visitsPerChild : 0
                context.meter.spend(asked / RequestCost.childrenForWork)
                let result = places.metered(place) { plan.carryOut(over: node, limits) }
                return found(pending, result, over: node, at: place)
            }
            suspendedRequests.suspend(pending.item) { [limits, plan = plan.detached] in plan.carryOut(over: node, limits) } then: { [self] result in
                var pending = pending
                pending.isLater = true
                found(pending, result, over: node, at: places.place(at: pending.path))
            }
        }
    }

    /// Updates a search result to the current state, and adds its view.
    private func found(_ pending: PendingLiveQuery, _ result: LivePlan.Found, over node: Node, at place: ObservedQuerySet) {
        if place.isInBackground { return wait(pending, at: place) }
        let (query, most) = (pending.query, limits.followedChanges)
        if let view = place.view(of: query, pending.showing) { return finish(pending, view, at: place) }
        if query.hasArea {
            guard query.fields == content.rules.geoFields(at: pending.path) else { return fail(pending, .changesTooFast, at: place) }
            guard place.queries.index != nil else { return searchAgain(pending) }
        }
        let now = content.root.node(at: pending.path)
        switch result {
        case .tooMany: fail(pending, tooManyMatches(query, at: pending.path), at: place)
        case .tooManySteps: fail(pending, .tooManySteps(limits.liveQuerySteps), at: place)
        case .count(let count):
            guard let surplus = now.isIdentical(to: node) ? 0 : query.surplus(from: node, to: now, atMost: most) else {
                return searchAgain(pending)
            }
            let view = places.metered(place) { place.queries.add(countOf: query, matches: count + surplus) }
            finish(pending, updater.add(view, at: place), at: place)
        case .window(var window):
            let source = places.source(of: query, at: place, over: now)
            guard places.metered(place, { window.follow(from: node, to: now, from: source, atMost: most) }) else { return searchAgain(pending) }
            // The order must exist so that it is counted as in use.
            if !window.holdsAll, source == nil { return searchAgain(pending) }
            let view = places.metered(place) { [window] in place.queries.add(window) }
            finish(pending, updater.add(view, at: place), at: place)
        }
    }

    private func tooManyMatches(_ query: Query, at path: Path) -> Failure {
        if query.hasArea, query.filter.isEmpty, query.tree.limit == nil {
            return .areaTooLarge(limits.liveQueryChildren, isCircle: query.near != nil)
        }
        // With that order the matches would not have to be held.
        if query.tree.limit != nil, indexes.isMissing(query.tree.orderedBy, path) { return .missingIndex(query.tree.orderedBy, path) }
        return .tooManyMatches(limits.liveQueryChildren)
    }

    private func searchAgain(_ pending: PendingLiveQuery) {
        guard pending.attempt < Self.attempts else { return fail(pending, .changesTooFast, at: places.place(at: pending.path)) }
        var pending = pending
        pending.attempt += 1
        find(pending)
    }

    private func awaitOrder(_ pending: PendingLiveQuery, _ ordering: TreeQuery.Index, at place: ObservedQuerySet, over node: Node) {
        let waiting = Waiting()
        let failure = indexes.awaitIndex(ordering, at: pending.path, over: node) { [self] failure in again(pending, waiting, failure) }
        if let failure { return search(refusing: ordering, failure, pending, at: place, over: node) }
        waiting.suspendedRequest = suspendedRequests.suspend(pending.item)
    }

    /// Searches from another start, because the limits do not allow an order.
    private func search(
        refusing ordering: TreeQuery.Index, _ failure: Failure, _ pending: PendingLiveQuery, at place: ObservedQuerySet, over node: Node
    ) {
        var pending = pending
        pending.refused[ordering] = failure
        search(pending, at: place, over: node)
    }
}

extension Failure {
    /// Omits the number of children: a client that may not read them all must learn nothing about the others.
    fileprivate static func areaTooLarge(_ limit: Int, isCircle: Bool) -> Failure {
        let (area, other) = isCircle ? ("circle", "radius") : ("region", "one")
        return Failure(
            .tooBig, "The \(area) holds more than \(limit) children, too many without a limit. Ask for a smaller \(other), or a limit.")
    }

    fileprivate static func limitTooLarge(_ limit: Int) -> Failure {
        Failure(.tooBig, "A query with conditions, a circle or a region may be limited to \(limit) children at most.")
    }
}
