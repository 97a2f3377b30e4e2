import Commits
import JSONTree
import Scheduling
import SecurityRules
import Synchronization

/// The way of one delivery: from a notification to its devices, to the sender, and what its result means.
extension DeliveryScheduler {
    // MARK: Devices

    /// Replaces a due notification by one delivery for each device, or ends it.
    func expandToDevices(_ id: Key, _ delivery: StoredDelivery, _ now: Int64, _ turn: inout DeliveryTurn) {
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
    func send(_ head: DeliveryQueue.Head, _ now: Int64, _ mails: inout Int, _ turn: inout DeliveryTurn) -> Bool {
        guard let delivery = delivery(head.ids[0]), delivery.route == head.route else {
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
            row = delivery.device.map { content.root.node(at: $0) } ?? .null
            // What has become useless since the last attempt is not sent.
            guard let path = delivery.device, row.exists, isWanted(delivery, now), now <= delivery.state.expires else {
                end(head, of: notice, now, &turn)
                return false
            }
            let isMail = Self.isMail(row)
            if isMail, mails <= 0 {
                queue.settle(head, over: [], due: now + Self.untriedMs)
                return false
            }
            let isDigest = Self.digestTime(row, now) != nil
            let allowed = isDigest ? now : notice.allowed(from: now)
            if allowed > now {
                queue.settle(head, over: [], due: allowed)
                return false
            }
            let language: String? = if case .string(let text) = row.child("lang").leaf { text.string } else { nil }
            if isDigest {
                head = queue.extended(head, by: now, atMost: Self.atOnce)
                let all = head.ids.compactMap { id -> OutgoingNotification? in
                    guard let delivery = self.delivery(id), let notice = delivery.notice, isWanted(delivery, now) else { return nil }
                    return Self.outgoing(id, delivery, notice, language)
                }
                outgoing = .digest(all, row: row, path: path)
            } else {
                outgoing = .notification(Self.outgoing(head.ids[0], delivery, notice, language), row: row, path: path)
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

    private static func outgoing(
        _ id: Key, _ delivery: StoredDelivery, _ notice: RuleDelivery.Notice, _ language: String?
    ) -> OutgoingNotification {
        let texts = notice.composed(language: language)
        // All devices get the id of the notification: a person with several recognises it on each.
        return OutgoingNotification(
            id: StoredDelivery.noticeID(of: id), title: texts.title, body: texts.body, url: notice.url, tag: notice.tag,
            isUrgent: notice.isUrgent, language: texts.language ?? language, expiresAt: delivery.state.expires)
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
        if log.isRefusing || mustPause {
            context.later(ms: log.isRefusing ? Int64(context.limits.retryMs) : Self.durableMs) { [weak self] in self?.finish() }
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
}
