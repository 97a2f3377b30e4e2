import Foundation
import Synchronization

@testable import Mail

/// Receives the mails of a test, which takes them out in the order of their arrival.
final class Mailbox: MailTransport {
    private struct State {
        var messages: [Message] = []
        var waiting: [CheckedContinuation<Message, Never>] = []
    }

    private let state = Mutex(State())

    func deliver(_ message: Message) async throws(MailFault) {
        let reader = state.withLock { state -> CheckedContinuation<Message, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.messages.append(message)
            return nil
        }
        reader?.resume(returning: message)
    }

    /// The next message; waits for it.
    func next() async -> Message {
        await withCheckedContinuation { continuation in
            let message = state.withLock { state -> Message? in
                guard state.messages.isEmpty else { return state.messages.removeFirst() }
                state.waiting.append(continuation)
                return nil
            }
            if let message { continuation.resume(returning: message) }
        }
    }

    /// The number of unread messages.
    var count: Int { state.withLock { $0.messages.count } }
}

extension Message {
    /// The code in its link.
    var code: String? { link?.components(separatedBy: "oobCode=").last?.prefix { $0 != "&" }.description }
}
