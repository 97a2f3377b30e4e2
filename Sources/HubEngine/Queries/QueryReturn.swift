import JSONTree
import LiveQueries

/// Live queries and a tree that has gone back to an earlier state: what their observers know goes back with it, or they end.
///
/// | observers of a place | then |
/// |---|---|
/// | know all that was committed, and the way back is short | its views go back, and nothing is told |
/// | are still to be told something, or the way is long | end, with `unavailable` |
/// | of queries that are lent | end when these are back |
///
/// Confined to the database queue.
final class QueryReturn {
    private let context: EngineContext
    private let content: Content
    private let observed: PlaceTrie
    private let places: QueriedPlaces
    private let filling: QueryFilling

    init(
        _ context: EngineContext, _ content: Content, _ observed: PlaceTrie, _ places: QueriedPlaces, _ filling: QueryFilling
    ) {
        self.context = context
        self.content = content
        self.observed = observed
        self.places = places
        self.filling = filling
    }

    /// The tree has gone back to an earlier state.
    func follow(from before: Node) {
        observed.forEach(from: before, to: content.root) { [self] observed, old, new in
            guard let place = observed.queried else { return }
            if place.isLent { return place.isUndone = true }
            if place.owes || !goBack(place, from: old, to: new) { endAll(place, .takenBack) }
        }
        for place in places.all where place.owes && !place.isLent { endAll(place, .takenBack) }
    }

    /// Moves the views to what observers know, and tells nothing.
    /// - Returns: false where that is too much, or not to be had now.
    private func goBack(_ place: QueriedPlace, from old: Node, to new: Node) -> Bool {
        guard let changes = new.children.changes(since: old.children, atMost: context.limits.followedChanges) else { return false }
        let orders = places.orders(place, over: new)
        place.queries.apply(ContiguousArray(changes.lazy.map { ChildWrite($0) }), over: new, in: orders) { _, _ in }
        // Observers were shown all that there is: a view that is short now is no longer what they know.
        var left = QueryFilling.filledAtOnce
        for view in place.views {
            guard let query = (view.shown as? LiveQueryShown)?.view else { continue }
            while query.isShort {
                left -= 1
                if left < 0 || (query.refillOrder.map { orders($0) == nil } ?? false) { return false }
                _ = place.queries.fill(query, over: new, in: orders)
            }
        }
        places.weigh(place)
        filling.fillLater(place)
        return true
    }

    /// Ends all observers of a place's live queries, and begins anew with those that come.
    func endAll(_ place: QueriedPlace, _ failure: Failure) {
        // The queries are another thread's: they end when they are back.
        if place.isLent { return place.isUndone = true }
        let views = place.views
        place.isUndone = false
        for view in views {
            for (style, client) in view.observers { places.onEnded(view.observation(style), client, failure) }
        }
        for view in place.views { places.remove(view, at: place) }
        let waiting = place.waiting
        place.waiting = []
        places.forget(place)
        for resume in waiting { resume() }
        places.finishWork()
    }
}

extension Failure {
    /// Commits that were told of in advance were not stored after all.
    static let takenBack = Failure(.unavailable, "The hub could not store what it was about to tell; observe again.")
}
