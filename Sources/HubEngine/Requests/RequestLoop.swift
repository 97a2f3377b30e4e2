import JSONTree
import Scheduling
import Synchronization

/// Shares the database queue fairly among clients with waiting requests.
///
/// ```
/// drained ── little ──────────────► handled in the order of arrival ──► one batch
///    └────── more than a turn ────► queues per client (RequestTurns) ──► a turn for all of them ──► one batch ───┐
///                                       ▲ new requests, and other work on the queue, have their turn             │
///                                       └────────────────────────────────────────────────────────────────────────┘
/// ```
/// A batch ends with its turn, so that the answer to a client's first request waits only for a small part of other clients' requests.
/// While the log is behind, only clients that wait for nothing from it continue: for others the wait would only move there.
/// The writes of an author with many consequences wait until those are durable (`DerivedBytes`).
///
/// Confined to the database queue.
final class RequestLoop: @unchecked Sendable {
    // Sendable: only hops back to the queue.
    private let context: EngineContext
    private let batch: Batch
    private let outbox: Outbox
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let indexes: IndexStore
    private let disconnects: DisconnectWrites
    private let handler: RequestHandler
    /// Expires the nodes that became due while the hub was down, before any request.
    var expiry: ExpiryScheduler?
    /// Requests beyond those of a turn, whether the next turn is scheduled, and callbacks for when none are left.
    private var turns = RequestTurns()
    private var isTurnComing = false
    /// When the current turn began, steady ns.
    private var turnBeganNs: Int64 = 0
    private var idleWaiters: [@Sendable () -> Void] = []

    init(
        _ context: EngineContext, _ pipeline: BatchPipeline, _ outbox: Outbox, _ indexes: IndexStore,
        _ disconnects: DisconnectWrites, _ handler: RequestHandler
    ) {
        self.context = context
        (batch, durability, log) = (pipeline.batch, pipeline.durability, pipeline.log)
        self.outbox = outbox
        self.indexes = indexes
        self.disconnects = disconnects
        self.handler = handler
    }

    /// Handles requests, each client's in order, as one batch or several, and sends the output of a batch when it is durable.
    /// - Parameters:
    ///   - work: limit of this turn's work, in addition to `turnWork`.
    ///   - more: returns requests submitted meanwhile, so that they join the batch.
    func handle(_ items: consuming [SubmittedRequest], work: Int = .max, more: () -> [SubmittedRequest] = { [] }) {
        context.queue.assertCurrent()
        beginTurn()
        let most = min(work, context.limits.turnWork)
        // Taken from the end, so that each is moved and not copied.
        items.reverse()
        while turns.isEmpty, context.meter.work < most, !isTurnOver, !isLogBehind {
            if items.isEmpty {
                items = more()
                items.reverse()
            }
            guard let item = items.popLast() else { break }
            if mustWait(item) {
                items.append(item)
                break
            }
            handleInBatch(item)
        }
        if !items.isEmpty { turns.append(items.reversed()) }
        endTurn()
        scheduleTurn()
    }

    /// Carries out held requests of a client in order: a few at once, the rest in turns. They come before all requests in its queue.
    func resume(_ held: [SubmittedRequest], of client: Client) {
        let end = context.meter.work + context.limits.turnWork / 32
        for (i, item) in held.enumerated() {
            guard context.meter.work < end, !mustWait(item) else {
                turns.prepend(held[i...], of: client)
                return scheduleTurn()
            }
            handleInBatch(item)
        }
    }

    /// Whether a request must wait until the consequences of its author's earlier writes are durable.
    private func mustWait(_ item: SubmittedRequest?) -> Bool {
        guard let item, item.request.isWrite else { return false }
        return durability.mustWait(item.client.author)
    }

