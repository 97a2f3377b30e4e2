import HubEngine
import JSONTree
import Synchronization
import TestSupport

/// A log that knows what became durable; its appends succeed or fail when the test says so. As with the real one, what was
/// appended on top of a failure fails too.
final class FlakyLog: CommitLog {
    private struct State {
        var waiting: [(commits: [Commit], done: @Sendable (Result<Void, CommitRefusal>) -> Void)] = []
        var appended = 0
        var pending = PendingSessions()
        var root: Node
        var last: UInt64 = 0
    }
    private let state: Mutex<State>
    var isImmediate: Bool { false }

    init(root: Node = .null) { state = Mutex(State(root: root)) }

    func append(_ commits: [Commit], completion: @escaping @Sendable (Result<Void, CommitRefusal>) -> Void) {
        state.withLock { state in
            state.waiting.append((commits, completion))
            state.appended += 1
        }
    }

    /// Completes the oldest append.
    func complete(_ result: Result<Void, CommitRefusal> = .success(())) {
        let (done, result): (@Sendable (Result<Void, CommitRefusal>) -> Void, Result<Void, CommitRefusal>) = state.withLock { state in
            let (commits, done) = state.waiting.removeFirst()
            guard case .success = result, commits[0].sequence == state.last + 1 else { return (done, result.flatMap { .failure(.diskFailed) }) }
            for commit in commits {
                for operation in commit.operations {
                    if operation.part == .priority {
                        state.root.setPriority(operation.value, at: operation.path)
                    } else {
                        state.root.set(operation.value, at: operation.path)
                    }
                }
                for change in commit.pending { state.pending.apply(change) }
                state.last = commit.sequence
            }
            return (done, .success(()))
        }
        done(result)
    }

    /// Completes all that waits.
    func completeAll(_ result: Result<Void, CommitRefusal> = .success(())) { while !isIdle { complete(result) } }

    /// The oldest append fails, and with it all that wait.
    func refuse(_ reason: CommitRefusal = .diskFull) { completeAll(.failure(reason)) }

    var sessions: [PendingSession] { state.withLock { $0.pending.sessions } }
    var root: Node { state.withLock { $0.root } }
    var isIdle: Bool { state.withLock { $0.waiting.isEmpty } }
    /// Appends so far.
    var appended: Int { state.withLock { $0.appended } }
}

extension EngineLimits {
    /// Tries a log again so late that other waits of a test go by before.
    static let patient: EngineLimits = {
        var limits = EngineLimits()
        limits.retryMs = 3_600_000
        return limits
    }()
}

extension EngineHarness {
    /// Lets the time pass after which the log is tried again.
    func passRetryTime() {
        settle()
        time.advance(ms: Int64(EngineLimits.patient.retryMs))
    }
}
