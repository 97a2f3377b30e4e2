internal import HeapModule
internal import Synchronization

/// A timer of a loop. It fires without being retained; `cancel` may be called from any thread.
public final class LoopTimer: Sendable {
    private let cancelled = Atomic<Bool>(false)
    let everyNs: UInt64?
    private let work: @Sendable () -> Void

    init(everyNs: UInt64?, work: @escaping @Sendable () -> Void) {
        self.everyNs = everyNs
        self.work = work
    }

    /// Prevents the work from running. The closure itself is released when the timer would have fired.
    public func cancel() { cancelled.store(true, ordering: .releasing) }

    public var isCancelled: Bool { cancelled.load(ordering: .acquiring) }

    func fire() {
        if !isCancelled { work() }
    }
}

/// A loop's timers, earliest deadline first; equal deadlines in order of insertion.
struct TimerQueue {
    private struct Entry: Comparable {
        let deadlineNs: UInt64
        /// Unique number, in the order of insertion.
        let order: UInt64
        let timer: LoopTimer

        static func == (a: Entry, b: Entry) -> Bool { a.order == b.order }

        static func < (a: Entry, b: Entry) -> Bool {
            a.deadlineNs != b.deadlineNs ? a.deadlineNs < b.deadlineNs : a.order < b.order
        }
    }

    private var heap = Heap<Entry>()
    private var nextOrder: UInt64 = 0

    var count: Int { heap.count }
    var earliestNs: UInt64? { heap.min?.deadlineNs }

    /// - Complexity: O(log n).
    mutating func insert(_ timer: LoopTimer, deadlineNs: UInt64) {
        heap.insert(Entry(deadlineNs: deadlineNs, order: nextOrder, timer: timer))
        nextOrder += 1
    }

    /// Removes and returns the earliest timer that is due. - Complexity: O(log n).
    mutating func popDue(nowNs: UInt64) -> (timer: LoopTimer, deadlineNs: UInt64)? {
        guard let earliestNs, earliestNs <= nowNs else { return nil }
        return heap.popMin().map { ($0.timer, $0.deadlineNs) }
    }

    mutating func removeAll() { heap = Heap() }
}
