import JSONTree
import LiveQueries

/// Adds, removes and counts observers.
///
/// Confined to the database queue. Adding and removing cost O(depth).
final class ObserverRegistry: @unchecked Sendable {
    // Sendable: closures that capture it only return to the queue.
    private let context: EngineContext
    private let content: Content
    private let places: PlaceTrie
    private let indexes: IndexStore
    private let batch: Batch
    private let durability: DurabilityQueue
    private var counts = ListenCounts()
    /// Set once, when the engine is assembled.
    var queries: QuerySetStore? {
        didSet { queries?.onHeldChanged = { [weak self] in self?.recharge($0) } }
    }
    /// Called with the change in the number of resumable observers.
    var onResumable: (Int) -> Void = { _ in }
    /// Clients whose many observers are removed in slices.
    private var leaving: [Client] = []

    init(
        _ context: EngineContext, _ content: Content, _ places: PlaceTrie, _ indexes: IndexStore, _ batch: Batch,
        _ durability: DurabilityQueue
    ) {
        self.context = context
        self.content = content
        self.places = places
        self.indexes = indexes
        self.batch = batch
        self.durability = durability
    }

    /// Why a new observer exceeds a limit; nil if it does not. The view of a live query is checked once it is known.
    func refusal(of observation: Observation, of client: Client) -> Failure? {
        let limits = context.limits
        charge(client)
        if let refusal = refusal(of: observation.weight, client) { return refusal }
        if places.count >= limits.observedPlaces {
            return .tooManyListens("A namespace", limits.observedPlaces, " at different places, with those above them,")
        }
        if client.observations.count(at: observation.path) >= limits.listensAtPlace {
            return .tooManyListens("A connection", limits.listensAtPlace, " at one place")
        }
        guard let ordering = observation.keptOrder, indexes.isCharged(ordering, observation.path) else { return nil }
        let isMissing = indexes.isMissing(ordering, observation.path)
        let children = content.root.node(at: observation.path).childCount
        if isMissing, children > limits.unindexedChildren { return .missingIndex(ordering, observation.path) }
        if counts.isShared(.order(PlaceOrder(path: observation.path, ordering: ordering))) { return nil }
        let refusal = isMissing ? Failure.missingIndex(ordering, observation.path) : .tooManyOrders(limits)
        let ordersShare = isMissing ? limits.unindexedOrdersShare : limits.membershipOrdersShare
        if !counts.hasRoom(forOrderAt: observation.path, client, ordersShare) { return refusal }
        // The rules declare members for places of any size, so each owner's first order is admitted whatever its size.
        if !isMissing, counts.isUncharged(client, \.unindexedEntries) { return nil }
        let more = max(children, ChildIndex.leastEntries)
        return counts.excess(client, more, of: \.unindexedEntries, limits.unindexedEntriesShare) == nil ? nil : refusal
    }

    /// Why an observer of a live query exceeds a limit, now that its view is known; nil if it does not.
    /// - Parameter replaced: the observer whose place it takes when its circle or region moves. That one is counted already.
    func refusal(
        of observation: Observation, showing view: View, of client: Client, replacing replaced: Observation? = nil
    ) -> Failure? {
        let limits = context.limits
        charge(client)
        let weight = observation.weight - (replaced?.weight ?? 0)
        // Also where others show the same view: a polygon may weigh more than the box before it.
        if replaced != nil, weight > 0, let refusal = refusal(of: weight, client) { return refusal }
        guard let state = observation.liveState, !counts.isShared(state), let more = view.liveCharge else { return nil }
        if let refusal = refusal(of: more.listens + weight, client) { return refusal }
        if more.liveChildren == 0 { return nil }
        let excess = counts.excess(client, more.liveChildren, of: \.liveChildren, limits.liveChildrenShare)
        return excess == nil ? nil : .tooManyLiveQueries
    }

