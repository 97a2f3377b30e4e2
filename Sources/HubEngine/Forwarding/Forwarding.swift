import DequeModule
import Journal
import JSONTree
import Scheduling

/// Forwards the writes of this database's clients to the writer, and answers each client in the order of its requests.
///
/// ```
/// write ─► client's queue, numbered ─► WriterStream ─► applied or refused ─► answered once all earlier ones are
///             │ no other request of the client overtakes it
/// ```
/// Confined to the database queue.
final class Forwarding: RequestForwarding, @unchecked Sendable {
    // Sendable: confined to the database queue.

    /// What to do when the writer has applied the request.
    private enum Purpose {
        case write(WriteRequest)
        case done
        /// Run the rest of the request on this hub.
        case resume
    }

    /// An unanswered request of a client.
    private struct Entry {
        let item: SubmittedRequest
        let purpose: Purpose
        /// The outcome, held back until earlier requests of the client are settled.
        var answer: Reply?
    }

    private let context: EngineContext
    private let batch: Batch
    private let durability: DurabilityQueue
    private let suspendedRequests: SuspendedRequests
    private let writes: WriteRequests
    private let answers: Answers
    private let link: any HubLink
    private let stream: WriterStream
    /// Runs a request on this hub.
    var carryOut: (SubmittedRequest) -> Void = { _ in }
    var close: (Client) -> Void = { _ in }

