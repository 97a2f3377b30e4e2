import Dispatch
import HubEngine
import Synchronization

/// Background work that a test can stop and count.
final class TestWork: Sendable {
    private struct State {
        var isOpen = true
        var waiting: [@Sendable () -> Void] = []
        var count = 0
    }
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "test.background")

    var background: BackgroundWork { BackgroundWork { [self] in add($0) } }

    private func add(_ work: @escaping @Sendable () -> Void) {
        let mayRun = state.withLock { state in
            state.count += 1
            if !state.isOpen { state.waiting.append(work) }
            return state.isOpen
        }
        if mayRun { queue.async(execute: work) }
    }

    /// Holds work from now on.
    func close() { state.withLock { $0.isOpen = false } }

    /// Runs the held work, and later work immediately.
    func open() {
        let waiting = state.withLock { state in
            defer { state.waiting = [] }
            state.isOpen = true
            return state.waiting
        }
        for work in waiting { queue.async(execute: work) }
    }

    /// Runs held pieces one after the other; work that they cause is held again.
    func step(_ count: Int = 1) {
        for _ in 0..<count {
            let next = state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }
            if let next { queue.sync(execute: next) }
        }
    }

    var waiting: Int { state.withLock { $0.waiting.count } }

    /// The number of pieces submitted so far.
    var count: Int { state.withLock { $0.count } }

    /// Waits for the running pieces.
    func finish() { queue.sync {} }

    /// Waits until all submitted requests and the background work that they caused are done.
    func settle(_ database: Database) {
        var before: [Int]
        repeat {
            before = progress(of: database)
            database.queue.sync {}
            finish()
            database.queue.sync {}
        } while progress(of: database) != before
    }

    private func progress(of database: Database) -> [Int] { [count, database.inboxDepth, database.counters.requests] }
}

/// Stops a database's queue, so that requests submitted meanwhile become one batch.
final class DispatchGate: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)
    init(_ database: Database) { database.queue.async { [semaphore] in semaphore.wait() } }
    func open() { semaphore.signal() }
}
