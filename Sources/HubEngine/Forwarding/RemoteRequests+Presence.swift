import Journal
import JSONTree
import Scheduling

/// Ends the sessions of other hubs' clients, one by one or when their hub is lost.
///
/// ```
/// end of a session ─► its client ends ─► its onDisconnect writes are durable ─► answered
/// a hub is not alive ─► for `presenceMs` ─► its requests are invalid ─► its sessions end
/// ```
extension RemoteRequests {
    /// The client of another hub that has the session.
    func client(named session: String) -> RemoteClient? { clients[session].flatMap { $0.hasEnded ? nil : $0 } }

    /// The log refused the end of a session. Adds its client again, which may have been removed.
    func restored(_ client: Client) { if let client = client as? RemoteClient { clients[client.name] = client } }

    /// Requests that end a session of this hub or another, so that its onDisconnect writes are applied.
    /// - Parameter identity: the client's last identity, if known.
    func end(_ session: String, as identity: Identity? = nil) -> [SubmittedRequest] {
        if let remote = client(named: session) {
            let end = SubmittedRequest(client: remote, request: .end, token: 0, size: 0, hold: nil)
            return (identity.map { identify(remote, as: $0) } ?? []) + [end]
        }
        guard let local = sessions.client(named: session) else { return [] }
        return [SubmittedRequest(client: local, request: .revoke(notice: []), token: 0, size: 0, hold: nil)]
    }

    /// Answers session ends that are complete, after all commits that are not yet durable. A writer that was replaced without noticing does not know
    /// all sessions. So each end is answered after a commit that the log accepted since the end was requested.
    func checkEnds(of hub: UInt64) {
        guard !log.isRefusing, let open = peers[hub]?.open else { return }
        var isAny = false
        for (number, state) in open {
            guard case .ending(let session, let before) = state, client(named: session) == nil, sessions.client(named: session) == nil,
                !disconnects.isPending(session)
            else { continue }
            isAny = true
            if content.sequence <= before ?? .max {
                peers[hub]?.open[number] = .ending(session, behind: content.sequence)
                commits.record([PendingChange]())
            }
            let sender = senders[hub] ?? RemoteClient("", of: hub, lane: lane)
            senders[hub] = sender
            outbox.mark(sender, Int(Int64(bitPattern: number)))
        }
        if isAny { durability.finishBatch() }
    }

    /// Records which hubs are not alive, whether this database writes or follows.
    func updateLostHubs() {
        context.queue.assertCurrent()
        // A hub that has lost its own connection cannot judge whether others are alive.
        guard link.isMembershipKnown else { return lostSince = [:] }
        let now = context.scheduler.steadyMs
        var hubs = Set(content.peers.peers.keys)
        for client in clients.values { hubs.insert(client.hub) }
        var lost: [UInt64: Int64] = [:]
        for hub in hubs where hub != link.hub && !link.isAlive(hub) { lost[hub] = lostSince[hub] ?? now }
        lostSince = lost
    }

    /// Gives up the hubs that have been lost for `presenceMs`.
    private func tick() {
        guard isWriting else { return }
        let now = context.scheduler.steadyMs
        if !durability.isBehind { for client in clients.values where client.hasEnded { refuseAll(of: client) } }
        clients = clients.filter { !$0.value.isIdle }
        updateLostHubs()
        if log.isRefusing { return }
        for (hub, since) in lostSince where now - since >= context.limits.presenceMs { giveUp(hub) }
    }

    /// Refuses requests that arrived after the end of their session, which continues at another hub.
    private func refuseAll(of client: RemoteClient) {
        let late = client.waiting.map { _ in Delivery.reply(client, .failed(.endedElsewhere)) }
        deliver(late)
    }

    func tickLater() {
        isTicking = true
        context.later(ms: context.limits.hubCheckMs) { [weak self] in
            guard let self else { return }
            tick()
            if isWriting { tickLater() } else { isTicking = false }
        }
    }

    /// Gives up a lost hub: first invalidates its requests, then applies the onDisconnect writes of its sessions.
    func giveUp(_ hub: UInt64) {
        if content.peers[hub] != nil { commits.record([.peer(.gone(hub: hub))]) }
        (peers[hub], senders[hub], lostSince[hub]) = (nil, nil, nil)
        let ended = clients.values.filter { $0.hub == hub && !$0.hasEnded }.sorted { $0.name < $1.name }
        loop.handle(ended.map { SubmittedRequest(client: $0, request: .end, token: 0, size: 0, hold: nil) })
    }
}

extension Failure {
    fileprivate static let endedElsewhere = Failure(
        .unavailable, "The session has gone on elsewhere. Nothing of this was stored.")
}
