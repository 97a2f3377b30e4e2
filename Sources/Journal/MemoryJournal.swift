import DequeModule
import Synchronization

/// Keeps its batches as long as it lives, until they are let go of: for tests, and to see what a journal is. Completes inside
/// each call, on the caller's queue.
public final class MemoryJournal: Journal {
    private struct State {
        var last: UInt64
        /// The number that the oldest batch follows.
        var first: UInt64
        var batches: Deque<JournalBatch> = []
        var tails: [Follower] = []
        var isClosed = false
    }

    private struct Follower {
        let handle: JournalTail
        let receive: @Sendable (TailEvent) -> Void
    }

    private let state: Mutex<State>
    /// Held while followers are told, so that each hears one thing at a time and in order.
    private let telling = Mutex(())

    /// - Parameter last: the commit that the first batch follows.
    public init(last: UInt64 = 0) { state = Mutex(State(last: last, first: last)) }

    public func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        let result: Result<Void, JournalError> = telling.withLock { _ in
            let (result, followers): (Result<Void, JournalError>, [Follower]) = state.withLock { state in
                if state.isClosed { return (.failure(.closed), []) }
                guard batch.expectedLast == state.last, batch.sequence > state.last, batch.sequence <= Int64.max else {
                    return (.failure(.conflict(expected: batch.expectedLast, last: state.last)), [])
                }
                state.last = batch.sequence
                state.batches.append(batch)
                state.tails.removeAll { $0.handle.isCancelled }
                return (.success(()), state.tails)
            }
            for follower in followers where !follower.handle.isCancelled { follower.receive(.batch(batch)) }
            return result
        }
        completion(result)
    }

    @discardableResult
    public func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
        let follower = Follower(handle: JournalTail(), receive: receive)
        telling.withLock { _ in
            let (batches, fault): ([JournalBatch], JournalError?) = state.withLock { state in
                if state.isClosed { return ([], .closed) }
                if position < state.first { return ([], .truncated(upTo: state.first)) }
                let rest = state.batches.drop { $0.sequence <= position }
                guard rest.first.map({ $0.expectedLast == position }) ?? (position == state.last) else {
                    return ([], .conflict(expected: position, last: state.last))
                }
                state.tails.append(follower)
                return (Array(rest), nil)
            }
            for batch in batches where !follower.handle.isCancelled { receive(.batch(batch)) }
            if let fault { receive(.end(fault)) }
        }
        return follower.handle
    }

    public func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        completion(state.withLock { state in
            if state.isClosed { return .failure(.closed) }
            while let batch = state.batches.first, batch.sequence <= sequence {
                state.first = batch.sequence
                state.batches.removeFirst()
            }
            return .success(())
        })
    }

    public func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        let wasClosed = telling.withLock { _ in
            let (wasClosed, followers) = state.withLock { state in
                defer { (state.isClosed, state.tails) = (true, []) }
                return (state.isClosed, state.tails)
            }
            for follower in followers where !follower.handle.isCancelled { follower.receive(.end(.closed)) }
            return wasClosed
        }
        completion(wasClosed ? .failure(.closed) : .success(()))
    }
}
