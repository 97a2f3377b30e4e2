import Glibc

/// The two clocks of the accounts.
///
/// The wall clock may be wrong for a while and then be corrected, by years even: at the start of a machine without a battery, or by
/// hand. So what lies between two moments of one process is measured by a clock that never steps, and what is kept for later
/// processes is kept with the wall's time of writing: one that is found in the future was written by a clock that was ahead, and
/// counts as written now.
struct AccountClock: Sendable {
    /// ms since the epoch; may step.
    let wall: @Sendable () -> Int64
    /// ms since some moment; never steps.
    let steady: @Sendable () -> Int64
    private let start: (wall: Int64, steady: Int64)

    init(wall: @escaping @Sendable () -> Int64, steady: @escaping @Sendable () -> Int64) {
        (self.wall, self.steady) = (wall, steady)
        start = (wall(), steady())
    }

    /// For what would end something for good, ms since the epoch: the wall's time, but no later than the steady clock has it since the
    /// start. A wall clock that jumps ahead, right or wrong, ends nothing sooner.
    var cautious: Int64 { min(wall(), start.wall + (steady() - start.steady)) }

    /// For when a user was last seen, ms since the epoch: the wall's time, but no earlier than the steady clock has it since the
    /// start. What is written while the wall clock is behind is not long ago when it is corrected.
    var seen: Int64 { max(wall(), start.wall + (steady() - start.steady)) }

    /// ms since the machine's start, with the time that it slept.
    @Sendable static func sinceBoot() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}
