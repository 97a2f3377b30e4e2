import Dispatch
import Glibc
import Scheduling
import Synchronization

/// Threads that only hash passwords. Each password takes tens of milliseconds and megabytes, so the threads are few, run below the priority of
/// event loops, and have a bounded queue. Dispatch cannot be used: it has no such priorities, and a thread cannot raise its priority again.
final class PasswordWorkers: Sendable {
    /// Called with false if the work was skipped because it waited too long and its client has given up.
    typealias Work = @Sendable (_ isInTime: Bool) -> Void

    /// The scheduling priority of the threads.
    enum Priority {
        case ordinary
        /// Niceness 10: next to one busy thread on its core, it gets about a tenth of the core.
        case low
        /// `SCHED_IDLE`: runs only while a core is idle. With threads of niceness 19 on every core, a waking event loop waits for the end of their
        /// time slice; with idle threads it does not. Measured with niceness 19: the median of an acknowledged write rose from 2 to 8 ms.
        case idle
    }

    private let shared: Shared
    private let scheduler: Scheduler
    private let mostWaiting: Int

    /// - Parameters:
    ///   - threads: at least one; they start with the first work.
    ///   - waiting: the most jobs that may wait for a thread.
    ///   - seconds: the most time that a job may wait.
    ///   - scheduler: the clock that measures the wait.
    init(threads: Int, waiting: Int, seconds: Double, priority: Priority, _ scheduler: Scheduler) {
        self.scheduler = scheduler
        shared = Shared(threads: max(1, threads), waitNs: Int64(max(0, seconds) * 1e9), priority: priority, scheduler)
        mostWaiting = waiting
    }

    deinit {
        let threads = shared.state.withLock { state in
            state.isOver = true
            return state.started
        }
        for _ in 0..<threads { shared.wake.signal() }
    }

    /// Queues work, from any thread. False if too many jobs are waiting: the work will not run.
    func submit(_ work: @escaping Work) -> Bool {
        let (isAdmitted, startsThread) = shared.state.withLock { state -> (Bool, Bool) in
            // Work for an idle thread does not count as waiting.
            guard state.waiting.count < mostWaiting + shared.threads - state.busy else { return (false, false) }
            state.waiting.append((work, scheduler.steadyNs))
            guard state.started < shared.threads else { return (true, false) }
            state.started += 1
            return (true, true)
        }
        guard isAdmitted else { return false }
        if startsThread { shared.startThread() }
        shared.wake.signal()
        return true
    }

    /// Number of waiting jobs, and of busy threads.
    var depth: (waiting: Int, busy: Int) { shared.state.withLock { ($0.waiting.count, $0.busy) } }

    /// State that the threads retain; they outlive the pool until their current job is done.
    private final class Shared: Sendable {
        struct State {
            /// First in, first out; taken from `head`.
            var waiting = WaitingJobs()
            var busy = 0
            var started = 0
            var isOver = false
        }

        let state = Mutex(State())
        /// One signal per job.
        let wake = DispatchSemaphore(value: 0)
        let threads: Int
        let waitNs: Int64
        private let priority: Priority
        private let scheduler: Scheduler

        init(threads: Int, waitNs: Int64, priority: Priority, _ scheduler: Scheduler) {
            (self.threads, self.waitNs, self.priority) = (threads, waitNs, priority)
            self.scheduler = scheduler
        }

        func startThread() {
            var thread: pthread_t = 0
            let context = Unmanaged.passRetained(self)
            let status = pthread_create(&thread, nil, { context in
                guard let context else { return nil }
                Unmanaged<Shared>.fromOpaque(context).takeRetainedValue().run()
                return nil
            }, context.toOpaque())
            if status == 0 {
                pthread_detach(thread)
                return
            }
            // The system refused a thread: the existing ones do the work; without any, the next submission tries again.
            context.release()
            state.withLock { $0.started -= 1 }
        }

        private func run() {
            lowerPriority()
            while let (work, since) = next() {
                work(scheduler.steadyNs - since <= waitNs)
                state.withLock { $0.busy -= 1 }
            }
        }

        /// Lowers the priority of the calling thread (0).
        private func lowerPriority() {
            let thread = __priority_which_t(PRIO_PROCESS.rawValue)
            switch priority {
            case .ordinary: break
            case .low: setpriority(thread, 0, 10)
            case .idle:
                var parameters = sched_param()
                // 5 is SCHED_IDLE, which the header does not export.
                if sched_setscheduler(0, 5, &parameters) != 0 { setpriority(thread, 0, 19) }
            }
        }

        private func next() -> (Work, Int64)? {
            while true {
                wake.wait()
                let (work, isOver) = state.withLock { state -> ((Work, Int64)?, Bool) in
                    guard let work = state.waiting.popFirst() else { return (nil, state.isOver) }
                    state.busy += 1
                    return (work, false)
                }
                if let work { return work }
                if isOver { return nil }
            }
        }
    }

    /// A FIFO queue whose head moves through an array.
    private struct WaitingJobs {
        private var items: [(Work, Int64)?] = []
        private var head = 0

        var count: Int { items.count - head }
        mutating func append(_ item: (Work, Int64)) { items.append(item) }
        mutating func popFirst() -> (Work, Int64)? {
            guard head < items.count else { return nil }
            let item = items[head]
            items[head] = nil
            head += 1
            if head * 2 > items.count { items.removeFirst(head); head = 0 }
            return item
        }
    }
}