    /// Why `weight` more exceeds a limit; nil if it does not.
    private func refusal(of weight: Int, _ client: Client) -> Failure? {
        let limits = context.limits
        if client.charge.listens + weight > limits.listens { return .tooManyListens("A connection", limits.listens) }
        if !client.chargedOwners.isEmpty, let (owner, most) = counts.excess(client, weight, of: \.listens, limits.listensShare) {
            return .tooManyListens(owner.text, most)
        }
        return counts.total + weight > limits.listensOfNamespace ? .tooManyListens("A namespace", limits.listensOfNamespace) : nil
    }

    /// Updates the charge for what a live query's view holds.
    private func recharge(_ view: View) {
        guard let shown = view.live, let charge = view.liveCharge else { return }
        counts.recharge(.view(view.path, shown.view.query, shown.view.showing), charge)
    }

    /// Moves the charges of a client's observers to its current identity.
    func charge(_ client: Client) { counts.move(client) }

    // MARK: Adding

    /// Adds an observer.
    /// - Parameter window: what its query shows now; used for the first observer of that query. The view of a live query already exists.
    func insert(_ observation: Observation, of client: Client, showing window: QueryWindow?) {
        let view =
            places.existingView(of: observation)
            ?? places.place(at: observation.path).view(observation.query?.plain, lanes: context.lanes, window: window)
        view.add(client, style: observation.style)
        insert(observation, of: client)
    }

    private func insert(_ observation: Observation, of client: Client) {
        guard client.observations.insert(observation) else { return }
        batch.record(.observed(client, observation))
        charge(client)
        counts.add(ListenCharge(listens: observation.weight), to: client)
        if let state = observation.liveState, let charge = places.existingView(of: observation)?.liveCharge {
            counts.share(state, with: client, charge: charge)
        }
        if let ordering = observation.keptOrder, indexes.isCharged(ordering, observation.path) {
            let entries = max(content.root.node(at: observation.path).childCount, ChildIndex.leastEntries)
            let order = PlaceOrder(path: observation.path, ordering: ordering)
            counts.share(.order(order), with: client, charge: ListenCharge(unindexedEntries: entries))
        }
        count(1)
        if observation.style.isResumable { onResumable(1) }
    }

    private func count(_ change: Int) {
        context.meter.counters.observers += change
        context.meter.counters.listens = counts.total
    }

    /// Restores an observer whose removal was rolled back. A slow reader's observer is marked stale, since it may have missed any change.
    func restore(_ observation: Observation, of client: Client) {
        // If the last observer of a live query has left, the result is gone, so the observer stays ended.
        guard observation.isPlain || places.existingView(of: observation) != nil else {
            queries?.lost(observation, client)
            return
        }
        let view = places.existingView(of: observation) ?? indexes.restoredView(observation.query?.plain, at: observation.path)
        view.add(client, style: observation.style)
        insert(observation, of: client)
        // The client's end itself may not be rolled back; then remove the observer again.
        if !leaving.contains(where: { $0 === client }) { removeInSlices(client) }
        if let lag = client.lag, lag.isSuspended, observation.mayConflate {
            view.suspend(client, style: observation.style)
            lag.mark(observation, .whole, limit: context.limits.stalePlaces)
        }
    }

    /// Replaces the places that an observer's permission depends on.
    /// - Parameter wholes: the places among them whose whole subtree counts.
    func setDependencies(_ paths: [Path], subtreeDependencies: Set<Path> = [], of observation: Observation, _ client: Client) {
        if let known = client.dependents[observation] {
            if known.places == paths, known.subtreeDependencies == subtreeDependencies { return }
            client.dependents[observation] = nil
            for path in known.places { places.remove(known, at: path) }
        }
        guard !paths.isEmpty else { return }
        let dependent = Dependent(client, observation, paths, subtreeDependencies: subtreeDependencies)
        client.dependents[observation] = dependent
        for path in paths { places.add(dependent, at: path) }
    }

    // MARK: Removing

