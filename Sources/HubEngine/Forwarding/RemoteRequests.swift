import DequeModule
import Journal
import JSONTree
import Scheduling

/// Runs the requests that followers forward to this database, the writer. They run as requests of clients of its own, under the same rules and
/// budgets. Each request runs once, even if it arrives twice or a previous writer ran it.
///
/// ```
/// message ─► next of its stream? ─► request: not settled, running or in the log? ─► loop ─► durable ─► reply, or the log
///                └ else dropped: the follower repeats it                    └ known: repeat its outcome
/// ```
/// A hub that is lost for a while is given up: the writer applies its sessions' onDisconnect writes and rejects its requests.
///
/// Confined to the database queue.
final class RemoteRequests: @unchecked Sendable {
    // Sendable: closures that capture it only return to the queue.
    struct Peer {
        var stream: UInt64 = 0
        /// Index of the next expected message.
        var next: UInt64 = 0
        /// Requests with lower numbers are settled.
        var base: UInt64 = 0
        /// Received requests from `base` on, by number.
        var open: [UInt64: RequestState] = [:]
        /// Bytes of the unanswered requests.
        var bytes = 0
    }

    enum RequestState {
        case underWay
        /// The session is ending. The end is answered after this commit. Nil while the log refuses commits, since it is then unknown which commits it
        /// holds.
        case ending(String, behind: UInt64?)
        case answered(PeerReply)
    }

