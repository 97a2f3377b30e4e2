import HubEngine
import Journal
import JSONTree
import Synchronization
import TestSupport

/// A journal that records what became durable; its appends succeed or fail on the test's command. As with the real journal, batches appended after a
/// failed one fail too, and a repeated append is recognised by its id.
final class FlakyLog: Journal {
    typealias Done = @Sendable (Result<Void, JournalError>) -> Void

    private struct State {
        var waiting: [(batch: JournalBatch, done: Done)] = []
        var appended = 0
        var pending = PendingSessions()
        var root: Node
        var last: UInt64 = 0
        /// Sequence numbers of stored batches, by id.
        var stored: [UInt64: UInt64] = [:]
    }
    private let state: Mutex<State>
    var isImmediate: Bool { false }

    init(root: Node = .null) { state = Mutex(State(root: root)) }

    func append(_ batch: JournalBatch, completion: @escaping Done) {
        state.withLock { state in
            state.waiting.append((batch, completion))
            state.appended += 1
        }
    }

    /// Completes the oldest append.
    func complete(_ result: Result<Void, CommitRefusal> = .success(())) {
        let (done, result): (Done, Result<Void, JournalError>) = state.withLock { state in
            let (batch, done) = state.waiting.removeFirst()
            if case .failure(let refusal) = result { return (done, .failure(JournalError(refusal, batch, state.last))) }
            return (done, Self.store(batch, &state))
        }
        done(result)
    }

    /// The newest append fails immediately, before older ones that wait.
    func refuseNewest(_ reason: CommitRefusal) {
        let (done, error): (Done, JournalError) = state.withLock { state in
            let (batch, done) = state.waiting.removeLast()
            return (done, JournalError(reason, batch, state.last))
        }
        done(.failure(error))
    }

    /// Stores the oldest append, but reports that the outcome is unknown.
    func storeWithUnknownOutcome() {
        let done = state.withLock { state in
            let (batch, done) = state.waiting.removeFirst()
            _ = Self.store(batch, &state)
            return done
        }
        done(.failure(.unknown(reason: "test")))
    }

    /// Another writer's batch is stored.
    func storeForeignBatch(_ operations: [JournalOperation]) {
        state.withLock { state in
            var batch = JournalBatch(after: state.last)
            batch.append(operations)
            _ = Self.store(batch, &state)
        }
    }

    private static func store(_ batch: JournalBatch, _ state: inout State) -> Result<Void, JournalError> {
        if state.stored[batch.id] == batch.expectedLast { return .success(()) }
        guard batch.expectedLast == state.last else { return .failure(.conflict(expected: batch.expectedLast, last: state.last)) }
        for operation in batch.operations {
            state.root.apply(operation)
            if case .pending(let change) = operation { state.pending.apply(change) }
        }
        if batch.id != 0 { state.stored[batch.id] = batch.expectedLast }
        state.last = batch.sequence
        return .success(())
    }

    /// Completes all waiting appends.
    func completeAll(_ result: Result<Void, CommitRefusal> = .success(())) { while !isIdle { complete(result) } }

    /// The oldest append fails, and with it all that wait.
    func refuse(_ reason: CommitRefusal = .diskFull) { completeAll(.failure(reason)) }

    var sessions: [PendingSession] { state.withLock { $0.pending.sessions } }
    var root: Node { state.withLock { $0.root } }
    var last: UInt64 { state.withLock { $0.last } }
    var isIdle: Bool { state.withLock { $0.waiting.isEmpty } }
    /// Appends so far.
    var appended: Int { state.withLock { $0.appended } }
}

extension JournalError {
    /// The error that stands for a refusal.
    init(_ refusal: CommitRefusal, _ batch: JournalBatch, _ last: UInt64) {
        switch refusal {
        case .diskFull: self = .diskFull(reason: "test")
        case .outcomeUnknown: self = .unknown(reason: "test")
        case .conflict: self = .conflict(expected: batch.expectedLast, last: last + 1)
        case .logUnavailable: self = .unavailable(reason: "test")
        case .logRegressed: self = .regressed(log: "test", reason: "test")
        case .stopping: self = .closed
        case .diskFailed, .following, .cutOff: self = .disk(reason: "test")
        }
    }
}

/// Members of `Journal` that no journal of the engine's tests needs.
extension Journal {
    var stagedBytes: Int { .max }
    func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void) {
        completion(.failure(.closed))
    }
    func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail { JournalTail() }
    func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
        completion(.success(()))
    }
    func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void) {}
    func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) { completion(.success(())) }
    func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) { completion(.success(())) }
}

extension EngineLimits {
    /// Retries a log so late that other waits of a test end first.
    static let patient: EngineLimits = {
        var limits = EngineLimits()
        limits.retryMs = 3_600_000
        return limits
    }()
}

extension EngineHarness {
    /// Lets the time pass after which the log is retried.
    func passRetryTime() {
        settle()
        time.advance(ms: Int64(EngineLimits.patient.retryMs))
    }
}
