import HubEngine
import JSONTree
import Synchronization

/// A sender that records what it gets, and answers as a test says: at once, or when the test completes it.
final class TestSender: DeliverySender {
    typealias Completion = @Sendable (DeliveryResult) -> Void

    private struct State {
        var sent: [OutgoingDelivery] = []
        var open: [Completion] = []
        var capacity = 10_000
        var mailCapacity = 10_000
        var answer: @Sendable (OutgoingDelivery) -> DeliveryResult? = { _ in .delivered }
    }

    private let state = Mutex(State())

    /// - Parameter answer: nil leaves a delivery open until `complete`.
    init(_ answer: @escaping @Sendable (OutgoingDelivery) -> DeliveryResult? = { _ in .delivered }) {
        state.withLock { $0.answer = answer }
    }

    var capacity: Int { state.withLock { $0.capacity } }
    var mailCapacity: Int { state.withLock { $0.mailCapacity } }
    func set(mailCapacity: Int) { state.withLock { $0.mailCapacity = mailCapacity } }
    func set(capacity: Int) { state.withLock { $0.capacity = capacity } }
    func set(answer: @escaping @Sendable (OutgoingDelivery) -> DeliveryResult?) { state.withLock { $0.answer = answer } }

    func send(_ delivery: OutgoingDelivery, _ completion: @escaping Completion) {
        let answer = state.withLock { state in
            state.sent.append(delivery)
            return state.answer
        }
        if let result = answer(delivery) { completion(result) } else { state.withLock { $0.open.append(completion) } }
    }

    /// Ends the oldest open delivery.
    func complete(_ result: DeliveryResult) {
        let first = state.withLock { $0.open.isEmpty ? nil : $0.open.removeFirst() }
        first?(result)
    }

    var openCount: Int { state.withLock { $0.open.count } }

    /// What was sent since the last call, as `title → device row` or `webhook path`.
    func take() -> [String] {
        let sent = state.withLock { state in
            defer { state.sent = [] }
            return state.sent
        }
        return sent.map(\.line)
    }

    /// The ids of what was sent since the last call.
    func takeIDs() -> [String] {
        let sent = state.withLock { state in
            defer { state.sent = [] }
            return state.sent
        }
        return sent.flatMap(\.ids)
    }
}

extension OutgoingDelivery {
    var line: String {
        switch self {
        case .notification(let notification, _, let path): "\(notification.title)\(notification.body.isEmpty ? "" : ": \(notification.body)") → \(path)"
        case .digest(let all, _, let path): "[\(all.map(\.title).joined(separator: ", "))] → \(path)"
        case .event(_, let webhook, let event): "\(webhook) \(event.child("event").json) \(event.child("path").json)"
        }
    }

    var ids: [String] {
        switch self {
        case .notification(let notification, _, let path): ["\(notification.id) \(path)"]
        case .digest(let all, _, let path): all.map { "\($0.id) \(path)" }
        case .event(let id, _, _): [id]
        }
    }
}
