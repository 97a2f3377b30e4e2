import JSONTree
import Synchronization

/// Suspends requests whose cost depends on the size of the data. They are prepared on immutable values off the queue. Meanwhile requests of
/// other clients are carried out; those of the same client wait, so that its answers keep their order.
///
/// ```
/// carry out ── large ──► suspended: background work ──► back on the queue ──► resume: answered, or suspended again
///                 │        │ later requests of the client are held             └► the held ones, in order
///                 │        └ its session is taken over: the result is dropped
///                 └── the same user has enough of them running: waits for its turn
/// ```
/// If the log refuses an earlier batch, suspended requests are carried out again from scratch, after those of the batch.
///
/// The end of a client waits for its suspended request: earlier requests are still carried out, in order. If it ends because its credential
/// has expired, its observers are removed at once, and its pending reads are skipped.
///
/// Confined to the database queue.
final class SuspendedRequests: @unchecked Sendable {
    // Sendable: background work only hops back to the queue with it.
    private let context: EngineContext
    private let batch: Batch
    private let durability: DurabilityQueue
    private let indexes: IndexStore
    private let commits: CommitPipeline
    private let sessions: Sessions
    private let slowReaders: SlowReaders
    private let preparations = PreparationTurns()
    /// Clients with a suspended request, and the number of suspensions so far.
    private var clients: [ObjectIdentifier: Client] = [:]
    private var count = 0
    /// Indexes kept until the suspended request with this number is resumed.
    private var pinned: [Int: ChildIndex] = [:]
    /// The request being resumed.
    private var resumed: SuspendedRequest?
    /// Requests suspended until certain other clients have none suspended.
    private var behindOthers: [(suspended: SuspendedRequest, others: [Client])] = []
    /// Called with held requests of one client, in order, to carry them out.
    var onResumed: ([SubmittedRequest], Client) -> Void = { _, _ in }

    init(
        _ context: EngineContext, _ batch: Batch, _ durability: DurabilityQueue, _ indexes: IndexStore, _ commits: CommitPipeline,
        _ sessions: Sessions, _ slowReaders: SlowReaders
    ) {
        self.context = context
        self.batch = batch
        self.durability = durability
        self.indexes = indexes
        self.commits = commits
        self.sessions = sessions
        self.slowReaders = slowReaders
    }

    // MARK: Suspending

    /// Suspends a request until `work` is done. Called while the request is carried out, instead of answering it.
    /// - Parameters:
    ///   - work: on immutable values, on any thread.
    ///   - resume: on the database queue. It answers the request or suspends it again. Not called for a client whose session has ended.
    func suspend<Result: Sendable>(
        _ item: SubmittedRequest, _ work: @escaping @Sendable () -> Result, then resume: @escaping @Sendable (Result) -> Void
    ) {
        suspend(item, holding: 0, follows: .never, inTurn: { work }, then: resume)
    }

    /// Since when other commits are recorded for the request.
    enum Following { case never, sinceItsTurn, sinceNow }

    /// Suspends a request for work that depends on the state when it begins.
    /// - Parameters:
    ///   - bytes: memory of the work; reserved in the process's budget until the request is resumed, and passed on if it is then suspended
    ///     again.
    ///   - begin: on the database queue, when it is the user's turn; returns the work.
    /// - Returns: false when the budget is exhausted; nothing happens then.
    @discardableResult
    func suspend<Result: Sendable>(
        _ item: SubmittedRequest, holding bytes: Int, follows: Following, inTurn begin: @escaping @Sendable () -> @Sendable () -> Result,
        then resume: @escaping @Sendable (Result) -> Void
    ) -> Bool {
        let client = item.client
        guard client.suspendedRequest == nil, reserve(bytes, for: client) else { return false }
        let suspended = setAside(item, holding: bytes)
        if follows == .sinceNow { follow(suspended) }
        let user = client.identity.preparationKey
        preparations.enqueue(user, limit: context.limits.preparationsOfUser) { [self] in
            guard client.suspendedRequest === suspended else {
                // The work is not needed any more, and its captures may be large.
                context.release([begin, resume])
                return false
            }
            if follows == .sinceItsTurn { follow(suspended) }
            let work = begin()
            context.background.run(.preparation) { [self] in
                let result = work()
                let back = DisposableWork { [self] in
                    // Resumed first, so that the user's next job starts with the result of this one.
                    resumeSuspended(suspended, client) { resume(result) }
                    preparations.done(user)
                }
                context.queue.async { [self] in
                    back.run()
                    // Its captures may be large.
                    context.background.run(.upkeep) { back.dispose() }
                }
            }
            return true
        }
        return true
    }

