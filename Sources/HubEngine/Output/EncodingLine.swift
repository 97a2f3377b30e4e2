import DequeModule
import Synchronization

/// Encodes what is large, one after the other, off the database queue.
///
/// ```
/// add ─► jobs, oldest first ─► measure, hash ─► room in the budget? ─► encode ─► fill ─► the next job
///                                                  └ no: waits, and all behind it, until a connection has taken what is done
/// ```
/// A client has at most one large answer here, so that jobs of different clients take turns in the order of arrival. Jobs are
/// encoded one at a time: the first result is also released first, so that no job waits for room that a later one holds.
///
/// A line that holds no bytes encodes its next job even if the budget is exhausted, because the budget may be held by requests that
/// wait for that answer. So a line waits only for its own results, and each line exceeds the budget by one job at most.
///
/// Values of more than a megabyte are passed to a second line, so that they delay smaller ones only by the measuring. A result of one
/// line may wait behind one of the other, so neither uses more than half of the budget.
final class EncodingLine: Sendable {
    /// What a job is after a look at what it has to encode.
    enum Preparation {
        case done(DeferredBytes.Outcome)
        /// - Parameter reserving: bytes that are needed while it is made.
        case make(reserving: Int, () -> DeferredBytes.Outcome?)
        /// The database queue will fill it.
        case elsewhere
    }

    private struct Job: Sendable {
        weak var target: DeferredBytes?
        let isHeavy: @Sendable (_ bound: Int) -> Bool
        let prepare: @Sendable (DeferredBytes) -> Preparation
    }

    /// A job that waits for room. Used by one thread at a time: the one that has taken it out.
    private struct Blocked: @unchecked Sendable {
        weak var target: DeferredBytes?
        let bytes: Int
        let make: () -> DeferredBytes.Outcome?
    }

    private struct State {
        /// In the order of arrival.
        var jobs: Deque<Job> = []
        var isRunning = false
        var blocked: Blocked?
        /// Bytes of the budget that what it makes or has made takes.
        var held = 0
    }

    private let state = Mutex(State())
    private let background: BackgroundWork
    private let budget: MemoryBudget
    /// Where heavy jobs go; nil for the line that does them.
    private let heavier: EncodingLine?
    /// Bytes above which a value is heavy.
    private static let heavyBytes = 1 << 20

    init(_ background: BackgroundWork, _ budget: MemoryBudget, heavier: EncodingLine? = nil) {
        self.background = background
        self.budget = budget
        self.heavier = heavier
    }

    /// - Parameters:
    ///   - isHeavy: whether there are more bytes than the bound. O(bound), on any thread.
    ///   - prepare: on any thread.
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

    /// The next job whose bytes are still awaited; nil ends the run.
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

    /// Reserves room for a job. If there is none, the line holds earlier results, and the job is tried again when one is released.
    private func reserve(_ bytes: Int, or blocked: @autoclosure () -> Blocked) -> Bool {
        state.withLock { state in
            if state.held == 0 {
                budget.take(bytes, for: .answers)
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

    /// A result was passed to a connection or dropped: the job that waits for room is tried again.
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
