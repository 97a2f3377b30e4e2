import DequeModule
import Synchronization

/// A journal in memory: for `--memory`, for tests, and as the simplest implementation of the protocol. Completes inside each call,
/// on the caller's queue. Followers receive each batch when it is appended; the last batches are kept for followers that start later.
public final class MemoryJournal: Journal {
    private struct State {
        var last: UInt64
        var epoch: UInt64
        /// The sequence number that the oldest batch continues.
        var first: UInt64
        /// The last of them, at most `most`.
        var batches: Deque<JournalBatch> = []
        /// Identity of the last batch, also when no batch is kept.
        var lastKnownBy: (id: UInt64, expectedLast: UInt64) = (0, 0)
        var tails: [Follower] = []
        var stages: Int64 = 0
        var isClosed = false

        /// Whether the same batch was appended before.
        func has(_ batch: JournalBatch) -> Bool {
            if batch.id == 0 { return false }
            if batch.sequence == last { return lastKnownBy == (batch.id, batch.expectedLast) }
            return batches.contains { $0.sequence == batch.sequence && $0.expectedLast == batch.expectedLast && $0.id == batch.id }
        }
    }

    private struct Follower {
        let handle: JournalTail
        let receive: @Sendable (TailEvent) -> Void
    }

    public let isImmediate: Bool
    /// Number of batches kept, at most.
    private let most: Int
    private let state: Mutex<State>
    /// Held while followers are called, so that each receives one event at a time and in order.
    private let deliveryLock = Mutex(())

    /// - Parameters:
    ///   - last: the commit that the first batch continues.
    ///   - most: batches kept for followers that start later; a follower that needs older ones starts with a snapshot. Default: all.
    ///   - isImmediate: see `Journal`; only for a journal that has one writer.
    public init(last: UInt64 = 0, epoch: UInt64 = 0, keeping most: Int = .max, isImmediate: Bool = false) {
        self.most = most
        self.isImmediate = isImmediate
        state = Mutex(State(last: last, epoch: epoch, first: last))
    }

    public func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        let result: Result<Void, JournalError> = deliveryLock.withLock { _ in
            let (result, followers): (Result<Void, JournalError>, [Follower]) = state.withLock { state in
                if state.isClosed { return (.failure(.closed), []) }
                if state.has(batch) { return (.success(()), []) }
                guard batch.epoch >= state.epoch else { return (.failure(.superseded(epoch: batch.epoch, newest: state.epoch)), []) }
                guard batch.expectedLast == state.last, batch.sequence > state.last, batch.sequence <= Int64.max else {
                    return (.failure(.conflict(expected: batch.expectedLast, last: state.last)), [])
                }
                (state.last, state.epoch, state.lastKnownBy) = (batch.sequence, batch.epoch, (batch.id, batch.expectedLast))
                if most > 0 { state.batches.append(batch) } else { state.first = batch.sequence }
                if state.batches.count > most, let oldest = state.batches.popFirst() { state.first = oldest.sequence }
                if !state.tails.isEmpty { state.tails.removeAll { $0.handle.isCancelled } }
                return (.success(()), state.tails)
            }
            for follower in followers where !follower.handle.isCancelled { follower.receive(.batch(batch)) }
            return result
        }
        completion(result)
    }

    /// Staging gains nothing: no append needs the disk.
    public var stagedBytes: Int { .max }

    public func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void) {
        completion(state.withLock { state in
            if state.isClosed { return .failure(.closed) }
            state.stages += 1
            return .success(JournalStage(number: state.stages, parts: 1, bytes: 0) { _ in })
        })
    }

    @discardableResult
    public func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
        let follower = Follower(handle: JournalTail(), receive: receive)
        deliveryLock.withLock { _ in
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

    /// Checks the number; there is no next start to read it.
    public func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        completion(state.withLock { state in
            if state.isClosed { return .failure(.closed) }
            return snapshot.sequence == state.last ? .success(()) : .failure(.conflict(expected: snapshot.sequence, last: state.last))
        })
    }

    public func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void) {}

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
        let wasClosed = deliveryLock.withLock { _ in
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
