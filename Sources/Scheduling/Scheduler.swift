public import Dispatch

/// Everything that happens by time, and the two clocks that say when.
///
///     after, every ──► timetable, by time ──► alarm of the time source ──► what is due goes to its queue
///
/// The process makes one where it begins (`system`) and hands it to all that need the time. Tests make one over a clock that they
/// move, so that hours go by in no time and in one order. From any thread.
///
/// It keeps the work until that is done or cancelled, so work captures its owner weakly. What waits when the scheduler goes away is
/// not done. The timers of the event loops are no part of it: they fire within a loop's turn, without a hop to another queue.
public final class Scheduler: Sendable {
    private let time: any TimeSource
    private let timetable: Timetable

    /// - Parameter time: for this scheduler alone.
    public init(_ time: any TimeSource) {
        self.time = time
        let timetable = Timetable(time)
        self.timetable = timetable
        time.start { [weak timetable] in timetable?.dispatchDue() }
    }

    deinit { timetable.end() }

    /// With the clocks of the system, and one timer of Dispatch.
    public static func system() -> Scheduler { Scheduler(SystemTime()) }

    // MARK: The time

    /// ms since the epoch. May be wrong, and may be set forwards and back while the process runs.
    public var wallMs: Int64 { time.wallMs }

    /// ns since some moment before. Never steps; the time that the machine sleeps counts.
    public var steadyNs: Int64 { time.steadyNs }

    /// ms of the same clock.
    public var steadyMs: Int64 { time.steadyNs / 1_000_000 }

    // MARK: Work

    /// Runs work once. What is due at the same time is handed over in the order in which it was scheduled.
    ///
    /// The wall clock's steps change nothing: the delay is one of the steady clock.
    /// - Parameters:
    ///   - ms: from now; at once if it is not positive. Resolution about 1 ms.
    ///   - queue: where the work runs, as with `queue.async`.
    /// - Returns: for cancelling; need not be kept.
    /// - Complexity: O(log n) in what waits.
    @discardableResult
    public func after(ms: Int64, on queue: DispatchQueue, _ work: @escaping @Sendable () -> Void) -> ScheduledWork {
        after(ns: Self.ns(ms), on: queue, work)
    }

    /// The same for times of parts of a millisecond.
    @discardableResult
    public func after(ns: Int64, on queue: DispatchQueue, _ work: @escaping @Sendable () -> Void) -> ScheduledWork {
        let scheduled = ScheduledWork(queue, everyNs: nil, timetable, work)
        timetable.add(scheduled, dueNs: due(afterNs: ns))
        return scheduled
    }

    /// Runs work after each interval until it is cancelled. One run ends before the next is due: an interval that was missed, because the
    /// queue was busy or the machine slept, is not made up for.
    /// - Parameter ms: at least 1.
    /// - Complexity: O(log n) in what waits, for each run.
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

    // MARK: For clocks that are moved by hand

    /// What waits and is not cancelled. O(n)
    package var waiting: Int { timetable.waiting }

    /// Takes the work that is due first, if it is due by then, out of the timetable; the caller runs it.
    package func nextDue(byNs time: Int64) -> DueWork? { timetable.nextDue(byNs: time) }
}

/// Tells the time, and rings at one.
public protocol TimeSource: Sendable {
    /// ms since the epoch; may step.
    var wallMs: Int64 { get }
    /// ns since some moment before; never steps.
    var steadyNs: Int64 { get }
    /// Called once, before the first alarm is set.
    /// - Parameter ring: to be called when the steady clock has come to the alarm; a ring too many does no harm.
    func start(_ ring: @escaping @Sendable () -> Void)
    /// Replaces the alarm, which rings once. Must not ring before it returns.
    func setAlarm(atNs: Int64)
}
