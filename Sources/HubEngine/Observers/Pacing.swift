import JSONTree
import LiveQueries
import Scheduling

/// Limits how many values a second observers receive, as they requested. An early change waits, and newer ones replace it. All observers of one view
/// and style are notified together, so the cost of a commit does not depend on their number.
///
/// ```
/// change ── interval has passed ──► notified
///    └── too early: pending ── timer ──► notified of the value at that time
/// ```
/// Confined to the database queue.
final class Pacing: @unchecked Sendable {
    // Sendable: the scheduler calls back on the queue.
    private let context: EngineContext
    private let batch: Batch
    private let durability: DurabilityQueue
    /// Sends the observers of a style the current value of a place or query.
    var onDue: (Path, Query?, ObserverStyle) -> Void = { _, _, _ in }

    init(_ context: EngineContext, _ batch: Batch, _ durability: DurabilityQueue) {
        self.context = context
        self.batch = batch
        self.durability = durability
    }

    /// True if a change is sent now; otherwise a timer sends it.
    /// - Parameter style: a style with an interval.
    func maySendNow(_ view: View, _ style: ObserverStyle) -> Bool {
        guard case .events(_, _, let interval?) = style else { return true }
        let now = context.scheduler.steadyMs
        guard var pace = view.paces[style], now - pace.notifiedAt < Int64(interval) else {
            recordSent(view, style, now)
            return true
        }
        pace.isPending = true
        if pace.timer == nil {
            pace.timer = context.later(ms: pace.notifiedAt + Int64(interval) - now) { [weak self, view = WeakView(view)] in
                if let view = view.view { self?.due(view, style) }
            }
        }
        view.paces[style] = pace
        context.meter.counters.conflated += 1
        return false
    }

    /// Carries a view through the scheduler.
    private struct WeakView: @unchecked Sendable {
        // Sendable: used on the database queue only.
        private(set) weak var view: View?
        init(_ view: View) { self.view = view }
    }

    private func due(_ view: View, _ style: ObserverStyle) {
        context.queue.assertCurrent()
        view.paces[style]?.timer = nil
        guard view.paces[style]?.isPending == true else { return }
        recordSent(view, style, context.scheduler.steadyMs)
        onDue(view.path, view.query, style)
        durability.finishBatch()
    }

    private func recordSent(_ view: View, _ style: ObserverStyle, _ now: Int64) {
        let before = view.paces[style]
        // The notification includes changes of earlier batches. It must be repeated if this batch is rolled back.
        if before?.isPending == true { batch.record(.paced(view.path, view.query, style)) }
        view.paces[style] = Pace(notifiedAt: now, timer: before?.timer)
    }
}
