import Journal
import JSONTree
import Scheduling

/// The sessions of other hubs' clients: when they end, alone or with their hub.
///
/// ```
/// end of a session ─► its client ends ─► what it left is written, durable ─► answered
/// a hub is not heard of ─► for a while ─► none of its requests counts any more ─► its sessions end
/// ```
extension RemoteRequests {
    /// The client of another hub that has the session.
    func client(named session: String) -> RemoteClient? { clients[session].flatMap { $0.hasEnded ? nil : $0 } }

    /// The end of a session was undone: the log has refused it. Its client may be forgotten by now.
    func restored(_ client: Client) { if let client = client as? RemoteClient { clients[client.name] = client } }

    /// What ends a session, here or at another hub, so that what it left is written.
    /// - Parameter identity: who its client was at last, where that is known.
    func end(_ session: String, as identity: Identity? = nil) -> [Database.Item] {
        if let remote = client(named: session) {
            let end = Database.Item(client: remote, request: .end, token: 0, size: 0, hold: nil)
            return (identity.map { identify(remote, as: $0) } ?? []) + [end]
        }
        guard let local = sessions.client(named: session) else { return [] }
        return [Database.Item(client: local, request: .revoke(notice: []), token: 0, size: 0, hold: nil)]
    }

    /// Answers ends of sessions that are over by now, behind what is not durable yet. A hub that another has replaced without knowing it
    /// does not know of all sessions: each end is answered behind a commit that the log has taken since it was asked for.
    func checkEnds(of hub: UInt64) {
        guard !log.isRefusing, let open = peers[hub]?.open else { return }
        var isAny = false
        for (number, standing) in open {
            guard case .ending(let session, let before) = standing, client(named: session) == nil, sessions.client(named: session) == nil,
                !disconnects.owes(session)
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

    /// Notes which hubs are heard of now, while the database writes and while it follows.
    func lookAround() {
        context.queue.assertCurrent()
        // What a hub that hears nobody does not hear says nothing about others.
        guard link.hears else { return lostSince = [:] }
        let now = context.scheduler.steadyMs
        var hubs = Set(content.peers.peers.keys)
        for client in clients.values { hubs.insert(client.hub) }
        var lost: [UInt64: Int64] = [:]
        for hub in hubs where hub != link.hub && !link.isAlive(hub) { lost[hub] = lostSince[hub] ?? now }
        lostSince = lost
    }

    /// Gives up the hubs that have not been heard of for a while.
    private func tick() {
        guard isWriting else { return }
        let now = context.scheduler.steadyMs
        if !durability.isBehind { for client in clients.values where client.hasEnded { refuseAll(of: client) } }
        clients = clients.filter { !$0.value.isIdle }
        lookAround()
        if log.isRefusing { return }
        for (hub, since) in lostSince where now - since >= context.limits.presenceMs { giveUp(hub) }
    }

    /// Requests that came behind the end of their session, which was taken over elsewhere.
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

    /// A hub is gone: first none of its requests counts any more, then what its sessions have left is written.
    func giveUp(_ hub: UInt64) {
        if content.peers[hub] != nil { commits.record([.peer(.gone(hub: hub))]) }
        (peers[hub], senders[hub], lostSince[hub]) = (nil, nil, nil)
        let ended = clients.values.filter { $0.hub == hub && !$0.hasEnded }.sorted { $0.name < $1.name }
        loop.handle(ended.map { Database.Item(client: $0, request: .end, token: 0, size: 0, hold: nil) })
    }
}

extension Failure {
    fileprivate static let endedElsewhere = Failure(
        .unavailable, "The session has gone on elsewhere. Nothing of this was stored.")
}
