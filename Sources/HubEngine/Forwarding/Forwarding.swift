import DequeModule
import Journal
import JSONTree
import Scheduling

/// Has the writes of this database's clients carried out by the hub that writes, and answers each client in the order in which it asked.
///
/// ```
/// write ─► the client's line, numbered ─► WriterStream ─► carried out, or refused ─► answered, when all before it in the line are
///             │ no other request of the client passes it
/// ```
/// Confined to the database queue.
final class Forwarding: @unchecked Sendable {
    // Sendable: confined to the database queue.

    /// How a request is answered that was carried out.
    private enum Purpose {
        case write(AskedWrite)
        case done
        /// The rest of it is done here.
        case goOn
    }

    /// A request in the line of its client.
    private struct Entry {
        let item: Database.Item
        let purpose: Purpose
        /// While earlier ones of the client are not settled.
        var answer: Reply?
    }

    private let context: EngineContext
    private let batch: Batch
    private let durability: DurabilityLine
    private let parking: Parking
    private let writes: WriteRequests
    private let answers: Answers
    private let link: any HubLink
    private let stream: WriterStream
    /// Carries out a request here.
    var carryOut: (Database.Item) -> Void = { _ in }
    /// Ends the connection of a client.
    var close: (Client) -> Void = { _ in }

