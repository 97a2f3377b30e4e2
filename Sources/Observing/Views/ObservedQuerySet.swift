package import Commits
package import JSONTree
package import LiveQueries

/// The live queries of one place (`QuerySet`), with their observers.
///
/// Confined to the database queue, except `queries` while a background thread owns them.
package final class ObservedQuerySet {
    package let path: Path
    /// While in the background, only that thread uses them.
    package let queries: QuerySet
    /// Views by query and shown part, and by their `LiveQueryView`.
    private var named: [Name: View] = [:]
    private var byQuery: [ObjectIdentifier: View] = [:]
    /// The content that observers have last seen. Set while a large change is applied in the background.
    package var lastSeen: Node?
    /// True if commits were rolled back meanwhile.
    package var wasRolledBack = false
    /// Events of views that show too few children, held back until the missing children are found.
    private var deferred: [ObjectIdentifier: [ContiguousArray<LiveEvent>]] = [:]
    /// True while a refill runs. `searches` counts the searches in the background.
    package var isFilling = false
    package var searches = 0
    /// True while the points of the children are being collected.
    package var isCollecting = false
    /// Views to refill when their order is ready again.
    package var unordered: ContiguousArray<LiveQueryView> = []
    /// Requests that wait for such work. Each checks the state again, or fails.
    package var waiting: [(Failure?) -> Void] = []
    /// When it was last used, steady ms.
    package var usedAt: Int64 = 0
    /// Children that the queries hold and that have a point, when last weighed. `heldAtLastCheck` is the value at the last check of every view.
    package var held = 0
    package var points = 0
    package var heldAtLastCheck = 0
    /// Sum of the views' held children, when each was last counted.
    package private(set) var counted = 0
    /// Views that have no observer any more, or not yet.
    package var emptied: [View] = []
    /// Views whose observers must still receive the whole result.
    package var awaitingResult: [View] = []
    /// Views whose observers are about to end.
    package var ending: Set<ObjectIdentifier> = []

    private struct Name: Hashable {
        let query: Query
        let showing: LiveQueryView.Showing
    }

    package init(_ path: Path, _ settings: WindowSettings) {
        self.path = path
        queries = QuerySet(settings)
    }

    /// True while a large change is applied in the background.
    package var isInBackground: Bool { lastSeen != nil }
    /// True while background work runs for it, or requests wait.
    package var isBusy: Bool { isInBackground || isFilling || searches > 0 || isCollecting || !waiting.isEmpty }
    package var count: Int { named.count }
    package var views: [View] { Array(named.values) }
    /// True if observers have pending notifications.
    package var hasPendingNotifications: Bool { isInBackground || !deferred.isEmpty }

    package func view(of query: Query, _ showing: LiveQueryView.Showing) -> View? { named[Name(query: query, showing: showing)] }
    package func view(of view: LiveQueryView) -> View? { byQuery[ObjectIdentifier(view)] }

    /// Number of views that take their next children from this order.
    package func views(needing ordering: TreeQuery.Index) -> Int {
        named.values.count { $0.live?.view.refillOrder == ordering }
    }

    /// Adds a view of the queries.
    package func add(_ view: LiveQueryView, lanes: Int) -> View {
        if let known = self.view(of: view) { return known }
        let shown = ShownLiveQuery(view, self)
        counted += shown.held
        let made = View(path: path, query: view.query, shown: .live(shown), lanes: lanes)
        named[Name(query: view.query, showing: view.showing)] = made
        byQuery[ObjectIdentifier(view)] = made
        // No observer has taken it yet.
        emptied.append(made)
        return made
    }

    /// Removes a view without observers. Not while the queries are in the background.
    package func remove(_ view: LiveQueryView) {
        named[Name(query: view.query, showing: view.showing)] = nil
        if let known = byQuery.removeValue(forKey: ObjectIdentifier(view))?.live { counted -= known.held }
        deferred[ObjectIdentifier(view)] = nil
        queries.remove(view)
    }

    /// Counts the children that each view holds. Not while the queries are in the background. O(views)
    /// - Returns: the views whose number has changed.
    package func recount() -> [View] {
        counted = queries.held
        return named.values.filter { $0.live?.recount() ?? false }
    }

    /// Takes the views that wait for an order, without those removed meanwhile.
    package func takeUnordered() -> ContiguousArray<LiveQueryView> {
        defer { unordered = [] }
        return unordered.filter { byQuery[ObjectIdentifier($0)] != nil }
    }

    /// What to send the observers of a view. Nil while the view shows too few children; its events are then held back.
    /// - Parameters:
    ///   - change: nil to send only events held back before.
    ///   - content: the content after the change.
    package func release(_ change: LiveQueryView.Change?, of view: LiveQueryView, _ content: Node) -> LiveChange? {
        if view.isShort {
            if let events = change?.events { deferred[ObjectIdentifier(view), default: []].append(events) }
            return nil
        }
        let earlier = deferred.isEmpty ? [] : deferred.removeValue(forKey: ObjectIdentifier(view)) ?? []
        if change == nil, earlier.allSatisfy(\.isEmpty) { return nil }
        return liveChange(change, earlier, of: view, content)
    }

    /// Number of commits whose events are held back for a view.
    package func deferredCount(of view: LiveQueryView) -> Int { deferred.isEmpty ? 0 : deferred[ObjectIdentifier(view)]?.count ?? 0 }

    /// The whole result of a view.
    package func all(of view: LiveQueryView, _ content: Node) -> LiveChange { liveChange(nil, [], of: view, content) }

    /// The difference between another view's result and this one's.
    /// - Parameter wantsShown: true if its receiver also wants all that is shown.
    package func liveChange(_ change: LiveQueryView.Change, of view: LiveQueryView, _ content: Node, wantsShown: Bool) -> LiveChange {
        LiveChange(
            change: change, earlier: [], query: view.query, count: view.count, shown: wantsShown ? queries.shown(view, over: content) : nil)
    }

    private func liveChange(
        _ change: LiveQueryView.Change?, _ earlier: [ContiguousArray<LiveEvent>], of view: LiveQueryView, _ content: Node
    ) -> LiveChange {
        var made = LiveChange(change: change, earlier: earlier, query: view.query, count: view.count, shown: nil)
        let wanted = self.view(of: view)?.wanted ?? []
        // Observers of patches receive a whole result as a value.
        let wantsShown = wanted.contains(.value) || made.isWhole && wanted.contains(.patches)
        if wantsShown { made.shown = queries.shown(view, over: content) }
        return made
    }
}

/// The result of a live query. `LiveQueryUpdater` updates it with the others of its place, so this class only returns the whole result.
package final class ShownLiveQuery {
    package let view: LiveQueryView
    private unowned let place: ObservedQuerySet
    /// Children that the view held when last counted. The view itself must not be read while the queries are in the background.
    package private(set) var held: Int
    package init(_ view: LiveQueryView, _ place: ObservedQuerySet) {
        self.view = view
        self.place = place
        held = view.held
    }

    /// Counts the children that the view holds. Not while the queries are in the background.
    /// - Returns: true if the number has changed.
    package func recount() -> Bool {
        defer { held = view.held }
        return held != view.held
    }

    /// The whole result. Nil while it is not known; its observers then receive it later.
    package func all(of node: Node) -> Difference? {
        if place.isInBackground || view.isShort {
            if let view = place.view(of: view) { place.awaitingResult.append(view) }
            return nil
        }
        return .live(place.all(of: view, node), of: node)
    }

    /// The keys of the shown children. O(shown · log n)
    package func keys(of node: Node) -> ContiguousArray<Key> { place.queries.shown(view, over: node) }
}