    /// Unanswered requests by number.
    private var entries: [UInt64: Entry] = [:]
    private var clients: UInt64 = 0
    /// Clients with newly settled requests.
    private var moved: [Client] = []
    /// Clients that may have onDisconnect writes stored at the writer.
    private var leaving: [ObjectIdentifier: Client] = [:]
    /// Sessions of other hubs that ended while this hub was the writer, each with the last commit at that moment. Oldest first.
    private var unconfirmedEnds: Deque<(session: String, behind: UInt64)> = []

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ suspendedRequests: SuspendedRequests, _ writes: WriteRequests, _ answers: Answers,
        _ link: any HubLink, isFollowing: Bool, _ post: @escaping ([UInt8], UInt64) -> Void
    ) {
        self.context = context
        (batch, durability) = (pipeline.batch, pipeline.durability)
        self.suspendedRequests = suspendedRequests
        self.writes = writes
        self.answers = answers
        self.link = link
        stream = WriterStream(context, pipeline, link, isFollowing: isFollowing, post)
        stream.onSettled = { [weak self] in self?.settled($0, $1) }
        stream.onMoved = { [weak self] in self?.answerMoved() }
    }

    /// True if another hub is the writer.
    var isFollowing: Bool {
        get { stream.isFollowing }
        set {
            stream.isFollowing = newValue
            if newValue { resendUnconfirmedEnds() }
        }
    }

    // MARK: Requests

    /// Forwards a request that only the writer can run. Returns false if this hub should run it.
    func forwardIfNeeded(_ item: SubmittedRequest) -> Bool {
        let client = item.client
        if client.remote != nil { return false }
        let leaves = client.forwarded?.mayHaveDisconnectWrites == true
        switch item.request {
        case .write(let asked, let condition, _) where isFollowing:
            forward(item, .write(asked, condition), .write(WriteRequest(asked, if: condition)))
        case .push(let path, let value) where isFollowing:
            let key = writes.nextKey()
            let asked = [TreeWrite(path.appending(key), value)]
            forward(item, .write(asked, nil), .write(WriteRequest(asked, .push(key))))
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
            forward(item, .exchange(exchange, asked), .write(WriteRequest(asked, .exchange(exchange, key: key))))
        case .system(let asked, let cause) where isFollowing:
            forward(item, .system(asked, cause), .write(WriteRequest(asked, cause: cause)))
        case .onDisconnect(let asked) where isFollowing || leaves:
            let forwarded = forwarded(client)
            if !asked.isEmpty { leave(client, forwarded) }
            forward(item, .onDisconnect(asked), .done)
        case .cancelOnDisconnect(let path) where leaves: forward(item, .cancelOnDisconnect(path), .done)
        case .cancelOnDisconnect where isFollowing: answers.answer(.done, item)
        case .identify(let identity) where leaves && identity != client.identity:
            forward(item, .identify, .resume, as: identity)
        case .signOut where leaves && client.identity != .anonymous: forward(item, .identify, .resume, as: .anonymous)
        case .begin(let session, let previous?) where belongsToOtherHub(previous):
            guard isFollowing else {
                rememberEnd(of: previous)
                return false
            }
            _ = forwarded(client, named: session)
            let number = forward(item, .end(session: previous), .resume, deadline: .max)
            context.later(ms: context.limits.endMs) { [weak self] in self?.resume(without: number) }
        default: return false
        }
        return true
    }

    // MARK: Ends of sessions

    /// True if the session belongs to another hub, so onDisconnect writes of it may be stored at the writer.
    private func belongsToOtherHub(_ session: String) -> Bool { SessionName.hub(of: session).map { $0 != link.hub } ?? false }

    /// Asks the writer to apply the onDisconnect writes of a client that has ended.
    func left(_ client: Client) {
        guard let forwarded = client.forwarded, forwarded.mayHaveDisconnectWrites else { return }
        forwarded.mayHaveDisconnectWrites = false
        leaving[ObjectIdentifier(client)] = nil
        sendEnd(.end(session: forwarded.session), facts(client, forwarded), of: forwarded.number)
    }

    /// Sends the end of a session. No client waits for it; the stream repeats it until it is settled.
    private func sendEnd(_ end: PeerRequest.Work, _ facts: PeerRequest.Facts, of client: UInt64) {
        stream.add(PeerRequest(0, of: client, facts, end), size: 0, isAwaited: false, deadline: .max)
    }

    /// Continues a client that moved here from another hub, although the end of its previous session is not confirmed in time.
    private func resume(without end: UInt64) {
        guard let entry = entries[end], entry.answer == nil else { return }
        entries[end]?.answer = .done
        moved.append(entry.item.client)
        stream.answerSettled()
        durability.finishBatch()
    }

    /// Remembers a session of another hub that ended while this hub was the writer. The end is certain once a later commit is durable.
    private func rememberEnd(of session: String) {
        while let first = unconfirmedEnds.first, first.behind < durability.durable.sequence { unconfirmedEnds.removeFirst() }
        if unconfirmedEnds.count == context.limits.forwardedRequests { unconfirmedEnds.removeFirst() }
        unconfirmedEnds.append((session, stream.content.sequence))
    }

    /// Another hub is now the writer, perhaps since before the last session ends here became durable. Repeats those at the new writer.
    private func resendUnconfirmedEnds() {
        for end in unconfirmedEnds where end.behind >= durability.durable.sequence {
            let number = nextClient()
            let facts = PeerRequest.Facts(session: context.sessionPrefix + "c\(number)", identity: .anonymous, address: nil)
            sendEnd(.end(session: end.session), facts, of: number)
        }
        unconfirmedEnds = []
    }

    // MARK: Clients

    private func leave(_ client: Client, _ forwarded: ForwardedClient) {
        forwarded.mayHaveDisconnectWrites = true
        leaving[ObjectIdentifier(client)] = client
    }

    /// This database now follows. The client's onDisconnect writes so far are in the log.
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
        var identity = identity ?? requestedIdentity(of: forwarded) ?? client.identity
        identity.expires = nil
        return PeerRequest.Facts(session: forwarded.session, identity: identity, address: client.address)
    }

    /// The identity that the client's last unanswered request sets; nil if none changes it.
    private func requestedIdentity(of forwarded: ForwardedClient) -> Identity? {
        for number in forwarded.unanswered.reversed() {
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
        _ item: SubmittedRequest, _ work: PeerRequest.Work, _ purpose: Purpose, as identity: Identity? = nil, deadline: Int64? = nil
    ) -> UInt64 {
        let forwarded = forwarded(item.client)
        let request = PeerRequest(0, of: forwarded.number, facts(item.client, forwarded, as: identity), work)
        let number = stream.add(
            request, size: item.size, isAwaited: true, deadline: deadline ?? context.scheduler.steadyMs + context.limits.forwardMs)
        entries[number] = Entry(item: item, purpose: purpose)
        if forwarded.suspendedRequest == nil {
            let suspended = suspendedRequests.suspend(item)
            if case .resume = purpose {} else { suspended.isForwarded = true }
            (forwarded.suspendedRequest, forwarded.head) = (suspended, number)
        } else {
            // Keep counting the request as waiting after its batch has ended.
            context.meter.wait(item.size)
        }
        forwarded.unanswered.append(number)
        return number
    }

    // MARK: Receiving

    func receive(_ frame: PeerInbox.PeerFrame, from hub: UInt64) { stream.receive(frame, from: hub) }

    /// Handles an applied commit that concerns forwarded requests.
    func applied(_ change: PeerChange, _ sequence: UInt64) {
        if case .gone(link.hub) = change { wasGivenUp() }
        stream.applied(change, sequence)
    }

    /// The cluster gave this hub up as lost, and the writer applied the onDisconnect writes of its sessions, so their clients must reconnect. A
    /// client's unanswered requests run after that and may store onDisconnect writes again. Such a client stays in `leaving` until its end is
    /// forwarded.
    private func wasGivenUp() {
        let closed = leaving.values
        leaving = leaving.filter { $0.value.forwarded?.unanswered.isEmpty == false }
        for client in closed {
            client.forwarded?.mayHaveDisconnectWrites = client.forwarded?.unanswered.isEmpty == false
            close(client)
        }
    }

    /// Answers requests that waited for the commits just applied.
    func catchUp() { stream.catchUp() }

    /// The writer changed or is unknown, or another hub joined or left.
    func writerChanged() { stream.writerChanged() }

    // MARK: Answers

    private func settled(_ number: UInt64, _ outcome: WriterStream.Outcome) {
        guard let entry = entries[number] else { return }
        entries[number]?.answer = answer(to: entry, outcome)
        moved.append(entry.item.client)
    }

    private func answer(to entry: Entry, _ outcome: WriterStream.Outcome) -> Reply {
        let asked: WriteRequest? = if case .write(let asked) = entry.purpose { asked } else { nil }
        return switch outcome {
        case .carriedOut(let sequence): asked.map { writes.forwardedReply($0, sequence: sequence, entry.item.client) } ?? .done
        case .refused(let failure): asked.map { writes.forwardedRefusal($0, failure) } ?? .failed(failure)
        case .failed(let failure): .failed(failure)
        }
    }

    /// Answers settled requests, in order for each client.
    private func answerMoved() { while let client = moved.popLast() { advance(client) } }

    private func advance(_ client: Client) {
        guard let forwarded = client.forwarded else { return }
        while let number = forwarded.unanswered.first, let entry = entries[number], let answer = entry.answer {
            forwarded.unanswered.removeFirst()
            entries[number] = nil
            stream.answered(number)
            let item = entry.item
            let resumes = if case .resume = entry.purpose { true } else { false }
            let finish = { [self] in resumes ? carryOut(item) : answers.answer(answer, item) }
            guard forwarded.unanswered.isEmpty, let suspended = forwarded.suspendedRequest else {
                finish()
                if number != forwarded.head { finished(item) }
                continue
            }
            forwarded.suspendedRequest = nil
            if number != forwarded.head { finished(item) }
            return suspendedRequests.resumeSuspended(suspended, client, finish)
        }
    }

    private func finished(_ item: SubmittedRequest) {
        batch.count(item.size)
        batch.retire(item)
    }
}
