import Outbound
import Synchronization

/// The numbers of deliveries under way, and of attempts since the start, for metrics. From any thread.
final class DeliveryCounts: Sendable {
    /// Where a delivery goes.
    enum Kind: String, CaseIterable {
        /// Web Push and UnifiedPush.
        case push
        case ntfy
        case email
        /// A notification to a webhook.
        case webhook
        /// An event to a webhook.
        case event

        init(_ device: Device) {
            self =
                switch device {
                case .push: .push
                case .ntfy: .ntfy
                case .email: .email
                case .webhook: .webhook
                }
        }
    }

    private struct State {
        var preparing = 0
        var active = 0
        var attempts: [Kind: [String: Int]] = [:]
    }

    private let state = Mutex(State())

    /// Deliveries that the sender does not know yet.
    var preparing: Int { state.withLock { $0.preparing } }
    /// Deliveries without a result.
    var active: Int { state.withLock { $0.active } }

    /// The number of attempts for each kind and outcome, also of those that never happened.
    var attempts: [(kind: String, outcome: String, count: Int)] {
        let attempts = state.withLock { $0.attempts }
        return Kind.allCases.flatMap { kind in
            DeliveryOutcome.names.map { (kind.rawValue, $0, attempts[kind]?[$0] ?? 0) }
        }
    }

    func begin() {
        state.withLock { state in
            state.preparing += 1
            state.active += 1
        }
    }

    func handedOver() { state.withLock { $0.preparing -= 1 } }

    /// A delivery that cannot be sent at all.
    func leaveOut() {
        state.withLock { state in
            state.preparing -= 1
            state.active -= 1
        }
    }

    func end(_ kind: Kind, _ outcome: DeliveryOutcome) {
        state.withLock { state in
            state.active -= 1
            state.attempts[kind, default: [:]][outcome.name, default: 0] += 1
        }
    }
}

extension DeliveryOutcome {
    fileprivate static let names = ["delivered", "gone", "later", "not_attempted", "refused"]

    fileprivate var name: String {
        switch self {
        case .delivered: "delivered"
        case .gone: "gone"
        case .later: "later"
        case .notAttempted: "not_attempted"
        case .refused: "refused"
        }
    }
}