    let context: EngineContext
    let content: Content
    let durability: DurabilityQueue
    let log: LogGuard
    let commits: CommitPipeline
    let disconnects: DisconnectWrites
    let sessions: Sessions
    let loop: RequestLoop
    let outbox: Outbox
    let link: any HubLink
    /// Sends a message to another hub, or to this one.
    let post: ([UInt8], UInt64) -> Void
    /// The lane of answers to clients of other hubs.
    let lane: Int
    /// 0 while this database is not the writer.
    var term: UInt64 = 0
    var peers: [UInt64: Peer] = [:]
    /// The share of the process's memory budget that the requests' bytes take.
    let held: MemoryLease
    /// Since when each lost hub has not been alive, steady ms. Also kept while this database follows, so that a new writer does not restart the
    /// clock.
    var lostSince: [UInt64: Int64] = [:]
    var clients: [String: RemoteClient] = [:]
    /// Stand-in clients for answers that belong to no client, by hub.
    var senders: [UInt64: RemoteClient] = [:]
    var isTicking = false

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ commits: CommitPipeline, _ disconnects: DisconnectWrites, _ sessions: Sessions,
        _ loop: RequestLoop, _ outbox: Outbox, _ link: any HubLink, lane: Int, _ post: @escaping ([UInt8], UInt64) -> Void
    ) {
        self.context = context
        (content, durability, log) = (pipeline.content, pipeline.durability, pipeline.log)
        self.commits = commits
        self.disconnects = disconnects
        self.sessions = sessions
        self.loop = loop
        self.outbox = outbox
        self.link = link
        self.lane = lane
        self.post = post
        held = MemoryLease(MemoryShare(of: context.budget), for: .parsing)
    }

    var isWriting: Bool { term != 0 }

    // MARK: Role

    /// This database becomes the writer.
    /// - Parameter left: sessions with stored onDisconnect writes. Those of hubs are kept until they end; the rest are returned.
    func begin(adopting left: [PendingSession]) -> [PendingSession] {
        context.queue.assertCurrent()
        term = UInt64.random(in: 1 ... .max)
        peers = [:]
        var others: [PendingSession] = []
        for session in left {
            guard let hub = SessionName.hub(of: session.id) else {
                others.append(session)
                continue
            }
            let client = RemoteClient(
                session.id, of: hub, lane: lane, identity: Identity(auth: session.auth, isAdmin: session.isAdmin))
            clients[session.id] = client
            disconnects.adopt(session, by: client)
        }
        if !isTicking { tickLater() }
        return others
    }

    /// This database is no longer the writer. Running requests get no answer; the follower repeats them at the next writer.
    func end() {
        context.queue.assertCurrent()
        term = 0
        peers = [:]
        held.shrink(to: 0)
        for client in clients.values { disconnects.release(client) }
        clients = [:]
    }

    // MARK: Messages

    func receive(_ frame: PeerInbox.PeerFrame, from hub: UInt64) {
        context.queue.assertCurrent()
        guard isWriting else { return }
        switch frame {
        case .join: join(hub)
        case .probe(let place): probed(place, hub)
        case .requests(let place, let messages, let requests, let bytes): receive(requests, place, messages, bytes, hub)
        case .state, .replies: break
        }
    }

    private func join(_ hub: UInt64) {
        guard content.peers[hub] == nil, content.peers.peers.count < context.limits.hubs, !log.isRefusing else { return }
        commits.record([.peer(.join(hub: hub, at: content.sequence + 1))])
        durability.finishBatch()
    }

    /// True if the message belongs to the current term and comes from a hub that has joined.
    private func isOfCurrentTerm(_ place: PeerMessage.StreamPosition, _ hub: UInt64) -> Bool {
        place.term == term && place.joined != 0 && content.peers[hub]?.joined == place.joined
    }

    private func probed(_ place: PeerMessage.StreamPosition, _ hub: UInt64) {
        guard content.peers[hub]?.joined == place.joined else { return }
        let peer = peers[hub] ?? Peer()
        var state = place
        (state.term, state.stream, state.index) = (term, peer.stream, peer.next)
        post(PeerMessage.state(state).encoded, hub)
        guard place.term == term else { return }
        settle(before: place.base, of: hub)
        checkEnds(of: hub)
        var answered: [PeerReply] = []
        for case .answered(let reply) in (peers[hub]?.open ?? [:]).values { answered.append(reply) }
        reply(answered, to: hub)
    }

    private func receive(_ requests: [PeerRequest], _ place: PeerMessage.StreamPosition, _ messages: UInt64, _ bytes: Int, _ hub: UInt64) {
        guard isOfCurrentTerm(place, hub), place.index &+ 1 >= messages else { return }
        let first = place.index &+ 1 - messages
        var peer = peers[hub] ?? Peer()
        if place.stream > peer.stream, first == 0 { (peer.stream, peer.next) = (place.stream, 0) }
        guard place.stream == peer.stream, first == peer.next, peer.bytes + bytes <= context.limits.remoteBytes,
            peers.values.reduce(bytes, { $0 + $1.bytes }) <= context.limits.remoteBytesOfAll,
            held.become(peers.values.reduce(bytes, { $0 + $1.bytes }))
        else { return }
        peer.next = place.index &+ 1
        peers[hub] = peer
        settle(before: place.base, of: hub)
        var (items, known): ([SubmittedRequest], [PeerReply]) = ([], [])
        for request in requests where request.number >= (peers[hub]?.base ?? 0) {
            if let reply = outcome(of: request, hub) { known.append(reply) } else { items += accept(request, place, hub) }
        }
        reply(known, to: hub)
        if !items.isEmpty { loop.handle(items) }
        checkEnds(of: hub)
    }

    private func settle(before base: UInt64, of hub: UInt64) {
        guard var peer = peers.removeValue(forKey: hub) else { return }
        if base > peer.base {
            peer.base = base
            peer.open = peer.open.filter { $0.key >= base }
        }
        peers[hub] = peer
    }

    // MARK: Requests

    /// The outcome of a request received before; nil if it is running or new.
    private func outcome(of request: PeerRequest, _ hub: UInt64) -> PeerReply? {
        if case .answered(let reply) = peers[hub]?.open[request.number] { return reply }
        guard peers[hub]?.open[request.number] == nil, let known = content.peers[hub], request.number <= known.newest else { return nil }
        let done = known.done
        if let known = done.last(where: { $0.number == request.number }) {
            return PeerReply(number: request.number, outcome: .done, sequence: known.sequence)
        }
        // If a later request of the same client was applied by the previous writer, that writer must have refused this one.
        guard done.contains(where: { $0.client == request.client && $0.number > request.number }) else { return nil }
        return PeerReply(number: request.number, outcome: .failed(.refusedBefore), sequence: durability.durable.sequence)
    }

    /// The requests to run for a forwarded request; empty if it is already running.
    private func accept(_ request: PeerRequest, _ place: PeerMessage.StreamPosition, _ hub: UInt64) -> [SubmittedRequest] {
        guard peers[hub]?.open[request.number] == nil else { return [] }
        if case .end(let session) = request.work {
            peers[hub]?.open[request.number] = .ending(session, behind: log.isRefusing ? nil : content.sequence)
            return end(session, as: session == request.facts.session ? request.facts.identity : nil)
        }
        guard SessionName.hub(of: request.facts.session) == hub else { return [] }
        peers[hub]?.open[request.number] = .underWay
        let bytes = request.bytes
        peers[hub]?.bytes += bytes
        let client = client(request.facts, hub)
        client.address = request.facts.address
        let mark = PeerMark(hub: hub, number: request.number, client: request.client, base: place.base)
        var items = identify(client, as: request.facts.identity)
        let (asked, commits) = Self.request(request)
        let token = Int64(bitPattern: request.number)
        client.remote?.remember(RemoteMark(mark, joined: place.joined), as: token)
        client.waiting.append(RemoteClient.PendingRequest(number: request.number, commits: commits, bytes: bytes))
        context.meter.wait(bytes)
        items.append(SubmittedRequest(client: client, request: asked, token: token, size: bytes, hold: nil))
        return items
    }

    /// A request that gives the remote client its current identity; empty if unchanged.
    func identify(_ client: RemoteClient, as identity: Identity) -> [SubmittedRequest] {
        let isOther = (client.claimed ?? client.identity) != identity
        client.claimed = identity
        guard isOther else { return [] }
        client.waiting.append(RemoteClient.PendingRequest(number: nil, commits: false, bytes: 0))
        return [SubmittedRequest(client: client, request: .identify(identity), token: 0, size: 0, hold: nil)]
    }

    private static func request(_ request: PeerRequest) -> (Request, commits: Bool) {
        switch request.work {
        case .write(let writes, let condition): (.write(writes, condition: condition), !writes.isEmpty)
        case .exchange(let exchange, let writes): (.exchange(exchange), !writes.isEmpty)
        case .onDisconnect(let writes): (.onDisconnect(writes), !writes.isEmpty)
        case .cancelOnDisconnect(let path): (.cancelOnDisconnect(path), false)
        case .system(let writes, let cause): (.system(writes, cause), !writes.isEmpty)
        case .identify, .end: (.identify(request.facts.identity), false)
        }
    }

    func client(_ facts: PeerRequest.Facts, _ hub: UInt64) -> RemoteClient {
        if let known = clients[facts.session], !known.hasEnded { return known }
        let client = RemoteClient(facts.session, of: hub, lane: lane, identity: facts.identity)
        clients[facts.session] = client
        return client
    }
}

extension Failure {
    fileprivate static let refusedBefore = Failure(
        .unavailable, "The hub that wrote before has refused this, and its reason was lost with it. Nothing of it was stored.")
}
