import DequeModule
import Mail
import Synchronization

/// Sends mails, a few at once, without trying again: the caller keeps what is to be sent again. From any thread, without blocking.
final class NotificationMailer: Sendable {
    private struct Item {
        let message: Message
        let completion: OutboundSender.Completion
    }

    private struct State {
        var waiting: Deque<Item> = []
        var active = 0
    }

    private let transport: any MailTransport
    private let limits: SenderLimits
    private let state = Mutex(State())

    init(_ transport: any MailTransport, _ limits: SenderLimits) {
        self.transport = transport
        self.limits = limits
    }

    /// - Parameter completion: called once, on any thread.
    func send(_ message: Message, _ completion: @escaping OutboundSender.Completion) {
        let isAccepted = state.withLock { state in
            guard state.waiting.count < limits.mailsWaiting else { return false }
            state.waiting.append(Item(message: message, completion: completion))
            return true
        }
        guard isAccepted else { return completion(.later(afterMs: nil, reason: "too many mails wait to be sent")) }
        startNext()
    }

    private func startNext() {
        let next = state.withLock { state -> Item? in
            guard state.active < limits.mailsAtOnce, let item = state.waiting.popFirst() else { return nil }
            state.active += 1
            return item
        }
        guard let next else { return }
        Task {
            var outcome = DeliveryOutcome.delivered
            do throws(MailFault) { try await transport.deliver(next.message) } catch {
                outcome = switch error {
                case .later(let text): .later(afterMs: nil, reason: text)
                case .never(let text): .refused(reason: text)
                }
            }
            next.completion(outcome)
            state.withLock { $0.active -= 1 }
            startNext()
        }
    }
}
