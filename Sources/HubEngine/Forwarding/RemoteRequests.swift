import DequeModule
import Journal
import JSONTree
import Scheduling

/// Carries out what other hubs forward to this database, which writes, as requests of clients of its own: rules, budgets and all that
/// follows are as for these. Each request is carried out once, also when it comes again, or was carried out by the hub that wrote before.
///
/// ```
/// message ─► the next of its stream? ─► request: not settled, not under way, not in the log? ─► loop ─► durable ─► reply, or the log
///                └ else dropped: the hub repeats it                              └ known: its outcome again
/// ```
/// A hub that is not heard of any more is given up after a while: what its sessions have left is written, and its requests count no more.
///
/// Confined to the database queue.
final class RemoteRequests: @unchecked Sendable {
    // Sendable: only hops back to the queue.
    private struct Peer {
        var stream: UInt64 = 0
        /// Message that comes next.
        var next: UInt64 = 0
        /// Requests before this one are settled.
        var base: UInt64 = 0
        /// Those behind that have come.
        var open: [UInt64: Standing] = [:]
        /// Bytes of those that are not answered.
        var bytes = 0
    }

    private enum Standing {
        case underWay
        /// The session is ending.
        case ending(String)
        case answered(PeerReply)
    }

    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityLine
    private let log: LogGuard
    private let commits: CommitLine
    private let disconnects: DisconnectWrites
    private let sessions: Sessions
    private let loop: RequestLoop
    private let outbox: Outbox
    private let link: any HubLink
    /// Sends a message to another hub, or to this one.
    private let post: ([UInt8], UInt64) -> Void
    /// Answers to clients of other hubs leave by a lane of their own.
    private let lane: Int
    /// 0 while the database does not write.
    private var term: UInt64 = 0
    private var peers: [UInt64: Peer] = [:]
    /// Since when hubs are not heard of that may have left something, steady ms. Noted while the database follows, too: how long a hub has
    /// been lost does not begin anew with each writer.
    private var lostSince: [UInt64: Int64] = [:]
    private var clients: [String: RemoteClient] = [:]
    /// By which answers leave that are for no client.
    private var senders: [UInt64: RemoteClient] = [:]
    private var isTicking = false

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ commits: CommitLine, _ disconnects: DisconnectWrites, _ sessions: Sessions,
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
    }

    var isWriting: Bool { term != 0 }

    // MARK: Role

    /// The database writes from now on.
    /// - Parameter left: what sessions have left behind by now. That of sessions of hubs is kept until they end; the rest is returned.
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

    /// The database writes no more: what is under way is not answered; who has asked asks another hub.
    func end() {
        context.queue.assertCurrent()
        term = 0
        peers = [:]
        for client in clients.values { disconnects.release(client) }
        clients = [:]
    }

    // MARK: Messages

    func receive(_ letter: PeerInbox.Letter, from hub: UInt64) {
        context.queue.assertCurrent()
        guard isWriting else { return }
        switch letter {
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

    /// Whether a message is of a hub that may ask, in the term of now.
    private func isOfNow(_ place: PeerMessage.Place, _ hub: UInt64) -> Bool {
        place.term == term && place.joined != 0 && content.peers[hub]?.joined == place.joined
    }

    private func probed(_ place: PeerMessage.Place, _ hub: UInt64) {
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

    private func receive(_ requests: [PeerRequest], _ place: PeerMessage.Place, _ messages: UInt64, _ bytes: Int, _ hub: UInt64) {
        guard isOfNow(place, hub), place.index &+ 1 >= messages else { return }
        let first = place.index &+ 1 - messages
        var peer = peers[hub] ?? Peer()
        if place.stream > peer.stream, first == 0 { (peer.stream, peer.next) = (place.stream, 0) }
        guard place.stream == peer.stream, first == peer.next, peer.bytes + bytes <= context.limits.remoteBytes,
            peers.values.reduce(bytes, { $0 + $1.bytes }) <= context.limits.remoteBytesOfAll
        else { return }
        peer.next = place.index &+ 1
        peers[hub] = peer
        settle(before: place.base, of: hub)
        var (items, known): ([Database.Item], [PeerReply]) = ([], [])
        for request in requests where request.number >= (peers[hub]?.base ?? 0) {
            if let reply = outcome(of: request, hub) { known.append(reply) } else { items += take(request, place, hub) }
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

    /// What became of a request that has come before; nil when it is under way, or new.
    private func outcome(of request: PeerRequest, _ hub: UInt64) -> PeerReply? {
        if case .answered(let reply) = peers[hub]?.open[request.number] { return reply }
        guard peers[hub]?.open[request.number] == nil, let known = content.peers[hub], request.number <= known.newest else { return nil }
        let done = known.done
        if let known = done.last(where: { $0.number == request.number }) {
            return PeerReply(number: request.number, outcome: .done, sequence: known.sequence)
        }
        // A later one of the same client was carried out by the hub that wrote before, which has refused this one then.
        guard done.contains(where: { $0.client == request.client && $0.number > request.number }) else { return nil }
        return PeerReply(number: request.number, outcome: .failed(.refusedBefore), sequence: durability.durable.sequence)
    }

    /// What is to be carried out for a request; empty when it is under way.
    private func take(_ request: PeerRequest, _ place: PeerMessage.Place, _ hub: UInt64) -> [Database.Item] {
        guard peers[hub]?.open[request.number] == nil else { return [] }
        if case .end(let session) = request.work {
            peers[hub]?.open[request.number] = .ending(session)
            return end(session)
        }
        guard SessionName.hub(of: request.facts.session) == hub else { return [] }
        peers[hub]?.open[request.number] = .underWay
        let bytes = request.bytes
        peers[hub]?.bytes += bytes
        let client = client(request.facts, hub)
        client.address = request.facts.address
        let mark = PeerMark(hub: hub, number: request.number, client: request.client, base: place.base)
        var items: [Database.Item] = []
        if (client.claimed ?? client.identity) != request.facts.identity {
            client.waiting.append(RemoteClient.Asked(number: nil, commits: false, bytes: 0))
            items.append(Database.Item(client: client, request: .identify(request.facts.identity), token: 0, size: 0, hold: nil))
        }
        client.claimed = request.facts.identity
        let (asked, commits) = Self.request(request)
        let token = Int64(bitPattern: request.number)
        client.remote?.note(RemoteMark(mark, joined: place.joined), as: token)
        client.waiting.append(RemoteClient.Asked(number: request.number, commits: commits, bytes: bytes))
        context.meter.wait(bytes)
        items.append(Database.Item(client: client, request: asked, token: token, size: bytes, hold: nil))
        return items
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

    private func client(_ facts: PeerRequest.Facts, _ hub: UInt64) -> RemoteClient {
        if let known = clients[facts.session], !known.hasEnded { return known }
        let client = RemoteClient(facts.session, of: hub, lane: lane, identity: facts.identity)
        clients[facts.session] = client
        return client
    }

    // MARK: Ends

    /// The client of another hub that has the session.
    func client(named session: String) -> Client? { clients[session].flatMap { $0.hasEnded ? nil : $0 } }

    /// What ends a session, here or at another hub, so that what it left is written.
    private func end(_ session: String) -> [Database.Item] {
        if let remote = client(named: session) { return [Database.Item(client: remote, request: .end, token: 0, size: 0, hold: nil)] }
        guard let local = sessions.client(named: session) else { return [] }
        return [Database.Item(client: local, request: .revoke(notice: []), token: 0, size: 0, hold: nil)]
    }

    /// Answers ends of sessions that are over by now, behind what is not durable yet.
    private func checkEnds(of hub: UInt64) {
        guard let open = peers[hub]?.open else { return }
        var isAny = false
        for (number, standing) in open {
            guard case .ending(let session) = standing, client(named: session) == nil, sessions.client(named: session) == nil,
                !disconnects.owes(session)
            else { continue }
            isAny = true
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

    private func tickLater() {
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

    // MARK: Answers

    /// What is durable, or needs no commit. By the lane of other hubs.
    func deliver(_ deliveries: [Delivery]) {
        var replies: [UInt64: [PeerReply]] = [:]
        for delivery in deliveries {
            switch delivery {
            case .reply(let client, let answer):
                guard let client = client as? RemoteClient, let asked = client.waiting.popFirst(), let number = asked.number else {
                    continue
                }
                client.remote?.forget(Int64(bitPattern: number))
                peers[client.hub]?.bytes -= asked.bytes
                guard let reply = reply(answer, number) else { continue }
                peers[client.hub]?.open[number] = .answered(reply)
                if reply.outcome == .done, asked.commits, client.hub != link.hub { continue }
                replies[client.hub, default: []].append(reply)
            case .marked(let client, let number):
                guard let client = client as? RemoteClient else { continue }
                let reply = PeerReply(number: UInt64(bitPattern: Int64(number)), outcome: .done, sequence: durability.durable.sequence)
                peers[client.hub]?.open[reply.number] = .answered(reply)
                replies[client.hub, default: []].append(reply)
            default: break
            }
        }
        for (hub, replies) in replies { reply(replies, to: hub) }
    }

    /// Nil while the outcome is open: the log tells, or the hub that writes next.
    private func reply(_ answer: Reply, _ number: UInt64) -> PeerReply? {
        let durable = durability.durable.sequence
        switch answer {
        case .failed(let failure):
            guard failure.code == .unavailable, !isCertain(failure) else {
                return PeerReply(number: number, outcome: .failed(failure), sequence: durable)
            }
            return nil
        case .written(let sequence), .pushed(_, let sequence): return PeerReply(number: number, outcome: .done, sequence: sequence)
        case .exchanged(let outcome) where outcome.isStale: return PeerReply(number: number, outcome: .stale, sequence: durable)
        case .exchanged(let outcome): return PeerReply(number: number, outcome: .done, sequence: outcome.sequence)
        default: return PeerReply(number: number, outcome: .done, sequence: durable)
        }
    }

    /// Whether the request is stored nowhere, and no other hub should be asked in place of this one.
    private func isCertain(_ failure: Failure) -> Bool {
        ![CommitRefusal.outcomeUnknown, .conflict, .following, .cutOff, .stopping].contains { $0.text == failure.message }
    }

    private func reply(_ replies: [PeerReply], to hub: UInt64) {
        if replies.isEmpty { return }
        var (part, bytes) = ([PeerReply](), 0)
        for reply in replies {
            var encoded: [UInt8] = []
            reply.encode(into: &encoded)
            if bytes + encoded.count > link.messageBytes - PeerMessage.headerBytes, !part.isEmpty {
                post(PeerMessage.replies(term: term, part).encoded, hub)
                (part, bytes) = ([], 0)
            }
            part.append(reply)
            bytes += encoded.count
        }
        post(PeerMessage.replies(term: term, part).encoded, hub)
    }
}

extension Failure {
    static let hubGone = Failure(.unavailable, "The hub that asked was not heard of any more. Nothing of this was stored.")
    fileprivate static let endedElsewhere = Failure(
        .unavailable, "The session has gone on elsewhere. Nothing of this was stored.")
    fileprivate static let refusedBefore = Failure(
        .unavailable, "The hub that wrote before has refused this, and its reason was lost with it. Nothing of it was stored.")
}
