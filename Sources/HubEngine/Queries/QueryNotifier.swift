import JSONTree
import LiveQueries

/// Decides what observers of live queries are sent for a change. Observers of a view that shows too few children are notified when it is complete.
///
/// Confined to the database queue.
final class QueryNotifier {
    private let context: EngineContext
    private let content: Content
    private let places: QuerySetStore
    private let batch: Batch
    /// Called to notify the observers of a view of a change, as of this content and this commit.
    var onChanged: (View, LiveChange, _ content: Node, _ sequence: UInt64) -> Void = { _, _, _, _ in }

    /// Maximum number of commits whose events are held back for a view; beyond it the view's observers end.
    private static let mostDeferred = 1_000

    init(_ context: EngineContext, _ content: Content, _ places: QuerySetStore, _ batch: Batch) {
        self.context = context
        self.content = content
        self.places = places
        self.batch = batch
    }

    /// - Parameters:
    ///   - change: nil to send only events held back before.
    ///   - content: the content after the change.
    ///   - onChange: called if observers are notified now.
    func notify(
        _ query: LiveQueryView, _ change: LiveQueryView.Change?, at place: ObservedQuerySet, of content: Node,
        _ onChange: (View, LiveChange) -> Void
    ) {
        guard let view = place.view(of: query) else { return }
        if place.deferredCount(of: query) >= Self.mostDeferred { places.endLater(view, at: place, .changesTooFast) }
        guard let change = place.release(change, of: query, content) else { return }
        let most = context.limits.liveQueryChildren
        if query.query.tree.limit == nil, query.showing == .children, query.count > 2 * most {
            places.endLater(view, at: place, .tooManyMatches(most))
        }
        context.meter.counters.windowsMoved += 1
        onChange(view, change)
    }

    /// Sends the whole result of a view to observers that are still waiting for it.
    func notifyComplete(_ place: ObservedQuerySet) {
        if place.awaitingResult.isEmpty { return }
        let (node, awaiting) = (content.root.node(at: place.path), place.awaitingResult)
        place.awaitingResult = []
        for view in awaiting {
            guard let shown = view.live, place.view(of: shown.view) === view else { continue }
            if shown.view.isShort {
                place.awaitingResult.append(view)
                continue
            }
            recordLateNotification(at: place)
            onChanged(view, place.all(of: shown.view, node), node, content.sequence)
        }
    }

    /// Records that the following notification does not belong to a commit of this batch.
    func recordLateNotification(at place: ObservedQuerySet) { batch.record(.notifiedLater(place.path)) }
}
