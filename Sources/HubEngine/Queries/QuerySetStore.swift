import JSONTree
import LiveQueries
import Scheduling

/// The places with live queries or points. Creates them on demand, weighs them as they grow, and removes unused ones.
///
/// Confined to the database queue.
final class QuerySetStore: @unchecked Sendable {
    // Sendable: background work that captures it only returns to the queue.
    private let context: EngineContext
    private let places: PlaceTrie
    private let indexes: IndexStore
    private let durability: DurabilityQueue
    private var known: [Path: ObservedQuerySet] = [:]
    /// Number of children that all live queries hold.
    private(set) var held = 0
    /// Number of points of all places. `tendedAt` is the last check for idle places, steady ms.
    private var points = 0
    private var tendedAt: Int64 = 0
    /// Ends an observer that the hub cannot continue to serve.
    var onEnded: (Observation, Client, Failure) -> Void = { _, _, _ in }
    /// Notifies a client that its observer, already removed, has ended.
    var onLost: (Observation, Client, Failure) -> Void = { _, _, _ in }

    /// Called when a view was counted again and holds more or fewer children than before.
    var onHeldChanged: (View) -> Void = { _ in }

    init(_ context: EngineContext, _ places: PlaceTrie, _ indexes: IndexStore, _ durability: DurabilityQueue) {
        self.context = context
        self.places = places
        self.indexes = indexes
        self.durability = durability
    }

    private var limits: EngineLimits { context.limits }

    /// Points of fewer children are not kept: collecting them for each answer costs as little.
    private static let fewestKept = 64
    /// The held children of a place may exceed the charged number by this, plus one per view.
    private static let chargedAtOnce = 16

    // MARK: Places

    subscript(path: Path) -> ObservedQuerySet? { known[path] }
    var all: [ObservedQuerySet] { Array(known.values) }
    func contains(_ place: ObservedQuerySet) -> Bool { known[place.path] === place }

    /// The live queries of a place; created if missing. The caller must call `settle`.
    func place(at path: Path) -> ObservedQuerySet {
        if let place = known[path] { return place }
        let made = ObservedQuerySet(path, limits.windows)
        made.usedAt = context.scheduler.steadyMs
        known[path] = made
        places.place(at: path).queried = made
        return made
    }

    /// Removes views without observers, and the place if it has neither views nor points. Points that the rules declare stay until they have been
    /// idle for `indexIdleMs`.
    func settle(_ place: ObservedQuerySet) {
        place.usedAt = context.scheduler.steadyMs
        if place.isBusy { return }
        if !place.emptied.isEmpty {
            let emptied = place.emptied
            place.emptied = []
            for view in emptied where view.isEmpty { remove(view, at: place) }
            updateTotals(place)
        }
        if place.count == 0, (place.queries.index?.count ?? 0) < Self.fewestKept { forget(place) }
    }

    func forget(_ place: ObservedQuerySet) {
        guard contains(place) else { return }
        held -= place.held
        points -= place.points
        known[place.path] = nil
        places.existingPlace(at: place.path)?.queried = nil
        places.prune(place.path)
    }

    /// Runs `body`, and charges the entries that it visits to this turn.
    func metered<Result>(_ place: ObservedQuerySet, _ body: () -> Result) -> Result {
        let before = place.queries.visits
        defer { context.meter.spend((place.queries.visits - before) / RequestCost.childrenForWork) }
        return body()
    }

    /// The place's children in a given order, at the current state.
    func orders(_ place: ObservedQuerySet, over node: Node) -> QuerySet.Orders {
        let observed = places.existingPlace(at: place.path)
        return { ordering in observed?.children(of: node, by: ordering) ?? (ordering == .key ? .byKey(node.children) : nil) }
    }

    /// Where a query's window finds children, at the current state; nil if that is not available now.
    func source(of query: Query, at place: ObservedQuerySet, over node: Node) -> Window.Source? {
        query.isByPosition ? place.queries.index.map { .points($0) } : orders(place, over: node)(query.tree.orderedBy).map { .order($0) }
    }

    /// Runs between requests, now and then: drops the points of places that have been idle for `indexIdleMs`.
    func evictIdle() {
        context.meter.counters.liveQueryChildren = held
        let now = context.scheduler.steadyMs
        if known.isEmpty || now - tendedAt < limits.indexIdleMs / 10 { return }
        tendedAt = now
        for place in known.values where !place.isBusy {
            if place.count == 0, now - place.usedAt >= limits.indexIdleMs { forget(place) } else if !place.emptied.isEmpty { settle(place) }
        }
    }

    // MARK: Views

