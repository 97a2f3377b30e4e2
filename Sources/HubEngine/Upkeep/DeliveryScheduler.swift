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
    private let context: EngineContext
    private let content: Content
    private let durability: DurabilityQueue
    private let log: LogGuard
    private let commits: CommitPipeline
    private let sender: any DeliverySender
    /// Whether other work still comes first.
    private let mustWait: () -> Bool

    private var queue = DeliveryQueue()
    private var ledger = DeliveryLedger()
    /// The last id that was scanned since the start; nil when all were.
    private var scanned: Key?
    private var isScanning = false
    /// Incremented when it starts over: results of deliveries sent before are discarded.
    private var generation = 0
    /// When the next check runs, steady ms.
    private var wakesAt = Int64.max
    /// Results since the last turn, from any thread.
    private let results = Mutex<[Attempt]>([])

    /// The result of sending a head of the queue.
    private struct Attempt: Sendable {
        let generation: Int
        let head: DeliveryQueue.Head
        /// The device's row as it was sent.
        let row: Node
        let result: DeliveryResult
    }

    /// Deliveries that one turn changes, and stored ones that it scans, at most.
    private static let atOnce = 500
    /// How much earlier than their time notifications are combined with a due one.
    private static let combinedMs: Int64 = 1_000
    /// ms until a check is repeated because a commit is not durable yet, because the sender is full, and because it has not tried.
    private static let durableMs: Int64 = 5, fullMs: Int64 = 100, untriedMs: Int64 = 1_000
    private static let waitingCommits = 1_000

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
    func added(_ deliveries: [(id: Key, delivery: StoredDelivery)]) {
        // The scan reaches them: ids ascend with the commits.
        if isScanning { return }
        for (id, delivery) in deliveries { add(id, delivery, delivery.contentNode.deliveryBytes) }
        count()
        schedule()
    }

    private func add(_ id: Key, _ delivery: StoredDelivery, _ bytes: Int) {
        ledger.add(id, delivery, bytes: bytes)
        if delivery.state.dead != nil { return }
        if let route = delivery.route {
            queue.add(id, route: route, due: delivery.state.due, isUrgent: delivery.notice?.isUrgent ?? false)
        } else {
            queue.addNotice(id, due: delivery.state.due, group: Self.group(of: delivery))
        }
    }

    private static func group(of delivery: StoredDelivery) -> String? {
        guard let notice = delivery.notice, let group = notice.group, notice.unless == nil else { return nil }
        return "\(notice.devices):\(group)"
    }

    private func state(_ id: Key) -> Node { content.deliveries[StoredDelivery.stateID(id)] ?? .null }
    private func delivery(_ id: Key) -> StoredDelivery? { content.deliveries[id].flatMap { StoredDelivery($0, state: state(id)) } }

    /// Which deliveries of a commit are stored. Notifications beyond a limit are left out and counted. An event beyond one refuses the commit
    /// of a client, which may repeat it.
    func admit(_ deliveries: [RuleDelivery], fromClient: Bool) throws(Failure) -> [RuleDelivery] {
        var (kept, room) = ([RuleDelivery](), ledger.room(context.limits))
        for delivery in deliveries {
            if room.take(delivery) {
                kept.append(delivery)
            } else if fromClient, case .event = delivery.content {
                throw Failure(.unavailable, "Too many events wait for a webhook. Try again later.")
            } else {
                context.meter.counters.deliveriesLeftOut += 1
            }
        }
        return kept
    }

    // MARK: Turns

    private func schedule() {
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
        if mustWait() || durability.waitingCommits > Self.waitingCommits { return wakeUp(ms: Self.durableMs) }
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

    private var hasTime: Bool { context.meter.work < context.limits.turnWork / 4 }

    /// Whether the commit that stored a delivery is on disk.
    private func isDurable(_ id: Key) -> Bool { !durability.isBehind || durability.durable.beside.deliveries[id] != nil }

    /// Stores what a turn changed, in one commit.
    private func commit(_ turn: DeliveryTurn) {
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

    // MARK: Devices

    /// Replaces a due notification by one delivery for each device, or ends it.
    private func expandToDevices(_ id: Key, _ delivery: StoredDelivery, _ now: Int64, _ turn: inout DeliveryTurn) {
        guard var notice = delivery.notice else { return }
        turn.remove(id)
        guard isWanted(delivery, now), now <= delivery.content.expires else { return turn.count(notice, "skipped") }
        let others = Self.group(of: delivery).map { queue.takeGroup($0, by: now + Self.combinedMs) } ?? []
        for other in others where other != id {
            guard let more = self.delivery(other), let next = more.notice else { continue }
            context.meter.spend(4)
            turn.remove(other)
            guard isWanted(more, now) else {
                turn.count(next, "skipped")
                continue
            }
            notice.combine(next)
            turn.count(next, "combined")
        }
        guard notice.title.exists else {
            turn.count(notice, "failed")
            context.meter.counters.deliveriesFailed += 1
            var dead = delivery
            dead.device = notice.devices
            dead.state.dead = .init(reason: "the notification has no title", at: now)
            return turn.addDead(StoredDelivery.id(id, device: 0), dead)
        }
        var (number, room) = (0, ledger.room(context.limits))
        // Newest first, if keys are push ids.
        for (key, row) in content.root.node(at: notice.devices).children.descending().prefix(context.limits.devicesOfRecipient) {
            var device = delivery
            (device.content.content, device.device) = (.notification(notice), notice.devices.appending(key))
            // A digest may leave later than its notifications would expire.
            if !notice.isUrgent, let time = Self.digestTime(row, now) {
                (device.content.due, device.content.expires) = (time, time + delivery.content.expires - delivery.content.due)
            } else {
                device.content.due = now
            }
            device.state = .init(due: device.content.due, expires: device.content.expires)
            // Its notification is replaced, so only the bytes count.
            guard room.takeBytes(device.contentNode.deliveryBytes) else {
                context.meter.counters.deliveriesLeftOut += 1
                continue
            }
            turn.add(StoredDelivery.id(id, device: number), device)
            number += 1
        }
        turn.count(notice, number == 0 ? "unreachable" : "sent", Int64(max(1, number)))
    }

    /// Whether a notification is still to be sent: its row is there and not acknowledged, or, of a removal, was not created again; and nothing
    /// has answered it.
    private func isWanted(_ delivery: StoredDelivery, _ now: Int64) -> Bool {
        guard let notice = delivery.notice, delivery.content.rule != Self.testRule else { return true }
        let row = content.root.node(at: delivery.content.source)
        guard row.exists == (delivery.content.event != .removal) else { return false }
        if let path = notice.acknowledged, row.node(at: path).exists { return false }
        guard let unless = notice.unless, delivery.device == nil else { return true }
        context.meter.spend(4)
        return content.rules.isUnanswered(delivery.content, unless: unless, in: content.root, now: now)
    }

    /// When the next digest of a mail device with `every` leaves: at the next multiple of these seconds since the epoch.
    private static func digestTime(_ row: Node, _ now: Int64) -> Int64? {
        guard isMail(row), case .int(let seconds) = row.child("every").leaf, 60...604_800 ~= seconds else { return nil }
        return (now / (seconds * 1000) + 1) * seconds * 1000
    }

    private static func isMail(_ row: Node) -> Bool { row.child("kind") == "email" }

    // MARK: Sending

    /// Starts an attempt, unless it is not to be made.
    /// - Parameter mails: how many mails can be sent now.
    /// - Returns: whether it was started.
    private func send(_ head: DeliveryQueue.Head, _ now: Int64, _ mails: inout Int, _ turn: inout DeliveryTurn) -> Bool {
        guard let delivery = delivery(head.ids[0]) else {
            queue.settle(head, over: Set(head.ids), due: now)
            return false
        }
        var (head, row) = (head, Node.null)
        let outgoing: OutgoingDelivery
        switch delivery.content.content {
        case .event(let webhook, let before, let after):
            outgoing = .event(id: head.ids[0].string, webhook: webhook, [
                "path": .string(delivery.content.source.description), "event": .string(delivery.content.event.rawValue),
                "before": before, "after": after, "seq": .int(StoredDelivery.sequence(of: head.ids[0])), "at": .int(delivery.content.at),
                "database": .string(context.name),
            ])
        case .notification(let notice):
            guard let path = delivery.device else { return false }
            row = content.root.node(at: path)
            // What has become useless since the last attempt is not sent.
            guard row.exists, isWanted(delivery, now), now <= delivery.state.expires else {
                end(head, of: notice, now, &turn)
                return false
            }
            let isMail = Self.isMail(row)
            if isMail, mails <= 0 {
                queue.settle(head, over: [], due: now + Self.untriedMs)
                return false
            }
            let allowed = isMail ? now : notice.allowed(from: now)
            if allowed > now {
                queue.settle(head, over: [], due: allowed)
                return false
            }
            let language: String? = if case .string(let text) = row.child("lang").leaf { text.string } else { nil }
            if Self.digestTime(row, now) != nil {
                head = queue.extended(head, by: now, atMost: Self.atOnce)
                let all = head.ids.compactMap { id in self.delivery(id).flatMap { isWanted($0, now) ? Self.outgoing(id, $0, language) : nil } }
                outgoing = .digest(all, row: row, path: path)
            } else if let one = Self.outgoing(head.ids[0], delivery, language) {
                outgoing = .notification(one, row: row, path: path)
            } else {
                return false
            }
            if isMail { mails -= 1 }
        }
        let number = generation
        sender.send(outgoing) { [weak self, head, row] result in
            self?.receive(Attempt(generation: number, head: head, row: row, result: result))
        }
        return true
    }

    /// Ends a delivery that is no longer to be sent.
    private func end(_ head: DeliveryQueue.Head, of notice: RuleDelivery.Notice, _ now: Int64, _ turn: inout DeliveryTurn) {
        queue.settle(head, over: Set(head.ids), due: now)
        turn.count(notice, "skipped")
        for id in head.ids { turn.remove(id) }
    }

    private static func outgoing(_ id: Key, _ delivery: StoredDelivery, _ language: String?) -> OutgoingNotification? {
        guard let notice = delivery.notice else { return nil }
        let texts = notice.composed(language: language)
        // All devices get the id of the notification: a person with several recognises it on each.
        return OutgoingNotification(
            id: StoredDelivery.noticeID(of: id), title: texts.title, body: texts.body, url: notice.url, tag: notice.tag, isUrgent: notice.isUrgent,
            language: texts.language ?? language, expiresAt: delivery.state.expires)
    }

    // MARK: Results

    /// Takes a result, from any thread.
    private func receive(_ attempt: Attempt) {
        let isFirst = results.withLock { results in
            results.append(attempt)
            return results.count == 1
        }
        if isFirst { context.queue.async { [self] in finish() } }
    }

    /// Stores the results that have come, a turn's work at a time.
    private func finish() {
        if log.isRefusing {
            context.later(ms: Int64(context.limits.retryMs)) { [weak self] in self?.finish() }
            return
        }
        let (all, areMore) = results.withLock { results in
            let part = Array(results.prefix(Self.atOnce))
            results.removeFirst(part.count)
            return (part, !results.isEmpty)
        }
        context.meter.beginTurn()
        let now = context.clock()
        var turn = DeliveryTurn()
        for attempt in all where attempt.generation == generation { finish(attempt, now, &turn) }
        commit(turn)
        schedule()
        if areMore { context.queue.async { [self] in finish() } }
    }

    private func finish(_ attempt: Attempt, _ now: Int64, _ turn: inout DeliveryTurn) {
        let head = attempt.head
        var due = now
        switch attempt.result {
        case .later(let afterMs, _):
            let attempts = (delivery(head.ids[0])?.state.attempts ?? 0) + 1
            due += max(Self.backOffMs(head.ids[0], attempts), afterMs ?? 0)
        case .notAttempted: due += Self.untriedMs
        case .gone:
            if let device = delivery(head.ids[0])?.device, content.root.node(at: device) == attempt.row { turn.goneDevices.append(device) }
        case .delivered, .refused: break
        }
        var over: Set<Key> = []
        for id in head.ids {
            guard let delivery = delivery(id) else {
                over.insert(id)
                continue
            }
            if finish(id, delivery, attempt, due: due, now, &turn) { over.insert(id) }
        }
        queue.settle(head, over: over, due: due)
    }

    /// - Parameter due: the time of the next attempt, if there is one.
    /// - Returns: whether the delivery is over, or a dead letter.
    private func finish(
        _ id: Key, _ delivery: StoredDelivery, _ attempt: Attempt, due: Int64, _ now: Int64, _ turn: inout DeliveryTurn
    ) -> Bool {
        var delivery = delivery
        func bury(_ reason: String) -> Bool {
            delivery.state.dead = .init(reason: reason, at: now)
            context.meter.counters.deliveriesFailed += 1
            turn.count(delivery.notice, "failed")
            turn.keep(id, delivery)
            return true
        }
        switch attempt.result {
        case .delivered:
            context.meter.counters.deliveriesDone += 1
            turn.count(delivery.notice, "delivered")
            turn.remove(id)
            return true
        case .gone:
            guard let device = delivery.device else { return bury("the webhook answered that it is gone") }
            // An app has replaced the row meanwhile: it is sent there.
            if content.root.node(at: device) != attempt.row, content.root.exists(at: device), delivery.state.attempts < 10 {
                (delivery.state.attempts, delivery.state.due) = (delivery.state.attempts + 1, due)
                turn.keep(id, delivery)
                return false
            }
            context.meter.counters.deliveriesFailed += 1
            turn.count(delivery.notice, "failed")
            turn.remove(id)
            return true
        case .later(_, let reason):
            (delivery.state.attempts, delivery.state.due) = (delivery.state.attempts + 1, due)
            if due > delivery.state.expires { return bury("\(reason) (attempt \(delivery.state.attempts), the last one before it expired)") }
            context.meter.counters.deliveriesRetried += 1
            turn.keep(id, delivery)
            return false
        case .notAttempted: return false
        case .refused(let reason): return bury(reason)
        }
    }

    /// 10 s, doubled with each attempt up to an hour, and up to a quarter more, so that deliveries that failed together do not return
    /// together. The same for the same attempt.
    static func backOffMs(_ id: Key, _ attempts: Int) -> Int64 {
        let base = min(Int64(10_000) << min(attempts - 1, 9), 3_600_000)
        let spread = "\(id.string)\(attempts)".utf8.reduce(UInt64(5_381)) { $0 &* 33 &+ UInt64($1) }
        return base + Int64(spread % UInt64(base / 4))
    }

    // MARK: Administration

    /// Dead letters, ascending.
    var deadLetters: [Key] { ledger.deadLetters }

    /// Attempts dead letters again, within a turn's work.
    func retry(_ ids: ArraySlice<Key>) throws(Failure) -> Int {
        try change(ids) { delivery, now in
            let lasts = max(Self.shortestRetryMs, delivery.content.expires - delivery.content.due)
            delivery.state = .init(due: now, expires: now + lasts)
        }
    }

    /// Drops dead letters, within a turn's work.
    func discard(_ ids: ArraySlice<Key>) throws(Failure) -> Int { try change(ids, nil) }

    private static let shortestRetryMs: Int64 = 3_600_000

    /// - Parameter change: nil removes them.
    /// - Returns: how many of these were dead letters.
    private func change(_ ids: ArraySlice<Key>, _ change: ((inout StoredDelivery, Int64) -> Void)?) throws(Failure) -> Int {
        try log.mustAcceptWrites()
        context.meter.beginTurn()
        let now = context.clock()
        var turn = DeliveryTurn()
        var changed: [(Key, StoredDelivery)] = []
        for id in ids {
            guard var delivery = delivery(id), delivery.state.dead != nil else { continue }
            if let change {
                change(&delivery, now)
                turn.keep(id, delivery)
                changed.append((id, delivery))
            } else {
                turn.remove(id)
            }
        }
        let count = turn.changes.count
        commit(turn)
        for (id, delivery) in changed {
            if let route = delivery.route { queue.add(id, route: route, due: now, isUrgent: delivery.notice?.isUrgent ?? false) }
        }
        schedule()
        return count
    }

    private static let testRule = "test"

    /// Sends a notification to one device at once, as a test.
    /// - Returns: the id of the delivery.
    func test(_ device: Path, title: String, body: String) throws(Failure) -> Key {
        try log.mustAcceptWrites()
        let now = context.clock()
        var notice = RuleDelivery.Notice(devices: device.parent)
        (notice.title, notice.body, notice.isUrgent) = (.string(title), .string(body), true)
        var delivery = StoredDelivery(
            RuleDelivery(
                rule: Self.testRule, source: device, event: .creation, at: now, due: now, expires: now + Self.shortestRetryMs,
                content: .notification(notice)))
        delivery.device = device
        let id = StoredDelivery.id(content.sequence + 1, 0, at: now)
        var turn = DeliveryTurn()
        turn.add(id, delivery)
        commit(turn)
        schedule()
        return id
    }
}