    /// Suspends a request for work done elsewhere in the process, which takes no turn. Other commits are recorded meanwhile.
    /// - Parameter begin: starts the work. Called before this returns; it calls back once, from any thread.
    func suspend<Result: Sendable>(
        _ item: SubmittedRequest, holding bytes: Int, until begin: (@escaping @Sendable (Result) -> Void) -> Void,
        then resume: @escaping @Sendable (Result) -> Void
    ) -> Bool {
        let client = item.client
        guard client.suspendedRequest == nil, reserve(bytes, for: client) else { return false }
        let suspended = setAside(item, holding: bytes)
        follow(suspended)
        begin { [self] result in
            let back = DisposableWork { [self] in resumeSuspended(suspended, client) { resume(result) } }
            context.queue.async { [self] in
                back.run()
                context.background.run(.upkeep) { back.dispose() }
            }
        }
        return true
    }

    /// Suspends a request until `resumeSuspended` is called for it: for work that several requests wait for.
    func suspend(_ item: SubmittedRequest) -> SuspendedRequest { setAside(item) }

    private func setAside(_ item: SubmittedRequest, holding bytes: Int = 0, isDone: Bool = false) -> SuspendedRequest {
        count += 1
        let suspended = SuspendedRequest(item, number: count, bytes: bytes, isDone: isDone)
        item.client.suspendedRequest = suspended
        clients[ObjectIdentifier(item.client)] = item.client
        // It still counts as waiting after its batch has ended.
        context.meter.wait(item.size)
        return suspended
    }

    private func follow(_ suspended: SuspendedRequest) {
        suspended.follows = true
        commits.retainRecent()
    }

    /// Reserves bytes for a client's work. Those of the client's request being resumed are reused.
    private func reserve(_ bytes: Int, for client: Client) -> Bool {
        let before = resumed.flatMap { $0.item.client === client ? $0 : nil }
        let more = bytes - (before?.bytes ?? 0)
        if more > 0, !context.budget.reserve(more, for: .parsing) { return false }
        if more < 0 { context.budget.release(-more, from: .parsing) }
        before?.bytes = 0
        return true
    }

    /// Keeps an index until the client's suspended request is resumed.
    func pin(_ index: ChildIndex?, for client: Client) {
        guard let index, let suspended = client.suspendedRequest, pinned[suspended.number] == nil else { return }
        indexes.pin(index)
        pinned[suspended.number] = index
    }

    /// After a long request, carries out waiting requests of other clients before the client's next one.
    /// - Parameter isAnswered: whether its answer was sent ahead of the batch.
    func yieldTurn(_ item: SubmittedRequest, isAnswered: Bool) {
        let client = item.client
        guard client.suspendedRequest == nil, !client.hasEnded else { return }
        batch.record(isAnswered ? .settled(item) : .request(item))
        let suspended = setAside(item, isDone: true)
        context.queue.async { [self] in
            guard client.suspendedRequest === suspended else { return }
            leave(suspended)
            release(suspended)
            context.meter.finish(item.size)
            handleHeld(suspended.held, of: client)
            endWork()
        }
    }

    /// Whether the request must wait for a suspended one; if so, it is held.
    func mustWait(_ item: SubmittedRequest) -> Bool {
        guard let suspended = item.client.suspendedRequest else { return false }
        if suspended.isForwarded, suspended.held.isEmpty, item.client.lag == nil, item.request.isWrite { return false }
        switch item.request {
        case .congested, .drained: return false
        case .revoke: sessions.endRights(of: item.client)
        case .identify(let identity): if let user = identity.user { suspended.users.append(user) }
        default: break
        }
        suspended.held.append(item)
        context.meter.wait(item.size)
        return true
    }

    // MARK: Resuming

    /// Resumes a suspended request, then carries out the later requests of its client.
    func resumeSuspended(_ suspended: SuspendedRequest, _ client: Client, _ resume: () -> Void) {
        context.queue.assertCurrent()
        // If it differs, the log refused a batch meanwhile and the request was started again.
        guard client.suspendedRequest === suspended else { return }
        leave(suspended)
        defer {
            release(suspended)
            endWork()
        }
        if client.hasEnded {
            batch.count(suspended.item.size)
            batch.record(.request(suspended.item))
        } else {
            let outer = resumed
            resumed = suspended
            _ = context.meter.takeDerivedBytes()
            resume()
            let derived = context.meter.takeDerivedBytes()
            if derived > 0 { batch.charge(derived, to: client.author) }
            resumed = outer
            if let again = client.suspendedRequest {
                (again.held, again.users) = (suspended.held, suspended.users)
                return context.meter.finish(suspended.item.size)
            }
            batch.count(suspended.item.size)
            batch.record(.request(suspended.item))
            slowReaders.probeIfNeeded(client)
        }
        batch.retire(suspended.item)
        handleHeld(suspended.held, of: client)
    }

