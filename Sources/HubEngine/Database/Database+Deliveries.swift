public import Commits
import Journal
public import JSONTree
import SecurityRules

/// A notification or an event that is not over, for administrators.
public struct OutboxEntry: Sendable, Equatable {
    public enum State: Sendable, Equatable {
        /// The time of the next attempt, ms since the epoch.
        case waiting(due: Int64)
        /// No further attempt, and since when.
        case dead(reason: String, at: Int64)
    }

    public let id: String
    public let state: State
    /// The rule's name, such as `/notifications/$u/$n.notify`.
    public let rule: String
    /// The node that it follows from.
    public let source: Path
    /// The row of the device; the place of devices while they are not looked up yet; nil for an event.
    public let device: Path?
    /// The webhook of an event.
    public let webhook: String?
    /// The title in English, or in the first language; empty for an event.
    public let title: String
    /// Failed attempts.
    public let attempts: Int
    /// The time of the commit, and the one after which there is no attempt, ms since the epoch.
    public let at: Int64
    public let expires: Int64

    init(_ id: Key, _ delivery: StoredDelivery) {
        self.id = id.string
        state = delivery.state.dead.map { .dead(reason: $0.reason, at: $0.at) } ?? .waiting(due: delivery.state.due)
        (rule, source, attempts) = (delivery.content.rule, delivery.content.source, delivery.state.attempts)
        (at, expires) = (delivery.content.at, delivery.state.expires)
        switch delivery.content.content {
        case .notification(let notice):
            (device, webhook, title) = (delivery.device ?? notice.devices, nil, notice.composed(language: nil).title)
        case .event(let name, _, _): (device, webhook, title) = (nil, name, "")
        }
    }
}

/// Which deliveries a change of dead letters concerns.
public enum DeadLetters: Sendable {
    case all
    case one(String)
}

extension Database {
    /// Most entries of one page of `outbox`.
    public static let outboxPage = 1_000

    /// Lists deliveries that are not over, by the order of their commits. Any thread; calls back on the database queue.
    /// - Parameters:
    ///   - isDead: dead letters, or those that wait.
    ///   - after: the last `next`; nil for the first page.
    ///   - limit: 1 to `outboxPage`.
    ///   - body: gets the entries, and where the next page continues; nil after the last one. A page may be short before that.
    public func outbox(
        dead isDead: Bool, after: String? = nil, limit: Int = 100, _ body: @escaping @Sendable ([OutboxEntry], _ next: String?) -> Void
    ) {
        queue.async { [engine] in
            let deliveries = engine.content.deliveries
            var (found, scanned, last) = ([OutboxEntry](), 0, after)
            for (id, node) in deliveries.ascending(from: after.map { Key($0) }) where id.string != after {
                if scanned >= 10 * Self.outboxPage || found.count == min(max(1, limit), Self.outboxPage) { return body(found, last) }
                (scanned, last) = (scanned + 1, id.string)
                if StoredDelivery.isState(id) { continue }
                let state = deliveries[StoredDelivery.stateID(id)] ?? .null
                guard state.child("dead").exists == isDead, let delivery = StoredDelivery(node, state: state) else { continue }
                found.append(OutboxEntry(id, delivery))
            }
            body(found, nil)
        }
    }

    /// Attempts dead letters again. Any thread; calls back on the database queue with the number of those there were.
    public func retryDeliveries(_ letters: DeadLetters, _ body: @escaping @Sendable (Result<Int, Failure>) -> Void) {
        change(letters, body) { scheduler, ids throws(Failure) in try scheduler.retry(ids) }
    }

    /// Drops dead letters. Any thread; calls back on the database queue with the number of those there were.
    public func discardDeliveries(_ letters: DeadLetters, _ body: @escaping @Sendable (Result<Int, Failure>) -> Void) {
        change(letters, body) { scheduler, ids throws(Failure) in try scheduler.discard(ids) }
    }

    /// Sends a notification to a device at once, whatever the rules say. Its outcome is a counter of the metrics, or a dead letter.
    /// - Parameter device: the place of the device's row.
    /// - Returns: through `body`, on the database queue: the delivery's id; `unavailable` on a hub that does not write.
    public func sendTest(
        to device: Path, title: String, text: String, _ body: @escaping @Sendable (Result<String, Failure>) -> Void
    ) {
        queue.async { [engine] in
            guard engine.content.root.exists(at: device) else { return body(.failure(Failure(.failure, "There is no device at \(device)."))) }
            body(Self.onWriter(engine) { scheduler throws(Failure) in try scheduler.test(device, title: title, body: text).string })
        }
    }

    private typealias Change = @Sendable (DeliveryScheduler, ArraySlice<Key>) throws(Failure) -> Int

    /// Changes the dead letters that there are now, a part in each turn.
    private func change(_ letters: DeadLetters, _ body: @escaping @Sendable (Result<Int, Failure>) -> Void, _ change: @escaping Change) {
        queue.async { [self, engine] in
            switch (letters, engine.roles.term?.deliveries) {
            case (.one(let id), _): self.change([Key(id)], 0, body, change)
            case (.all, let scheduler): self.change((scheduler?.deadLetters ?? [])[...], 0, body, change)
            }
        }
    }

    private func change(
        _ ids: ArraySlice<Key>, _ done: Int, _ body: @escaping @Sendable (Result<Int, Failure>) -> Void, _ change: @escaping Change
    ) {
        let part = ids.prefix(Self.changedAtOnce)
        switch Self.onWriter(engine, { scheduler throws(Failure) in try change(scheduler, part) }) {
        case .failure(let failure): body(.failure(failure))
        case .success(let count) where part.count == ids.count: body(.success(done + count))
        case .success(let count): queue.async { [self] in self.change(ids.dropFirst(part.count), done + count, body, change) }
        }
    }

    private static let changedAtOnce = 100

    private static func onWriter<T>(_ engine: Engine, _ body: (DeliveryScheduler) throws(Failure) -> T) -> Result<T, Failure> {
        guard let scheduler = engine.roles.term?.deliveries else {
            return .failure(Failure(.unavailable, "This hub does not send: another hub of the cluster does."))
        }
        do throws(Failure) { return .success(try body(scheduler)) } catch { return .failure(error) }
    }
}
