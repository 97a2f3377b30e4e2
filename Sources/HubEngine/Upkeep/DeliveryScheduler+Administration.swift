import Commits
import JSONTree
import SecurityRules

/// What administrators do with deliveries.
extension DeliveryScheduler {
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

    /// The name of a test in place of a rule's.
    static let testRule = "test"
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
