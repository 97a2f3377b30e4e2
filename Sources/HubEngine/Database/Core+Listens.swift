import Dispatch
import JSONTree

/// Which observers there are: taken in, removed, and counted.
extension Core {
    /// Why a new observer is one too many; nil when it is not.
    func refusal(of observation: Observation, of client: Client) -> Failure? {
        listens.move(client)
        let owner = listens.charge(of: client.chargedOwner)
        let weight = observation.weight
        if client.charge.listens + weight > limits.listens { return .tooManyListens("A connection", limits.listens) }
        if owner.listens + weight > limits.listensOfOwner {
            let name = if case .user = client.chargedOwner { "The connections of a user" } else { "The connections of an address without a user" }
            return .tooManyListens(name, limits.listensOfOwner)
        }
        if listens.total + weight > limits.listensOfNamespace { return .tooManyListens("A namespace", limits.listensOfNamespace) }
        if observers.count >= limits.observedPlaces { return .tooManyListens("A namespace", limits.observedPlaces, " at different places, with those above them,") }
        if client.observations.count(at: observation.path) >= limits.listensAtPlace {
            return .tooManyListens("A connection", limits.listensAtPlace, " at one place")
        }
        guard let query = observation.query, lacksIndex(query.orderedBy, observation.path) else { return nil }
        let children = root.node(at: observation.path).childCount
        if children > limits.unindexedChildren { return .missingIndex(query.orderedBy, observation.path) }
        if client.unindexed[PlaceOrder(path: observation.path, ordering: query.orderedBy)] != nil { return nil }
        let charged = client.chargedOwner == nil ? client.charge : owner
        if charged.unindexedEntries + max(children, KeptIndex.leastEntries) > limits.unindexedEntriesOfOwner {
            return .missingIndex(query.orderedBy, observation.path)
        }
        return nil
    }

    /// The observer is there from now on. Nothing happens when it was before.
    func insert(_ observation: Observation, of client: Client) {
        guard client.observations.insert(observation) else { return }
        counters.observers += 1
        note(.observed(client, observation))
        listens.move(client)
        listens.add(ListenCharge(listens: observation.weight), to: client)
        guard let query = observation.query, lacksIndex(query.orderedBy, observation.path) else { return }
        let order = PlaceOrder(path: observation.path, ordering: query.orderedBy)
        if let known = client.unindexed[order] {
            client.unindexed[order] = (known.listens + 1, known.entries)
        } else {
            let entries = max(root.node(at: observation.path).childCount, KeptIndex.leastEntries)
            client.unindexed[order] = (1, entries)
            listens.add(ListenCharge(unindexedEntries: entries), to: client)
        }
    }

    func remove(_ observation: Observation, of client: Client) {
        spent += 1
        readDependencies.set([], for: observation, of: client)
        if client.observations.remove(observation) {
            note(.unobserved(client, observation))
            uncount(observation, of: client)
        }
        client.lag?.forget(observation)
        guard let place = observers.existingPlace(at: observation.path), let view = place.existingView(observation.query) else { return }
        view.remove(client, style: observation.style)
        guard view.isEmpty else { return }
        place.removeView(observation.query)
        if let query = observation.query, let index = place.existingIndex(query.orderedBy) { settle(index) }
        observers.prune(observation.path)
    }

    private func uncount(_ observation: Observation, of client: Client) {
        listens.remove(ListenCharge(listens: observation.weight), from: client)
        counters.listens = listens.total
        counters.observers -= 1
        guard let query = observation.query else { return }
        let order = PlaceOrder(path: observation.path, ordering: query.orderedBy)
        guard let known = client.unindexed[order] else { return }
        if known.listens > 1 {
            client.unindexed[order] = (known.listens - 1, known.entries)
        } else {
            client.unindexed[order] = nil
            listens.remove(ListenCharge(unindexedEntries: known.entries), from: client)
        }
    }

    // MARK: Ending

    /// Removes the observers of a client that has ended: a few at once, many in slices between which others get their turn.
    func removeObservers(of client: Client) {
        if client.observations.count > limits.removalsAtOnce { return leaveLater(client) }
        for observation in client.observations { remove(observation, of: client) }
    }

    /// Removes the observers in slices, if the client has ended by then or its rights have.
    func leaveLater(_ client: Client) {
        leavers.append(client)
        if leavers.count == 1 { removeLater() }
    }

    private func removeLater() {
        queue.async { [self] in
            removeSlice()
            if !leavers.isEmpty { removeLater() }
        }
    }

    private func removeSlice() {
        dispatchPrecondition(condition: .onQueue(queue))
        var left = limits.removalsAtOnce
        while left > 0, let client = leavers.first {
            // What ended it may have been taken back.
            let slice = client.hasEnded || client.isRevoked ? client.observations.some(left) : []
            if slice.count < left { leavers.removeFirst() }
            for observation in slice { remove(observation, of: client) }
            left -= max(1, slice.count)
        }
        finishBatch()
        gauge.publish(counters)
    }
}

extension Observation {
    /// What it counts as: deep places hold the ones above them.
    fileprivate var weight: Int { 1 + path.depth / 8 }
}

extension Failure {
    fileprivate static func tooManyListens(_ whose: String, _ most: Int, _ place: String = "") -> Failure {
        Failure(.tooBig, "\(whose) may have \(most) observers\(place) at once.")
    }
}
