import Synchronization

/// Keeps nothing: for `--memory` and for tests. Completes inside `append`, on the caller's queue.
public final class MemoryJournal: Journal {
    private struct State {
        var last: UInt64
        var isClosed = false
    }

    private let state: Mutex<State>

    /// - Parameter last: the commit that the first batch follows.
    public init(last: UInt64 = 0) { state = Mutex(State(last: last)) }

    public func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        let result: Result<Void, JournalError> = state.withLock { state in
            if state.isClosed { return .failure(.closed) }
            guard batch.expectedLast == state.last, batch.sequence > state.last else {
                return .failure(.conflict(expected: batch.expectedLast, last: state.last))
            }
            state.last = batch.sequence
            return .success(())
        }
        completion(result)
    }

    public func close(snapshot: JournalSnapshot?, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        let wasClosed = state.withLock { state in
            defer { state.isClosed = true }
            return state.isClosed
        }
        completion(wasClosed ? .failure(.closed) : .success(()))
    }
}