    private func endWork() {
        durability.finishBatch()
        resumeBehindOthers()
    }

    /// Carries out held requests in order, then those held for a slow reader, which arrived later.
    private func handleHeld(_ held: [SubmittedRequest], of client: Client) {
        let later = slowReaders.dequeueHeld(of: client)
        countAgain(later)
        onResumed(held + later, client)
    }

    /// Carries out requests that were held for a slow reader, in order.
    func resume(_ held: [SubmittedRequest], of client: Client) {
        countAgain(held)
        onResumed(held, client)
    }

    /// Requests that are handled again count as waiting until then.
    private func countAgain(_ items: [SubmittedRequest]) { context.meter.wait(items.reduce(0) { $0 + $1.size }) }

    private func leave(_ suspended: SuspendedRequest) {
        suspended.item.client.suspendedRequest = nil
        clients[ObjectIdentifier(suspended.item.client)] = nil
    }

    /// Releases its memory and its index.
    private func release(_ suspended: SuspendedRequest) {
        if suspended.bytes > 0 { context.budget.release(suspended.bytes, from: .parsing) }
        if suspended.follows { commits.releaseRecent() }
        if !pinned.isEmpty, let index = pinned.removeValue(forKey: suspended.number) { indexes.unpin(index) }
    }

    // MARK: Waiting for other clients

    /// Suspends a request until no other client of the same user has a suspended request, if any has.
    /// O(clients with suspended requests)
    func waitBehind(_ user: String, _ item: SubmittedRequest) {
        let others = clients.values.filter { client in
            client !== item.client && (client.identity.user == user || client.suspendedRequest?.users.contains(user) == true)
        }
        if !others.isEmpty { behindOthers.append((suspend(item), others)) }
    }

    /// Resumes the requests whose predecessors are complete.
    private func resumeBehindOthers() {
        if behindOthers.isEmpty { return }
        context.queue.async { [self] in
            let waiting = behindOthers
            behindOthers = []
            for (suspended, others) in waiting {
                // A session that was taken over has ended, so it is not waited for.
                if others.contains(where: { $0.suspendedRequest != nil && !$0.hasEnded }) {
                    behindOthers.append((suspended, others))
                } else {
                    resumeSuspended(suspended, suspended.item.client) {}
                }
            }
        }
    }

    // MARK: Rollback

    /// Removes all suspended requests and those held behind them, because earlier requests are carried out again. Each client's are in
    /// order; the results of their work are dropped.
    func giveUp() -> [(client: Client, items: [SubmittedRequest])] {
        let suspendedClients = clients.values.sorted { ($0.suspendedRequest?.number ?? 0) < ($1.suspendedRequest?.number ?? 0) }
        return suspendedClients.compactMap { client in
            guard let suspended = client.suspendedRequest else { return nil }
            leave(suspended)
            release(suspended)
            if suspended.isDone { context.meter.finish(suspended.item.size) }
            return (client, (suspended.isDone ? [] : [suspended.item]) + suspended.held)
        }
    }

    /// Carries out again the suspended requests.
    func handleAgain(_ taken: [(client: Client, items: [SubmittedRequest])]) {
        for (client, items) in taken { handleHeld(items, of: client) }
    }
}

extension Identity {
    /// The key for limiting parallel work: one per user, one for all clients that are not signed in, none for administrators.
    fileprivate var preparationKey: String? {
        if isAdmin { return nil }
        return user.map { "=" + $0 } ?? ""
    }
}

#if DEBUG
    extension SuspendedRequests {
        func check(_ found: inout Invariants) {
            for (id, client) in clients {
                let isOwn = ObjectIdentifier(client) == id && client.suspendedRequest?.item.client === client
                found.check(isOwn, "a suspended request of another client")
                for item in client.suspendedRequest?.held ?? [] { found.check(item.client === client, "a held request of another client") }
            }
            found.check(resumed == nil, "a request is still being resumed")
        }
    }
#endif
