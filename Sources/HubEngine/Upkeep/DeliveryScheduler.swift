import Commits
import Journal
import JSONTree
import Scheduling
import SecurityRules
import Synchronization

/// Sends notifications and events that commits have caused (`.notify`, `.webhook`), with retries.
///
/// ```
/// commit ─► stored beside the tree ─► due: is the row still there, and not acknowledged? ─► one delivery for each device
///                                                                                             │ durable, the first of its route
/// retry, dead letter, removal: one commit for all results of a turn ◄── result ◄── sender ◄───┘
/// ```
/// All of its state is journalled with the commits (`PendingDeliveries`), so nothing is lost, wherever the hub was stopped. A delivery whose
/// result was not stored is sent again, with the same id. Nothing is sent for a commit that is not durable.
/// Confined to the database queue.
final class DeliveryScheduler: @unchecked Sendable {
    // Sendable: timers and results of the sender only hop back to the queue with it.
    let context: EngineContext
    let content: Content
    private let durability: DurabilityQueue
    let log: LogGuard
    private let commits: CommitPipeline
    let sender: any DeliverySender
    /// Whether other work still comes first.
    private let mustWait: () -> Bool

    var queue = DeliveryQueue()
    private(set) var ledger = DeliveryLedger()
    /// The last id that was scanned since the start; nil when all were.
    private var scanned: Key?
    private var isScanning = false
    /// Incremented when it starts over: results of deliveries sent before are discarded.
    private(set) var generation = 0
    /// Its last commits that still wait for the log.
    private var waiting: [UInt64] = []
    /// When the next check runs, steady ms.
    private var wakesAt = Int64.max
    /// Results since the last turn, from any thread.
    let results = Mutex<[Attempt]>([])

    /// The result of sending a head of the queue.
    struct Attempt: Sendable {
        let generation: Int
        let head: DeliveryQueue.Head
        /// The device's row as it was sent.
        let row: Node
        let result: DeliveryResult
    }

    /// Deliveries that one turn changes, and stored ones that it scans, at most.
    static let atOnce = 100
    /// How much earlier than their time notifications are combined with a due one.
    static let combinedMs: Int64 = 1_000
    /// ms until a check is repeated because a commit is not durable yet, because the sender is full, and because it has not tried.
    static let durableMs: Int64 = 2
    private static let fullMs: Int64 = 100
    static let untriedMs: Int64 = 1_000
    /// Own commits, and commits of all, waiting for the log above which it pauses, so that other writes do not wait behind them.
    private static let waitingCommits = 4, waitingCommitsOfAll = 1_000

    init(
        _ context: EngineContext, _ content: Content, _ durability: DurabilityQueue, _ log: LogGuard, _ commits: CommitPipeline,
        _ sender: any DeliverySender, mustWait: @escaping () -> Bool
    ) {
        (self.context, self.content, self.durability, self.log, self.commits) = (context, content, durability, log, commits)
        (self.sender, self.mustWait) = (sender, mustWait)
    }

    // MARK: What is stored

    /// Starts with what is stored, a part in each turn: after a start, a rollback, a change of the role.
    func begin() {
        stop()
        if !content.deliveries.isEmpty { scan(generation) }
    }

    /// Stops sending; results of deliveries under way are ignored.
    func stop() {
        generation += 1
        (queue, ledger, scanned, isScanning, wakesAt) = (DeliveryQueue(), DeliveryLedger(), nil, false, .max)
        waiting = []
        results.withLock { $0 = [] }
        count()
    }

    private func scan(_ number: Int) {
        guard number == generation else { return }
        isScanning = true
        var found = 0
        for (id, node) in content.deliveries.ascending(from: scanned) where id != scanned {
            guard found < Self.atOnce else {
                context.queue.async { [weak self] in self?.scan(number) }
                count()
                return
            }
            found += 1
            scanned = id
            if !StoredDelivery.isState(id), let delivery = StoredDelivery(node, state: state(id)) { add(id, delivery, node.deliveryBytes) }
        }
        isScanning = false
        count()
        context.meter.publish()
        schedule()
    }

    /// A commit has stored deliveries.
    func added(_ deliveries: [(id: Key, admitted: ConsequenceStage.AdmittedDelivery)]) {
        // The scan reaches them: ids ascend with the commits.
        if isScanning { return }
        for (id, admitted) in deliveries { add(id, admitted.delivery, admitted.node.deliveryBytes) }
        count()
        schedule()
    }

    private func add(_ id: Key, _ delivery: StoredDelivery, _ bytes: Int) {
        // The scan reaches deliveries that an administrator has added meanwhile.
        guard ledger.add(id, delivery, bytes: bytes), delivery.state.dead == nil else { return }
        if let route = delivery.route {
            queue.add(id, route: route, due: delivery.state.due, isUrgent: delivery.notice?.isUrgent ?? false)
        } else {
            queue.addNotice(id, due: delivery.state.due, group: Self.group(of: delivery))
        }
    }

    static func group(of delivery: StoredDelivery) -> String? {
        guard let notice = delivery.notice, let group = notice.group, notice.unless == nil else { return nil }
        return "\(notice.devices):\(group)"
    }

    private func state(_ id: Key) -> Node { content.deliveries[StoredDelivery.stateID(id)] ?? .null }
    func delivery(_ id: Key) -> StoredDelivery? { content.deliveries[id].flatMap { StoredDelivery($0, state: state(id)) } }

