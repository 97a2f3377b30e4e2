import Dispatch
import Synchronization
import Testing
import TestSupport

@testable import Scheduling

/// Uses the clock that tests move; it drives the hub's scheduler.
@Suite(.timeLimit(.minutes(30))) struct SchedulerTests {
    private let clock = FakeClock()
    private let queue = DispatchQueue(label: "test")
    private var scheduler: Scheduler { clock.scheduler }
    private let recorder = RunRecorder()

    /// Records the work that ran, in order, and the times.
    private final class RunRecorder: Sendable {
        private let all = Mutex<[String]>([])
        func add(_ text: String) { all.withLock { $0.append(text) } }
        /// The records since the last call.
        func taken() -> [String] {
            all.withLock { all in
                defer { all = [] }
                return all
            }
        }
    }

    private func recording(_ text: String) -> @Sendable () -> Void {
        let (recorder, clock, start) = (recorder, clock, clock.steadyMs)
        return { recorder.add("\(text) \(clock.steadyMs - start)") }
    }

    // MARK: Once

    @Test func work_runsAtItsTime_inTheOrderOfTimes() {
        for ms in [30, 10, 20] as [Int64] { scheduler.after(ms: ms, on: queue, recording("at")) }
        clock.advance(ms: 9)
        #expect(recorder.taken() == [])
        clock.advance(ms: 1)
        #expect(recorder.taken() == ["at 10"])
        clock.advance(ms: 1_000)
        #expect(recorder.taken() == ["at 20", "at 30"] && scheduler.waiting == 0)
    }

    @Test func work_ofOneTime_runsInTheOrderOfScheduling() {
        for name in "abcde" { scheduler.after(ms: 5, on: queue, recording("\(name)")) }
        clock.advance(ms: 5)
        #expect(recorder.taken() == ["a 5", "b 5", "c 5", "d 5", "e 5"])
    }

    @Test(arguments: [0, -1, .min] as [Int64]) func work_isDueAtOnce_withoutADelay(ms: Int64) {
        scheduler.after(ms: ms, on: queue, recording("now"))
        clock.advance(ms: 0)
        #expect(recorder.taken() == ["now 0"])
    }

    @Test func work_neverComes_afterATimeThatNoClockReaches() {
        for ms in [.max, .max / 1_000_000] as [Int64] { scheduler.after(ms: ms, on: queue, recording("never")) }
        scheduler.after(ns: .max, on: queue, recording("never"))
        clock.advance(seconds: 100 * 365 * 86_400)
        #expect(recorder.taken() == [] && scheduler.waiting == 3)
    }

    @Test func work_ofPartsOfAMillisecond_runsWithin() {
        scheduler.after(ns: 1_500_000, on: queue, recording("b"))
        scheduler.after(ns: 1_200_000, on: queue, recording("a"))
        clock.advance(ms: 1)
        #expect(recorder.taken() == [])
        clock.advance(ms: 1)
        #expect(recorder.taken() == ["a 1", "b 1"])
    }

    /// Setting the wall clock, by a second or by a year, moves no work.
    @Test(arguments: [1, -1, 365 * 86_400, -365 * 86_400] as [Int64]) func steps_ofTheWallClock_moveNoWork(seconds: Int64) {
        scheduler.after(ms: 100, on: queue, recording("at"))
        scheduler.every(ms: 40, on: queue, recording("every"))
        let (wall, steady) = (scheduler.wallMs, scheduler.steadyMs)
        clock.step(seconds: seconds)
        #expect(scheduler.wallMs == wall + seconds * 1000 && scheduler.steadyMs == steady)
        #expect(recorder.taken() == [])
        clock.advance(ms: 99)
        clock.step(seconds: -seconds)
        #expect(recorder.taken() == ["every 40", "every 80"])
        clock.advance(ms: 1)
        #expect(recorder.taken() == ["at 100"] && scheduler.wallMs == wall + 100)
    }

    // MARK: Cancelling

    /// Measures the stack depth of each run: it stays that of the first.
    @Test func work_isCalledAsDirectly_afterManyTimes() {
        let depths = Mutex<[UInt]>([])
        let work = scheduler.every(ms: 10, on: queue) {
            var here = 0
            let depth = withUnsafePointer(to: &here) { UInt(bitPattern: $0) }
            depths.withLock { $0.append(depth) }
        }
        clock.advance(ms: 20_000)
        work.cancel()
        let all = depths.withLock { $0 }
        #expect(all.count == 2_000 && all.first == all.last)
    }

    @Test func cancelledWork_doesNotRun_andIsLetGoOf() {
        var kept: Kept? = Kept()
        let held = Held(kept)
        let work = scheduler.after(ms: 10, on: queue) { [kept] in kept?.use() }
        let other = scheduler.every(ms: 10, on: queue) { [kept] in kept?.use() }
        kept = nil
        #expect(held.object != nil && scheduler.waiting == 2)
        work.cancel()
        other.cancel()
        other.cancel()
        #expect(held.object == nil && scheduler.waiting == 0)
        clock.advance(ms: 1_000)
    }

    /// Already submitted to its queue: cancelled there before its turn, it does not start.
    @Test func work_doesNotRun_afterItIsCancelledOnItsQueue() {
        let time = ManualTimeSource()
        let scheduler = Scheduler(time)
        let cancelled = Mutex(false)
        let ranAfter = Mutex(0)
        let work = scheduler.after(ms: 1, on: queue) { ranAfter.withLock { $0 += 1 } }
        let again = scheduler.every(ms: 1, on: queue) { ranAfter.withLock { $0 += 1 } }
        queue.sync {
            time.ring(atNs: 1_000_000)
            // Both wait for this block.
            work.cancel()
            again.cancel()
            cancelled.withLock { $0 = true }
        }
        queue.sync {}
        #expect(cancelled.withLock { $0 } && ranAfter.withLock { $0 } == 0 && scheduler.waiting == 0)
    }

    @Test func doneWork_isLetGoOf() {
        var kept: Kept? = Kept()
        let held = Held(kept)
        let work = scheduler.after(ms: 10, on: queue) { [kept] in kept?.use() }
        kept = nil
        clock.advance(ms: 10)
        #expect(held.object == nil)
        work.cancel()
        #expect(scheduler.waiting == 0)
    }

    /// A scheduler releases its work when it is freed; work scheduled later does not run.
    @Test func waitingWork_isLetGoOf_withItsScheduler() {
        var kept: Kept? = Kept()
        let held = Held(kept)
        var scheduler: Scheduler? = Scheduler(ManualTimeSource())
        let work = scheduler?.every(ms: 10, on: queue) { [kept] in kept?.use() }
        scheduler?.after(ms: 10, on: queue) { [kept] in kept?.use() }
        kept = nil
        #expect(held.object != nil)
        scheduler = nil
        #expect(held.object == nil)
        work?.cancel()
    }

    private final class Kept: Sendable { func use() {} }

    private final class Held {
        private(set) weak var object: Kept?
        init(_ object: Kept?) { self.object = object }
    }

    // MARK: Intervals

    @Test func interval_runsUntilItIsCancelled() {
        let work = scheduler.every(ms: 10, on: queue, recording("every"))
        clock.advance(ms: 35)
        #expect(recorder.taken() == ["every 10", "every 20", "every 30"])
        work.cancel()
        clock.advance(ms: 100)
        #expect(recorder.taken() == [] && scheduler.waiting == 0)
    }

    /// Intervals missed while the machine was busy are skipped.
    @Test func missedIntervals_areNotMadeUpFor() {
        let time = ManualTimeSource()
        let scheduler = Scheduler(time)
        let times = Mutex<[Int64]>([])
        scheduler.every(ms: 10, on: queue) { times.withLock { $0.append(time.steadyNs / 1_000_000) } }
        for ms in [9, 10, 20, 57, 66, 67, 77] as [Int64] {
            time.ring(atNs: ms * 1_000_000)
            queue.sync {}
        }
        #expect(times.withLock { $0 } == [10, 20, 57, 67, 77])
    }

    // MARK: Within work

    @Test func work_maySchedule_andWhatIsDueRunsInTheSameAdvance() {
        let (scheduler, queue, note) = (scheduler, queue, recording("then"))
        scheduler.after(ms: 10, on: queue) {
            scheduler.after(ms: 5, on: queue, note)
            scheduler.after(ms: 0, on: queue, note)
            scheduler.after(ms: 11, on: queue, note)
        }
        clock.advance(ms: 20)
        #expect(recorder.taken() == ["then 10", "then 15"])
        clock.advance(ms: 1)
        #expect(recorder.taken() == ["then 21"])
    }

    @Test func work_mayCancelItself_andOthers() {
        let later = scheduler.after(ms: 30, on: queue, recording("later"))
        let own = Mutex<ScheduledWork?>(nil)
        let note = recording("every")
        let every = scheduler.every(ms: 10, on: queue) {
            note()
            later.cancel()
            own.withLock { $0 }?.cancel()
        }
        own.withLock { $0 = every }
        clock.advance(ms: 100)
        #expect(recorder.taken() == ["every 10"] && scheduler.waiting == 0)
    }

    @Test func work_runsOnItsQueue() {
        let scheduler = scheduler
        let queues = (0..<3).map { DispatchQueue(label: "\($0)") }
        for (i, queue) in queues.enumerated() {
            scheduler.after(ms: Int64(i), on: queue) { dispatchPrecondition(condition: .onQueue(queue)) }
        }
        clock.advance(ms: 3)
        #expect(scheduler.waiting == 0)
    }

    // MARK: The alarm

    /// The time source is set to the earliest time, and to no later one.
    @Test func alarm_isTheEarliestTime() {
        let time = ManualTimeSource()
        let scheduler = Scheduler(time)
        scheduler.after(ms: 50, on: queue) {}
        scheduler.after(ms: 70, on: queue) {}
        let first = scheduler.after(ms: 20, on: queue) {}
        #expect(time.alarms == [50, 20])
        first.cancel()
        time.ring(atNs: 20_000_000)
        #expect(time.alarms == [50, 20, 50])
        time.ring(atNs: 50_000_000)
        time.ring(atNs: 70_000_000)
        #expect(time.alarms == [50, 20, 50, 70])
        scheduler.after(ms: 1, on: queue) {}
        #expect(time.alarms == [50, 20, 50, 70, 71])
    }

    /// Timers that are cancelled, as those of requests answered in time, do not accumulate: most of them never become due.
    @Test func cancelledWork_isSweptOut() {
        let time = ManualTimeSource()
        let timetable = Timetable(time)
        var most = 0
        let kept = (0..<100).map { i in
            let work = ScheduledWork(queue, everyNs: nil, timetable) {}
            timetable.add(work, dueNs: Int64(i))
            return work
        }
        for i in 0..<50_000 {
            let work = ScheduledWork(queue, everyNs: nil, timetable) {}
            timetable.add(work, dueNs: 1_000 + Int64(i))
            work.cancel()
            most = max(most, timetable.entries)
        }
        #expect(most <= 300 && timetable.waiting == kept.count)
    }

    /// With the system's clocks and timer: due work runs in order, and not before its time.
    @Test func systemTime_runsWhatIsDue() async {
        let scheduler = Scheduler.system()
        let (queue, start) = (DispatchQueue(label: "system"), scheduler.steadyNs)
        let ends = AsyncStream<(Int, Int64)>.makeStream()
        for ms in [30, 1, 10] {
            scheduler.after(ms: Int64(ms), on: queue) { ends.continuation.yield((ms, SystemTime.steadyNs - start)) }
        }
        let ticks = scheduler.every(ms: 1, on: queue) { ends.continuation.yield((0, 0)) }
        var done: [Int] = []
        for await (ms, ns) in ends.stream where ms > 0 {
            #expect(ns >= Int64(ms) * 1_000_000)
            done.append(ms)
            if done.count == 3 { break }
        }
        #expect(done == [1, 10, 30])
        ticks.cancel()
    }
}

/// A time source whose alarm rings on the test's command.
final class ManualTimeSource: TimeSource {
    private struct State {
        var steadyNs: Int64 = 0
        var alarms: [Int64] = []
        var ring: (@Sendable () -> Void)?
    }
    private let state = Mutex(State())

    var wallMs: Int64 { 0 }
    var steadyNs: Int64 { state.withLock { $0.steadyNs } }
    /// The alarm times set so far, in ms.
    var alarms: [Int64] { state.withLock { $0.alarms } }

    func start(_ ring: @escaping @Sendable () -> Void) { state.withLock { $0.ring = ring } }
    func setAlarm(atNs: Int64) { state.withLock { $0.alarms.append(atNs / 1_000_000) } }

    func ring(atNs: Int64) {
        let ring = state.withLock { state in
            state.steadyNs = atNs
            return state.ring
        }
        ring?()
    }
}
