import Dispatch
import JSONTree

/// A request that waits for work off the database queue, and what its client has asked behind it.
final class Parked {
    let item: Database.Item
    /// In the order of arrival.
    var held: [Database.Item] = []

    init(_ item: Database.Item) { self.item = item }
}

/// Requests whose cost follows the size of the data. They are prepared on immutable values off the queue; everybody else's
/// requests go on meanwhile, only those of the same client wait, so that its answers keep their order.
///
/// ```
/// carry out ── large ──► parked: background work ──► back on the queue ──► resume: answered, or parked again
///                          │ later requests of the client are held           └► the held ones, in order
/// ```
extension Core {
    /// Puts a request aside until `work` is done. To be called while the request is carried out, in place of an answer.
    /// - Parameters:
    ///   - work: on immutable values, on any thread.
    ///   - resume: on the database queue. It answers the request, or parks it again. Not called for a client that has ended:
    ///     a session that was taken over gets nothing more done.
    func park<Result: Sendable>(
        _ item: Database.Item, _ work: @escaping @Sendable () -> Result, then resume: @escaping @Sendable (Result) -> Void
    ) {
        let client = item.client
        if client.parked == nil { client.parked = Parked(item) }
        background.run { [self] in
            let result = work()
            queue.async { [self] in unpark(item) { resume(result) } }
        }
    }

    /// Whether the request has to wait behind one that is parked; keeps it then.
    func mustWaitBehindParked(_ item: Database.Item) -> Bool {
        guard let parked = item.client.parked else { return false }
        switch item.request {
        case .congested, .drained: return false
        default:
            parked.held.append(item)
            return true
        }
    }

    private func unpark(_ item: Database.Item, _ resume: () -> Void) {
        dispatchPrecondition(condition: .onQueue(queue))
        let client = item.client
        guard let parked = client.parked else { return }
        client.parked = nil
        if client.hasEnded {
            note(.request(item))
        } else {
            resume()
            if let again = client.parked {
                again.held = parked.held
                return finishResumed()
            }
            note(.request(item))
            probeIfNeeded(client)
        }
        for held in parked.held { handle(held) }
        finishResumed()
    }

    private func finishResumed() {
        finishBatch()
        gauge.publish(counters)
    }
}