    /// Which deliveries of a commit are stored. Notifications beyond a limit are left out and counted. An event beyond one refuses the commit
    /// of a client, which may repeat it.
    func admit(_ deliveries: [RuleDelivery], fromClient: Bool) throws(Failure) -> [ConsequenceStage.AdmittedDelivery] {
        var (kept, room) = ([ConsequenceStage.AdmittedDelivery](), ledger.room(context.limits))
        for delivery in deliveries {
            let stored = StoredDelivery(delivery)
            let node = stored.contentNode
            if room.take(delivery, bytes: node.deliveryBytes) {
                kept.append((stored, node))
            } else if fromClient, case .event = delivery.content {
                throw Failure(.unavailable, "Too many events wait for a webhook. Try again later.")
            } else {
                context.meter.counters.deliveriesLeftOut += 1
            }
        }
        return kept
    }

    // MARK: Turns

    func schedule() {
        let isFull = room <= 0
        let next = queue.nextDue(includesHeads: !isFull)
        if isFull { wakeUp(ms: Self.fullMs) }
        guard let next else { return }
        let wait = next.subtractingReportingOverflow(context.clock()).partialValue
        wakeUp(ms: max(0, min(wait, context.limits.clockCheckMs)))
    }

    /// Continues after the log accepts commits again.
    func resume() { schedule() }

    /// How many more deliveries can be sent now.
    private var room: Int { min(sender.capacity, context.limits.deliveriesAtOnce - queue.sendingCount) }

    private func wakeUp(ms: Int64) {
        let time = context.scheduler.steadyMs + ms
        guard time < wakesAt else { return }
        wakesAt = time
        let wakes: @Sendable () -> Void = { [weak self] in
            guard let self, time == wakesAt else { return }
            wakesAt = .max
            check()
        }
        if ms == 0 { context.queue.async(wakes) } else { context.later(ms: ms, wakes) }
    }

    /// Looks up the devices of due notifications, and sends due deliveries, within the work of a turn.
    private func check() {
        if isScanning { return }
        if log.isRefusing { return wakeUp(ms: Int64(context.limits.retryMs)) }
        if mustWait() || mustPause { return wakeUp(ms: Self.durableMs) }
        context.meter.beginTurn()
        let now = context.clock()
        var turn = DeliveryTurn()
        while turn.changes.count < Self.atOnce, hasTime, let id = queue.takeNotice(by: now) {
            context.meter.spend(4)
            if let delivery = delivery(id) { expandToDevices(id, delivery, now, &turn) }
        }
        var (room, mails) = (room, sender.mailCapacity)
        while room > 0, turn.changes.count < Self.atOnce, hasTime, let head = queue.takeHead(by: now) {
            context.meter.spend(4)
            guard isDurable(head.ids[0]) else {
                queue.settle(head, over: [], due: now + Self.durableMs)
                continue
            }
            if send(head, now, &mails, &turn) { room -= 1 }
        }
        commit(turn)
        schedule()
    }

    var mustPause: Bool {
        waiting.removeAll { $0 <= durability.durable.sequence || !durability.isBehind }
        return waiting.count >= Self.waitingCommits || durability.waitingCommits > Self.waitingCommitsOfAll
    }

    private var hasTime: Bool { context.meter.work < context.limits.turnWork / 4 }

    /// Whether the commit that stored a delivery is on disk.
    private func isDurable(_ id: Key) -> Bool { !durability.isBehind || durability.durable.beside.deliveries[id] != nil }

    /// Stores what a turn changed, in one commit.
    func commit(_ turn: DeliveryTurn) {
        guard !turn.changes.isEmpty else { return durability.finishBatch() }
        var operations: [JournalOperation] = []
        for change in turn.changes {
            let hasState = content.deliveries[StoredDelivery.stateID(change.id)] != nil
            switch change.kind {
            case .add(let delivery):
                operations.append(.delivery(change.id, delivery.contentNode))
            case .keep(let delivery):
                operations.append(.delivery(StoredDelivery.stateID(change.id), delivery.stateNode))
            case .remove:
                operations.append(.delivery(change.id, .null))
                if hasState { operations.append(.delivery(StoredDelivery.stateID(change.id), .null)) }
            }
        }
        for dead in ledger.deadLettersToDrop(adding: turn.deadLetters, context.limits) {
            operations += [.delivery(dead, .null), .delivery(StoredDelivery.stateID(dead), .null)]
            ledger.remove(dead)
        }
        let devices = turn.goneDevices.filter { content.root.exists(at: $0) }.map { TreeWrite($0, WriteValue(.null)) }
        let counts = turn.counts.sorted { $0.key < $1.key }.map { place, number in
            let former: Int64 = if case .int(let former) = content.root.node(at: place).leaf { former } else { 0 }
            return TreeWrite(place, WriteValue(.int(former &+ number)))
        }
        // Counts may have too many consequences. The deliveries must not be repeated for that, nor gone devices stay.
        if !write(devices + counts, operations), !write(devices, operations) { commits.record(operations) }
        for change in turn.changes {
            switch change.kind {
            case .add(let delivery): add(change.id, delivery, delivery.contentNode.deliveryBytes)
            case .keep(let delivery): ledger.update(change.id, delivery)
            case .remove: ledger.remove(change.id)
            }
        }
        count()
        if durability.isBehind { waiting.append(content.sequence) }
        durability.finishBatch()
    }

    private func write(_ writes: [TreeWrite], _ operations: [JournalOperation]) -> Bool {
        if writes.isEmpty { return false }
        let proposal = Proposal(writes, by: .system(.delivery))
        proposal.deliveries = operations
        return (try? commits.commit(proposal)) != nil
    }

    private func count() {
        context.meter.counters.deliveriesPending = ledger.count - ledger.deadLetters.count
        context.meter.counters.deadLetters = ledger.deadLetters.count
    }
}
