import Scheduling
import Synchronization

/// The two clocks of the accounts.
///
/// The wall clock may be wrong, even by years, and be corrected later: at the start of a machine without a battery, or by hand. So intervals
/// within a process use a clock that never steps. Times stored for later processes use the wall clock at the time of writing. A stored time
/// in the future comes from a clock that was ahead, and counts as written now.
///
/// A clock that jumps ahead was wrong before, or is wrong now; only time can tell which:
///
///     behind at the start │ set right      first sweep                         second sweep, a day later
///     ────────────────────┴───────────────────┬───────────────────────────────────┬────►
///                         wall jumps ahead    removes nothing by the new time;    trusts it
///                                             corrects the times written before
final class AccountClock: Sendable {
    /// How far the wall clock may get ahead of the steady one before it counts as a jump, in ms. Removals have a margin of days.
    static let toleranceMs: Int64 = 3_600_000

    private struct Reading {
        var wall: Int64
        var steady: Int64
    }

    /// A jump of the wall clock: it was behind and has been corrected, or was right and is now ahead.
    struct Jump {
        /// The stored times from before the jump, ms since the epoch.
        let times: ClosedRange<Int64>
        /// The correction in ms, if the clock was behind.
        let ms: Int64
    }

    private let scheduler: Scheduler
    /// The clocks at the start, then at the end of the last sweep.
    private let base: Mutex<Reading>

    init(_ scheduler: Scheduler) {
        self.scheduler = scheduler
        base = Mutex(Reading(wall: scheduler.wallMs, steady: scheduler.steadyMs))
    }

    /// ms since the epoch; may step.
    @Sendable func wall() -> Int64 { scheduler.wallMs }
    /// ms since an arbitrary moment; never steps.
    @Sendable func steady() -> Int64 { scheduler.steadyMs }

    /// The time for irreversible expiry, ms since the epoch: the wall time, but no later than the last sweep plus the steady time since then. A wall
    /// clock that jumps ahead expires nothing until a day later.
    var cautious: Int64 { min(wall(), expected) }

    /// The time for when a user was last seen, ms since the epoch. It is the wall time, but no earlier than the last sweep plus the steady time since
    /// then. So a time written while the wall clock is behind does not look old after the correction.
    var seen: Int64 { max(wall(), expected) }

    /// The wall time, had it not stepped since.
    private var expected: Int64 { base.withLock { $0.wall + (steady() - $0.steady) } }

    /// The jump of the wall clock since the last sweep; nil if there was none.
    var jump: Jump? {
        let (wall, expected, start) = (wall(), expected, base.withLock { $0.wall })
        return wall - expected > Self.toleranceMs ? Jump(times: start...max(start, expected), ms: wall - expected) : nil
    }

    /// Accepts the wall time from here on, at the end of a sweep that corrected the effects of a jump.
    func settle() {
        let now = Reading(wall: wall(), steady: steady())
        base.withLock { $0 = now }
    }
}
