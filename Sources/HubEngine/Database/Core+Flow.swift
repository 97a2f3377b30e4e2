import JSONTree
import Synchronization

/// Clients that read too slowly: held back, told less, caught up with.
extension Core {
    /// Whether the request has to wait until the client has read what it was sent; keeps it then.
    func mustHold(_ item: Database.Item) -> Bool {
        guard let lag = item.client.lag else { return false }
        switch item.request {
        case .congested, .drained: return false
        case .end, .revoke:
            // The client is lost, or its rights are: what it asked before still counts, in order, but nobody waits for
            // content any more. A peer that reads slowly must not keep what it has no right to.
            item.client.isGone.store(true, ordering: .relaxed)
            stopLagging(item.client)
            if lag.held.isEmpty { return false }
            let all = lag.held + [item]
            countAgain(all)
            goOn(with: all, of: item.client)
            return true
        default:
            lag.held.append(item)
            return true
        }
    }

    /// After a request: a client that was sent much must have taken it before it gets more.
    func probeIfNeeded(_ client: Client) {
        guard client.unprobedBytes > limits.answerBytes, client.lag == nil, !client.hasEnded, !client.isGone.load(ordering: .relaxed) else { return }
        client.lag = Lag()
        // Behind its answers: those may have left before the batch.
        client.lastSent < firstWaiting ? early.probe(client) : output.probe(client)
    }

    /// The client's lane has too much waiting for it.
    func suspend(_ client: Client) {
        let lag = client.lag ?? Lag()
        client.lag = lag
        guard !lag.isSuspended else { return }
        lag.isSuspended = true
        counters.suspensions += 1
        counters.suspended += 1
        for observation in client.observations where observation.mayConflate {
            observers.existingPlace(at: observation.path)?.existingView(observation.query)?.suspend(client, style: observation.style)
        }
    }

    /// A commit changed a view: notes it for the observers that are not told now.
    /// - Parameter patches: the places below the view's that were written; empty when all of it may differ.
    func conflate(_ view: View, patches: [(path: Path, value: Node)]) {
        let parts = view.query == nil && !patches.isEmpty ? Staleness.of(patches, limit: limits.stalePlaces) : .whole
        for (style, audience) in view.suspended {
            let missed = style.tellsOfParts ? parts : .whole
            for client in audience.lanes.joined() {
                client.lag?.mark(Observation(path: view.path, query: view.query, style: style), missed, limit: limits.stalePlaces)
                counters.conflated += 1
            }
        }
    }

    /// Everything that the client was sent has left: tells it how things are now, then goes on with its requests.
    func catchUp(_ client: Client) {
        guard let lag = client.lag else { return }
        stopLagging(client)
        client.unprobedBytes = 0
        if lag.isSuspended { resume(client, lag) }
        probeIfNeeded(client)
        countAgain(lag.held)
        goOn(with: lag.held, of: client)
    }

    /// The client keeps up again, or is gone.
    func stopLagging(_ client: Client) {
        if client.lag?.isSuspended == true { counters.suspended -= 1 }
        client.lag = nil
    }

    private func resume(_ client: Client, _ lag: Lag) {
        for observation in client.observations where observation.mayConflate {
            observers.existingPlace(at: observation.path)?.existingView(observation.query)?.resume(client, style: observation.style)
        }
        let stale = lag.takeStale()
        note(.catchUp(client, stale))
        tell(client, stale)
    }

    /// What a client's observers have missed, in one message each; one that is held back again is told later.
    func tell(_ client: Client, _ stale: [Observation: Staleness]) {
        for (observation, missed) in stale {
            if let lag = client.lag, lag.isSuspended {
                lag.mark(observation, missed, limit: limits.stalePlaces)
                continue
            }
            guard let place = observers.existingPlace(at: observation.path), let view = place.existingView(observation.query) else { continue }
            // Whose index is being built is told when it is there.
            if view.query != nil, view.window == nil { continue }
            let change = present(view, place, missed)
            var size = ChangeSize(change, bound: limits.inlineBytes)
            if size.isLarge(for: observation.style) || output.bytes > limits.outputBytes {
                tellLater(LargeChange(change, format, limit: limits.readBytes), observation.style, to: client)
            } else {
                output.send(format.change(change)(observation.style), to: client)
            }
        }
    }

    /// How a view is now, as a change from something that missed parts of it.
    private func present(_ view: View, _ place: ObservedPlace, _ missed: Staleness) -> ViewChange {
        let node = root.node(at: view.path)
        guard case .at(let paths) = missed else {
            let value = view.window.flatMap { window in
                place.children(of: node, by: window.query.orderedBy).map { TreeQuery.value(of: window.selection(over: $0), in: node) }
            }
            return ViewChange(path: view.path, sequence: sequence, new: value ?? node, patches: [], events: [])
        }
        let patches = paths.map { (path: $0, value: root.node(at: $0)) }
        return ViewChange(path: view.path, sequence: sequence, new: node, patches: patches, events: [])
    }
}
