package import Commits
package import JSONTree
package import LiveQueries

/// A node of the observer trie: a place with views, indexes or dependents (observers whose permission depends on it), or an ancestor of one. Confined
/// to the database queue.
package final class TrieNode {
    package let path: Path
    package var children: [Key: TrieNode] = [:]
    /// The view of the whole place.
    private var whole: View?
    /// Views of queries, grouped by order.
    private var ordered: [OrderedViews] = []
    /// Live queries with conditions or circles. Managed by `LiveQueryUpdater`.
    package var queried: ObservedQuerySet?
    /// Indexes of the children, other than by key. Few, and changed in place.
    package private(set) var indexes: [ChildIndex] = []
    /// Managed by `PlaceTrie`.
    package var dependents: [ObjectIdentifier: Dependent] = [:]
    /// The dependents that also depend on everything below. Managed by `PlaceTrie`.
    var wholeDependents: [ObjectIdentifier: Dependent] = [:]
    /// Number of whole dependents here and below. Managed by `PlaceTrie`.
    var dependentsWithin = 0

    package init(path: Path) { self.path = path }

    package var isEmpty: Bool { !isActive && dependents.isEmpty && children.isEmpty }
    /// True if writes must visit this place.
    var isActive: Bool { whole != nil || !ordered.isEmpty || !indexes.isEmpty || queried != nil }

    // MARK: Views

    /// Appends the view if it is the only one, is plain, and nothing else here needs writes. Returns false if the place needs the full fan-out.
    func collectPlainView(into views: inout [View]) -> Bool {
        guard ordered.isEmpty, indexes.isEmpty, queried == nil else { return false }
        guard let whole else { return true }
        if whole.isPlain { views.append(whole) }
        return whole.isPlain
    }

    /// All views, including those of live queries. O(views)
    var allViews: [View] { views + (queried?.views ?? []) }

    /// The views of the whole place and of windows. O(views)
    package var views: [View] { (whole.map { [$0] } ?? []) + ordered.flatMap(\.all) }

    package func existingView(_ query: Query?, for style: ObserverStyle) -> View? {
        guard let query else { return whole }
        return query.isPlain ? existingView(query.tree) : queried?.view(of: query, style.isCount ? .count : .children)
    }

    private func existingView(_ query: TreeQuery?) -> View? {
        guard let query else { return whole }
        return order(query.orderedBy).flatMap { ordered[$0][query] }
    }

    /// The view of a window, or of the whole place; created if missing.
    /// - Parameter window: what the query shows now. Evaluated only if the view is missing.
    package func view(_ query: TreeQuery?, lanes: Int, window: @autoclosure () -> QueryWindow?) -> View {
        if let view = existingView(query) { return view }
        let shown = query.map { Shown.window(ShownWindow($0, window())) } ?? .place
        let view = View(path: path, query: query.map { Query($0) }, shown: shown, lanes: lanes)
        guard let query else {
            whole = view
            return view
        }
        let at = order(query.orderedBy) ?? ordered.count
        if at == ordered.count { ordered.append(OrderedViews(query.orderedBy)) }
        ordered[at].insert(view, of: query)
        existingIndex(query.orderedBy)?.views += 1
        return view
    }

    /// Removes a view without observers.
    package func removeView(_ query: TreeQuery?) {
        guard let query else { return whole = nil }
        guard let at = order(query.orderedBy), ordered[at].remove(query) else { return }
        if ordered[at].isEmpty { ordered.remove(at: at) }
        existingIndex(query.orderedBy)?.views -= 1
    }

    /// Calls `body` with each affected view, and with the changes in the view's order. Views whose range is a single value are found by that value.
    /// O(orders + views without a single-value range + affected views)
    /// - Parameter children: nil if the whole place was written, or too many to list: then all views are affected.
    package func views(concernedBy children: [ChildChange]?, _ body: (View, [PlacedChild]) -> Void) {
        if let whole { body(whole, []) }
        guard let children else {
            for view in ordered.lazy.flatMap(\.all) { body(view, []) }
            return
        }
        for views in ordered {
            let changes = children.placed(by: views.ordering)
            views.concerned(by: changes) { body($0, changes) }
        }
    }

    package func views(by ordering: TreeQuery.Index) -> [View] { order(ordering).map { ordered[$0].all } ?? [] }

    private func order(_ ordering: TreeQuery.Index) -> Int? { ordered.firstIndex { $0.ordering == ordering } }

    // MARK: Indexes

    package func existingIndex(_ ordering: TreeQuery.Index) -> ChildIndex? { indexes.first { $0.ordering == ordering } }

    package func add(_ kept: ChildIndex) {
        kept.views = (order(kept.ordering).map { ordered[$0].count } ?? 0) + (queried?.views(needing: kept.ordering) ?? 0)
        indexes.append(kept)
    }

    package func remove(_ kept: ChildIndex) { indexes.removeAll { $0 === kept } }

    /// The children in an order; nil if its index is not ready.
    package func children(of node: Node, by ordering: TreeQuery.Index) -> OrderedChildren? {
        if ordering == .key { return .byKey(node.children) }
        return existingIndex(ordering)?.index.map { .indexed($0, of: node.children) }
    }
}

#if DEBUG
    extension TrieNode {
        package func check(over node: Node, _ found: inout Invariants) {
            for id in wholeDependents.keys { found.check(dependents[id] != nil, "a whole dependent of \(path) is no dependent") }
            for views in ordered { found.check(!views.isEmpty, "an order of \(path) without views") }
            for index in indexes {
                let needed = (order(index.ordering).map { ordered[$0].count } ?? 0) + (queried?.views(needing: index.ordering) ?? 0)
                found.check(index.views, is: needed, "views of \(index.ordering.text) at \(path)")
                found.check(!index.isDropped, "a dropped index at \(path)")
                guard let sorted = index.index else { continue }
                let others = sorted.isSparse ? node.children.count { index.ordering.place($0, $1).value.isNull } : 0
                found.check(sorted.count, is: node.childCount - others, "children of \(index.ordering.text) at \(path)")
            }
            for view in views {
                guard case .window(let window) = view.shown else { continue }
                found.check(window.holds(over: node, at: self), "the window of \(path) differs from its order")
            }
        }
    }
#endif