    private func handleInBatch(_ item: SubmittedRequest) {
        batch.count(item.size)
        context.meter.spend(RequestCost.work(ofBytes: item.size))
        let before = outbox.bytes
        // Consequences of the hub's own writes are charged to no client.
        _ = context.meter.takeDerivedBytes()
        handler.handle(item)
        // Its output was encoded on this queue.
        context.meter.spend(max(0, outbox.bytes - before) / RequestCost.bytesEncodedForWork)
        let derived = context.meter.takeDerivedBytes()
        if derived > 0 { batch.charge(derived, to: item.client.author) }
        durability.finishLargeBatch()
    }

    // MARK: Turns

    /// Schedules the next turn behind other work on the queue, if requests wait for one.
    func scheduleTurn() {
        context.meter.counters.waitingRequests = turns.requests
        guard !turns.isEmpty, !isTurnComing, expiry?.blocksRequests != true else { return }
        isTurnComing = true
        context.queue.async { [self] in runTurn() }
    }

    private func runTurn() {
        context.queue.assertCurrent()
        isTurnComing = false
        beginTurn()
        // Deferred onDisconnect writes may have taken the whole turn.
        var (clients, isAnyReady) = (turns.activeClients, isTurnOver)
        let share = TurnShare(work: context.limits.turnWork / max(1, clients), ns: context.limits.turnUs * 1_000 / Int64(max(1, clients)))
        while clients > 0, !isTurnOver, let queue = turns.nextActive() {
            clients -= 1
            if !mustWait(turns.first(of: queue)), !isLogBehind || queue.client.lastSent < durability.firstWaiting {
                isAnyReady = true
                serve(queue, share)
            }
            turns.finish(queue)
        }
        // Clients that the turn did not reach may be ready.
        if clients > 0 { isAnyReady = true }
        clients = turns.leavingClients
        while clients > 0, !isLogBehind, let queue = turns.nextLeaving() {
            clients -= 1
            isAnyReady = true
            serve(queue, TurnShare(work: 1, ns: 0))
            turns.finish(queue)
            if isTurnOver { break }
        }
        endTurn()
        // Otherwise the log schedules the next turn when it has caught up.
        if isAnyReady { scheduleTurn() }
    }

    /// The part of a turn that each client gets. Bounded in time too, because the estimates of work are rough: otherwise a turn could end after a
    /// few clients, and all others would wait for many turns.
    private struct TurnShare {
        let work: Int
        let ns: Int64
    }

    /// Handles requests of a client, at least one, up to its share of the turn.
    private func serve(_ queue: ClientQueue, _ share: TurnShare) {
        let end = context.meter.work + share.work
        let endNs = context.scheduler.steadyNs + share.ns
        repeat {
            guard !mustWait(turns.first(of: queue)), let item = turns.next(of: queue) else { return }
            handleInBatch(item)
        } while context.meter.work < end && context.scheduler.steadyNs < endNs && !isTurnOver
    }

    /// Whether the turn has done its work, or has taken its time: the estimates of work are rough, and the machine may be slow.
    private var isTurnOver: Bool {
        context.meter.work >= context.limits.turnWork || context.scheduler.steadyNs - turnBeganNs >= context.limits.turnUs * 1_000
    }

    /// Whether the log has enough to do. Clients that wait for it already then get no turn.
    private var isLogBehind: Bool { durability.waitingCommits > context.limits.turnWork / 2 }

    private func beginTurn() {
        context.meter.beginTurn()
        turnBeganNs = context.scheduler.steadyNs
        if !log.isRefusing { disconnects.applyDeferred() }
        if disconnects.blocksRequests || expiry?.blocksRequests == true { context.meter.spend(context.limits.turnWork) }
    }

    private func endTurn() {
        indexes.evictIdle()
        context.meter.counters.waitingRequests = turns.requests
        durability.finishBatch()
        if turns.isEmpty, !idleWaiters.isEmpty {
            let bodies = idleWaiters
            idleWaiters = []
            for body in bodies { body() }
        }
    }

    /// Calls back when no requests wait for a turn. Requests suspended for background work do not count.
    func whenIdle(_ body: @escaping @Sendable () -> Void) {
        context.queue.assertCurrent()
        if turns.isEmpty { body() } else { idleWaiters.append(body) }
    }
}
