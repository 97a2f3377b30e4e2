internal import Synchronization

/// Work that a loop does later. Keeping it is not needed for it to fire; `cancel` may be called from any thread.
public final class LoopTimer: Sendable {
    private let cancelled = Atomic<Bool>(false)
    let everyNs: UInt64?
    private let work: @Sendable () -> Void

    init(everyNs: UInt64?, work: @escaping @Sendable () -> Void) {
        self.everyNs = everyNs
        self.work = work
    }

    /// From here on the work does not begin again. The closure itself is let go when the timer would have fired.
    public func cancel() { cancelled.store(true, ordering: .releasing) }

    public var isCancelled: Bool { cancelled.load(ordering: .acquiring) }

    func fire() {
        if !isCancelled { work() }
    }
}

/// A loop's timers: a binary heap, earliest deadline first; equal deadlines in the order they were made.
struct TimerQueue {
    private struct Entry {
        let deadlineNs: UInt64
        let order: UInt64
        let timer: LoopTimer

        static func < (a: Entry, b: Entry) -> Bool {
            a.deadlineNs != b.deadlineNs ? a.deadlineNs < b.deadlineNs : a.order < b.order
        }
    }

    private var heap: [Entry] = []
    private var nextOrder: UInt64 = 0

    var count: Int { heap.count }
    var earliestNs: UInt64? { heap.first?.deadlineNs }

    /// - Complexity: O(log n).
    mutating func insert(_ timer: LoopTimer, deadlineNs: UInt64) {
        heap.append(Entry(deadlineNs: deadlineNs, order: nextOrder, timer: timer))
        nextOrder += 1
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard heap[child] < heap[parent] else { break }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    /// Takes the earliest timer that is due. - Complexity: O(log n).
    mutating func takeDue(nowNs: UInt64) -> (timer: LoopTimer, deadlineNs: UInt64)? {
        guard let first = heap.first, first.deadlineNs <= nowNs else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            var parent = 0
            while true {
                var smallest = parent
                for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count {
                    if heap[child] < heap[smallest] { smallest = child }
                }
                if smallest == parent { break }
                heap.swapAt(parent, smallest)
                parent = smallest
            }
        }
        return (first.timer, first.deadlineNs)
    }

    mutating func removeAll() { heap.removeAll() }
}
