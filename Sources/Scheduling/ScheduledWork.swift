package import Dispatch
import Synchronization

/// Work that a scheduler does later. Letting go of it does not cancel it.
public final class ScheduledWork: Sendable {
    /// What is to be done. A type of its own: a closure is wrapped once more each time it goes through a generic type such as `Mutex`, so
    /// one that stayed in it for a million looks could be called, and freed, only by a million nested calls.
    private struct Work {
        let run: @Sendable () -> Void
    }

    package let queue: DispatchQueue
    let everyNs: Int64?
    private let timetable: Timetable
    /// Nil once it is cancelled, or has begun for the last time.
    private let work: Mutex<Work?>

    init(_ queue: DispatchQueue, everyNs: Int64?, _ timetable: Timetable, _ work: @escaping @Sendable () -> Void) {
        self.queue = queue
        self.everyNs = everyNs
        self.timetable = timetable
        self.work = Mutex(Work(run: work))
    }

    /// From here on the work does not begin any more: called on its queue, if that is serial, nothing of it runs afterwards. Lets go of
    /// the work at once. From any thread, also within the work itself.
    /// - Complexity: O(1), and once in a while O(n) for as many cancelled before.
    public func cancel() {
        if discard() { timetable.recordCancelled() }
    }

    var isOver: Bool { work.withLock { $0 == nil } }

    /// Whether there was still something to do.
    @discardableResult
    func discard() -> Bool {
        // Let go of outside the lock: what it captured may cancel something else.
        let discarded = work.withLock { work in
            defer { work = nil }
            return work
        }
        return discarded != nil
    }

    /// On its queue.
    /// - Parameter dueNs: when it was to run.
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

/// Work whose time has come, out of the timetable.
package struct DueWork {
    let work: ScheduledWork
    package let dueNs: Int64

    package var queue: DispatchQueue { work.queue }

    /// To be called on its queue.
    package func run() { work.run(dueNs: dueNs) }
}
