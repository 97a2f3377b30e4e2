public import Dispatch

/// All timers of the process, and its two clocks.
///
///     after, every ──► timetable, by time ──► alarm of the time source ──► due work goes to its queue
///
/// The process creates one scheduler at its start (`system`) and passes it to all users of time. Tests use one with a manual clock, so that
/// hours pass at once and in a fixed order. From any thread.
///
/// It retains the work until that is done or cancelled, so work should capture its owner weakly. Pending work is dropped when the scheduler
/// is released. The timers of the event loops are separate: they fire within a loop's turn, without a hop to another queue.
public final class Scheduler: Sendable {
    private let time: any TimeSource
    private let timetable: Timetable

    /// - Parameter time: used by this scheduler alone.
    public init(_ time: any TimeSource) {
        self.time = time
        let timetable = Timetable(time)
        self.timetable = timetable
        time.start { [weak timetable] in timetable?.dispatchDue() }
    }

    deinit { timetable.end() }

    /// With the system clocks and one Dispatch timer.
    public static func system() -> Scheduler { Scheduler(SystemTime()) }

    // MARK: The time

    /// ms since the epoch. May be wrong, and may be set forward and back while the process runs.
    public var wallMs: Int64 { time.wallMs }

    /// ns since an arbitrary start. Never steps; includes the time that the machine sleeps.
    public var steadyNs: Int64 { time.steadyNs }

    /// ms of the steady clock.
    public var steadyMs: Int64 { time.steadyNs / 1_000_000 }

    // MARK: Work

    /// Runs work once. Work due at the same time is handed over in the order in which it was scheduled.
    ///
    /// The delay is measured with the steady clock, so steps of the wall clock do not matter.
    /// - Parameters:
    ///   - ms: delay from now; immediately if not positive. Resolution about 1 ms.
    ///   - queue: runs the work, as with `queue.async`.
    /// - Returns: a handle for cancelling, which need not be kept.
    /// - Complexity: O(log n) in the number of pending items.
    @discardableResult
    public func after(ms: Int64, on queue: DispatchQueue, _ work: @escaping @Sendable () -> Void) -> ScheduledWork {
        after(ns: Self.ns(ms), on: queue, work)
    }

    /// Runs work once, with a delay in ns.
    @discardableResult
    public func after(ns: Int64, on queue: DispatchQueue, _ work: @escaping @Sendable () -> Void) -> ScheduledWork {
        let scheduled = ScheduledWork(queue, everyNs: nil, timetable, work)
        timetable.add(scheduled, dueNs: due(afterNs: ns))
        return scheduled
    }

    /// Runs work after each interval until it is cancelled. Runs never overlap. Intervals missed because the queue was busy or the machine
    /// slept are not made up for.
    /// - Parameter ms: at least 1.
    /// - Complexity: O(log n) in the number of pending items, per run.
    @discardableResult
    public func every(ms: Int64, on queue: DispatchQueue, _ work: @escaping @Sendable () -> Void) -> ScheduledWork {
        let everyNs = Self.ns(max(1, ms))
        let scheduled = ScheduledWork(queue, everyNs: everyNs, timetable, work)
        timetable.add(scheduled, dueNs: due(afterNs: everyNs))
        return scheduled
    }

    private func due(afterNs ns: Int64) -> Int64 {
        let (due, isBeyond) = time.steadyNs.addingReportingOverflow(max(0, ns))
        return isBeyond ? .max : due
    }

    private static func ns(_ ms: Int64) -> Int64 {
        let (ns, isBeyond) = ms.multipliedReportingOverflow(by: 1_000_000)
        return isBeyond ? (ms < 0 ? 0 : .max) : ns
    }

    // MARK: For manual clocks

    /// Pending work that is not cancelled. O(n)
    package var waiting: Int { timetable.waiting }

    /// Removes and returns the earliest work if it is due; the caller runs it.
    package func nextDue(byNs time: Int64) -> DueWork? { timetable.nextDue(byNs: time) }
}

/// The clocks and one alarm.
public protocol TimeSource: Sendable {
    /// ms since the epoch; may step.
    var wallMs: Int64 { get }
    /// ns since an arbitrary start; never steps.
    var steadyNs: Int64 { get }
    /// Called once, before the first alarm is set.
    /// - Parameter ring: to be called when the steady clock reaches the alarm; extra calls are harmless.
    func start(_ ring: @escaping @Sendable () -> Void)
    /// Replaces the alarm, which fires once. Must not call `ring` before it returns.
    func setAlarm(atNs: Int64)
}
