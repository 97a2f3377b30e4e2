import Dispatch
package import Scheduling
import Synchronization

/// A clock that stands still until the test moves it. It tells the time twice: the wall clock, which can be set, and the steady
/// one, which only goes on and by which work is scheduled.
package final class FakeClock: Sendable {
    private let hands: Hands
    /// Runs by this clock: what is due runs within `advance`, and at no other time.
    package let scheduler: Scheduler

    /// - Parameter ms: what the wall clock shows, since the epoch.
    package init(ms: Int64 = 1_790_000_000_000) {
        hands = Hands(wallMs: ms)
        scheduler = Scheduler(hands)
    }

    /// ms of the wall clock since the epoch. Setting it leaves the steady clock alone.
    package var ms: Int64 {
        get { hands.wallMs }
        set { hands.stepWall(to: newValue) }
    }

    /// Whole seconds of the wall clock since the epoch.
    package var seconds: Int64 { ms / 1000 }
    package var steadyMs: Int64 { scheduler.steadyMs }

    /// What waits for its time and is not cancelled.
    package var waiting: Int { scheduler.waiting }

    /// ms of the wall clock, for what asks a closure.
    package func now() -> Int64 { ms }

    /// Time goes by, on both. Whatever becomes due runs at its time, one after the other, each on its queue behind what that queue has to
    /// do; so does what that schedules. One thread at a time may do this, and none of those queues.
    /// - Parameter settled: waits for what has become due to be done with, where that hands work on: else it would see two times, if it
    ///   looked at the clock before and after it moves.
    package func advance(ms: Int64, settled: () -> Void = {}) {
        let end = hands.steadyNs + ms * 1_000_000
        while let due = scheduler.nextDue(byNs: end) {
            hands.advance(toNs: due.dueNs)
            due.queue.sync { due.run() }
            settled()
        }
        hands.advance(toNs: end)
    }
    package func advance(seconds: Int64) { advance(ms: seconds * 1000) }

    /// The wall clock alone is set, forwards or back.
    package func step(seconds: Int64) { hands.stepWall(by: seconds * 1000) }
}

/// The scheduler's part of the clock.
private final class Hands: TimeSource {
    /// ns; the wall clock's since the epoch.
    private let time: Mutex<(wall: Int64, steady: Int64)>

    init(wallMs: Int64) { time = Mutex((wallMs * 1_000_000, 77_000_000_000)) }

    var wallMs: Int64 { time.withLock { $0.wall } / 1_000_000 }
    var steadyNs: Int64 { time.withLock { $0.steady } }

    func start(_ ring: @escaping @Sendable () -> Void) {}
    func setAlarm(atNs: Int64) {}

    func stepWall(to ms: Int64) { time.withLock { $0.wall = ms * 1_000_000 } }
    func stepWall(by ms: Int64) { time.withLock { $0.wall += ms * 1_000_000 } }

    func advance(toNs end: Int64) {
        time.withLock { time in
            let ns = max(0, end - time.steady)
            time = (time.wall + ns, time.steady + ns)
        }
    }
}
