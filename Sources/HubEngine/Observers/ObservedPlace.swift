import JSONTree
import LiveQueries

/// A node of the trie: a place with views, indexes or observers whose permission depends on what is stored there, or one on the way
/// to such a place. Confined to the database queue.
final class ObservedPlace {
    let path: Path
    var children: [Key: ObservedPlace] = [:]
    /// The view of the whole place.
    private var whole: View?
    /// Views of queries, by order.
    private var ordered: [OrderedViews] = []
    /// Live queries with conditions, and circles. Kept by `QueryKeeper`.
    var queried: QueriedPlace?
    /// Orders of the children other than by key: few, and changed in place.
    private(set) var indexes: [KeptIndex] = []
    /// Kept by `PlaceTrie`.
    var dependents: [ObjectIdentifier: Dependent] = [:]
    /// Those of them for which everything below counts as well. Kept by `PlaceTrie`.
    var wholeDependents: [ObjectIdentifier: Dependent] = [:]
    /// Of those, how many there are here and below. Kept by `PlaceTrie`.
    var dependentsWithin = 0

    /// Scratch of the commit being fanned out: indexes of its writes below this place, and whether one covers it whole.
    var touchedBy: [Int] = []
    var isOverwritten = false
    /// The same: a child before and after, where it was itself what was written last. Taken by `PlaceChange`.
    var writtenChild: (old: Node, new: Node)?

    init(path: Path) { self.path = path }

    var isEmpty: Bool { !isActive && dependents.isEmpty && children.isEmpty }
    /// Whether a write must look at this place.
    var isActive: Bool { whole != nil || !ordered.isEmpty || !indexes.isEmpty || queried != nil }

    // MARK: Views

    /// Adds the only view, if it is plain and nothing else here follows writes; false if there is more to be done for one.
    func collectPlainView(into views: inout [View]) -> Bool {
        guard ordered.isEmpty, indexes.isEmpty, queried == nil else { return false }
        guard let whole else { return true }
        if whole.isPlain { views.append(whole) }
        return whole.isPlain
    }

    /// All views, with those of live queries. O(views)
    var allViews: [View] { views + (queried?.views ?? []) }

    /// The views that follow from an order, or show all. O(views)
    var views: [View] { (whole.map { [$0] } ?? []) + ordered.flatMap(\.all) }

    /// Views of queries that follow from an order. O(orders)
    var windowCount: Int { ordered.reduce(0) { $0 + $1.count } }

    func existingView(_ query: ChildQuery?, for style: ObserverStyle) -> View? {
        switch query {
        case nil: whole
        case .window(let query)?: existingView(query)
        case .live(let query)?: queried?.view(of: query, style.isCount ? .count : .children)
        }
    }

    private func existingView(_ query: TreeQuery?) -> View? {
        guard let query else { return whole }
        return order(query.orderedBy).flatMap { ordered[$0][query] }
    }

    /// The view of a window, or of the whole place, made when missing.
    /// - Parameter window: what the query shows now; not asked for where there is a view already.
    func view(_ query: TreeQuery?, lanes: Int, window: @autoclosure () -> QueryWindow?) -> View {
        if let view = existingView(query) { return view }
        let shown: any LiveView = query.map { LiveWindow($0, window()) } ?? WholePlace()
        let view = View(path: path, query: query.map { .window($0) }, shown: shown, lanes: lanes)
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

    /// Forgets a view without observers.
    func removeView(_ query: TreeQuery?) {
        guard let query else { return whole = nil }
        guard let at = order(query.orderedBy), ordered[at].remove(query) else { return }
        if ordered[at].isEmpty { ordered.remove(at: at) }
        existingIndex(query.orderedBy)?.views -= 1
    }

    /// The views that changed children concern, each with the changes as its order sees them: those whose range is one value
    /// are found by it. O(orders + views without a range of one value + views concerned)
    /// - Parameter children: nil when the whole place was written: all views then.
    func views(concernedBy children: [ChildChange]?, _ body: (View, [QueryWindow.Change]) -> Void) {
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

    /// The views of an order.
    func views(by ordering: TreeQuery.Index) -> [View] { order(ordering).map { ordered[$0].all } ?? [] }

    private func order(_ ordering: TreeQuery.Index) -> Int? { ordered.firstIndex { $0.ordering == ordering } }

    // MARK: Indexes

    /// The index of an order, if one is kept.
    func existingIndex(_ ordering: TreeQuery.Index) -> KeptIndex? { indexes.first { $0.ordering == ordering } }

    func add(_ kept: KeptIndex) {
        kept.views = (order(kept.ordering).map { ordered[$0].count } ?? 0) + (queried?.views(needing: kept.ordering) ?? 0)
        indexes.append(kept)
    }

    func remove(_ kept: KeptIndex) { indexes.removeAll { $0 === kept } }

    /// The children in an order; nil when its index is not ready.
    func children(of node: Node, by ordering: TreeQuery.Index) -> OrderedChildren? {
        if ordering == .key { return .byKey(node.children) }
        return existingIndex(ordering)?.index.map { .indexed($0) }
    }
}

/// One child of a place before and after a commit; null where it does not exist.
struct ChildChange {
    let key: Key
    let old: Node
    let new: Node
}

extension [ChildChange] {
    /// The same as an order sees them.
    func placed(by ordering: TreeQuery.Index) -> [QueryWindow.Change] {
        map { child in
            QueryWindow.Change(
                key: child.key, old: child.old.exists ? ordering.place(child.key, child.old) : nil,
                new: child.new.exists ? ordering.place(child.key, child.new) : nil)
        }
    }
}