    /// Adds a view that was computed for the current state of the place.
    func add(_ view: LiveQueryView, at place: ObservedQuerySet) -> View {
        if let known = place.view(of: view) { return known }
        let made = place.add(view, lanes: context.lanes)
        updateTotals(place)
        if let ordering = made.live?.keptOrder {
            if let index = places.existingPlace(at: place.path)?.existingIndex(ordering) {
                index.views += 1
                indexes.settle(index)
            }
        }
        return made
    }

    func remove(_ view: View, at place: ObservedQuerySet) {
        guard let shown = view.live, place.view(of: shown.view) === view else { return }
        place.remove(shown.view)
        if let ordering = shown.keptOrder, let index = places.existingPlace(at: place.path)?.existingIndex(ordering) {
            index.views -= 1
            indexes.settle(index)
        }
    }

    /// Call when a view has lost its last observer.
    func release(_ view: View, at place: ObservedQuerySet) {
        place.emptied.append(view)
        settle(place)
    }

    /// An observer cannot be restored to its earlier state. Notifies its client after the rollback.
    func lost(_ observation: Observation, _ client: Client) {
        context.queue.async { [self] in
            onLost(observation, client, .rolledBack)
            finishWork()
        }
    }

    /// Ends the observers of a view, after those of the commit have been notified.
    func endLater(_ view: View, at place: ObservedQuerySet, _ failure: Failure) {
        guard place.ending.insert(ObjectIdentifier(view)).inserted else { return }
        context.queue.async { [self, view = Transferred(view), place = Transferred(place)] in
            place.value.ending.remove(ObjectIdentifier(view.value))
            for (style, client) in view.value.observers { onEnded(view.value.observation(style), client, failure) }
            finishWork()
        }
    }

    // MARK: Weight

    /// Updates the totals with what a place holds now.
    func updateTotals(_ place: ObservedQuerySet) {
        held += place.queries.held - place.held
        place.held = place.queries.held
        // Often enough that few held children are uncharged, seldom enough that a change costs O(1).
        if abs(place.held - place.counted) > Self.chargedAtOnce + place.count {
            for view in place.recount() { onHeldChanged(view) }
        }
        let counted = place.queries.index?.count ?? 0
        points += counted - place.points
        place.points = counted
        // Views that hold all children of a circle grow with it, even if they show none of the new ones.
        if place.held > place.heldAtLastCheck + limits.liveQueryChildren { endLarge(place) }
        if place.held < place.heldAtLastCheck { place.heldAtLastCheck = place.held }
    }

    private func endLarge(_ place: ObservedQuerySet) {
        place.heldAtLastCheck = place.held
        for view in place.views {
            guard let query = view.live?.view else { continue }
            if query.held > 3 * limits.liveQueryChildren { endLater(view, at: place, .tooManyMatches(limits.liveQueryChildren)) }
        }
    }

    /// True if the namespace may index the points of `count` more children.
    func hasRoom(forPoints count: Int) -> Bool {
        if points + count <= limits.indexEntries { return true }
        for place in known.values where place.count == 0 && !place.isBusy { forget(place) }
        return points + count <= limits.indexEntries
    }

    // MARK: Own turns

    /// Resumes the requests that wait at a place, or fails them.
    func resumeWaiting(_ place: ObservedQuerySet, _ failure: Failure? = nil) {
        let waiting = place.waiting
        place.waiting = []
        for resume in waiting { resume(failure) }
        if contains(place) { settle(place) }
    }

    /// Finishes work that no request has started.
    func finishWork() {
        evictIdle()
        durability.finishBatch()
    }
}

/// Carries a value that a background thread uses in place of the queue, until it returns it.
struct Transferred<Value>: @unchecked Sendable {
    // Sendable: handed over as a whole, and never used from two threads.
    let value: Value
    init(_ value: Value) { self.value = value }
}

extension ShownLiveQuery {
    /// The order whose index must be kept for the view. A count needs only the changed children.
    var keptOrder: TreeQuery.Index? {
        guard let ordering = view.refillOrder, ordering != .key else { return nil }
        return ordering
    }
}

#if DEBUG
    extension QuerySetStore {
        func check(_ found: inout Invariants) {
            found.check(held, is: known.values.reduce(0) { $0 + $1.held }, "children held by live queries")
            found.check(points, is: known.values.reduce(0) { $0 + $1.points }, "points")
            for (path, place) in known {
                found.check(places.existingPlace(at: path)?.queried === place, "the queries of \(path) are not in the trie")
                if !place.isInBackground { found.check(place.held, is: place.queries.held, "children held at \(path)") }
            }
        }
    }
#endif
