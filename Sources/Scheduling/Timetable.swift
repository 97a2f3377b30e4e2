import Dispatch
import HeapModule
import Synchronization

/// Scheduled work, the earliest first; at equal times in the order in which it was added.
///
/// Cancelled work stays as an empty entry until it is due, or until cancelled entries outnumber the others.
final class Timetable: Sendable {
    private struct Entry: Comparable {
        let dueNs: Int64
        /// Unique.
        let order: UInt64
        let work: ScheduledWork

        static func == (a: Entry, b: Entry) -> Bool { a.order == b.order }
        static func < (a: Entry, b: Entry) -> Bool { a.dueNs != b.dueNs ? a.dueNs < b.dueNs : a.order < b.order }
    }

    private struct State {
        var heap = Heap<Entry>()
        var nextOrder: UInt64 = 0
        /// The alarm of the time source; `max` for none.
        var alarmNs = Int64.max
        /// Cancelled entries in the heap, as an upper bound.
        var cancelled = 0
        var isOver = false
    }

    /// With fewer cancelled entries than this, rebuilding the heap is not worth it.
    private static let sweptEntries = 64

    private let time: any TimeSource
    private let state = Mutex(State())

    init(_ time: any TimeSource) { self.time = time }

    func add(_ work: ScheduledWork, dueNs: Int64) {
        let isOver = state.withLock { state in
            if state.isOver { return true }
            state.heap.insert(Entry(dueNs: dueNs, order: state.nextOrder, work: work))
            state.nextOrder += 1
            // Within the lock, so that the alarm set last is the earliest.
            if dueNs < state.alarmNs { setAlarm(&state, dueNs) }
            return false
        }
        if isOver { work.discard() }
    }

    /// Schedules the next run one interval after `dueNs`, or one interval from now if that time has passed too.
    func addAgain(_ work: ScheduledWork, dueNs: Int64, everyNs: Int64) {
        let (now, next) = (time.steadyNs, dueNs.addingReportingOverflow(everyNs))
        let late = now.addingReportingOverflow(everyNs)
        if next.overflow || next.partialValue > now {
            add(work, dueNs: next.overflow ? .max : next.partialValue)
        } else {
            add(work, dueNs: late.overflow ? .max : late.partialValue)
        }
    }

    private func setAlarm(_ state: inout State, _ ns: Int64) {
        state.alarmNs = ns
        if ns < .max { time.setAlarm(atNs: ns) }
    }

    /// Called when the alarm fires.
    func dispatchDue() {
        let now = time.steadyNs
        while let due = nextDue(byNs: now) { due.queue.async { due.run() } }
        state.withLock { setAlarm(&$0, $0.heap.min?.dueNs ?? .max) }
    }

    /// - Complexity: O(log n), and the same for each cancelled entry skipped.
    func nextDue(byNs time: Int64) -> DueWork? {
        state.withLock { state in
            while let earliest = state.heap.min, earliest.dueNs <= time {
                state.heap.removeMin()
                if !earliest.work.isOver { return DueWork(work: earliest.work, dueNs: earliest.dueNs) }
                state.cancelled = max(0, state.cancelled - 1)
            }
            return nil
        }
    }

    func recordCancelled() {
        state.withLock { state in
            state.cancelled += 1
            guard state.cancelled >= Self.sweptEntries, state.cancelled * 2 > state.heap.count else { return }
            state.heap = Heap(state.heap.unordered.filter { !$0.work.isOver })
            state.cancelled = 0
        }
    }

    var waiting: Int { state.withLock { $0.heap.unordered.count { !$0.work.isOver } } }
    /// Entries, cancelled ones included.
    var entries: Int { state.withLock { $0.heap.count } }

    /// Stops the timetable and releases all work.
    func end() {
        let left = state.withLock { state in
            defer { state.heap = Heap() }
            state.isOver = true
            return state.heap.unordered
        }
        for entry in left { entry.work.discard() }
    }
}
