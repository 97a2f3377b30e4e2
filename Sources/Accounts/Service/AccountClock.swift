import Scheduling
import Synchronization

/// The two clocks of the accounts.
///
/// The wall clock may be wrong for a while and then be corrected, by years even: at the start of a machine without a battery, or by
/// hand. So what lies between two moments of one process is measured by a clock that never steps, and what is kept for later
/// processes is kept with the wall's time of writing: one that is found in the future was written by a clock that was ahead, and
/// counts as written now.
///
/// A clock that jumps ahead may have been wrong before or be wrong now; which one, time tells:
///
///     behind at the start │ set right      first sweep                         second sweep, a day later
///     ────────────────────┴───────────────────┬───────────────────────────────────┬────►
///                         wall jumps ahead    removes nothing by the new time;    believes it
///                                             corrects what was written before
final class AccountClock: Sendable {
    /// How far the wall clock may go ahead of the steady one before that is a jump, in ms. What is removed has days.
    static let toleranceMs: Int64 = 3_600_000

    private struct Reading {
        var wall: Int64
        var steady: Int64
    }

    /// A wall clock that was behind and has been set right, or was right and is ahead now.
    struct Jump {
        /// The times that were written before, ms since the epoch.
        let times: ClosedRange<Int64>
        /// The correction in ms, if the clock was behind.
        let ms: Int64
    }

    private let scheduler: Scheduler
    /// The clocks at the start, and then at the end of the last sweep.
    private let base: Mutex<Reading>

    init(_ scheduler: Scheduler) {
        self.scheduler = scheduler
        base = Mutex(Reading(wall: scheduler.wallMs, steady: scheduler.steadyMs))
    }

    /// ms since the epoch; may step.
    @Sendable func wall() -> Int64 { scheduler.wallMs }
    /// ms since some moment; never steps.
    @Sendable func steady() -> Int64 { scheduler.steadyMs }

    /// For irreversible expiry, ms since the epoch: the wall's time, but no later than the last sweep plus the steady clock's time since
    /// then. A wall clock that jumps ahead expires nothing until a day later.
    var cautious: Int64 { min(wall(), expected) }

    /// For when a user was last seen, ms since the epoch: the wall's time, but no earlier than the last sweep plus the steady clock's
    /// time since then. So a time that is written while the wall clock is behind does not look old when the clock is corrected.
    var seen: Int64 { max(wall(), expected) }

    /// The wall's time if it had not stepped since.
    private var expected: Int64 { base.withLock { $0.wall + (steady() - $0.steady) } }

    /// How the wall clock has jumped ahead since the last sweep; nil if it has not.
    var jump: Jump? {
        let (wall, expected, start) = (wall(), expected, base.withLock { $0.wall })
        return wall - expected > Self.toleranceMs ? Jump(times: start...max(start, expected), ms: wall - expected) : nil
    }

    /// The wall's time counts from here on: the end of a sweep, which has corrected what a jump left.
    func settle() {
        let now = Reading(wall: wall(), steady: steady())
        base.withLock { $0 = now }
    }
}
