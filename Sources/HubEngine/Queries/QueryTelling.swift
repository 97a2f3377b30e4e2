import JSONTree
import LiveQueries

/// What observers of live queries are told of a change: at once, or, of a view that shows fewer than there may be, when it shows all.
///
/// Confined to the database queue.
final class QueryTelling {
    private let context: EngineContext
    private let content: Content
    private let places: QueriedPlaces
    private let batch: Batch
    /// Tells the observers of a view what has changed of it: as of this content and this commit.
    var onChanged: (View, LiveChange, _ content: Node, _ sequence: UInt64) -> Void = { _, _, _, _ in }

    /// Commits of which observers of a view that shows too few may still have to be told.
    private static let mostDeferred = 1_000

    init(_ context: EngineContext, _ content: Content, _ places: QueriedPlaces, _ batch: Batch) {
        self.context = context
        self.content = content
        self.places = places
        self.batch = batch
    }

    /// - Parameters:
    ///   - change: nil for what was deferred before.
    ///   - content: as it is after the change.
    ///   - told: is called where observers are told something now.
    func tell(
        _ query: LiveQueryView, _ change: LiveQueryView.Change?, at place: QueriedPlace, of content: Node,
        _ told: (View, LiveChange) -> Void
    ) {
        guard let view = place.view(of: query) else { return }
        if place.deferredCount(of: query) >= Self.mostDeferred { places.endLater(view, at: place, .changesTooFast) }
        guard let change = place.release(change, of: query, content) else { return }
        let most = context.limits.liveQueryChildren
        if query.query.tree.limit == nil, query.showing == .children, query.count > 2 * most {
            places.endLater(view, at: place, .tooManyMatches(most))
        }
        context.meter.counters.windowsMoved += 1
        told(view, change)
    }

    /// Tells all of a view to observers for whom it was not known.
    func tellAll(_ place: QueriedPlace) {
        if place.owing.isEmpty { return }
        let (node, owing) = (content.root.node(at: place.path), place.owing)
        place.owing = []
        for view in owing {
            guard let shown = view.shown as? LiveQueryShown, place.view(of: shown.view) === view else { continue }
            if shown.view.isShort {
                place.owing.append(view)
                continue
            }
            tellLater(at: place)
            onChanged(view, place.all(of: shown.view, node), node, content.sequence)
        }
    }

    /// What is told now is no part of a commit of this batch.
    func tellLater(at place: QueriedPlace) { batch.record(.toldLater(place.path)) }
}
