import JSONTree
import LiveQueries
import Scheduling

/// Has live queries follow what is written at their places: at once where a commit changes few children, else beside the queue.
///
/// ```
/// commit ── few children ──► views concerned ─► told
///    └── many, or the place as a whole ─► lent: all that differs, in the background ─► told ─► what was written meanwhile
/// a view that shows fewer than there may be ─► looks on, a part in each turn ─► told when it shows all
/// ```
/// While a place's queries are lent, requests for them wait. Confined to the database queue.
final class QueryKeeper: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    private let indexes: IndexKeeper
    private let batch: Batch
    private let durability: DurabilityLine
    /// Places with live queries, or with points.
    private var queried: [Path: QueriedPlace] = [:]
    /// Children that all live queries hold.
    private(set) var held = 0
    /// Points of all places, and when they were looked at for being idle, steady ms.
    private var points = 0
    private var tendedAt: Int64 = 0
    /// Tells the observers of a view what has changed of it: as of this content and this commit.
    var onChanged: (View, LiveChange, _ content: Node, _ sequence: UInt64) -> Void = { _, _, _, _ in }
    /// Ends an observer, as the hub cannot go on with it.
    var onEnded: (Observation, Client, Failure) -> Void = { _, _, _ in }
    /// Tells a client that an observer has ended, which is not there any more.
    var onLost: (Observation, Client, Failure) -> Void = { _, _, _ in }

    init(
        _ context: EngineContext, _ content: Content, _ places: PlaceTrie, _ indexes: IndexKeeper, _ batch: Batch,
        _ durability: DurabilityLine
    ) {
        self.context = context
        self.content = content
        self.places = places
        self.indexes = indexes
        self.batch = batch
        self.durability = durability
    }

    private var limits: EngineLimits { context.limits }

    /// Views that look for more children in one turn.
    private static let filledAtOnce = 4
    /// Points of fewer children are collected for each answer: keeping them gains nothing.
    private static let fewestKept = 64
    /// Commits of which observers of a view that shows too few may still have to be told.
    private static let mostDeferred = 1_000

    // MARK: Places

    /// The live queries of a place, made when missing: to be settled.
    func place(at path: Path) -> QueriedPlace {
        if let known = queried[path] { return known }
        let made = QueriedPlace(path, limits.windows)
        made.usedAt = context.scheduler.steadyMs
        queried[path] = made
        places.place(at: path).queried = made
        return made
    }

    func existingPlace(at path: Path) -> QueriedPlace? { queried[path] }

    /// Has views without observers removed, and a place without views and points forgotten. Points that the rules declare stay until they
    /// have been idle for long.
    func settle(_ place: QueriedPlace) {
        place.usedAt = context.scheduler.steadyMs
        if place.isBusy { return }
        if !place.emptied.isEmpty {
            let emptied = place.emptied
            place.emptied = []
            for view in emptied where view.isEmpty { remove(view, at: place) }
            weigh(place)
        }
        if place.count == 0, (place.queries.index?.count ?? 0) < Self.fewestKept { forget(place) }
    }

    /// A view has lost its last observer.
    func release(_ view: View, at place: QueriedPlace) {
        place.emptied.append(view)
        settle(place)
    }

    /// An observer that was to come back with an earlier state cannot: its client is told when that state is there.
    func lost(_ observation: Observation, _ client: Client) {
        context.queue.async { [self] in
            onLost(observation, client, .takenBack)
            finishWork()
        }
    }

    private func remove(_ view: View, at place: QueriedPlace) {
        guard let shown = view.shown as? LiveQueryShown, place.view(of: shown.view) === view else { return }
        place.remove(shown.view)
        if let ordering = shown.keptOrder, let index = places.existingPlace(at: place.path)?.existingIndex(ordering) {
            index.views -= 1
            indexes.settle(index)
        }
    }

    private func forget(_ place: QueriedPlace) {
        guard queried[place.path] === place else { return }
        held -= place.held
        points -= place.points
        queried[place.path] = nil
        places.existingPlace(at: place.path)?.queried = nil
        places.prune(place.path)
    }

    private func weigh(_ place: QueriedPlace) {
        held += place.queries.held - place.held
        place.held = place.queries.held
        let counted = place.queries.index?.count ?? 0
        points += counted - place.points
        place.points = counted
        // Views that hold all of a circle grow with it, also where nothing of that is shown.
        if place.held > place.heldWhenLookedAt + limits.liveQueryChildren { endLarge(place) }
        if place.held < place.heldWhenLookedAt { place.heldWhenLookedAt = place.held }
    }

    private func endLarge(_ place: QueriedPlace) {
        place.heldWhenLookedAt = place.held
        for view in place.views {
            guard let query = (view.shown as? LiveQueryShown)?.view else { continue }
            if query.held > 3 * limits.liveQueryChildren { endLater(view, at: place, .tooManyMatches(limits.liveQueryChildren)) }
        }
    }

    /// Ends the observers of a view, when the commit has been told.
    private func endLater(_ view: View, at place: QueriedPlace, _ failure: Failure) {
        guard place.ending.insert(ObjectIdentifier(view)).inserted else { return }
        context.queue.async { [self, view = Lent(view), place = Lent(place)] in
            place.value.ending.remove(ObjectIdentifier(view.value))
            for (style, client) in view.value.observers { onEnded(view.value.observation(style), client, failure) }
            finishWork()
        }
    }

    /// Whether the namespace may keep the points of so many children more.
    func hasRoom(forPoints count: Int) -> Bool {
        if points + count <= limits.indexEntries { return true }
        for place in queried.values where place.count == 0 && !place.isBusy { forget(place) }
        return points + count <= limits.indexEntries
    }

    /// Between requests, now and then: forgets the points of places that have been idle for long.
    func tend() {
        context.meter.counters.liveQueryChildren = held
        let now = context.scheduler.steadyMs
        if queried.isEmpty || now - tendedAt < limits.indexIdleMs / 10 { return }
        tendedAt = now
        for place in queried.values where !place.isBusy {
            if place.count == 0, now - place.usedAt >= limits.indexIdleMs { forget(place) } else if !place.emptied.isEmpty { settle(place) }
        }
    }

    /// Takes a view in that was found for the place as it is now.
    func add(_ view: LiveQueryView, at place: QueriedPlace) -> View {
        if let known = place.view(of: view) { return known }
        let made = place.add(view, lanes: context.lanes)
        weigh(place)
        if let ordering = (made.shown as? LiveQueryShown)?.keptOrder {
            if let index = places.existingPlace(at: place.path)?.existingIndex(ordering) {
                index.views += 1
                indexes.settle(index)
            }
        }
        fillLater(place)
        return made
    }

    /// The place's children in an order, as they are now.
    func orders(_ place: QueriedPlace, over node: Node) -> PlaceQueries.Orders {
        let observed = places.existingPlace(at: place.path)
        return { ordering in observed?.children(of: node, by: ordering) ?? (ordering == .key ? .byKey(node.children) : nil) }
    }

    // MARK: Points

    /// The points of a place's children, if they are known.
    /// - Returns: false when they are being collected: `waiting` is resumed then.
    func hasPoints(_ place: QueriedPlace, _ fields: GeoFields, over node: Node) -> Bool {
        if place.queries.index != nil { return true }
        if place.isCollecting { return false }
        if node.childCount <= limits.inlineChildren {
            adopt(GeoIndex(fields, of: node), at: place)
            return true
        }
        place.isCollecting = true
        collect(place, fields, over: node)
        return false
    }

    private func adopt(_ index: GeoIndex, at place: QueriedPlace) {
        place.queries.adopt(index)
        weigh(place)
    }

    private func collect(_ place: QueriedPlace, _ fields: GeoFields, over node: Node, from earlier: (index: GeoIndex, node: Node)? = nil) {
        context.background.run(.upkeep) { [self, place = Lent(place)] in
            let index = earlier?.index ?? GeoIndex(fields)
            _ = index.follow(from: earlier?.node ?? .null, to: node, atMost: .max)
            context.queue.async { [self] in
                let place = place.value
                let now = content.root.node(at: place.path)
                guard queried[place.path] === place else { return }
                guard fields == content.rules.geoFields(at: place.path) else {
                    // Other rules were deployed: who waits asks again.
                    place.isCollecting = false
                    resumeWaiting(place)
                    return finishWork()
                }
                // They are taken in when the queries are back.
                if place.isLent { return place.waiting.append { [self] in collect(place, fields, over: now, from: (index, node)) } }
                guard place.queries.index == nil, index.follow(from: node, to: now, atMost: limits.followedChanges) else {
                    return collect(place, fields, over: now, from: (index, node))
                }
                place.isCollecting = false
                adopt(index, at: place)
                resumeWaiting(place)
                finishWork()
            }
        }
    }

    // MARK: Following commits

    /// Moves the views of a place along with a commit.
    /// - Parameters:
    ///   - children: that it has changed; nil when they are many, or when the place was written as a whole.
    ///   - told: is called for each view of which its observers are told something.
    func follow(
        _ place: QueriedPlace, _ children: [ChildChange]?, from old: Node, to new: Node,
        _ told: (View, LiveChange) -> Void
    ) {
        if place.isLent { return }
        relist(place)
        var writes: ContiguousArray<ChildWrite>?
        if let children {
            if isFollowedAtOnce(children.count, place) { writes = ContiguousArray(children.lazy.filter { $0.old != $0.new }.map { ChildWrite($0) }) }
        } else if let changes = new.children.changes(since: old.children, atMost: limits.inlineChildren), isFollowedAtOnce(changes.count, place) {
            writes = ContiguousArray(changes.lazy.map { ChildWrite($0) })
        }
        guard let writes else { return lend(place, told: old) }
        apply(writes, at: place, over: new, told)
    }

    /// One change costs each view that it concerns.
    private func isFollowedAtOnce(_ changes: Int, _ place: QueriedPlace) -> Bool {
        changes <= 16 || (changes <= limits.inlineChildren && changes * max(1, place.count) <= limits.windowsAtOnce)
    }

    private func apply(
        _ writes: ContiguousArray<ChildWrite>, at place: QueriedPlace, over new: Node,
        _ told: (View, LiveChange) -> Void
    ) {
        let before = place.queries.evaluations
        place.queries.apply(writes, over: new, in: orders(place, over: new)) { query, change in
            tell(query, change, at: place, of: new, told)
        }
        context.meter.spend(1 + (place.queries.evaluations - before) / RequestLoop.childrenForWork)
        weigh(place)
        fillLater(place)
    }

    private func tell(
        _ query: LiveQueryView, _ change: LiveQueryView.Change?, at place: QueriedPlace, of content: Node,
        _ told: (View, LiveChange) -> Void
    ) {
        guard let view = place.view(of: query) else { return }
        if place.deferredCount(of: query) >= Self.mostDeferred { endLater(view, at: place, .changesTooFast) }
        guard let change = place.release(change, of: query, content) else { return }
        if query.query.tree.limit == nil, query.showing == .children, query.count > 2 * limits.liveQueryChildren {
            endLater(view, at: place, .tooManyMatches(limits.liveQueryChildren))
        }
        context.meter.counters.windowsMoved += 1
        told(view, change)
    }

    // MARK: Large changes

    /// Lets the queries follow all that differs beside the queue.
    /// - Parameter old: the content that observers were told of.
    private func lend(_ place: QueriedPlace, told old: Node) {
        place.told = old
        followLater(place, from: old)
    }

    private func followLater(_ place: QueriedPlace, from old: Node) {
        let (new, sequence) = (content.root.node(at: place.path), content.sequence)
        let observed = places.existingPlace(at: place.path)
        var orders: [TreeQuery.Index: OrderedChildren] = [.key: .byKey(new.children)]
        for index in observed?.indexes ?? [] { orders[index.ordering] = observed?.children(of: new, by: index.ordering) }
        context.meter.counters.liveQueriesLent += 1
        context.background.run(.upkeep) { [self, place = Lent(place), orders] in
            var told: [(LiveQueryView, LiveQueryView.Change)] = []
            let changes = new.children.changes(since: old.children, atMost: .max) ?? []
            place.value.queries.apply(
                ContiguousArray(changes.lazy.map { ChildWrite($0) }), over: new, in: { orders[$0] }) { told.append(($0, $1)) }
            let found = Lent(told)
            context.queue.async { [self] in followed(place.value, found.value, to: new, sequence) }
        }
    }

    private func followed(_ place: QueriedPlace, _ told: [(LiveQueryView, LiveQueryView.Change)], to node: Node, _ sequence: UInt64) {
        context.queue.assertCurrent()
        if place.isUndone {
            place.told = nil
            return endAll(place, .takenBack)
        }
        batch.record(.toldLater(place.path))
        for (query, change) in told { tell(query, change, at: place, of: node) { onChanged($0, $1, node, sequence) } }
        let now = content.root.node(at: place.path)
        place.told = node
        if let changes = now.children.changes(since: node.children, atMost: limits.inlineChildren), isFollowedAtOnce(changes.count, place) {
            place.told = nil
            if !changes.isEmpty {
                apply(ContiguousArray(changes.lazy.map { ChildWrite($0) }), at: place, over: now) {
                    onChanged($0, $1, now, content.sequence)
                }
            }
            weigh(place)
            relist(place)
            fillLater(place)
            tellAll(place)
            resumeWaiting(place)
        } else {
            followLater(place, from: node)
        }
        finishWork()
    }

    /// Tells all of a view to observers for whom it was not known.
    private func tellAll(_ place: QueriedPlace) {
        if place.owing.isEmpty { return }
        let (node, owing) = (content.root.node(at: place.path), place.owing)
        place.owing = []
        for view in owing {
            guard let shown = view.shown as? LiveQueryShown, place.view(of: shown.view) === view else { continue }
            if shown.view.isShort {
                place.owing.append(view)
                continue
            }
            batch.record(.toldLater(place.path))
            onChanged(view, place.all(of: shown.view, node), node, content.sequence)
        }
    }

    // MARK: Looking for more

    private func fillLater(_ place: QueriedPlace) {
        if place.isFilling || place.isLent || !place.queries.hasUnfilled { return }
        place.isFilling = true
        context.queue.async { [self, place = Lent(place)] in fill(place.value) }
    }

    private func fill(_ place: QueriedPlace) {
        context.queue.assertCurrent()
        place.isFilling = false
        guard queried[place.path] === place, !place.isLent else { return }
        let node = content.root.node(at: place.path)
        let orders = orders(place, over: node)
        for query in place.queries.takeUnfilled(atMost: Self.filledAtOnce) {
            if let ordering = query.query.keptOrder, orders(ordering) == nil {
                place.unordered.append(query)
                continue
            }
            context.meter.spend(limits.windows.visits / RequestLoop.childrenForWork)
            let wasShort = query.isShort
            let change = place.queries.fill(query, over: node, in: orders)
            if wasShort { batch.record(.toldLater(place.path)) }
            tell(query, change, at: place, of: node) { onChanged($0, $1, node, content.sequence) }
        }
        weigh(place)
        fillLater(place)
        tellAll(place)
        resumeWaiting(place)
        finishWork()
    }

    /// An order of a place is there again: views that wait for it look on.
    func goOn(at path: Path) {
        guard let place = queried[path], !place.isLent else { return }
        relist(place)
        fillLater(place)
    }

    /// Views that waited for an order look whether it is there.
    private func relist(_ place: QueriedPlace) {
        if place.unordered.isEmpty { return }
        for view in place.takeUnordered() { place.queries.listUnfilled(view) }
    }

    private func resumeWaiting(_ place: QueriedPlace) {
        let waiting = place.waiting
        place.waiting = []
        for resume in waiting { resume() }
        if queried[place.path] === place { settle(place) }
    }

    private func finishWork() {
        tend()
        durability.endWork()
    }

    // MARK: Rollback, and rules

    /// The tree has gone back to an earlier state. What is known of the queries' observers goes back with it, where nothing was still to
    /// be told; else they end.
    func follow(from before: Node) {
        places.forEach(from: before, to: content.root) { [self] observed, old, new in
            guard let place = observed.queried else { return }
            if place.isLent { return place.isUndone = true }
            if place.owes || !goBack(place, from: old, to: new) { endAll(place, .takenBack) }
        }
        for place in queried.values where place.owes && !place.isLent { endAll(place, .takenBack) }
    }

    /// Moves the views to what observers know, and tells nothing.
    /// - Returns: false where that is too much, or not to be had now.
    private func goBack(_ place: QueriedPlace, from old: Node, to new: Node) -> Bool {
        guard let changes = new.children.changes(since: old.children, atMost: limits.followedChanges) else { return false }
        let orders = orders(place, over: new)
        place.queries.apply(ContiguousArray(changes.lazy.map { ChildWrite($0) }), over: new, in: orders) { _, _ in }
        // Observers were shown all that there is: a view that is short now is no longer what they know.
        var left = Self.filledAtOnce
        for view in place.views {
            guard let query = (view.shown as? LiveQueryShown)?.view else { continue }
            while query.isShort {
                left -= 1
                if left < 0 || (query.query.keptOrder.map { orders($0) == nil } ?? false) { return false }
                _ = place.queries.fill(query, over: new, in: orders)
            }
        }
        weigh(place)
        fillLater(place)
        return true
    }

    /// Ends all observers of a place's live queries, and begins anew with those that come.
    func endAll(at path: Path) { if let place = queried[path] { endAll(place, .takenBack) } }

    private func endAll(_ place: QueriedPlace, _ failure: Failure) {
        // The queries are another thread's: they end when they are back.
        if place.isLent { return place.isUndone = true }
        let views = place.views
        place.isUndone = false
        for view in views {
            for (style, client) in view.observers { onEnded(view.observation(style), client, failure) }
        }
        for view in place.views { remove(view, at: place) }
        let waiting = place.waiting
        place.waiting = []
        forget(place)
        for resume in waiting { resume() }
        finishWork()
    }

    /// After a deploy: points that are declared otherwise are of no use any more, nor are the circles that rest on them.
    func recheckDeclarations() {
        for place in queried.values {
            guard let index = place.queries.index, index.fields != content.rules.geoFields(at: place.path) else { continue }
            endAll(place, .missingPoints(place.path))
        }
    }
}

/// What a background thread uses instead of the queue, until it is back.
private struct Lent<Value>: @unchecked Sendable {
    // Sendable: handed over as a whole, and never used from two threads.
    let value: Value
    init(_ value: Value) { self.value = value }
}

extension LiveQueryShown {
    /// The order that must be kept for it; a count looks at the changed children alone.
    var keptOrder: TreeQuery.Index? {
        guard view.showing == .children, let ordering = view.query.keptOrder, ordering != .key else { return nil }
        return ordering
    }
}

extension ChildWrite {
    init(_ change: ChildChange) { self.init(change.key, old: change.old, new: change.new) }
    init(_ change: ChildMap.Change) { self.init(change.key, old: change.old ?? .null, new: change.new ?? .null) }
}

extension Failure {
    /// Commits that were told of in advance were not stored after all.
    static let takenBack = Failure(.unavailable, "The hub could not store what it was about to tell; observe again.")

    static func missingPoints(_ path: Path) -> Failure {
        Failure(
            .missingIndex,
            "No points defined, add \".geoIndex\": {\"lat\": \"lat\", \"lng\": \"lng\"}, or where children have their degrees, for path \"\(path)\", "
                + "to the rules")
    }
}
