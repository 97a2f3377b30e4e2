import DequeModule
import Dispatch
import Journal
import JSONTree
import SecurityRules

/// What clients leave behind for their end (contract §6.2). It is part of the durable state: every step goes to the log, its
/// answer waits for that, and the commit that carries it out also says that it is done. So after a crash it is carried out
/// once, by the next process.
///
/// ```
/// onDisconnect ─► kept (log: keep) ─► cancelled (log: cancel)
///                   └─► the session ends ─► written as a system write of its cause, and forgotten, in one commit
///                                   └─ the log refuses: owed, until it takes commits again; then a turn's work at a time
/// ```
/// Confined to the database queue.
final class DisconnectWrites: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let content: Content
    private let batch: Batch
    private let durability: DurabilityLine
    private let log: LogGuard
    private let foresight: PermissionForesight
    private let commits: CommitLine
    /// Clients that leave something behind, by the id under which the log knows it.
    private var leaving: [String: Client] = [:]
    /// Bytes of that, at most.
    private var bytes = 0
    private var bytesOfOwner: [Owner: Int] = [:]
    /// Writes of sessions that ended while the log refused commits; they are made when the log accepts commits again.
    private var owed = Deque<PendingSession>()
    /// Those that are owed again because the log has refused their batch: they come before all of `owed`.
    private var owedAgain = Deque<PendingSession>()
    /// Whether sessions of the process before are still to be written: no request is carried out before that.
    private(set) var comesFirst = false
    /// Sessions that changed their identity while the log refused commits; their pending writes are stored when it accepts them again.
    private var unstated: Set<String> = []
    private var ids = PushIDGenerator()

    init(
        _ context: EngineContext, _ content: Content, _ batch: Batch, _ durability: DurabilityLine, _ log: LogGuard,
        _ foresight: PermissionForesight, _ commits: CommitLine
    ) {
        self.context = context
        self.content = content
        self.batch = batch
        self.durability = durability
        self.log = log
        self.foresight = foresight
        self.commits = commits
    }

    /// The pending onDisconnect writes of all sessions.
    var pendingSessions: [PendingSession] {
        mergeOwed()
        return Array(owed) + leaving.sorted { $0.key < $1.key }.map { $1.leftBehind(as: $0) }
    }

    // MARK: Requests

    func keep(_ writes: [TreeWrite], _ client: Client) -> Reply {
        do throws(Failure) {
            let bytes = try bytes(with: writes, client)
            try commits.check(writes, by: .client(client.identity))
            return keepPermitted(writes, client, bytes: bytes)
        } catch { return .failed(error) }
    }

    /// Bytes of what a client would leave behind with these writes, at most. O(their size), and when that seems too much
    /// O(all that it leaves): what was written over does not count.
    /// - Throws: when it may not leave so much.
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
    /// - Parameter bytes: what the client leaves with them, as `bytes(with:_:)` has found; others may have kept more since.
    func keepPermitted(_ writes: [TreeWrite], _ client: Client, bytes: Int) -> Reply {
        do throws(Failure) {
            try checkBytesOfAll(with: bytes, of: client)
            if writes.isEmpty { return .done }
            try log.mustTakeWrites()
        } catch { return .failed(error) }
        batch.record(.pended(client, before: client.pending, id: client.pendingID))
        var changes: [PendingChange] = []
        let id: String
        if let known = client.pendingID {
            id = known
        } else {
            id = client.sessionID ?? context.sessionPrefix + ids.next(now: context.clock()).string
            client.pendingID = id
            leaving[id] = client
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

    /// Pending writes with which a new one is compared that are as much work as a small request.
    private static let comparedForWork = 256

    func cancel(_ path: Path, of client: Client) -> Reply {
        if client.pendingID == nil, client.remote == nil { return .done }
        do throws(Failure) { try log.mustTakeWrites() } catch { return .failed(error) }
        guard let id = client.pendingID else {
            // Whether a client of another hub has left nothing is known when the log takes a commit: another hub may write by now.
            commits.record([], by: client.remote?.current)
            return .done
        }
        batch.record(.pended(client, before: client.pending, id: id))
        client.pending.cancel(path)
        if client.pending.isEmpty {
            client.pendingID = nil
            leaving[id] = nil
            count(0, of: client)
            commits.record([.forget(session: id)], by: client.remote?.current)
        } else {
            commits.record([.cancel(session: id, path)], by: client.remote?.current)
        }
        return .done
    }

    /// A client with another identity than before makes its writes as that one.
    /// - Returns: why the log does not have that yet, for a request of another hub: another one may write by now, and is to be told.
    @discardableResult
    func identityChanged(of client: Client) -> Failure? {
        // An identity change is not refused for the disk; until the log has it, a crash restores the former identity.
        if log.isRefusing {
            if let id = client.pendingID { unstated.insert(id) }
            guard client.remote?.current != nil else { return nil }
            do throws(Failure) { try log.mustTakeWrites() } catch { return error }
            return nil
        }
        if let id = client.pendingID {
            commits.record([.identify(session: id, auth: client.identity.auth, isAdmin: client.identity.isAdmin)])
        } else if let asked = client.remote?.current {
            // As with a cancel: the hub that writes by now may know what it leaves.
            commits.record([], by: asked)
        }
        return nil
    }

    /// Records an upper bound for the bytes of a client's onDisconnect writes.
    private func count(_ bytes: Int, of client: Client) {
        self.bytes += bytes - client.pendingBytes
        for owner in client.pendingOwners { charge(owner, -client.pendingBytes) }
        client.pendingBytes = bytes
        // As they are now: they are charged anew when what the client leaves changes.
        client.pendingOwners = bytes > 0 ? Owner.all(of: client) : []
        for owner in client.pendingOwners { charge(owner, bytes) }
    }

    private func charge(_ owner: Owner, _ bytes: Int) {
        let now = bytesOfOwner[owner, default: 0] + bytes
        bytesOfOwner[owner] = now > 0 ? now : nil
    }

    // MARK: Ends

    /// The writes that are made when the client disconnects; empty while the log refuses commits.
    func due(of client: Client) -> [TreeWrite] { client.pendingID == nil || log.isRefusing ? [] : client.pending.writes }

    /// Makes the onDisconnect writes of a client that has disconnected.
    func write(of client: Client) {
        guard let id = client.pendingID else { return }
        let left = client.leftBehind(as: id)
        batch.record(.pended(client, before: client.pending, id: id))
        unstated.remove(id)
        leaving[id] = nil
        client.pendingID = nil
        count(0, of: client)
        _ = client.pending.takeAll()
        write(left)
    }

    /// Writes what a session left behind, without a request that asks for it. Repeated while the log refuses, it is owed again: before
    /// all that has not been written yet, in the order in which it was written.
    func fire(_ left: PendingSession) {
        batch.record(.fire(left))
        if log.isRefusing { owedAgain.append(left) } else { write(left) }
    }

    /// Writes what the sessions of an earlier process left behind, before the first request is carried out.
    func fireAbandoned(_ sessions: [PendingSession]) {
        owed += sessions
        comesFirst = true
        writeOwed()
    }

    /// What was to be written still when another hub wrote the namespace: that one has written what the log does not have any more.
    /// - Parameter left: the sessions that have left something behind, as the log has it.
    func forgetOwed(besides left: Set<String>) {
        mergeOwed()
        owed.removeAll { !left.contains($0.id) }
    }

    /// Writes as one what a session left behind. What the rules refuse by now is dropped path by path; the rest still applies, each
    /// by itself if they refuse it together: what each may ask of the rules, all may exceed.
    private func write(_ left: PendingSession) {
        if log.isRefusing { return owed.append(left) }
        let origin = WriteOrigin.sessionEnd(left)
        if (try? commits.commit(left.writes.writes, by: origin)) != nil { return }
        // Shared by all of them: the queue is not held for each write as long as for an operation of its own.
        let mostWork = Self.singleDecisions * content.rules.textWork
        var (work, again) = (mostWork, mostWork)
        let writes = left.writes.writes
        let permitted = writes.filter { (try? commits.check([$0], by: origin, textWork: &work)) != nil }
        let isFewer = !permitted.isEmpty && permitted.count < writes.count
        if isFewer, (try? commits.commit(permitted, by: origin)) != nil { return }
        // The session is removed with the last of them, because a crash between two would lose the rest.
        let single = WriteOrigin.client(origin.identity)
        for write in permitted { _ = try? commits.commit([write], by: single, textWork: &again) }
        commits.record(origin.pendingChanges)
    }

    /// As much work on texts as so many operations may ask for is done to decide path by path about what one session left, and as
    /// much again to make each by itself.
    private static let singleDecisions = 2

    // MARK: Sessions of other hubs

    /// What a session of another hub has left behind, as the log has it, is left by a client from now on.
    func adopt(_ session: PendingSession, by client: Client) {
        (client.pending, client.pendingID) = (session.writes, session.id)
        leaving[session.id] = client
        count(session.writes.heldBytes, of: client)
    }

    /// What a client leaves behind is another hub's concern from now on: the log has it.
    func release(_ client: Client) {
        guard let id = client.pendingID else { return }
        leaving[id] = nil
        unstated.remove(id)
        client.pendingID = nil
        count(0, of: client)
        _ = client.pending.takeAll()
    }

    /// What all clients leave behind is another hub's concern from now on, also of those that have ended and were not written.
    func handOver(_ body: (Client, String) -> Void, ended: (String) -> Void) {
        for (id, client) in leaving {
            release(client)
            body(client, id)
        }
        mergeOwed()
        for session in owed { ended(session.id) }
        owed.removeAll()
    }

    /// Whether what a session left is still to be written.
    func owes(_ id: String) -> Bool { leaving[id] != nil || owed.contains { $0.id == id } || owedAgain.contains { $0.id == id } }

    // MARK: While the log refuses

    /// Writes what could not be written while the log refused, in order, as far as the turn goes. While something is left, or when
    /// many observers rest on what one session left and the rules are asked about them, the log is closed: no later write comes before.
    func writeOwed() {
        mergeOwed()
        while let session = owed.first {
            if isTurnOver { return goOnLater() }
            if let bytes = foresight.bytes(before: session.writes.writes), context.budget.reserve(bytes, for: .parsing) {
                return askFirst(before: session, holding: bytes)
            }
            writeFirstOwed()
        }
        while let id = unstated.first {
            if isTurnOver { return goOnLater() }
            unstated.remove(id)
            restate(id)
        }
        comesFirst = false
    }

    private func mergeOwed() {
        if owedAgain.isEmpty { return }
        // The end of a session may have been repeated as a request, too.
        let again = Set(owedAgain.map(\.id))
        owed.removeAll { again.contains($0.id) }
        owed.prepend(contentsOf: owedAgain)
        owedAgain = []
    }

    private var isTurnOver: Bool { context.meter.work >= context.limits.turnWork }

    private func writeFirstOwed() {
        guard let session = owed.popFirst() else { return }
        let before = durability.outputBytes
        fire(session)
        let encoded = max(0, durability.outputBytes - before) / RequestLoop.bytesEncodedForWork
        context.meter.spend(RequestLoop.work(ofBytes: session.writes.heldBytes) + encoded)
        durability.finishLargeBatch()
    }

    /// What is left has the next turn: behind the requests that wait, whose writes are refused until then.
    private func goOnLater() {
        log.close()
        context.queue.async { [self] in
            log.open()
            context.meter.beginTurn()
            // Else it has refused again; what is owed is written when it takes commits.
            if log.isRefusing { comesFirst = false } else { writeOwed() }
            durability.finishBatch()
        }
    }

    /// - Parameter session: the next one that is owed.
    private func askFirst(before session: PendingSession, holding bytes: Int) {
        log.close()
        let question = foresight.question(before: session.writes.writes, round: 1)
        context.background.run(.upkeep) { [self] in
            let found = Foresight(question)
            context.queue.async { [self] in
                log.open()
                context.meter.beginTurn()
                // Else it has refused again; what is owed is written when it takes commits.
                if log.isRefusing { comesFirst = false } else { writeOwed(session, knowing: found) }
                context.budget.release(bytes, from: .parsing)
                batch.retire(found)
                durability.finishBatch()
            }
        }
    }

    private func writeOwed(_ session: PendingSession, knowing found: Foresight) {
        mergeOwed()
        // Another one is the first when the log has refused meanwhile what was written before.
        if owed.first?.id == session.id { foresight.use(found) { writeFirstOwed() } }
        writeOwed()
    }

    /// A commit that was rolled back is found to be stored: the log's state of its sessions differs from theirs, and the writes that it
    /// contains are no longer pending.
    func found(_ commit: Commit) {
        mergeOwed()
        for case .pending(let change) in commit.operations {
            if case .forget(let id) = change { owed.removeAll { $0.id == id } }
            restateLater(change.session)
        }
    }

    /// Stores the pending writes of a session again as soon as the log accepts commits.
    func restateLater(_ id: String) { unstated.insert(id) }

    private func restate(_ id: String) {
        batch.record(.restate(id))
        context.meter.spend(RequestLoop.work(ofBytes: leaving[id]?.pendingBytes ?? 0))
        var changes = [PendingChange.forget(session: id)]
        if let left = leaving[id]?.leftBehind(as: id) {
            changes.append(.identify(session: id, auth: left.auth, isAdmin: left.isAdmin))
            changes += left.writes.writes.map { .keep(session: id, $0) }
        }
        commits.record(changes)
    }

    /// Undoes a change of a batch that is given up.
    func restore(_ before: PendingWrites, id: String?, of client: Client) {
        if let now = client.pendingID { leaving[now] = nil }
        mergeOwed()
        // Its end comes again. The newest changes are undone first, so it is one of the last.
        if let id, let end = owed.lastIndex(where: { $0.id == id }) { owed.remove(at: end) }
        (client.pending, client.pendingID) = (before, id)
        count(before.heldBytes, of: client)
        if let id { leaving[id] = client }
    }
}

extension Client {
    /// The client's onDisconnect writes.
    fileprivate func leftBehind(as id: String) -> PendingSession {
        PendingSession(id: id, auth: identity.auth, isAdmin: identity.isAdmin, writes: pending)
    }
}
