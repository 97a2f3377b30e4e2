import DequeModule
import Journal
import JSONTree
import Scheduling

/// Has the writes of this database's clients carried out by the hub that writes, and answers them when their commits are applied here.
///
/// ```
/// write ─► the client's line, numbered ─► encoded ─► sent, as far as the window goes ─► its commit comes by the log ─► answered, in order
///             │ no other request of the             │ a reply was lost, or a message,  └ refused: the reply waits for the commit
///             └ client passes it                    └ or another hub writes: all that is not settled is sent again
/// ```
/// A request keeps its number until it is settled, and its commit names it, so that it is carried out once by whichever hub.
///
/// Confined to the database queue.
final class Forwarding: @unchecked Sendable {
    // Sendable: background work and timers only hop back to the queue with it.

    /// How a request is answered that was carried out.
    private enum Purpose {
        case write(AskedWrite)
        case done
        /// The rest of it is done here.
        case goOn
    }

    private struct Entry {
        /// Nil when nobody waits for it.
        let item: Database.Item?
        let purpose: Purpose
        let size: Int
        /// Released when it is encoded.
        var request: PeerRequest?
        var frame: [UInt8]?
        var isEncoding = false
        /// It may have come to a hub that writes.
        var wasSent = false
        /// Steady ms.
        let deadline: Int64
        /// What a hub has said about it, which waits for a commit.
        var said: PeerReply?
        var isSettled = false
        /// While earlier ones of the client are not settled.
        var answer: Reply?
    }

    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let durability: DurabilityLine
    private let parking: Parking
    private let writes: WriteRequests
    private let answers: Answers
    private let link: any HubLink
    private let post: ([UInt8], UInt64) -> Void
    /// Whether another hub writes.
    var isFollowing: Bool
    /// Carries out a request here.
    var carryOut: (Database.Item) -> Void = { _ in }
    /// Ends the connection of a client.
    var close: (Client) -> Void = { _ in }

