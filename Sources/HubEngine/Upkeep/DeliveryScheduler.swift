import Commits
import HeapModule
import Journal
import JSONTree
import Scheduling
import SecurityRules
import Synchronization

/// Sends what commits have left for phones, inboxes and other programs (`.notify`, `.webhook`), with retries.
///
/// ```
/// commit ─► stored beside the tree ─► due: is the row still there, and not acknowledged? ─► one delivery for each device
///                                                                                             │ durable, the first of its lane
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

    private struct Entry: Comparable {
        let due: Int64
        let id: Key

        static func < (a: Entry, b: Entry) -> Bool { a.due != b.due ? a.due < b.due : a.id < b.id }
    }

    /// When to look at which delivery. An entry whose time is not that of `times` is out of date.
    private var heap = Heap<Entry>()
    private var times: [Key: Int64] = [:]
    /// The deliveries of each lane, ascending: only the first is sent.
    private var lanes: [String: [Key]] = [:]
    /// Notifications that may be combined with others, by devices and group.
    private var groups: [String: Set<Key>] = [:]
    private var sending: Set<Key> = []
    /// Dead letters, ascending.
    private(set) var deadLetters: [Key] = []
    /// Incremented when it starts over: results of deliveries sent before are discarded.
    private var generation = 0
    /// When the next check runs, steady ms.
    private var wakesAt = Int64.max
    /// Results since the last turn, from any thread.
    private let results = Mutex<[Attempt]>([])

    /// The result of sending some deliveries: one, or those that one mail combines.
    private struct Attempt: Sendable {
        let generation: Int
        let ids: [Key]
        /// The device's row as it was sent.
        let row: Node
        let result: DeliveryResult
    }

    /// Deliveries that one turn changes, at most.
    private static let atOnce = 500
    /// How much earlier than their time notifications are combined with a due one.
    private static let combinedMs: Int64 = 1_000
    /// ms until a check is repeated that had to wait.
    private static let waitMs: Int64 = 5
    private static let waitingCommits = 1_000

    init(
        _ context: EngineContext, _ content: Content, _ durability: DurabilityQueue, _ log: LogGuard, _ commits: CommitPipeline,
        _ sender: any DeliverySender, mustWait: @escaping () -> Bool
    ) {
        (self.context, self.content, self.durability, self.log, self.commits) = (context, content, durability, log, commits)
        (self.sender, self.mustWait) = (sender, mustWait)
    }

    // MARK: What is due

    /// Starts with what is stored: after a start, a rollback, a change of the role.
    func begin() {
        stop()
        content.deliveries.forEach { id, node in
            guard let delivery = StoredDelivery(node) else { return }
            add(id, delivery)
        }
        deadLetters.sort()
        for lane in lanes.keys { lanes[lane]?.sort() }
        count()
        context.meter.publish()
        schedule()
    }

    /// Stops sending; results of deliveries under way are ignored.
    func stop() {
        generation += 1
        (heap, times, lanes, groups, sending, deadLetters, wakesAt) = (Heap(), [:], [:], [:], [], [], .max)
        results.withLock { $0 = [] }
    }

    /// A commit has stored deliveries.
    func added(_ deliveries: [(id: Key, delivery: StoredDelivery)]) {
        for (id, delivery) in deliveries { add(id, delivery) }
        count()
        schedule()
    }

    /// Ids within a lane ascend with the commits, so new ones are appended.
    private func add(_ id: Key, _ delivery: StoredDelivery) {
        guard delivery.dead == nil else { return deadLetters.append(id) }
        if let lane = delivery.lane { lanes[lane, default: []].append(id) }
        if delivery.isNotice, let group = group(of: delivery) { groups[group, default: []].insert(id) }
        set(id, due: delivery.due)
    }

    private func set(_ id: Key, due: Int64) {
        times[id] = due
        heap.insert(Entry(due: due, id: id))
    }

    private func group(of delivery: StoredDelivery) -> String? {
        guard let notice = delivery.notice, let group = notice.group, notice.escalation == nil else { return nil }
        return "\(notice.devices):\(group)"
    }

    private func delivery(_ id: Key) -> StoredDelivery? { content.deliveries[id].flatMap { StoredDelivery($0) } }

    private func schedule() {
        while let first = heap.min, times[first.id] != first.due { heap.removeMin() }
        guard let next = heap.min else { return }
        let wait = next.due.subtractingReportingOverflow(context.clock()).partialValue
        wakeUp(ms: max(0, min(wait, context.limits.clockCheckMs)))
    }

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
        if log.isRefusing { return wakeUp(ms: Int64(context.limits.retryMs)) }
        if mustWait() || durability.waitingCommits > Self.waitingCommits { return wakeUp(ms: Self.waitMs) }
        context.meter.beginTurn()
        let now = context.clock()
        var (turn, room) = (Turn(), min(sender.capacity, context.limits.deliveriesAtOnce - sending.count))
        while turn.changes.count < Self.atOnce, context.meter.work < context.limits.turnWork / 4, let first = heap.min, first.due <= now {
            heap.removeMin()
            guard times[first.id] == first.due else { continue }
            times[first.id] = nil
            guard let delivery = delivery(first.id) else { continue }
            context.meter.spend(4)
            if delivery.isNotice {
                address(first.id, delivery, now, &turn)
            } else if let lane = delivery.lane, lanes[lane]?.first == first.id {
                if !isDurable(first.id) {
                    set(first.id, due: now + Self.waitMs)
                } else if room > 0 {
                    send(first.id, delivery, now, &turn)
                    room -= 1
                } else {
                    set(first.id, due: now + 20 * Self.waitMs)
                }
            }
        }
        commit(turn)
        schedule()
    }

    /// Whether the commit that stored a delivery is on disk.
    private func isDurable(_ id: Key) -> Bool { !durability.isBehind || durability.durable.beside.deliveries[id] != nil }

    // MARK: Commits

    /// What a turn changes: deliveries (null removes), rows of devices that are gone, and counts by place.
    private struct Turn {
        var changes: [(id: Key, delivery: StoredDelivery?)] = []
        var goneDevices: [Path] = []
        var counts: [Path: Int64] = [:]

        mutating func count(_ notice: RuleDelivery.Notice?, _ name: Key, _ number: Int64 = 1) {
            if let funnel = notice?.funnel { counts[funnel.appending(name), default: 0] += number }
        }
    }

    /// Stores what a turn changed, in one commit.
    private func commit(_ turn: Turn) {
        guard !turn.changes.isEmpty else { return durability.finishBatch() }
        var turn = turn
        // The oldest dead letters make room for new ones.
        let excess = deadLetters.count + turn.changes.count { $0.delivery?.dead != nil } - context.limits.deadLetters
        if excess > 0 {
            turn.changes += deadLetters.prefix(excess).map { ($0, nil) }
            deadLetters.removeFirst(min(excess, deadLetters.count))
        }
        let operations = turn.changes.map { JournalOperation.delivery($0.id, $0.delivery?.node ?? .null) }
        var writes = turn.goneDevices.filter { content.root.exists(at: $0) }.map { TreeWrite($0, WriteValue(.null)) }
        for (place, number) in turn.counts.sorted(by: { $0.key < $1.key }) {
            guard case .int(let former) = content.root.node(at: place).leaf else {
                writes.append(TreeWrite(place, WriteValue(.int(number))))
                continue
            }
            writes.append(TreeWrite(place, WriteValue(.int(former &+ number))))
        }
        do throws(Failure) {
            if writes.isEmpty { throw Failure(.failure, "") }
            let proposal = Proposal(writes, by: .system(.delivery))
            proposal.deliveries = operations
            _ = try commits.commit(proposal)
        } catch {
            // Without writes, or if they have too many consequences: the deliveries must not be repeated for that.
            commits.record(operations)
        }
        for (id, delivery) in turn.changes { follow(id, delivery) }
        count()
        durability.finishBatch()
    }

    /// Updates the lanes and times for a stored change.
    private func follow(_ id: Key, _ delivery: StoredDelivery?) {
        if let delivery, delivery.dead == nil { return times[id] == nil && !sending.contains(id) ? set(id, due: delivery.due) : () }
        times[id] = nil
        if delivery?.dead != nil {
            deadLetters.insert(id, at: deadLetters.firstIndex { $0 > id } ?? deadLetters.endIndex)
        }
    }

    /// Ends a delivery's turn in its lane, so that the next one can be sent.
    private func leave(_ id: Key, _ lane: String?, _ now: Int64) {
        guard let lane, var ids = lanes[lane], let i = ids.firstIndex(of: id) else { return }
        ids.remove(at: i)
        lanes[lane] = ids.isEmpty ? nil : ids
        if i == 0, let next = ids.first, times[next] == nil, !sending.contains(next) {
            set(next, due: max(now, delivery(next)?.due ?? now))
        }
    }

    private func count() {
        context.meter.counters.deliveriesPending = content.deliveries.count - deadLetters.count
        context.meter.counters.deadLetters = deadLetters.count
    }

    // MARK: Devices

    /// Replaces a due notification by one delivery for each device, or ends it.
    private func address(_ id: Key, _ delivery: StoredDelivery, _ now: Int64, _ turn: inout Turn) {
        guard var notice = delivery.notice else { return }
        if let group = group(of: delivery) { forget(id, in: group) }
        guard isWanted(delivery, notice, now) else {
            turn.count(notice, "skipped")
            return turn.changes.append((id, nil))
        }
        for other in combined(with: delivery, now) {
            guard let more = self.delivery(other), let next = more.notice else { continue }
            times[other] = nil
            turn.changes.append((other, nil))
            guard isWanted(more, next, now) else {
                turn.count(next, "skipped")
                continue
            }
            notice.combine(next)
            turn.count(next, "combined")
        }
        turn.changes.append((id, nil))
        guard notice.title.exists else {
            var dead = delivery
            dead.dead = .init(reason: "the notification has no title", at: now)
            turn.count(notice, "failed")
            turn.changes[turn.changes.count - 1] = (id, dead)
            return
        }
        var number = 0
        // Newest first, if keys are push ids.
        for (key, row) in content.root.node(at: notice.devices).children.descending().prefix(context.limits.devicesOfRecipient) {
            var device = delivery
            (device.content.content, device.device) = (.notification(notice), notice.devices.appending(key))
            device.due = Self.digestTime(row, now) ?? now
            let own = StoredDelivery.id(id, device: number)
            number += 1
            turn.changes.append((own, device))
            if let lane = device.lane { lanes[lane, default: []].append(own) }
        }
        turn.count(notice, number == 0 ? "unreachable" : "sent", Int64(max(1, number)))
    }

    /// Whether a notification is still to be sent: its row is there and not acknowledged, and nothing has answered it.
    private func isWanted(_ delivery: StoredDelivery, _ notice: RuleDelivery.Notice, _ now: Int64) -> Bool {
        let row = content.root.node(at: delivery.content.source)
        if delivery.content.event != .removal, row.isNull { return false }
        if let path = notice.acknowledged, row.node(at: path).exists { return false }
        guard let escalation = notice.escalation else { return true }
        context.meter.spend(4)
        return content.rules.isUnanswered(delivery.content, number: escalation, in: content.root, now: now)
    }

    private func forget(_ id: Key, in group: String) {
        groups[group]?.remove(id)
        if groups[group]?.isEmpty == true { groups[group] = nil }
    }

    /// Takes the other notifications of a group that are due now or soon.
    private func combined(with delivery: StoredDelivery, _ now: Int64) -> [Key] {
        guard let group = group(of: delivery), let all = groups[group] else { return [] }
        let others = all.filter { (times[$0] ?? .max) <= now + Self.combinedMs }.sorted().prefix(Self.atOnce)
        for other in others { forget(other, in: group) }
        return Array(others)
    }

    /// When the next digest of a mail device with `every` leaves: at the next multiple of these seconds since the epoch.
    private static func digestTime(_ row: Node, _ now: Int64) -> Int64? {
        guard row.child("kind") == "email", case .int(let seconds) = row.child("every").leaf, 60...604_800 ~= seconds else { return nil }
        return (now / (seconds * 1000) + 1) * seconds * 1000
    }

    // MARK: Sending

    private func send(_ id: Key, _ delivery: StoredDelivery, _ now: Int64, _ turn: inout Turn) {
        var (ids, row, outgoing) = ([id], Node.null, OutgoingDelivery?.none)
        switch delivery.content.content {
        case .event(let webhook, let before, let after):
            outgoing = .event(id: id.string, webhook: webhook, [
                "path": .string(delivery.content.source.description), "event": .string(delivery.content.event.rawValue),
                "before": before, "after": after, "seq": .int(StoredDelivery.sequence(of: id)), "at": .int(delivery.content.at),
            ])
        case .notification:
            guard let path = delivery.device else { return }
            row = content.root.node(at: path)
            if row.isNull {
                leave(id, delivery.lane, now)
                return turn.changes.append((id, nil))
            }
            let language: String? = if case .string(let text) = row.child("lang").leaf { text.string } else { nil }
            if Self.digestTime(row, now) != nil {
                // All that is due for the address leaves in one mail.
                let lane = lanes[path.description] ?? []
                ids = Array(lane.lazy.filter { [self] in $0 == id || (times[$0] ?? now) <= now && isDurable($0) }.prefix(Self.atOnce))
                for other in ids { times[other] = nil }
                let all = ids.compactMap { other in self.delivery(other).flatMap { Self.outgoing(other, $0, language) } }
                outgoing = .digest(all, row: row, path: path)
            } else {
                outgoing = Self.outgoing(id, delivery, language).map { .notification($0, row: row, path: path) }
            }
        }
        guard let outgoing else { return }
        sending.formUnion(ids)
        let number = generation
        sender.send(outgoing) { [self, ids, row] result in
            let isFirst = results.withLock { results in
                results.append(Attempt(generation: number, ids: ids, row: row, result: result))
                return results.count == 1
            }
            if isFirst { context.queue.async { [self] in finish() } }
        }
    }

    private static func outgoing(_ id: Key, _ delivery: StoredDelivery, _ language: String?) -> OutgoingNotification? {
        guard let notice = delivery.notice else { return nil }
        let texts = notice.composed(language: language)
        // All devices get the id of the notification: whoever has several recognises it on each.
        let shared = id.string.split(separator: ".").first.map(String.init) ?? id.string
        return OutgoingNotification(
            id: shared, title: texts.title, body: texts.body, url: notice.url, tag: notice.tag, isUrgent: notice.isUrgent,
            language: texts.language ?? language, expiresAt: delivery.content.expires)
    }

    // MARK: Results

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
        var turn = Turn()
        for attempt in all where attempt.generation == generation {
            for id in attempt.ids {
                sending.remove(id)
                guard let delivery = delivery(id) else { continue }
                finish(id, delivery, attempt, now, &turn)
            }
        }
        commit(turn)
        schedule()
        if areMore { context.queue.async { [self] in finish() } }
    }

    private func finish(_ id: Key, _ delivery: StoredDelivery, _ attempt: Attempt, _ now: Int64, _ turn: inout Turn) {
        var delivery = delivery
        func die(_ reason: String) {
            delivery.dead = .init(reason: reason, at: now)
            context.meter.counters.deliveriesFailed += 1
            turn.count(delivery.notice, "failed")
            leave(id, delivery.lane, now)
            turn.changes.append((id, delivery))
        }
        switch attempt.result {
        case .delivered:
            context.meter.counters.deliveriesDone += 1
            turn.count(delivery.notice, "delivered")
            leave(id, delivery.lane, now)
            turn.changes.append((id, nil))
        case .gone:
            guard let device = delivery.device else { return die("the webhook answered that it is gone") }
            // An app may have replaced the row meanwhile.
            if content.root.node(at: device) == attempt.row { turn.goneDevices.append(device) }
            context.meter.counters.deliveriesFailed += 1
            turn.count(delivery.notice, "failed")
            leave(id, delivery.lane, now)
            turn.changes.append((id, nil))
        case .later(let afterMs, let reason):
            delivery.attempts += 1
            delivery.due = now + max(Self.backOffMs(id, delivery.attempts), afterMs ?? 0)
            if delivery.due > delivery.content.expires { return die("\(reason) (attempt \(delivery.attempts), the last one before it expired)") }
            context.meter.counters.deliveriesRetried += 1
            turn.changes.append((id, delivery))
        case .notAttempted: set(id, due: now + 1_000)
        case .refused(let reason): die(reason)
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

    /// Attempts dead letters again: all, or one.
    /// - Returns: their number.
    func retry(_ wanted: Key?) throws(Failure) -> Int {
        try change(wanted) { delivery, now in
            let lasts = max(Self.shortestRetryMs, delivery.content.expires - delivery.content.due)
            (delivery.dead, delivery.attempts, delivery.due, delivery.content.expires) = (nil, 0, now, now + lasts)
            return delivery
        }
    }

    /// Drops dead letters: all, or one.
    /// - Returns: their number.
    func discard(_ wanted: Key?) throws(Failure) -> Int { try change(wanted) { _, _ in nil } }

    private static let shortestRetryMs: Int64 = 3_600_000

    private func change(_ wanted: Key?, _ body: (inout StoredDelivery, Int64) -> StoredDelivery?) throws(Failure) -> Int {
        try log.mustAcceptWrites()
        let now = context.clock()
        var turn = Turn()
        for id in deadLetters where wanted == nil || wanted == id {
            guard var delivery = delivery(id) else { continue }
            let changed = body(&delivery, now)
            turn.changes.append((id, changed))
            if let changed, let lane = changed.lane {
                // It was left when the letter died, and ids ascend in a lane.
                lanes[lane] = ((lanes[lane] ?? []) + [id]).sorted()
            }
            if turn.changes.count == Self.atOnce { break }
        }
        let changed = Set(turn.changes.map(\.id))
        deadLetters.removeAll { changed.contains($0) }
        commit(turn)
        schedule()
        return changed.count
    }

    /// Sends a notification to one device at once, as a test.
    /// - Returns: the id of the delivery.
    func test(_ device: Path, title: String, body: String) throws(Failure) -> Key {
        try log.mustAcceptWrites()
        let now = context.clock()
        var notice = RuleDelivery.Notice(devices: device.parent)
        (notice.title, notice.body, notice.isUrgent) = (.string(title), .string(body), true)
        var delivery = StoredDelivery(
            RuleDelivery(
                rule: "test", source: device, event: .creation, at: now, due: now, expires: now + Self.shortestRetryMs,
                content: .notification(notice)))
        delivery.device = device
        let id = StoredDelivery.id(content.sequence + 1, 0)
        if let lane = delivery.lane { lanes[lane, default: []].append(id) }
        var turn = Turn()
        turn.changes = [(id, delivery)]
        commit(turn)
        schedule()
        return id
    }
}
