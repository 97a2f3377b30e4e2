import Dispatch
package import Scheduling
import Synchronization

/// A clock that moves only on the test's command. It has a wall clock, which can be set, and a steady clock, which only advances and by which work is
/// scheduled.
package final class FakeClock: Sendable {
    private let source: FakeTimeSource
    /// Uses this clock: due work runs within `advance`, and at no other time.
    package let scheduler: Scheduler

    /// - Parameter ms: the wall clock's time in ms since the epoch.
    package init(ms: Int64 = 1_790_000_000_000) {
        source = FakeTimeSource(wallMs: ms)
        scheduler = Scheduler(source)
    }

    /// ms of the wall clock since the epoch. Setting it leaves the steady clock alone.
    package var ms: Int64 {
        get { source.wallMs }
        set { source.stepWall(to: newValue) }
    }

    /// Whole seconds of the wall clock since the epoch.
    package var seconds: Int64 { ms / 1000 }
    package var steadyMs: Int64 { scheduler.steadyMs }

    /// ns by which each reading of the steady clock advances it, as work does between two readings of a real one.
    package var ticksNs: Int64 {
        get { source.ticksNs }
        set { source.ticksNs = newValue }
    }

    /// The number of scheduled works that are neither due nor cancelled.
    package var waiting: Int { scheduler.waiting }

    /// ms of the wall clock, as a closure for code under test.
    package func now() -> Int64 { ms }

    /// Advances both clocks. Work that becomes due runs at its time, one after the other, each on its queue after earlier blocks, and so does work
    /// that it schedules. Call it from one thread at a time, and from none of those queues.
    /// - Parameter settled: waits for due work to finish where it hands work on. Otherwise that work would see two times if it read the clock before
    ///   and after the move.
    package func advance(ms: Int64, settled: () -> Void = {}) {
        let end = source.steadyNs + ms * 1_000_000
        while let due = scheduler.nextDue(byNs: end) {
            source.advance(toNs: due.dueNs)
            due.queue.sync { due.run() }
            settled()
        }
        source.advance(toNs: end)
    }
    package func advance(seconds: Int64) { advance(ms: seconds * 1000) }

    /// Sets only the wall clock, forwards or back.
    package func step(seconds: Int64) { source.stepWall(by: seconds * 1000) }
}

/// The scheduler's time source.
private final class FakeTimeSource: TimeSource {
    /// ns; the wall clock's since the epoch.
    private let time: Mutex<(wall: Int64, steady: Int64, ticks: Int64)>

    init(wallMs: Int64) { time = Mutex((wallMs * 1_000_000, 77_000_000_000, 0)) }

    var wallMs: Int64 { time.withLock { $0.wall } / 1_000_000 }
    var steadyNs: Int64 {
        time.withLock { time in
            time.steady += time.ticks
            return time.steady
        }
    }
    var ticksNs: Int64 {
        get { time.withLock { $0.ticks } }
        set { time.withLock { $0.ticks = newValue } }
    }

    func start(_ ring: @escaping @Sendable () -> Void) {}
    func setAlarm(atNs: Int64) {}

    func stepWall(to ms: Int64) { time.withLock { $0.wall = ms * 1_000_000 } }
    func stepWall(by ms: Int64) { time.withLock { $0.wall += ms * 1_000_000 } }

    func advance(toNs end: Int64) {
        time.withLock { time in
            let ns = max(0, end - time.steady)
            time.wall += ns
            time.steady += ns
        }
    }
}
