import JSONTree
import LiveQueries

/// Handles live queries in a rollback: moves their views back to what observers know, or ends the observers.
///
/// | observers of a place | effect |
/// |---|---|
/// | have seen all commits, and few children differ | their views are moved back; nothing is sent |
/// | have pending notifications, or many children differ | they end, with `unavailable` |
/// | belong to queries in the background | they end when the queries are back |
///
/// Confined to the database queue.
final class QueryRollback {
    private let context: EngineContext
    private let content: Content
    private let observed: PlaceTrie
    private let places: QuerySetStore
    private let refill: WindowRefill

    init(
        _ context: EngineContext, _ content: Content, _ observed: PlaceTrie, _ places: QuerySetStore, _ refill: WindowRefill
    ) {
        self.context = context
        self.content = content
        self.observed = observed
        self.places = places
        self.refill = refill
    }

    /// Updates all live queries after a rollback.
    func follow(from before: Node) {
        observed.forEach(from: before, to: content.root) { [self] observed, old, new in
            guard let place = observed.queried else { return }
            if place.isInBackground { return place.wasRolledBack = true }
            if place.hasPendingNotifications || !rollBack(place, from: old, to: new) { endAll(place, .rolledBack) }
        }
        for place in places.all where place.hasPendingNotifications && !place.isInBackground { endAll(place, .rolledBack) }
    }

    /// Moves the views back to what observers know, without notifications.
    /// - Returns: false if too much differs, or if a needed order is missing.
    private func rollBack(_ place: ObservedQuerySet, from old: Node, to new: Node) -> Bool {
        guard let changes = new.children.changes(since: old.children, atMost: context.limits.followedChanges) else { return false }
        let orders = places.orders(place, over: new)
        place.queries.apply(ContiguousArray(changes.lazy.map { ChildWrite($0) }), over: new, in: orders) { _, _ in }
        // Observers have seen complete results. A view that is short now no longer matches that knowledge.
        var left = WindowRefill.filledAtOnce
        for view in place.views {
            guard let query = view.live?.view else { continue }
            while query.isShort {
                left -= 1
                if left < 0 || (query.refillOrder.map { orders($0) == nil } ?? false) { return false }
                _ = place.queries.fill(query, over: new, in: orders)
            }
        }
        places.updateTotals(place)
        refill.fillLater(place)
        return true
    }

    /// Ends all observers of a place's live queries, and removes the queries. New observers start from scratch.
    func endAll(_ place: ObservedQuerySet, _ failure: Failure) {
        // A background thread owns the queries: end them when they are back.
        if place.isInBackground { return place.wasRolledBack = true }
        let views = place.views
        place.wasRolledBack = false
        for view in views {
            for (style, client) in view.observers { places.onEnded(view.observation(style), client, failure) }
        }
        for view in place.views { places.remove(view, at: place) }
        let waiting = place.waiting
        place.waiting = []
        places.forget(place)
        for resume in waiting { resume(nil) }
        places.finishWork()
    }
}

extension Failure {
    /// Commits that observers were about to be notified of were not stored.
    static let rolledBack = Failure(.unavailable, "The hub could not store what it was about to tell; observe again.")
}
