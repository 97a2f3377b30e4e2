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
    private let keeper: LiveQueryUpdater
    let places: QuerySetStore
    private let parking: SuspendedRequests

    init(_ context: EngineContext, _ content: Content, _ indexes: IndexStore, _ keeper: LiveQueryUpdater, _ parking: SuspendedRequests) {
        self.context = context
        self.content = content
        self.indexes = indexes
        self.keeper = keeper
        places = keeper.places
        self.parking = parking
    }

    private var limits: EngineLimits { context.limits }
    private static let attempts = 3

    /// A live query whose view is being found for a request.
    private struct Asking: Sendable {
        let query: LiveQuery
        let showing: LiveQueryView.Showing
        let path: Path
        let item: Database.Item
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
        _ query: LiveQuery, _ showing: LiveQueryView.Showing, at path: Path, for item: Database.Item,
        _ done: @escaping @Sendable (Result<View, Failure>, _ isLater: Bool) -> Void
    ) {
        find(Asking(query: query, showing: showing, path: path, item: item, done: done))
    }

    /// The current result of a view as an object, with the number of children.
    func selection(of view: View) -> Selection? {
        guard let shown = view.shown as? LiveQueryShown else { return nil }
        let node = content.root.node(at: view.path)
        var keys: ContiguousArray<Key> = []
        if shown.view.showing == .children, let place = places[view.path] { keys = places.metered(place) { shown.keys(of: node) } }
        return Selection(value: node.selecting(keys), window: nil, count: shown.view.count)
    }

    // MARK: Finding

    private func find(_ asking: Asking) {
        let place = places.place(at: asking.path)
        if place.isInBackground { return wait(asking, at: place) }
        if let view = place.view(of: asking.query, asking.showing) { return finish(asking, view, at: place) }
        let node = content.root.node(at: asking.path)
        if let near = asking.query.near {
            find(asking, near, at: place, over: node)
        } else {
            look(asking, at: place, over: node)
        }
    }

    private func finish(_ asking: Asking, _ view: View, at place: ObservedQuerySet) {
        if (view.shown as? LiveQueryShown)?.view.isShort == true { return wait(asking, at: place) }
        asking.done(.success(view), asking.isLater)
        places.settle(place)
    }

    private func fail(_ asking: Asking, _ failure: Failure, at place: ObservedQuerySet) {
        asking.done(.failure(failure), asking.isLater)
        places.settle(place)
    }

    /// Holds the suspended request that waits. Used on the database queue only.
    private final class Waiting: @unchecked Sendable {
        // Sendable: used on the database queue only.
        var parked: SuspendedRequest?
    }

    /// Suspends the request until work at the place is done, then tries again.
    private func wait(_ asking: Asking, at place: ObservedQuerySet) {
        let waiting = Waiting()
        waiting.parked = parking.park(asking.item)
        place.waiting.append { [self] in again(asking, waiting) }
    }

    private func again(_ asking: Asking, _ waiting: Waiting) {
        guard let parked = waiting.parked else { return }
        parking.resumeSuspended(parked, asking.item.client) {
            var asking = asking
            asking.isLater = true
            find(asking)
        }
    }

    // MARK: Circles

    /// Searches once the points are ready.
    private func find(_ asking: Asking, _ near: NearQuery, at place: ObservedQuerySet, over node: Node) {
        guard let fields = near.fields else { return fail(asking, .missingPoints(asking.path), at: place) }
        // New rules were deployed while it waited.
        guard fields == content.rules.geoFields(at: asking.path) else { return fail(asking, .changesTooFast, at: place) }
        if place.queries.index == nil, !places.hasRoom(forPoints: node.childCount) { return fail(asking, .tooManyIndexes, at: place) }
        guard keeper.points.hasPoints(place, fields, over: node) else { return wait(asking, at: place) }
        look(asking, at: place, over: node)
    }

    /// Why the query's limit, or the total that live queries hold, is too large; nil if neither is.
    private func tooMuch(_ query: LiveQuery) -> Failure? {
        if let limit = query.tree.limit, limit > limits.liveQueryChildren { return .limitTooLarge(limits.liveQueryChildren) }
        return places.held > limits.liveQueryChildrenOfAll ? .tooManyLiveQueries : nil
    }

    // MARK: Searching

    private func look(_ asking: Asking, at place: ObservedQuerySet, over node: Node) {
        if let failure = tooMuch(asking.query) { return fail(asking, failure, at: place) }
        let points = asking.query.near == nil ? nil : place.queries.index
        let planned = places.metered(place) {
            LivePlan.find(
                asking.query, asking.showing, at: asking.path, over: node, indexes, points: points, limits, without: asking.refused)
        }
        switch planned {
        case .failure(let failure): fail(asking, failure, at: place)
        case .success(.waits(let ordering)): awaitOrder(asking, ordering, at: place, over: node)
        case .success(.ready(let plan)):
            context.meter.counters.liveQueriesFound += 1
            if plan.found != nil || plan.worst <= limits.inlineChildren {
                let asked = plan.found == nil ? plan.worst * QuerySet.visitsPerChild : 0
                context.meter.spend(asked / RequestLoop.childrenForWork)
                let result = places.metered(place) { plan.carryOut(over: node, limits) }
                return found(asking, result, over: node, at: place)
            }
            parking.park(asking.item) { [limits, plan = plan.detached] in plan.carryOut(over: node, limits) } then: { [self] result in
                var asking = asking
                asking.isLater = true
                found(asking, result, over: node, at: places.place(at: asking.path))
            }
        }
    }

    /// Updates a search result to the current state, and adds its view.
    private func found(_ asking: Asking, _ result: LivePlan.Found, over node: Node, at place: ObservedQuerySet) {
        if place.isInBackground { return wait(asking, at: place) }
        let (query, most) = (asking.query, limits.followedChanges)
        if let view = place.view(of: query, asking.showing) { return finish(asking, view, at: place) }
        if let near = query.near {
            guard near.fields == content.rules.geoFields(at: asking.path) else { return fail(asking, .changesTooFast, at: place) }
            guard place.queries.index != nil else { return searchAgain(asking) }
        }
        let now = content.root.node(at: asking.path)
        switch result {
        case .tooMany: fail(asking, tooManyMatches(query, at: asking.path), at: place)
        case .tooManySteps: fail(asking, .tooManySteps(limits.liveQuerySteps), at: place)
        case .count(let count):
            guard let surplus = now.isIdentical(to: node) ? 0 : query.surplus(from: node, to: now, atMost: most) else {
                return searchAgain(asking)
            }
            finish(asking, keeper.add(place.queries.add(countOf: query, matches: count + surplus), at: place), at: place)
        case .near(var window):
            guard let index = place.queries.index,
                places.metered(place, { window.follow(from: node, to: now, index, atMost: most) })
            else { return searchAgain(asking) }
            finish(asking, keeper.add(place.queries.add(window), at: place), at: place)
        case .window(var window):
            let order = places.orders(place, over: now)(query.tree.orderedBy)
            guard window.follow(from: node, to: now, in: order, atMost: most) else { return searchAgain(asking) }
            // The order must exist so that it is counted as in use.
            if !window.holdsAll, query.tree.orderedBy != .key, order == nil { return searchAgain(asking) }
            finish(asking, keeper.add(place.queries.add(window), at: place), at: place)
        }
    }

    private func tooManyMatches(_ query: LiveQuery, at path: Path) -> Failure {
        if query.near != nil, query.filter.isEmpty, query.tree.limit == nil { return .circleTooLarge(limits.liveQueryChildren) }
        // With that order the matches would not have to be held.
        if query.tree.limit != nil, indexes.isMissing(query.tree.orderedBy, path) { return .missingIndex(query.tree.orderedBy, path) }
        return .tooManyMatches(limits.liveQueryChildren)
    }

    private func searchAgain(_ asking: Asking) {
        guard asking.attempt < Self.attempts else { return fail(asking, .changesTooFast, at: places.place(at: asking.path)) }
        var asking = asking
        asking.attempt += 1
        find(asking)
    }

    private func awaitOrder(_ asking: Asking, _ ordering: TreeQuery.Index, at place: ObservedQuerySet, over node: Node) {
        let waiting = Waiting()
        let failure = indexes.awaitIndex(ordering, at: asking.path, over: node) { [self] failure in
            guard let failure else { return again(asking, waiting) }
            guard let parked = waiting.parked else { return }
            parking.resumeSuspended(parked, asking.item.client) {
                var asking = asking
                asking.isLater = true
                fail(asking, failure, at: places.place(at: asking.path))
            }
        }
        if let failure { return look(refusing: ordering, failure, asking, at: place, over: node) }
        waiting.parked = parking.park(asking.item)
    }

    /// Searches from another start, because the limits do not allow an order.
    private func look(
        refusing ordering: TreeQuery.Index, _ failure: Failure, _ asking: Asking, at place: ObservedQuerySet, over node: Node
    ) {
        var asking = asking
        asking.refused[ordering] = failure
        look(asking, at: place, over: node)
    }
}

extension Failure {
    /// Omits the number of children: a client that may not read them all must learn nothing about the others.
    fileprivate static func circleTooLarge(_ limit: Int) -> Failure {
        Failure(.tooBig, "The circle holds more than \(limit) children, too many without a limit. Ask for a smaller radius, or a limit.")
    }

    fileprivate static func limitTooLarge(_ limit: Int) -> Failure {
        Failure(.tooBig, "A query with conditions or a circle may be limited to \(limit) children at most.")
    }

    static func tooManySteps(_ limit: Int) -> Failure {
        Failure(
            .tooBig,
            "The hub would have to look at more than \(limit) children for this query (liveQuerySteps); "
                + "add a condition or an order that has an index, or ask for a smaller circle.")
    }

    static func tooManyMatches(_ limit: Int) -> Failure {
        Failure(.tooBig, "More than \(limit) children match; ask for fewer by a limit, or by another condition.")
    }

    static let tooManyLiveQueries = Failure(
        .unavailable, "The live queries of the namespace, or of this user or address, hold as many children as they may.")
}