    /// Does nothing if the observer does not exist.
    func remove(_ observation: Observation, of client: Client) {
        context.meter.spend(1)
        setDependencies([], of: observation, client)
        if client.observations.remove(observation) {
            batch.record(.unobserved(client, observation))
            uncount(observation, of: client)
        }
        client.lag?.forget(observation)
        guard let place = places.existingPlace(at: observation.path), let view = places.existingView(of: observation) else { return }
        view.remove(client, style: observation.style)
        guard view.isEmpty else { return }
        if !observation.isPlain { return place.queried.map { queries?.release(view, at: $0) } ?? () }
        place.removeView(observation.query?.plain)
        if let query = observation.query?.plain, let index = place.existingIndex(query.orderedBy) { indexes.settle(index) }
        places.prune(observation.path)
    }

    /// Replaces an observer by one of another query, whose view exists and already includes the client.
    func replace(_ observation: Observation, with other: Observation, of client: Client) {
        remove(observation, of: client)
        insert(other, of: client)
    }

    private func uncount(_ observation: Observation, of client: Client) {
        counts.remove(ListenCharge(listens: observation.weight), from: client)
        if let state = observation.liveState { counts.unshare(state, with: client) }
        if let ordering = observation.keptOrder {
            counts.unshare(.order(PlaceOrder(path: observation.path, ordering: ordering)), with: client)
        }
        count(-1)
        if observation.style.isResumable { onResumable(-1) }
    }

    /// Removes the observers of a client that has ended. Many are removed in slices, so that other requests run in between.
    func removeAll(of client: Client) {
        if client.observations.count > context.limits.removalsAtOnce { return removeInSlices(client) }
        for observation in client.observations { remove(observation, of: client) }
    }

    private func removeInSlices(_ client: Client) {
        leaving.append(client)
        if leaving.count == 1 { removeLater() }
    }

    private func removeLater() {
        context.queue.async { [self] in
            removeSlice()
            if !leaving.isEmpty { removeLater() }
        }
    }

    private func removeSlice() {
        context.queue.assertCurrent()
        var left = context.limits.removalsAtOnce
        while left > 0, let client = leaving.first {
            // Skip a client whose end was rolled back.
            let slice = client.hasEnded || client.isRevoked ? client.observations.some(left) : []
            if slice.count < left { leaving.removeFirst() }
            for observation in slice { remove(observation, of: client) }
            left -= max(1, slice.count)
        }
        durability.finishBatch()
    }
}

extension Observation {
    /// The order whose index is kept for it; nil if none.
    fileprivate var keptOrder: TreeQuery.Index? { showing == .count && !isPlain ? nil : query?.keptOrder }

    /// The state of a live query's view, which all observers of that query share; nil for other observers.
    fileprivate var liveState: SharedState? { isPlain ? nil : query.map { .view(path, $0, showing) } }

    /// Its weight against the limits. A deep place also keeps its ancestors; key texts, query conditions and polygons are held in memory.
    fileprivate var weight: Int {
        let texts = path.keys.reduce((query?.textBytes ?? 0) + (query?.within?.bytes ?? 0)) { $0 + $1.text.utf8Count }
        return 1 + path.depth / 8 + texts / 1_024 + (query?.filter.conditions.count ?? 0) / 2
    }
}

extension View {
    /// The charge for a live query's view, whatever its number of observers; nil for other views.
    fileprivate var liveCharge: ListenCharge? {
        live.map { ListenCharge(listens: 1, liveChildren: $0.held) }
    }
}

extension Owner? {
    /// The subject of error messages.
    fileprivate var text: String {
        switch self {
        case .user?: "The connections of a user"
        case .network?: "The connections of an IPv6 network of 48 bits without a user"
        case .nameless?: "The connections without an account"
        case .administrators?: "The connections of administrators"
        case .address?, nil: "The connections of an address without a user"
        }
    }
}

extension Failure {
    fileprivate static func tooManyOrders(_ limits: EngineLimits) -> Failure {
        let (orders, children) = (limits.membershipOrdersShare.each, limits.unindexedEntriesOfOwner)
        return Failure(
            .tooBig,
            "One user or address may observe orders by \(orders) members of sets at a place, and of \(children) children in all.")
    }

    fileprivate static func tooManyListens(_ whose: String, _ most: Int, _ place: String = "") -> Failure {
        Failure(.tooBig, "\(whose) may have \(most) observers\(place) at once.")
    }
}
