import DequeModule
import Dispatch
import Journal
import JSONTree
import SecurityRules

/// The clients' onDisconnect writes (contract §6.2). They are part of the durable state. Every step goes to the log, and its answer waits
/// for that. The commit that applies the writes also removes them from the log's pending state.
/// So after a crash the next process applies them exactly once.
///
/// ```
/// onDisconnect ─► kept (log: keep) ─► cancelled (log: cancel)
///                   └─► the session ends ─► applied as a system write, and removed from the log, in one commit
///                                   └─ the log refuses: deferred until it accepts commits again; then a turn's work at a time
/// ```
/// Confined to the database queue.
final class DisconnectWrites: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let precheck: PermissionPrecheck
    private let commits: CommitPipeline
    /// Clients with pending writes, by the id under which the log knows them.
    private var clientsWithPending: [String: Client] = [:]
    /// Upper bound of the bytes of all pending writes.
    private var bytes = 0
    private var bytesOfOwner: [Owner: Int] = [:]
    /// Writes of sessions that ended while the log refused commits. They are applied when the log accepts commits again.
    private var deferred = Deque<PendingSession>()
    /// Sessions deferred again because the log refused their batch. They come before all of `deferred`.
    private var deferredAgain = Deque<PendingSession>()
    /// Whether writes of an earlier process's sessions are still to be applied. No request is carried out before that.
    private(set) var blocksRequests = false
    /// Sessions whose identity changed while the log refused commits. Their pending writes are logged when it accepts commits again.
    private var toRelog: Set<String> = []
    private var ids = PushIDGenerator()

    init(
        _ context: EngineContext, _ content: Content, _ batch: Batch, _ durability: DurabilityQueue, _ log: LogGuard,
        _ precheck: PermissionPrecheck, _ commits: CommitPipeline
    ) {
        self.context = context
        self.content = content
        self.batch = batch
        self.durability = durability
        self.log = log
        self.precheck = precheck
        self.commits = commits
    }

    /// The pending onDisconnect writes of all sessions.
    var pendingSessions: [PendingSession] {
        mergeDeferred()
        return Array(deferred) + clientsWithPending.sorted { $0.key < $1.key }.map { $1.leftBehind(as: $0) }
    }

    // MARK: Requests

    func keep(_ writes: [TreeWrite], _ client: Client) -> Reply {
        do throws(Failure) {
            let bytes = try bytes(with: writes, client)
            try commits.check(writes, by: .client(client.identity))
            return keepPermitted(writes, client, bytes: bytes)
        } catch { return .failed(error) }
    }

    /// Upper bound of a client's pending bytes with these writes added. O(their size). Near the limit O(all its pending writes): writes
    /// replaced by newer ones do not count.
    /// - Throws: when it exceeds a limit.
    func bytes(with writes: [TreeWrite], _ client: Client) throws(Failure) -> Int {
        let limits = context.limits
        guard client.pending.writes.count + writes.count <= limits.pendingWrites else {
            throw Failure(.failure, "At most \(limits.pendingWrites) writes may wait for the disconnect of one client.")
        }
        var more = 0
        for write in writes {
            more += write.heldBytes(atMost: limits.pendingBytes)
            if more > limits.pendingBytes { throw .pendingTooBig(limits.pendingBytes) }
        }
        var bytes = client.pendingBytes + more
        if bytes > limits.pendingBytes {
            var after = client.pending
            for write in writes { after.add(write) }
            bytes = after.heldBytes
            if bytes > limits.pendingBytes { throw .pendingTooBig(limits.pendingBytes) }
        }
        try checkBytesOfAll(with: bytes, of: client)
        return bytes
    }

    private func checkBytesOfAll(with bytes: Int, of client: Client) throws(Failure) {
        if self.bytes - client.pendingBytes + bytes > context.limits.pendingBytesOfAll { throw .pendingOfAllTooBig }
        let share = context.limits.pendingBytesShare
        for owner in Owner.all(of: client) {
            let known = bytesOfOwner[owner, default: 0] - (client.pendingOwners.contains(owner) ? client.pendingBytes : 0)
            if known + bytes > share.limit(of: owner) { throw .pendingOfAllTooBig }
        }
    }

    /// Keeps writes that the rules allow.
    /// - Parameter bytes: the client's pending bytes with these writes, from `bytes(with:_:)`. The total is checked again, because other
    ///   clients may have added to it since.
    func keepPermitted(_ writes: [TreeWrite], _ client: Client, bytes: Int) -> Reply {
        do throws(Failure) {
            try checkBytesOfAll(with: bytes, of: client)
            if writes.isEmpty { return .done }
            try log.mustAcceptWrites()
        } catch { return .failed(error) }
        batch.record(.pendingChanged(client, before: client.pending, id: client.pendingID))
        var changes: [PendingChange] = []
        let id: String
        if let known = client.pendingID {
            id = known
        } else {
            id = client.sessionID ?? context.sessionPrefix + ids.next(now: context.clock()).string
            client.pendingID = id
            clientsWithPending[id] = client
            changes.append(.identify(session: id, auth: client.identity.auth, isAdmin: client.identity.isAdmin))
        }
        context.meter.spend(writes.count * client.pending.writes.count / Self.comparedForWork)
        for write in writes {
            client.pending.add(write)
            changes.append(.keep(session: id, write))
        }
        count(bytes, of: client)
        commits.record(changes, by: client.remote?.current)
        return .done
    }

    /// Comparing a new write with this many pending ones costs as much as a small request.
    private static let comparedForWork = 256

    func cancel(_ path: Path, of client: Client) -> Reply {
        if client.pendingID == nil, client.remote == nil { return .done }
        do throws(Failure) { try log.mustAcceptWrites() } catch { return .failed(error) }
        guard let id = client.pendingID else {
            // Another hub may be the writer by now, and know of pending writes. Only a commit in the log rules that out.
            commits.record([], by: client.remote?.current)
            return .done
        }
        batch.record(.pendingChanged(client, before: client.pending, id: id))
        client.pending.cancel(path)
        if client.pending.isEmpty {
            client.pendingID = nil
            clientsWithPending[id] = nil
            count(0, of: client)
            commits.record([.forget(session: id)], by: client.remote?.current)
        } else {
            commits.record([.cancel(session: id, path)], by: client.remote?.current)
        }
        return .done
    }

    /// A client's pending writes will be applied with its new identity.
    /// - Returns: for a request of another hub, why the change is not in the log. Another hub may be the writer by now and must learn of
    ///   it.
    @discardableResult
    func identityChanged(of client: Client) -> Failure? {
        // A refusing log does not block an identity change. Until the change is in the log, a crash restores the previous identity.
        if log.isRefusing {
            if let id = client.pendingID { toRelog.insert(id) }
            guard client.remote?.current != nil else { return nil }
            do throws(Failure) { try log.mustAcceptWrites() } catch { return error }
            return nil
        }
        if let id = client.pendingID {
            commits.record([.identify(session: id, auth: client.identity.auth, isAdmin: client.identity.isAdmin)])
        } else if let asked = client.remote?.current {
            // As in `cancel`: the current writer may know of pending writes of this client.
            commits.record([], by: asked)
        }
        return nil
    }

    /// Records an upper bound for the bytes of a client's onDisconnect writes.
    private func count(_ bytes: Int, of client: Client) {
        self.bytes += bytes - client.pendingBytes
        for owner in client.pendingOwners { charge(owner, -client.pendingBytes) }
        client.pendingBytes = bytes
        // The owners at this moment. They are updated when the client's pending writes change.
        client.pendingOwners = bytes > 0 ? Owner.all(of: client) : []
        for owner in client.pendingOwners { charge(owner, bytes) }
    }

    private func charge(_ owner: Owner, _ bytes: Int) {
        let now = bytesOfOwner[owner, default: 0] + bytes
        bytesOfOwner[owner] = now > 0 ? now : nil
    }

    // MARK: Ends

    /// The writes to apply when the client disconnects; empty while the log refuses commits.
    func due(of client: Client) -> [TreeWrite] { client.pendingID == nil || log.isRefusing ? [] : client.pending.writes }

    /// Applies the onDisconnect writes of a client that has disconnected.
    func write(of client: Client) {
        guard let id = client.pendingID else { return }
        let left = client.leftBehind(as: id)
        batch.record(.pendingChanged(client, before: client.pending, id: id))
        toRelog.remove(id)
        clientsWithPending[id] = nil
        client.pendingID = nil
        count(0, of: client)
        _ = client.pending.takeAll()
        write(left)
    }

    /// Applies a session's pending writes without a client. When this is repeated while the log refuses, the session is deferred again,
    /// before all others not yet applied, in the original order.
    func applyEnded(_ left: PendingSession) {
        batch.record(.applyEnded(left))
        if log.isRefusing { deferredAgain.append(left) } else { write(left) }
    }

    /// Applies the pending writes of an earlier process's sessions, before the first request is carried out.
    func applyAbandoned(_ sessions: [PendingSession]) {
        deferred += sessions
        blocksRequests = true
        applyDeferred()
    }

    /// Drops deferred sessions that another hub applied while it was the writer: those that the log no longer has.
    /// - Parameter left: ids of the sessions with pending writes in the log.
    func dropDeferred(besides left: Set<String>) {
        mergeDeferred()
        deferred.removeAll { !left.contains($0.id) }
    }

    /// Applies a session's pending writes as one commit. Paths that the rules refuse by now are dropped. If the rules still refuse the rest
    /// as one commit (together the writes may exceed a limit that each keeps), each is applied by itself.
    private func write(_ left: PendingSession) {
        if log.isRefusing { return deferred.append(left) }
        let origin = WriteOrigin.sessionEnd(left)
        if (try? commits.commit(left.writes.writes, by: origin)) != nil { return }
        // Shared by all writes, so that the queue is not held for a full operation's work per write.
        let mostWork = Self.singleDecisions * content.rules.textWork
        let writes = left.writes.writes
        let permitted = withinWork(writes, origin, mostWork) { proposal throws(Failure) in try commits.check(proposal) }
        let isFewer = !permitted.isEmpty && permitted.count < writes.count
        if isFewer, (try? commits.commit(permitted, by: origin)) != nil { return }
        // The session is removed from the log after the last write, because a crash in between would lose the remaining ones.
        let single = WriteOrigin.client(origin.identity)
        _ = withinWork(permitted, single, mostWork) { proposal throws(Failure) in _ = try commits.commit(proposal) }
        commits.record(origin.pendingChanges)
    }

    /// The writes for which `body` succeeds, one by one, within as much text work for all of them.
    private func withinWork(
        _ writes: [TreeWrite], _ origin: WriteOrigin, _ work: Int, _ body: (Proposal) throws(Failure) -> Void
    ) -> [TreeWrite] {
        var left = work
        return writes.filter { write in
            let proposal = Proposal([write], by: origin)
            proposal.textWork = left
            proposal.includesMessages = false
            defer { left = proposal.textWork }
            return (try? body(proposal)) != nil
        }
    }

    /// Text work, in operations, for checking a session's writes one by one, and as much again for applying each by itself.
    private static let singleDecisions = 2

    // MARK: Sessions of other hubs

    /// Assigns the pending writes of another hub's session, as found in the log, to a client of this hub.
    func adopt(_ session: PendingSession, by client: Client) {
        (client.pending, client.pendingID) = (session.writes, session.id)
        clientsWithPending[session.id] = client
        count(session.writes.heldBytes, of: client)
    }

    /// Stops tracking a client's pending writes: another hub is responsible for them, and has them from the log.
    func release(_ client: Client) {
        guard let id = client.pendingID else { return }
        clientsWithPending[id] = nil
        toRelog.remove(id)
        client.pendingID = nil
        count(0, of: client)
        _ = client.pending.takeAll()
    }

    /// Hands all pending writes over to another hub, including those of ended sessions not yet applied.
    func handOver(_ body: (Client, String) -> Void, ended: (String) -> Void) {
        for (id, client) in clientsWithPending {
            release(client)
            body(client, id)
        }
        mergeDeferred()
        for session in deferred { ended(session.id) }
        deferred.removeAll()
    }

    /// Whether a session's pending writes are still to be applied.
    func isPending(_ id: String) -> Bool {
        clientsWithPending[id] != nil || deferred.contains { $0.id == id } || deferredAgain.contains { $0.id == id }
    }

    // MARK: While the log refuses

    /// Applies deferred writes in order, within the turn's work. The log stays closed while some are left, and while the rules are
    /// evaluated for the many observers that one session affects. So no later write comes before them.
    func applyDeferred() {
        mergeDeferred()
        while let session = deferred.first {
            if isTurnOver { return resumeNextTurn() }
            if let bytes = precheck.bytes(before: session.writes.writes), context.budget.reserve(bytes, for: .parsing) {
                return precheckObservers(before: session, holding: bytes)
            }
            applyFirstDeferred()
        }
        while let id = toRelog.first {
            if isTurnOver { return resumeNextTurn() }
            toRelog.remove(id)
            relog(id)
        }
        blocksRequests = false
    }

    private func mergeDeferred() {
        if deferredAgain.isEmpty { return }
        // The session's end may also have been repeated as a request.
        let again = Set(deferredAgain.map(\.id))
        deferred.removeAll { again.contains($0.id) }
        deferred.prepend(contentsOf: deferredAgain)
        deferredAgain = []
    }

    private var isTurnOver: Bool { context.meter.work >= context.limits.turnWork }

    private func applyFirstDeferred() {
        guard let session = deferred.popFirst() else { return }
        let before = durability.outputBytes
        applyEnded(session)
        let encoded = max(0, durability.outputBytes - before) / RequestCost.bytesEncodedForWork
        context.meter.spend(RequestCost.work(ofBytes: session.writes.heldBytes) + encoded)
        durability.finishLargeBatch()
    }

    /// Continues in the next turn, behind the waiting requests, whose writes are refused until then.
    private func resumeNextTurn() {
        log.close()
        context.queue.async { [self] in
            log.open()
            context.meter.beginTurn()
            // If the log refuses again, the rest is applied when it accepts commits.
            if log.isRefusing { blocksRequests = false } else { applyDeferred() }
            durability.finishBatch()
        }
    }

    /// - Parameter session: the first deferred one.
    private func precheckObservers(before session: PendingSession, holding bytes: Int) {
        log.close()
        let question = precheck.question(before: session.writes.writes, round: 1)
        context.compute { PrecheckedDecisions(question) } then: { [self] found in
            log.open()
            context.meter.beginTurn()
            // If the log refuses again, the rest is applied when it accepts commits.
            if log.isRefusing { blocksRequests = false } else { applyDeferred(session, knowing: found) }
            context.budget.release(bytes, from: .parsing)
            batch.retire(found)
            durability.finishBatch()
        }
    }

    private func applyDeferred(_ session: PendingSession, knowing found: PrecheckedDecisions) {
        mergeDeferred()
        // Another session is first if the log has meanwhile refused one that was applied earlier.
        if deferred.first?.id == session.id { precheck.use(found) { applyFirstDeferred() } }
        applyDeferred()
    }

    /// A commit that was rolled back turns out to be in the log. The log's state of its sessions then differs from memory, and the writes
    /// it contains are no longer pending.
    func found(_ commit: Commit) {
        mergeDeferred()
        for case .pending(let change) in commit.operations {
            if case .forget(let id) = change { deferred.removeAll { $0.id == id } }
            relogLater(change.session)
        }
    }

    /// Logs the pending writes of a session again when the log accepts commits.
    func relogLater(_ id: String) { toRelog.insert(id) }

    private func relog(_ id: String) {
        batch.record(.relog(id))
        context.meter.spend(RequestCost.work(ofBytes: clientsWithPending[id]?.pendingBytes ?? 0))
        var changes = [PendingChange.forget(session: id)]
        if let left = clientsWithPending[id]?.leftBehind(as: id) {
            changes.append(.identify(session: id, auth: left.auth, isAdmin: left.isAdmin))
            changes += left.writes.writes.map { .keep(session: id, $0) }
        }
        commits.record(changes)
    }

    /// Undoes a change of a batch that was rolled back.
    func restore(_ before: PendingWrites, id: String?, of client: Client) {
        if let now = client.pendingID { clientsWithPending[now] = nil }
        mergeDeferred()
        // The session's end will be repeated. Changes are undone newest first, so it is among the last.
        if let id, let end = deferred.lastIndex(where: { $0.id == id }) { deferred.remove(at: end) }
        (client.pending, client.pendingID) = (before, id)
        count(before.heldBytes, of: client)
        if let id { clientsWithPending[id] = client }
    }
}

extension Client {
    /// The client's onDisconnect writes.
    fileprivate func leftBehind(as id: String) -> PendingSession {
        PendingSession(id: id, auth: identity.auth, isAdmin: identity.isAdmin, writes: pending)
    }
}
