import DequeModule
import Synchronization

/// Encodes large messages off the database queue, one at a time.
///
/// ```
/// add ─► jobs, oldest first ─► measure, hash ─► budget left? ─► encode ─► fill ─► next job
///                                                  └ no: it and all later jobs wait until a connection has taken a result
/// ```
/// A client has at most one large answer here, so jobs of different clients take turns in order of arrival. Jobs are encoded one at a time, so the
/// first result is also released first. No job waits for memory that a later one holds.
///
/// A line that holds no bytes encodes its next job even if the budget is exhausted. The budget may be held by requests that wait for that answer. So
/// a line waits only for its own results, and exceeds the budget by at most one job.
///
/// Values over 1 MiB go to a second line, so they delay smaller ones only by the measuring. A result of one line may wait for one of the other, so
/// each line uses at most half of the budget.
final class EncodeQueue: Sendable {
    /// What remains to do for a job once it has been measured.
    enum Preparation {
        case done(DeferredBytes.Outcome)
        /// - Parameter reserving: bytes needed while encoding.
        case make(reserving: Int, () -> DeferredBytes.Outcome?)
        /// The database queue will fill the target.
        case elsewhere
    }

    private struct Job: Sendable {
        weak var target: DeferredBytes?
        let isHeavy: @Sendable (_ bound: Int) -> Bool
        let prepare: @Sendable (DeferredBytes) -> Preparation
    }

    /// A job that waits for memory. Used by one thread at a time: the one that has taken it out.
    private struct Blocked: @unchecked Sendable {
        weak var target: DeferredBytes?
        let bytes: Int
        let make: () -> DeferredBytes.Outcome?
    }

    private struct State {
        /// In order of arrival.
        var jobs: Deque<Job> = []
        var isRunning = false
        var blocked: Blocked?
        /// Bytes of the budget taken by running jobs and results.
        var held = 0
    }

    private let state = Mutex(State())
    private let background: BackgroundWork
    private let budget: MemoryBudget
    /// The line for heavy jobs; nil for that line itself.
    private let heavier: EncodeQueue?
    /// Values of more bytes are heavy.
    private static let heavyBytes = 1 << 20

    init(_ background: BackgroundWork, _ budget: MemoryBudget, heavier: EncodeQueue? = nil) {
        self.background = background
        self.budget = budget
        self.heavier = heavier
    }

    /// - Parameters:
    ///   - isHeavy: true if the value has more bytes than the bound. O(bound), on any thread.
    ///   - prepare: called on any thread.
    func add(
        _ target: DeferredBytes, isHeavy: @escaping @Sendable (_ bound: Int) -> Bool,
        _ prepare: @escaping @Sendable (DeferredBytes) -> Preparation
    ) {
        add(Job(target: target, isHeavy: isHeavy, prepare: prepare))
    }

    private func add(_ job: Job) {
        let mustStart = state.withLock { state in
            state.jobs.append(job)
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if mustStart { startNext() }
    }

    private func startNext() { background.run(.encoding) { [self] in step() } }

    private func step() {
        guard let (target, job) = next() else { return }
        if let heavier, job.isHeavy(Self.heavyBytes) {
            heavier.add(job)
            return startNext()
        }
        switch job.prepare(target) {
        case .done(let outcome): target.fill(outcome)
        case .elsewhere: break
        case .make(let bytes, let make): return encode(target, reserving: bytes, make)
        }
        startNext()
    }

    /// The next job whose result is still wanted. Nil stops the queue.
    private func next() -> (DeferredBytes, Job)? {
        while let job = dequeue() {
            if let target = job.target { return (target, job) }
        }
        return nil
    }

    private func dequeue() -> Job? {
        state.withLock { state in
            if let job = state.jobs.popFirst() { return job }
            (state.jobs, state.isRunning) = ([], false)
            return nil
        }
    }

    private func encode(_ target: DeferredBytes, reserving bytes: Int, _ make: @escaping () -> DeferredBytes.Outcome?) {
        // A job larger than half of the budget reserves that half.
        let reserved = min(bytes, budget.limit / 2)
        guard reserve(reserved, or: Blocked(target: target, bytes: bytes, make: make)) else { return }
        if let outcome = make() {
            let held = min(outcome.bytes.count, reserved)
            release(reserved - held)
            target.fill(outcome, holding: held, of: self)
        } else {
            release(reserved)
        }
        startNext()
    }

    /// Reserves memory for a job. On failure the queue holds earlier results; it retries the job when one of them is released.
    private func reserve(_ bytes: Int, or blocked: @autoclosure () -> Blocked) -> Bool {
        state.withLock { state in
            if state.held == 0 {
                budget.charge(bytes, for: .answers)
            } else if state.held + bytes > budget.limit / 2 || !budget.reserve(bytes, for: .answers) {
                state.blocked = blocked()
                return false
            }
            state.held += bytes
            return true
        }
    }

    private func release(_ bytes: Int) {
        budget.release(bytes, from: .answers)
        state.withLock { $0.held -= bytes }
    }

    /// A result was passed to a connection or dropped. Retries the blocked job.
    func released(_ bytes: Int) {
        release(bytes)
        let blocked = state.withLock { state in
            defer { state.blocked = nil }
            return state.blocked
        }
        guard let blocked else { return }
        background.run(.encoding) { [self] in
            guard let target = blocked.target else { return startNext() }
            encode(target, reserving: blocked.bytes, blocked.make)
        }
    }
}