    /// Those that are not answered, by number.
    private var entries: [UInt64: Entry] = [:]
    private var clients: UInt64 = 0
    /// Clients whose lines have moved.
    private var moved: [Client] = []
    /// Clients that may have left something behind at the hub that writes.
    private var leaving: [ObjectIdentifier: Client] = [:]
    /// Ends of sessions of other hubs that were made while this hub wrote, and the last commit then; oldest first.
    private var unprovenEnds: Deque<(session: String, behind: UInt64)> = []

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ parking: Parking, _ writes: WriteRequests, _ answers: Answers,
        _ link: any HubLink, isFollowing: Bool, _ post: @escaping ([UInt8], UInt64) -> Void
    ) {
        self.context = context
        (batch, durability) = (pipeline.batch, pipeline.durability)
        self.parking = parking
        self.writes = writes
        self.answers = answers
        self.link = link
        stream = WriterStream(context, pipeline, link, isFollowing: isFollowing, post)
        stream.onSettled = { [weak self] in self?.settled($0, $1) }
        stream.onMoved = { [weak self] in self?.answerMoved() }
    }

    /// Whether another hub writes.
    var isFollowing: Bool {
        get { stream.isFollowing }
        set {
            stream.isFollowing = newValue
            if newValue { askForUnprovenEnds() }
        }
    }

    // MARK: Requests

    /// Forwards a request, if it is one for the hub that writes. Called in place of carrying it out.
    func takes(_ item: Database.Item) -> Bool {
        let client = item.client
        if client.remote != nil { return false }
        let leaves = client.forwarded?.leavesBehind == true
        switch item.request {
        case .write(let asked, let condition, _) where isFollowing:
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
        case .begin(let session, let previous?) where isElsewhere(previous):
            guard isFollowing else {
                noteEnd(of: previous)
                return false
            }
            _ = forwarded(client, named: session)
            let number = forward(item, .end(session: previous), .goOn, deadline: .max)
            context.later(ms: context.limits.endMs) { [weak self] in self?.goOn(without: number) }
        default: return false
        }
        return true
    }

    // MARK: Ends of sessions

    /// Whether a session may have left something at the hub that writes which this hub does not end.
    private func isElsewhere(_ session: String) -> Bool { SessionName.hub(of: session).map { $0 != link.hub } ?? false }

    /// A client has ended that may have left something behind: it is to be written.
    func left(_ client: Client) {
        guard let forwarded = client.forwarded, forwarded.leavesBehind else { return }
        forwarded.leavesBehind = false
        leaving[ObjectIdentifier(client)] = nil
        tell(.end(session: forwarded.session), facts(client, forwarded), of: forwarded.number)
    }

    /// Nothing waits for it, and it is told until it is made.
    private func tell(_ end: PeerRequest.Work, _ facts: PeerRequest.Facts, of client: UInt64) {
        stream.add(PeerRequest(0, of: client, facts, end), size: 0, isAwaited: false, deadline: .max)
    }

    /// A client that came back from another hub has waited long enough for the end of its session before.
    private func goOn(without end: UInt64) {
        guard let entry = entries[end], entry.answer == nil else { return }
        entries[end]?.answer = .done
        moved.append(entry.item.client)
        stream.tellMoved()
        durability.finishBatch()
    }

    /// A session of another hub ends while this one writes. Whether it still does is known when the log takes a later commit.
    private func noteEnd(of session: String) {
        while let first = unprovenEnds.first, first.behind < durability.durable.sequence { unprovenEnds.removeFirst() }
        if unprovenEnds.count == context.limits.forwardedRequests { unprovenEnds.removeFirst() }
        unprovenEnds.append((session, stream.content.sequence))
    }

    /// Another hub writes: perhaps since before the last ends that this one has made.
    private func askForUnprovenEnds() {
        for end in unprovenEnds where end.behind >= durability.durable.sequence {
            let number = nextClient()
            let facts = PeerRequest.Facts(session: context.sessionPrefix + "c\(number)", identity: .anonymous, address: nil)
            tell(.end(session: end.session), facts, of: number)
        }
        unprovenEnds = []
    }

    // MARK: Clients

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
        var identity = identity ?? asked(of: forwarded) ?? client.identity
        identity.expires = nil
        return PeerRequest.Facts(session: forwarded.session, identity: identity, address: client.address)
    }

    /// Who a client is to be as of the last request that it has under way; nil when that is who it is.
    private func asked(of forwarded: ForwardedClient) -> Identity? {
        for number in forwarded.line.reversed() {
            switch entries[number]?.item.request {
            case .identify(let identity): return identity
            case .signOut: return .anonymous
            default: continue
            }
        }
        return nil
    }

    /// - Returns: the request's number.
    @discardableResult
    private func forward(
        _ item: Database.Item, _ work: PeerRequest.Work, _ purpose: Purpose, as identity: Identity? = nil, deadline: Int64? = nil
    ) -> UInt64 {
        let forwarded = forwarded(item.client)
        let request = PeerRequest(0, of: forwarded.number, facts(item.client, forwarded, as: identity), work)
        let number = stream.add(
            request, size: item.size, isAwaited: true, deadline: deadline ?? context.scheduler.steadyMs + context.limits.forwardMs)
        entries[number] = Entry(item: item, purpose: purpose)
        if forwarded.parked == nil {
            let parked = parking.park(item)
            if case .goOn = purpose {} else { parked.isForwarded = true }
            (forwarded.parked, forwarded.head) = (parked, number)
        } else {
            // It still counts as waiting after its batch has ended.
            context.meter.wait(item.size)
        }
        forwarded.line.append(number)
        return number
    }

    // MARK: Hearing

    func receive(_ letter: PeerInbox.Letter, from hub: UInt64) { stream.receive(letter, from: hub) }

    /// A commit was applied that says something about forwarded requests.
    func applied(_ change: PeerChange, _ sequence: UInt64) {
        if case .gone(link.hub) = change { wasGivenUp() }
        stream.applied(change, sequence)
    }

    /// Others have taken this hub for lost. What its sessions had left is written: their clients begin anew. What one of them still has
    /// under way is carried out behind that, and may leave something again: its end is told as well.
    private func wasGivenUp() {
        let closed = leaving.values
        leaving = leaving.filter { $0.value.forwarded?.line.isEmpty == false }
        for client in closed {
            client.forwarded?.leavesBehind = client.forwarded?.line.isEmpty == false
            close(client)
        }
    }

    /// The last commits are applied: what has waited for them is answered.
    func catchUp() { stream.catchUp() }

    /// Another hub writes, or none; or one that does not came or went.
    func writerChanged() { stream.writerChanged() }

    // MARK: Answers

    private func settled(_ number: UInt64, _ outcome: WriterStream.Outcome) {
        guard let entry = entries[number] else { return }
        entries[number]?.answer = answer(to: entry, outcome)
        moved.append(entry.item.client)
    }

    private func answer(to entry: Entry, _ outcome: WriterStream.Outcome) -> Reply {
        let asked: AskedWrite? = if case .write(let asked) = entry.purpose { asked } else { nil }
        return switch outcome {
        case .carriedOut(let sequence): asked.map { writes.madeElsewhere($0, sequence: sequence, entry.item.client) } ?? .done
        case .refused(let failure): asked.map { writes.notMadeElsewhere($0, failure) } ?? .failed(failure)
        case .failed(let failure): .failed(failure)
        }
    }

    /// Answers what is settled, each client's in order.
    private func answerMoved() { while let client = moved.popLast() { advance(client) } }

    private func advance(_ client: Client) {
        guard let forwarded = client.forwarded else { return }
        while let number = forwarded.line.first, let entry = entries[number], let answer = entry.answer {
            forwarded.line.removeFirst()
            entries[number] = nil
            stream.answered(number)
            let item = entry.item
            let goesOn = if case .goOn = entry.purpose { true } else { false }
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
}
