import Journal

/// The cluster parts of a database: `Forwarding` sends requests to the writer, `RemoteRequests` runs the requests of other hubs, and a `HubLink`
/// connects the hubs.
///
///     other hub ─► HubLink ─► PeerInbox ─► database queue ─► Forwarding (replies), RemoteRequests (requests) ─► HubLink ─► other hub
final class PeerComponents: @unchecked Sendable {
    // Sendable: the parts are set once, when the engine is assembled, and used on the database queue.
    private let context: EngineContext
    private let link: any HubLink
    private(set) var forwarding: Forwarding?
    private(set) var remote: RemoteRequests?
    private var inbox: PeerInbox?

    init(_ context: EngineContext, _ link: any HubLink) { (self.context, self.link) = (context, link) }

    /// Answers to other hubs leave by the last lane, after those of the net loops.
    private var lane: Int { context.lanes - 1 }

    func wrap(_ outlet: @escaping Outlet) -> Outlet {
        { [weak self, lane] of, deliveries in if of == lane { self?.remote?.deliver(deliveries) } else { outlet(of, deliveries) } }
    }

    func connect(
        _ pipeline: BatchPipeline, _ commits: CommitPipeline, _ suspendedRequests: SuspendedRequests, _ writes: WriteRequests,
        _ disconnects: DisconnectWrites, _ sessions: Sessions, _ loop: RequestLoop, _ handler: RequestHandler, _ output: ClientOutput,
        follows: Bool
    ) {
        let inbox = PeerInbox(most: context.limits.remoteBytesOfAll, of: context.budget) { [weak self, queue = context.queue] frame, hub in
            queue.async { [weak self] in self?.receive(frame, from: hub) }
        }
        self.inbox = inbox
        // Messages to this hub itself take the same path.
        let post = { [link] (message: [UInt8], hub: UInt64) in
            if hub == link.hub { inbox.receive(message, from: hub) } else { link.send(message, to: hub) }
        }
        let forwarding = Forwarding(
            context, pipeline, suspendedRequests, writes, output.answers, link, isFollowing: follows, post)
        let remote = RemoteRequests(
            context, pipeline, commits, disconnects, sessions, loop, output.outbox, link, lane: lane, post)
        forwarding.carryOut = { [weak handler] in handler?.resumeForwarded($0) }
        forwarding.close = { [weak outbox = output.outbox] in outbox?.close($0) }
        sessions.onLeft = { [weak forwarding] in forwarding?.left($0) }
        sessions.onRestored = { [weak remote] in remote?.restored($0) }
        sessions.remote = { [weak remote] in remote?.client(named: $0) }
        handler.forwarding = forwarding
        (self.forwarding, self.remote) = (forwarding, remote)
    }

    /// A session of this hub ended while this hub was the writer, but another hub became the writer before the end was stored. Asks the new writer to
    /// end it. The sessions of other hubs are left to those hubs, or to the writer when they are lost.
    func hasEnded(_ session: String) {
        guard let forwarding, SessionName.hub(of: session) == link.hub else { return }
        let client = Client(lane: lane, dialect: .realtime, identity: .anonymous)
        forwarding.takeOver(client, leaving: session)
        forwarding.left(client)
    }

    private func receive(_ frame: PeerInbox.PeerFrame, from hub: UInt64) {
        switch frame {
        case .join, .probe, .requests: remote?.receive(frame, from: hub)
        case .state, .replies: forwarding?.receive(frame, from: hub)
        }
    }

    /// Waits until all received messages have reached the database queue; for tests.
    func readAll() { inbox?.readAll() }

    /// Starts to receive messages of other hubs.
    func listen() {
        let inbox = inbox
        link.listen { [weak self, queue = context.queue] news in
            switch news {
            case .message(let bytes, let hub): inbox?.receive(bytes, from: hub)
            case .writerChanged: queue.async { [weak self] in self?.changed() }
            }
        }
        changed()
    }

    /// The writer changed or is unknown, or another hub joined or left.
    private func changed() {
        remote?.updateLostHubs()
        forwarding?.writerChanged()
    }
}
