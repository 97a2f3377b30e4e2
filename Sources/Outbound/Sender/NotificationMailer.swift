import DequeModule
import Mail
import Synchronization

/// Sends mails, a few at once, without trying again: the caller keeps what is to be sent again. From any thread, without blocking.
final class NotificationMailer: Sendable {
    private struct Item {
        let message: Message
        let completion: OutboundSender.Completion

        var bytes: Int { message.subject.utf8.count + message.text.utf8.count + message.html.utf8.count }
    }

    private struct State {
        var waiting: Deque<Item> = []
        /// Of the texts of `waiting`.
        var bytes = 0
        var active = 0
        var isClosed = false
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
        let item = Item(message: message, completion: completion)
        let refusal = state.withLock { state -> String? in
            if state.isClosed { return OutboundSender.stopping }
            // A single one is always accepted.
            guard state.waiting.count < limits.mailsWaiting, state.bytes == 0 || state.bytes + item.bytes <= limits.mailBytesWaiting else {
                return "too many mails wait to be sent"
            }
            state.waiting.append(item)
            state.bytes += item.bytes
            return nil
        }
        if let refusal { return completion(.notAttempted(reason: refusal)) }
        startNext()
    }

    /// How many more mails can wait.
    var capacity: Int {
        state.withLock { $0.isClosed || $0.bytes >= limits.mailBytesWaiting ? 0 : max(0, limits.mailsWaiting - $0.waiting.count) }
    }

    /// Gives back the mails that wait, and refuses later ones.
    func close() {
        let waiting = state.withLock { state in
            (state.isClosed, state.bytes) = (true, 0)
            return exchange(&state.waiting, with: [])
        }
        for item in waiting { item.completion(.notAttempted(reason: OutboundSender.stopping)) }
    }

    private func startNext() {
        let next = state.withLock { state -> Item? in
            guard state.active < limits.mailsAtOnce, let item = state.waiting.popFirst() else { return nil }
            state.active += 1
            state.bytes -= item.bytes
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