    /// Those that are not settled, and settled ones between them.
    private var entries: Deque<Entry> = []
    /// Number of the first.
    private var base: UInt64 = 1
    private var place = PeerMessage.Place()
    /// The hub of that term.
    private var asked: UInt64?
    /// Entries before this one were sent in the stream, and their bytes that are not settled.
    private var cursor = 0
    private var inFlight = 0
    /// When something was sent or came, steady ms.
    private var movedAt: Int64 = 0
    private var received: UInt64 = 0
    /// Replies that wait for a commit.
    private var saidCount = 0
    private var clients: UInt64 = 0
    /// Clients whose lines have moved.
    private var moved: [Client] = []
    private var leaving: [ObjectIdentifier: Client] = [:]
    private var isPumping = false
    private var isTicking = false

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ parking: Parking, _ writes: WriteRequests, _ answers: Answers,
        _ link: any HubLink, isFollowing: Bool, _ post: @escaping ([UInt8], UInt64) -> Void
    ) {
        self.context = context
        (content, batch, durability) = (pipeline.content, pipeline.batch, pipeline.durability)
        self.parking = parking
        self.writes = writes
        self.answers = answers
        self.link = link
        self.isFollowing = isFollowing
        self.post = post
    }

    private var limits: EngineLimits { context.limits }

    // MARK: Requests

    /// Forwards a request, if it is one for the hub that writes. Called in place of carrying it out.
    func takes(_ item: Database.Item) -> Bool {
        let client = item.client
        if client.remote != nil { return false }
        let leaves = client.forwarded?.leavesBehind == true
        switch item.request {
        case .write(let asked, let condition) where isFollowing:
            forward(item, .write(asked, condition), .write(AskedWrite(asked, if: condition)))
        case .push(let path, let value) where isFollowing:
            let key = writes.nextKey()
            let asked = [TreeWrite(path.appending(key), value)]
            forward(item, .write(asked, nil), .write(AskedWrite(asked, .push(key))))
        case .exchange(let exchange) where isFollowing:
            let asked: [TreeWrite]
            var key: Key?
            switch exchange.work {
            case .read, .count: return false
            case .write(let writes): asked = writes
            case .push(let value):
                let next = writes.nextKey()
                asked = [TreeWrite(exchange.path.appending(next), value)]
                key = next
            }
            forward(item, .exchange(exchange, asked), .write(AskedWrite(asked, .exchange(exchange, key: key))))
        case .system(let asked, let cause) where isFollowing:
            forward(item, .system(asked, cause), .write(AskedWrite(asked, cause: cause)))
        case .onDisconnect(let asked) where isFollowing || leaves:
            let forwarded = forwarded(client)
            if !asked.isEmpty { leave(client, forwarded) }
            forward(item, .onDisconnect(asked), .done)
        case .cancelOnDisconnect(let path) where leaves: forward(item, .cancelOnDisconnect(path), .done)
        case .cancelOnDisconnect where isFollowing: answers.answer(.done, item)
        case .identify(let identity) where leaves && identity != client.identity:
            forward(item, .identify, .goOn, as: identity)
        case .signOut where leaves && client.identity != .anonymous: forward(item, .identify, .goOn, as: .anonymous)
        case .begin(let session, let previous?) where isFollowing && isElsewhere(previous):
            _ = forwarded(client, named: session)
            forward(item, .end(session: previous), .goOn)
        default: return false
        }
        return true
    }

    /// Whether a session may have left something at the hub that writes which this hub does not end.
    private func isElsewhere(_ session: String) -> Bool { SessionName.hub(of: session).map { $0 != link.hub } ?? false }

    /// A client has ended that may have left something behind: it is to be written.
    func left(_ client: Client) {
        guard let forwarded = client.forwarded, forwarded.leavesBehind else { return }
        forwarded.leavesBehind = false
        leaving[ObjectIdentifier(client)] = nil
        add(nil, PeerRequest(0, of: forwarded.number, facts(client, forwarded), .end(session: forwarded.session)), .done, deadline: .max)
    }

    private func leave(_ client: Client, _ forwarded: ForwardedClient) {
        forwarded.leavesBehind = true
        leaving[ObjectIdentifier(client)] = client
    }

    /// The database follows from now on: what its clients have left behind so far is in the log.
    func takeOver(_ client: Client, leaving session: String) {
        let forwarded = client.forwarded ?? ForwardedClient(number: nextClient(), session: session)
        client.forwarded = forwarded
        leave(client, forwarded)
    }

    private func nextClient() -> UInt64 {
        clients += 1
        return clients
    }

    private func forwarded(_ client: Client, named session: String? = nil) -> ForwardedClient {
        if let known = client.forwarded { return known }
        let number = nextClient()
        let named = (session ?? client.sessionID).flatMap { SessionName.hub(of: $0) == link.hub ? $0 : nil }
        let made = ForwardedClient(number: number, session: named ?? context.sessionPrefix + "c\(number)")
        client.forwarded = made
        return made
    }

    private func facts(_ client: Client, _ forwarded: ForwardedClient, as identity: Identity? = nil) -> PeerRequest.Facts {
        var identity = identity ?? client.identity
        identity.expires = nil
        return PeerRequest.Facts(session: forwarded.session, identity: identity, address: client.address)
    }

    private func forward(_ item: Database.Item, _ work: PeerRequest.Work, _ purpose: Purpose, as identity: Identity? = nil) {
        let forwarded = forwarded(item.client)
        let number = base + UInt64(entries.count)
        if forwarded.parked == nil {
            let parked = parking.park(item)
            if case .goOn = purpose {} else { parked.isForwarded = true }
            (forwarded.parked, forwarded.head) = (parked, number)
        } else {
            // It still counts as waiting after its batch has ended.
            context.meter.wait(item.size)
        }
        forwarded.line.append(number)
        let request = PeerRequest(0, of: forwarded.number, facts(item.client, forwarded, as: identity), work)
        add(item, request, purpose, deadline: context.scheduler.steadyMs + limits.forwardMs)
    }

    private func add(_ item: Database.Item?, _ request: PeerRequest, _ purpose: Purpose, deadline: Int64) {
        var request = request
        request.number = base + UInt64(entries.count)
        entries.append(Entry(item: item, purpose: purpose, size: item?.size ?? 0, request: request, deadline: deadline))
        pumpLater()
        tickLater()
    }

    // MARK: Sending

    private func pumpLater() {
        if isPumping { return }
        isPumping = true
        context.queue.async { [self] in
            isPumping = false
            pump()
        }
    }

    private var target: UInt64? {
        switch link.writer {
        case .here: link.hub
        case .hub(let hub): hub
        case .unknown: nil
        }
    }

    /// Sends what is next, as far as the window goes.
    private func pump() {
        guard place.joined != 0, place.term != 0, let target, target == asked else { return }
        var message: [UInt8] = []
        func flush() {
            guard !message.isEmpty else { return }
            send(.requests(here, message), to: target)
            message = []
        }
        let room = link.messageBytes - PeerMessage.headerBytes
        while cursor < entries.count, cursor < limits.forwardedRequests {
            if entries[cursor].isSettled {
                cursor += 1
                continue
            }
            guard let frame = frame(at: cursor) else { break }
            if frame.count > limits.forwardedBytes {
                settle(cursor, .failed(.tooLargeToForward(limits.forwardedBytes)))
                continue
            }
            guard inFlight == 0 || inFlight + frame.count <= limits.forwardedBytes else { break }
            inFlight += frame.count
            entries[cursor].wasSent = true
            cursor += 1
            if message.count + frame.count > room { flush() }
            if frame.count <= room { message += frame } else { sendInParts(frame, room, to: target) }
            if message.count > Self.bytesAtOnce { flush() }
        }
        flush()
        answerMoved()
    }

    /// A message that has so many bytes takes no further request along.
    private static let bytesAtOnce = 256 << 10

    private var here: PeerMessage.Place {
        var here = place
        here.base = base
        return here
    }

    private func send(_ message: PeerMessage, to target: UInt64) {
        place.index += 1
        movedAt = context.scheduler.steadyMs
        post(message.encoded, target)
    }

    private func sendInParts(_ frame: [UInt8], _ room: Int, to target: UInt64) {
        let count = (frame.count + room - 1) / room
        for i in 0..<count {
            let part = Array(frame[(i * room)..<min(frame.count, (i + 1) * room)])
            send(.part(here, number: UInt32(i), of: UInt32(count), part), to: target)
        }
    }

    /// The encoded request; nil while a large one is being encoded.
    private func frame(at i: Int) -> [UInt8]? {
        if let frame = entries[i].frame { return frame }
        guard let request = entries[i].request, !entries[i].isEncoding else { return nil }
        if entries[i].size <= limits.largeWriteBytes {
            let frame = request.encoded
            (entries[i].frame, entries[i].request) = (frame, nil)
            return frame
        }
        entries[i].isEncoding = true
        context.background.run(.preparation) { [self] in
            let frame = request.encoded
            context.queue.async { [self] in
                guard let i = index(of: request.number), !entries[i].isSettled else { return }
                (entries[i].frame, entries[i].request, entries[i].isEncoding) = (frame, nil, false)
                pump()
                durability.finishBatch()
            }
        }
        return nil
    }

    private func index(of number: UInt64) -> Int? {
        number >= base && number - base < UInt64(entries.count) ? Int(number - base) : nil
    }

    /// Begins another stream, with all that is not settled.
    private func sendAgain() {
        place.stream += 1
        place.index = 0
        (cursor, inFlight, received) = (0, 0, 0)
        movedAt = context.scheduler.steadyMs
        pumpLater()
    }

    // MARK: Hearing

    func receive(_ letter: PeerInbox.Letter, from hub: UInt64) {
        context.queue.assertCurrent()
        guard hub == target, hub == asked else { return }
        switch letter {
        case .state(let state): heard(state)
        case .replies(let term, let replies):
            guard term == place.term else { return }
            for reply in replies { heard(reply) }
            answerMoved()
            durability.finishBatch()
        case .join, .probe, .requests: break
        }
    }

    private func heard(_ state: PeerMessage.Place) {
        guard state.joined == place.joined, state.term != 0 else { return }
        if state.term != place.term {
            place.term = state.term
            return sendAgain()
        }
        if state.stream == place.stream, state.index == place.index { return }
        if state.stream == place.stream, state.index > received { (received, movedAt) = (state.index, context.scheduler.steadyMs) }
        if context.scheduler.steadyMs - movedAt >= limits.forwardAgainMs { sendAgain() }
    }

    private func heard(_ reply: PeerReply) {
        guard let i = index(of: reply.number), !entries[i].isSettled, entries[i].said == nil else { return }
        entries[i].said = reply
        saidCount += 1
        if reply.sequence <= content.sequence { settleSaid(i) }
    }

    private func settleSaid(_ i: Int) {
        guard let reply = entries[i].said else { return }
        let asked: AskedWrite? = if case .write(let asked) = entries[i].purpose { asked } else { nil }
        switch reply.outcome {
        case .done: carriedOut(i, reply.sequence)
        case .stale: settle(i, asked.map { writes.notMadeElsewhere($0, .dataStale) } ?? .failed(.dataStale))
        case .failed(let failure): settle(i, asked.map { writes.notMadeElsewhere($0, failure) } ?? .failed(failure))
        }
    }

    /// A commit was applied that says something about forwarded requests.
    func applied(_ change: PeerChange, _ sequence: UInt64) {
        switch change {
        case .join(link.hub, let sequence): join(sequence)
        case .gone(link.hub): wasGivenUp()
        case .done(let mark, _) where mark.hub == link.hub:
            if let i = index(of: mark.number), !entries[i].isSettled { carriedOut(i, sequence) }
        default: break
        }
    }

    private func join(_ sequence: UInt64) {
        (place.joined, place.term) = (sequence, 0)
        probe()
    }

    /// Others have taken this hub for lost. What it has under way is carried out no more under its old entry, and what its sessions had
    /// left is written: their clients begin anew.
    private func wasGivenUp() {
        place.joined = 0
        for client in leaving.values {
            client.forwarded?.leavesBehind = false
            close(client)
        }
        leaving = [:]
        probe()
        tickLater()
    }

    /// The last commits are applied: what has waited for them is answered.
    func catchUp() {
        if saidCount > 0 {
            for i in entries.indices where !entries[i].isSettled {
                if let said = entries[i].said, said.sequence <= content.sequence { settleSaid(i) }
            }
        }
        answerMoved()
    }

    // MARK: Answers

    private func carriedOut(_ i: Int, _ sequence: UInt64) {
        switch entries[i].purpose {
        case .write(let asked):
            guard let client = entries[i].item?.client else { return settle(i, .done) }
            settle(i, writes.madeElsewhere(asked, sequence: sequence, client))
        case .done, .goOn: settle(i, .done)
        }
    }

    private func settle(_ i: Int, _ answer: Reply) {
        if entries[i].said != nil { saidCount -= 1 }
        if i < cursor, let frame = entries[i].frame { inFlight -= frame.count }
        entries[i].isSettled = true
        (entries[i].frame, entries[i].request, entries[i].said) = (nil, nil, nil)
        entries[i].answer = answer
        if let client = entries[i].item?.client { moved.append(client) }
    }

    /// Answers what is settled, each client's in order.
    private func answerMoved() {
        while let client = moved.popLast() { advance(client) }
        while let first = entries.first, first.isSettled, first.item == nil || first.answer == nil {
            entries.removeFirst()
            base += 1
            cursor = max(0, cursor - 1)
        }
        if cursor < entries.count { pumpLater() }
    }

    private func advance(_ client: Client) {
        guard let forwarded = client.forwarded else { return }
        while let number = forwarded.line.first, let i = index(of: number), let answer = entries[i].answer, let item = entries[i].item {
            forwarded.line.removeFirst()
            entries[i].answer = nil
            let goesOn = if case .goOn = entries[i].purpose { true } else { false }
            let finish = { [self] in goesOn ? carryOut(item) : answers.answer(answer, item) }
            guard forwarded.line.isEmpty, let parked = forwarded.parked else {
                finish()
                if number != forwarded.head { finished(item) }
                continue
            }
            forwarded.parked = nil
            if number != forwarded.head { finished(item) }
            return parking.unpark(parked, client, finish)
        }
    }

    private func finished(_ item: Database.Item) {
        batch.count(item.size)
        batch.retire(item)
    }

    // MARK: Time

    /// Another hub writes, or none; or one that does not came or went.
    func writerChanged() {
        guard isFollowing || !entries.isEmpty else { return }
        probe()
        pumpLater()
        tickLater()
    }

    /// Asks to join, or how far the other hub is.
    func probe() {
        guard let target else { return }
        if target != asked { (asked, place.term) = (target, 0) }
        if let joined = content.peers[link.hub]?.joined {
            if place.joined != joined { (place.joined, place.term) = (joined, 0) }
            post(PeerMessage.probe(here).encoded, target)
        } else {
            post(PeerMessage.join.encoded, target)
        }
    }

    private func tickLater() {
        if isTicking { return }
        isTicking = true
        context.later(ms: limits.forwardCheckMs) { [weak self] in
            guard let self else { return }
            isTicking = false
            tick()
            if !entries.isEmpty || (isFollowing && place.term == 0) { tickLater() }
        }
    }

    private func tick() {
        let now = context.scheduler.steadyMs
        for i in entries.indices where !entries[i].isSettled {
            if entries[i].deadline == .max { continue }
            guard entries[i].deadline <= now else { break }
            settle(i, .failed(entries[i].wasSent ? .outcomeUnknown : .noWriter))
        }
        answerMoved()
        probe()
        if cursor < entries.count { pumpLater() }
        durability.finishBatch()
    }
}

extension Failure {
    fileprivate static let noWriter = Failure(
        .unavailable, "No hub of the cluster takes writes at the moment. Nothing of this was stored; try again.")
    fileprivate static let outcomeUnknown = Failure(
        .unavailable,
        """
        The hub that takes the writes was lost while it had this one. It is not known whether it is stored: read the place before you write \
        it again.
        """)
    fileprivate static func tooLargeToForward(_ limit: Int) -> Failure {
        Failure(.tooBig, "At most \(limit) bytes may be written through a hub that does not write itself: send it to the one that does.")
    }
}
