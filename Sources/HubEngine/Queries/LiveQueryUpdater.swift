import JSONTree
import LiveQueries

/// Updates live queries with writes at their places: on the queue if a commit changes few children, otherwise in the background.
///
/// ```
/// commit ── few children ──► InlineQueryUpdate: affected views ─► notified
///    └── many, or an overwritten place ─► BackgroundQueryUpdate: in the background ─► notified ─► writes made meanwhile
/// a view that shows too few children ─► WindowRefill: a few views per turn ─► notified when complete
/// a rollback ─► QueryRollback: views are moved back, or end
/// ```
/// `QuerySetStore` holds the places, `GeoIndexBuilder` indexes the children's positions, and `QueryNotifier` decides what observers are sent.
/// Confined to the database queue.
final class LiveQueryUpdater {
    private let content: Content
    let places: QuerySetStore
    let points: GeoIndexBuilder
    let notifier: QueryNotifier
    private let refill: WindowRefill
    private let inline: InlineQueryUpdate
    private let background: BackgroundQueryUpdate
    private let rollback: QueryRollback

    init(
        _ context: EngineContext, _ content: Content, _ observed: PlaceTrie, _ indexes: IndexStore, _ batch: Batch,
        _ durability: DurabilityQueue
    ) {
        self.content = content
        places = QuerySetStore(context, observed, indexes, durability)
        points = GeoIndexBuilder(context, content, places)
        notifier = QueryNotifier(context, content, places, batch)
        refill = WindowRefill(context, content, places, notifier)
        inline = InlineQueryUpdate(context, places, notifier, refill)
        background = BackgroundQueryUpdate(context, content, observed, places, notifier, refill, inline)
        rollback = QueryRollback(context, content, observed, places, refill)
        background.onLost = { [rollback] in rollback.endAll($0, $1) }
    }

    /// Adds a view that was computed for the current state of the place.
    func add(_ view: LiveQueryView, at place: ObservedQuerySet) -> View {
        if let known = place.view(of: view) { return known }
        defer { refill.fillLater(place) }
        return places.add(view, at: place)
    }

    /// Updates the views of a place with a commit.
    /// - Parameters:
    ///   - children: the changed children; nil if there are many, or if the place was overwritten.
    ///   - onChange: called for each view whose observers are notified.
    func follow(
        _ place: ObservedQuerySet, _ children: [ChildChange]?, from old: Node, to new: Node,
        _ onChange: (View, LiveChange) -> Void
    ) {
        if place.isInBackground { return }
        refill.relist(place)
        guard let writes = inline.writes(children, from: old, to: new, at: place) else { return background.updateInBackground(place, lastSeen: old) }
        inline.apply(writes, at: place, over: new, onChange)
    }

    /// An order of a place is ready again. Refills the views that wait for it.
    func resume(at path: Path) { if let place = places[path] { refill.resume(place) } }

    /// Handles a rollback. Moves the views back, or ends their observers if notifications were pending.
    func follow(from before: Node) { rollback.follow(from: before) }

    /// Ends all observers of a place's live queries, because commits that they were notified of were rolled back.
    func endAll(at path: Path) { if let place = places[path] { rollback.endAll(place, .rolledBack) } }

    /// After a deploy, drops points whose declaration has changed, and ends the observers of circles that use them.
    func recheckDeclarations() {
        for place in places.all {
            guard let index = place.queries.index, index.fields != content.rules.geoFields(at: place.path) else { continue }
            rollback.endAll(place, .missingPoints(place.path))
        }
    }
}
