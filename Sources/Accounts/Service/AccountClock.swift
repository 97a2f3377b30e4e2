import Scheduling

/// The two clocks of the accounts.
///
/// The wall clock may be wrong for a while and then be corrected, by years even: at the start of a machine without a battery, or by
/// hand. So what lies between two moments of one process is measured by a clock that never steps, and what is kept for later
/// processes is kept with the wall's time of writing: one that is found in the future was written by a clock that was ahead, and
/// counts as written now.
struct AccountClock: Sendable {
    private let scheduler: Scheduler
    private let start: (wall: Int64, steady: Int64)

    init(_ scheduler: Scheduler) {
        self.scheduler = scheduler
        start = (scheduler.wallMs, scheduler.steadyMs)
    }

    /// ms since the epoch; may step.
    @Sendable func wall() -> Int64 { scheduler.wallMs }
    /// ms since some moment; never steps.
    @Sendable func steady() -> Int64 { scheduler.steadyMs }

    /// For what would end something for good, ms since the epoch: the wall's time, but no later than the steady clock has it since the
    /// start. A wall clock that jumps ahead, right or wrong, ends nothing sooner.
    var cautious: Int64 { min(wall(), start.wall + (steady() - start.steady)) }

    /// For when a user was last seen, ms since the epoch: the wall's time, but no earlier than the steady clock has it since the
    /// start. What is written while the wall clock is behind is not long ago when it is corrected.
    var seen: Int64 { max(wall(), start.wall + (steady() - start.steady)) }
}
