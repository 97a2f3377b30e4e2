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
    /// The time of the commit, and of the last attempt, ms since the epoch.
    public let at: Int64
    public let expires: Int64

    init(_ id: Key, _ delivery: StoredDelivery) {
        self.id = id.string
        state = delivery.dead.map { .dead(reason: $0.reason, at: $0.at) } ?? .waiting(due: delivery.due)
        (rule, source, attempts) = (delivery.content.rule, delivery.content.source, delivery.attempts)
        (at, expires) = (delivery.content.at, delivery.content.expires)
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
    ///   - after: the id of the last entry of the page before; nil for the first page.
    ///   - limit: 1 to `outboxPage`.
    public func outbox(
        dead isDead: Bool, after: String? = nil, limit: Int = 100, _ body: @escaping @Sendable ([OutboxEntry]) -> Void
    ) {
        queue.async { [engine] in
            var (found, scanned) = ([OutboxEntry](), 0)
            for (id, node) in engine.content.deliveries.ascending(from: after.map { Key($0) }) {
                scanned += 1
                if scanned > 100 * Self.outboxPage || found.count == min(max(1, limit), Self.outboxPage) { break }
                guard id.string != after, node.child("dead").exists == isDead, let delivery = StoredDelivery(node) else { continue }
                found.append(OutboxEntry(id, delivery))
            }
            body(found)
        }
    }

    /// Attempts dead letters again, at most 500 in one call. Any thread; calls back on the database queue with their number.
    public func retryDeliveries(_ letters: DeadLetters, _ body: @escaping @Sendable (Result<Int, Failure>) -> Void) {
        change(body) { scheduler throws(Failure) in try scheduler.retry(letters.id) }
    }

    /// Drops dead letters, at most 500 in one call. Any thread; calls back on the database queue with their number.
    public func discardDeliveries(_ letters: DeadLetters, _ body: @escaping @Sendable (Result<Int, Failure>) -> Void) {
        change(body) { scheduler throws(Failure) in try scheduler.discard(letters.id) }
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

    private func change(
        _ body: @escaping @Sendable (Result<Int, Failure>) -> Void,
        _ change: @escaping @Sendable (DeliveryScheduler) throws(Failure) -> Int
    ) {
        queue.async { [engine] in body(Self.onWriter(engine, change)) }
    }

    private static func onWriter<T>(_ engine: Engine, _ body: (DeliveryScheduler) throws(Failure) -> T) -> Result<T, Failure> {
        guard let scheduler = engine.roles.term?.deliveries else {
            return .failure(Failure(.unavailable, "This hub does not send: another hub of the cluster does."))
        }
        do throws(Failure) { return .success(try body(scheduler)) } catch { return .failure(error) }
    }
}

extension DeadLetters {
    fileprivate var id: Key? {
        switch self {
        case .all: nil
        case .one(let id): Key(id)
        }
    }
}
