import JSONTree
import Scheduling

/// The pace of observers of one style at one view.
struct Pace {
    /// Steady ms.
    var toldAt: Int64
    /// Whether something has changed since.
    var isOwed = false
    /// They will be told by time.
    var timer: ScheduledWork?
}

/// Observers of values that want no more of them than so many a second: what comes sooner waits, and the newest takes the place of older
/// ones. All observers of one style at one view are told at the same times, so a commit costs no more the more of them there are.
///
/// ```
/// change ── long enough after the last ──► told
///    └── sooner: owed ── by time ──► told as it is then
/// ```
/// Confined to the database queue.
final class Pacing: @unchecked Sendable {
    // Sendable: the scheduler only calls back on the queue with it.
    private let context: EngineContext
    private let batch: Batch
    private let durability: DurabilityLine
    /// Tells the observers of a style how a place, or a query of it, is now.
    var onDue: (Path, ChildQuery?, ObserverStyle) -> Void = { _, _, _ in }

    init(_ context: EngineContext, _ batch: Batch, _ durability: DurabilityLine) {
        self.context = context
        self.batch = batch
        self.durability = durability
    }

    /// Whether a change is told now; else it will be by time.
    /// - Parameter style: one with a pace.
    func mayTell(_ view: View, _ style: ObserverStyle) -> Bool {
        guard case .events(_, _, let interval?) = style else { return true }
        let now = context.scheduler.steadyMs
        guard var pace = view.paces[style], now - pace.toldAt < Int64(interval) else {
            tell(view, style, now)
            return true
        }
        pace.isOwed = true
        if pace.timer == nil {
            pace.timer = context.later(ms: pace.toldAt + Int64(interval) - now) { [weak self, view = Kept(view)] in
                if let view = view.view { self?.due(view, style) }
            }
        }
        view.paces[style] = pace
        context.meter.counters.conflated += 1
        return false
    }

    /// A view on its way through the scheduler.
    private struct Kept: @unchecked Sendable {
        // Sendable: used on the database queue only.
        private(set) weak var view: View?
        init(_ view: View) { self.view = view }
    }

    private func due(_ view: View, _ style: ObserverStyle) {
        context.queue.assertCurrent()
        view.paces[style]?.timer = nil
        guard view.paces[style]?.isOwed == true else { return }
        tell(view, style, context.scheduler.steadyMs)
        onDue(view.path, view.query, style)
        durability.finishBatch()
    }

    private func tell(_ view: View, _ style: ObserverStyle, _ now: Int64) {
        let before = view.paces[style]
        // What is told of earlier batches, too, is told again if this one is given up.
        if before?.isOwed == true { batch.record(.paced(view.path, view.query, style)) }
        view.paces[style] = Pace(toldAt: now, timer: before?.timer)
    }
}
