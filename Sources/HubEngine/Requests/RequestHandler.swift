import JSONTree
import Synchronization

/// Carries out requests one by one, each by the part for its kind. Every request gets exactly one answer, at once or after it was
/// suspended, except those documented as not answered. Confined to the database queue.
final class RequestHandler: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let batch: Batch
    private let slowReaders: SlowReaders
    private let suspendedRequests: SuspendedRequests
    private let early: EarlyAnswers
    private let updates: ObserverUpdates
    private let reads: ReadRequests
    private let observers: ObserveRequests
    private let writes: WriteRequests
    private let sessions: SessionRequests
    /// Nil without a cluster.
    var forwarding: (any RequestForwarding)?

    init(
        _ context: EngineContext, _ batch: Batch, _ output: ClientOutput, _ suspendedRequests: SuspendedRequests, _ updates: ObserverUpdates,
        _ reads: ReadRequests, _ observers: ObserveRequests, _ writes: WriteRequests, _ sessions: SessionRequests
    ) {
        self.context = context
        self.batch = batch
        (slowReaders, early) = (output.slowReaders, output.early)
        self.suspendedRequests = suspendedRequests
        self.updates = updates
        self.reads = reads
        self.observers = observers
        self.writes = writes
        self.sessions = sessions
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
        updates.catchUp(client, missed)
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
        switch request {
        case .explained(let asked): carryOut(asked, item)
        case .observe(let path, let query, let style, let hash, let since):
            observers.observe(Observation(path: path, query: query, style: style), hash: hash, since: since, item)
        case .unobserve(let path, let style): observers.unobserve(path, style, item)
        case .unobserveID(let id): observers.unobserve(id, item)
        case .move(let id, let target): observers.queryMoves.move(id, to: target, item)
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
        case .begin(let sessionID, let previous): sessions.begin(sessionID, replacing: previous, item) { [self] in carryOut($0) }
        case .end: sessions.end(item) { [self] in carryOut($0) }
        case .revoke(let notice): sessions.revoke(notice, item) { [self] in carryOut($0) }
        case .identify(let identity): sessions.identify(as: identity, .identified(identity), item)
        case .signOut: sessions.identify(as: .anonymous, .done, item)
        case .cancelOnDisconnect(let path): sessions.cancelOnDisconnect(path, item)
        case .behind(let user): sessions.waitBehind(user, item)
        case .answer(let bytes): sessions.answer(bytes, item)
        case .mark(let bytes): sessions.mark(bytes, item)
        case .congested, .drained: break
        }
    }

    // MARK: Rollback

    /// Repeats a step of a batch that was rolled back.
    func repeatStep(_ step: BatchHistory.Step) {
        writes.uncharged {
            switch step {
            case .request(let item): if !item.client.hasEnded, !suspendedRequests.mustWait(item) { carryOut(item) }
            case .settled(let item): if !item.client.hasEnded { early.repeatMuted { carryOut(item) } }
            case .tooLarge(let client, let observation): observers.remove(observation, of: client)
            case .catchUp(let client, let missed): if !client.hasEnded { updates.show(missed, to: client) }
            case .show(let path, let ordering, let update): updates.show(path, ordering, update)
            case .notifiedLater(let path): updates.endAll(at: path)
            case .paced(let path, let query, let style): updates.show(path, query, style)
            case .applyEnded(let left): sessions.repeatApplied(left)
            case .relog(let id): sessions.repeatRelog(id)
            }
        }
    }
}
