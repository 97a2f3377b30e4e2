import JSONTree
import Synchronization

/// Handles clients that read too slowly: holds their requests, and combines changes until they catch up. `Lag` is their state. Confined to the
/// database queue.
final class SlowReaders {
    private let context: EngineContext
    private let places: PlaceTrie
    private let batch: Batch
    private let outbox: Outbox
    private let durability: DurabilityQueue

    init(_ context: EngineContext, _ places: PlaceTrie, _ batch: Batch, _ outbox: Outbox, _ durability: DurabilityQueue) {
        self.context = context
        self.places = places
        self.batch = batch
        self.outbox = outbox
        self.durability = durability
    }

    // MARK: Requests

    /// What to do with a request.
    enum Admission {
        case carryOut
        /// It waits until the client has received its earlier messages.
        case held
        /// Run these, in order.
        case resume([SubmittedRequest])
    }

    func admit(_ item: SubmittedRequest) -> Admission {
        guard let lag = item.client.lag else { return .carryOut }
        switch item.request {
        case .congested, .drained: return .carryOut
        case .end, .revoke:
            // The client has disconnected, or its credential has expired. Run its earlier requests in order, but send no more content. A slow reader
            // must not receive content that it may no longer read.
            item.client.isGone.store(true, ordering: .relaxed)
            stop(item.client)
            return lag.held.isEmpty ? .carryOut : .resume(lag.held + [item])
        default:
            lag.held.append(item)
            return .held
        }
    }

    /// Call after each request: a client that was sent many bytes must read them before its next requests run.
    func probeIfNeeded(_ client: Client) {
        guard client.unprobedBytes > context.limits.answerBytes, client.lag == nil, !client.hasEnded,
            !client.isGone.load(ordering: .relaxed)
        else { return }
        client.lag = Lag()
        // Send the probe after the client's answers, which may have left before the batch.
        outbox.probe(client, client.lastSent < durability.firstWaiting ? .early : .batch)
    }

    /// Removes and returns the requests held for a client, so that the caller runs them with others.
    func dequeueHeld(of client: Client) -> [SubmittedRequest] {
        guard let lag = client.lag else { return [] }
        defer { lag.held = [] }
        return lag.held
    }

    // MARK: Suspending

    /// A large message is sent to the client. Its requests wait until it has received that message. So do its value observers, if a newer state may
    /// replace older ones or an earlier large message is still being sent.
    func holdUntilReceived(_ client: Client, suspends: Bool, _ channel: Outbox.Channel = .batch) {
        if client.hasEnded || client.isGone.load(ordering: .relaxed) { return }
        let lag = client.lag ?? Lag()
        client.lag = lag
        let wasTaking = lag.isReceivingLarge
        lag.isReceivingLarge = true
        if !wasTaking { outbox.probe(client, channel) }
        if suspends || wasTaking { suspend(client) }
    }

    /// Suspends a client's value observers: too many bytes wait in its lane. They receive nothing until it has read them.
    func suspend(_ client: Client) {
        let lag = client.lag ?? Lag()
        client.lag = lag
        guard !lag.isSuspended else { return }
        lag.isSuspended = true
        context.meter.counters.suspensions += 1
        context.meter.counters.suspended += 1
        for observation in client.observations where observation.mayConflate {
            guard let view = places.existingView(of: observation) else { continue }
            // A pending rate-limited change counts as missed from now on.
            if view.paces[observation.style]?.isPending == true { miss(observation, of: client) }
            view.suspend(client, style: observation.style)
        }
    }

    /// Records the change of a view for its suspended observers.
    /// - Parameter written: the places written below the view's; empty if all of it may differ.
    func conflate(_ view: View, _ written: ArraySlice<Path> = []) {
        if view.suspended.isEmpty { return }
        let limit = context.limits.stalePlaces
        let parts = view.shown.showsWrites && !written.isEmpty ? MissedPaths.of(written, limit: limit) : .whole
        for (style, audience) in view.suspended {
            let missed = style.sendsPartialChanges ? parts : .whole
            for client in audience.lanes.joined() { miss(view.observation(style), of: client, missed) }
        }
    }

    /// Records that a suspended observer has missed a change.
    func miss(_ observation: Observation, of client: Client, _ missed: MissedPaths = .whole) {
        client.lag?.mark(observation, missed, limit: context.limits.stalePlaces)
        context.meter.counters.conflated += 1
    }

    // MARK: Catching up

    /// Resumes the observers of a client that has received everything.
    /// - Returns: the changes that its observers have missed, and its held requests in order. Nil for a client that was not held back.
    func catchUp(_ client: Client) -> (missed: MissedChanges, held: [SubmittedRequest])? {
        guard let lag = client.lag else { return nil }
        stop(client)
        client.unprobedBytes = 0
        guard lag.isSuspended else { return (MissedChanges(), lag.held) }
        for observation in client.observations where observation.mayConflate {
            places.existingView(of: observation)?.resume(client, style: observation.style)
        }
        let stale = lag.takeStale()
        batch.record(.catchUp(client, stale))
        return (stale, lag.held)
    }

    /// Ends the client's lag: it keeps up again, or has disconnected.
    func stop(_ client: Client) {
        if client.lag?.isSuspended == true { context.meter.counters.suspended -= 1 }
        client.lag = nil
    }
}
