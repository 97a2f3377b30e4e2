import Synchronization
import Testing

@testable import ClusterJournal
@testable import Journal

extension Journal {
    /// Appends and waits for the completion.
    func store(_ batch: JournalBatch) async throws {
        try await withCheckedContinuation { continuation in append(batch) { continuation.resume(returning: $0) } }.get()
    }
}

/// Follows a journal, and checks that each batch follows the one before.
final class Recorder: Sendable {
    private let state = Mutex<(batches: [JournalBatch], end: JournalError?)>(([], nil))

    init(_ journal: any Journal, from position: UInt64 = 0) {
        journal.tail(from: position) { [self] event in
            state.withLock { state in
                switch event {
                case .batch(let batch):
                    if let last = state.batches.last, last.sequence != batch.expectedLast {
                        Issue.record("\(batch.sequence) follows \(last.sequence)")
                    }
                    state.batches.append(batch)
                case .end(let error): state.end = error
                }
            }
        }
    }

    var batches: [JournalBatch] { state.withLock { $0.batches } }
    var last: UInt64 { batches.last?.sequence ?? 0 }
    var end: JournalError? { state.withLock { $0.end } }
}
