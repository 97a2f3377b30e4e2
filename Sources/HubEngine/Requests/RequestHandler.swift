import JSONTree
import Synchronization

/// Carries out requests one by one, each by the part for its kind. Every request gets exactly one answer, at once or after it was
/// suspended, except those documented as not answered. Confined to the database queue.
final class RequestHandler: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let batch: Batch
    private let outbox: Outbox
    private let sessions: Sessions
    private let permissions: ReadPermissions
    private let precheck: PermissionPrecheck
    private let publisher: Publisher
    private let slowReaders: SlowReaders
    private let suspendedRequests: SuspendedRequests
    private let reads: ReadRequests
    private let observers: ObserveRequests
    private let writes: WriteRequests
    private let disconnects: DisconnectWrites
    private let queries: LiveQueryUpdater
    private let early: EarlyAnswers
    private let answers: Answers
    /// Nil without a cluster.
    var forwarding: (any RequestForwarding)?

    init(
        _ context: EngineContext, _ batch: Batch, _ permissions: ReadPermissions, _ precheck: PermissionPrecheck,
        _ publisher: Publisher, parts: RequestParts, output: ClientOutput
    ) {
        self.context = context
        self.batch = batch
        self.permissions = permissions
        self.precheck = precheck
        self.publisher = publisher
        (sessions, suspendedRequests) = (parts.sessions, parts.suspendedRequests)
        (reads, observers, writes, disconnects) = (parts.reads, parts.observers, parts.writes, parts.disconnects)
        queries = parts.queries
        (outbox, answers, early, slowReaders) = (output.outbox, output.answers, output.early, output.slowReaders)
    }

    /// Carries out a request, unless it has to wait.
    func handle(_ item: SubmittedRequest) {
        let client = item.client
        // Recorded in case the end of the client is rolled back.
        if client.hasEnded { return batch.record(.request(item)) }
        if suspendedRequests.mustWait(item) { return }
        switch slowReaders.admit(item) {
        case .held: return
        case .resume(let items): return suspendedRequests.resume(items, of: client)
        case .carryOut: break
        }
        context.meter.count(item.request, since: item.since)
        switch item.request {
        case .congested: slowReaders.suspend(client)
        case .drained: catchUp(client)
        default: early.carryOut(item) { carryOut(item) }
        }
    }

    /// The client has received everything that was sent: its observers get the current state, then its held requests are carried out.
    private func catchUp(_ client: Client) {
        guard let (missed, held) = slowReaders.catchUp(client) else { return }
        publisher.publish(missed, to: client)
        slowReaders.probeIfNeeded(client)
        suspendedRequests.resume(held, of: client)
    }

    private func carryOut(_ item: SubmittedRequest) {
        let client = item.client
        defer { slowReaders.probeIfNeeded(client) }
        // The connection has closed: writes of the client are still carried out, reads are skipped.
        if item.request.isRead, client.isGone.load(ordering: .relaxed) { return }
        if let forwarding, forwarding.forwardIfNeeded(item) { return }
        carryOut(item.request, item)
    }

    /// Carries out a request after another hub has done its part.
    func resumeForwarded(_ item: SubmittedRequest) { carryOut(item.request, item) }

    private func carryOut(_ request: Request, _ item: SubmittedRequest) {
        let client = item.client
        switch request {
        case .explained(let asked): carryOut(asked, item)
        case .begin(let sessionID, let previous):
            if let old = sessions.ended(by: client, replacing: previous), suspendsForPrecheck(beforeEndOf: old, item) { return }
            sessions.begin(client, sessionID, replacing: previous)
        case .end:
            if suspendsForPrecheck(beforeEndOf: client, item) { return }
            sessions.end(client)
        case .identify(let identity): identify(as: identity, .identified(identity), item)
        case .signOut: identify(as: .anonymous, .done, item)
        case .observe(let path, let query, let style, let hash, let since):
            let located = query.map { reads.located($0, path) }
            observers.observe(Observation(path: path, query: located, style: style), hash: hash, since: since, item)
        case .unobserve(let path, let style): observers.unobserve(path, style, item)
        case .unobserveID(let id): observers.unobserve(id, item)
        case .move(let id, let centre): observers.centreMoves.move(id, to: centre, item)
        case .get(let path, let query): reads.get(path, query, item)
        case .count(let path, let query): reads.count(path, query, item)
        case .write(let asked, let condition, let update): writes.write(WriteRequest(asked, if: condition, update: update), item)
        case .system(let asked, let cause): writes.write(WriteRequest(asked, cause: cause), item)
        case .accountData(let found, let uid): writes.accountData(found, of: uid, item)
        case .push(let path, let value): writes.push(path, value, item)
        case .exchange(let exchange):
            switch exchange.work {
            // A read is carried out like a get.
            case .read(let query): reads.get(exchange.path, query, item) { .exchanged(Exchanged(content: $0)) }
            case .count(let query): reads.count(exchange.path, query, item) { .exchanged(Exchanged(content: .int(Int64($0)))) }
            case .write(let asked): writes.exchange(exchange, asked, item)
            case .push(let value): writes.exchange(exchange, push: value, item)
            }
        case .onDisconnect(let asked): writes.write(WriteRequest(asked, .onDisconnect), item)
        case .cancelOnDisconnect(let path):
            if let remote = client.remote { remote.begin(item.token) }
            answers.answer(disconnects.cancel(path, of: client), item)
        case .revoke(let notice):
            if suspendsForPrecheck(beforeEndOf: client, item) { return sessions.endRights(of: client) }
            outbox.send(notice, to: client)
            sessions.end(client)
            outbox.close(client)
        case .behind(let user): suspendedRequests.waitBehind(user, item)
        case .answer(let bytes): answers.answer(bytes, to: client)
        case .mark(let bytes): outbox.mark(client, bytes)
        case .congested, .drained: break
        }
    }

    /// Suspends the end of a session while the rules are evaluated for the observers that depend on its onDisconnect writes, if there are
    /// many. Not if the memory budget is exhausted.
    /// - Parameter item: the request that ends the session; carried out again when the results are known.
    private func suspendsForPrecheck(beforeEndOf client: Client, _ item: SubmittedRequest) -> Bool {
        guard let bytes = precheck.bytes(before: disconnects.due(of: client)) else { return false }
        let round = precheck.round + 1
        return suspendedRequests.suspend(item, holding: bytes, follows: .never) { [self] in
            let question = precheck.question(before: disconnects.due(of: client), round: round)
            return { PrecheckedDecisions(question) }
        } then: { [self] found in
            precheck.use(found) { carryOut(item) }
        }
    }

    /// After the rules were evaluated for many observers, other clients get their turn before the client's next request.
    private func identify(as identity: Identity, _ reply: Reply, _ item: SubmittedRequest) {
        if let remote = item.client.remote { remote.begin(item.token) }
        let isAnother = identity != item.client.identity
        let refusal = sessions.identify(item.client, as: identity)
        answers.answer(refusal.map { .failed($0) } ?? reply, item)
        guard isAnother else { return }
        let isLong = item.client.observations.count > context.limits.removalsAtOnce
        permissions.recheckObservers(of: item.client)
        if isLong { suspendedRequests.yieldTurn(item, isAnswered: early.hasAnswered) }
    }

    // MARK: Rollback

    /// Repeats a step of a batch that was rolled back.
    func repeatStep(_ step: BatchHistory.Step) {
        writes.charges.isRepeating = true
        defer { writes.charges.isRepeating = false }
        switch step {
        case .request(let item): if !item.client.hasEnded, !suspendedRequests.mustWait(item) { carryOut(item) }
        case .settled(let item): if !item.client.hasEnded { early.repeatMuted { carryOut(item) } }
        case .tooLarge(let client, let observation): observers.remove(observation, of: client)
        case .catchUp(let client, let missed): if !client.hasEnded { publisher.publish(missed, to: client) }
        case .show(let path, let ordering, let update): publisher.publish(path, ordering, update)
        case .notifiedLater(let path): queries.endAll(at: path)
        case .paced(let path, let query, let style): publisher.publish(path, query, to: style)
        case .applyEnded(let left): disconnects.applyEnded(left)
        case .relog(let id): disconnects.relogLater(id)
        }
    }
}
