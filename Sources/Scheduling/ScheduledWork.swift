package import Dispatch
import Synchronization

/// A handle for scheduled work. Releasing it does not cancel the work.
public final class ScheduledWork: Sendable {
    /// A struct instead of a plain closure: a closure is wrapped again each time it passes through a generic type such as `Mutex`. After a
    /// million reads, calling or freeing it would take a million nested calls.
    private struct Work {
        let run: @Sendable () -> Void
    }

    package let queue: DispatchQueue
    let everyNs: Int64?
    private let timetable: Timetable
    /// Nil once it is cancelled or has started its last run.
    private let work: Mutex<Work?>

    init(_ queue: DispatchQueue, everyNs: Int64?, _ timetable: Timetable, _ work: @escaping @Sendable () -> Void) {
        self.queue = queue
        self.everyNs = everyNs
        self.timetable = timetable
        self.work = Mutex(Work(run: work))
    }

    /// Prevents further runs. Called on the work's queue, if that is serial, no run follows. Releases the work at once. From any thread,
    /// also within the work itself.
    /// - Complexity: O(1) amortized; sometimes O(n) for as many cancelled before.
    public func cancel() {
        if discard() { timetable.recordCancelled() }
    }

    var isOver: Bool { work.withLock { $0 == nil } }

    /// Returns whether the work was still pending.
    @discardableResult
    func discard() -> Bool {
        // Released outside the lock, because its captures may cancel other work.
        let discarded = work.withLock { work in
            defer { work = nil }
            return work
        }
        return discarded != nil
    }

    /// Called on its queue.
    /// - Parameter dueNs: the time it was due.
    func run(dueNs: Int64) {
        let begun = work.withLock { work in
            defer { if everyNs == nil { work = nil } }
            return work
        }
        guard let begun else { return }
        begun.run()
        if let everyNs, !isOver { timetable.addAgain(self, dueNs: dueNs, everyNs: everyNs) }
    }
}

/// Due work, removed from the timetable.
package struct DueWork {
    let work: ScheduledWork
    package let dueNs: Int64

    package var queue: DispatchQueue { work.queue }

    /// Call this on its queue.
    package func run() { work.run(dueNs: dueNs) }
}
