import JSONTree

/// A place with observers at or below it: its views and the indexes that they need. Confined to the database queue.
final class ObservedPlace {
    let path: Path
    var children: [Key: ObservedPlace] = [:]
    /// Views by query; nil for the view of the whole place.
    private(set) var views: [TreeQuery?: View] = [:]
    /// Orders of the children other than by key, while a live query needs them.
    private var indexes: [TreeQuery.Index: OrderedIndex] = [:]

    /// Scratch of the commit being fanned out: indexes of its writes below this place, and whether one covers it whole.
    var touchedBy: [Int] = []
    var isOverwritten = false

    init(path: Path) { self.path = path }

    var isEmpty: Bool { views.isEmpty && children.isEmpty }
    /// Whether a write must look at this place.
    var isActive: Bool { !views.isEmpty }

    // MARK: Views

    /// The view of a query, made when missing.
    func view(_ query: TreeQuery?, over node: Node, lanes: Int) -> View {
        if let view = views[query] { return view }
        let window = query.map { QueryWindow($0, over: children(of: node, by: $0.orderedBy)) }
        let view = View(path: path, window: window, lanes: lanes)
        views[query] = view
        return view
    }

    func existingView(_ query: TreeQuery?) -> View? { views[query] }

    /// Forgets a view without observers, and the index that only it needed.
    func removeView(_ query: TreeQuery?) {
        views[query] = nil
        guard let ordering = query?.orderedBy else { return }
        if !views.keys.contains(where: { $0?.orderedBy == ordering }) { indexes[ordering] = nil }
    }

    // MARK: Indexes

    /// The index of an order, if a live query keeps it.
    func existingIndex(_ ordering: TreeQuery.Index) -> OrderedIndex? { indexes[ordering] }

    /// The children in an order; its index is built on first use. O(n log n) then, O(1) later.
    func children(of node: Node, by ordering: TreeQuery.Index) -> OrderedChildren {
        if ordering == .key { return .byKey(node.object?.children ?? ChildMap()) }
        if let index = indexes[ordering] { return .indexed(index) }
        let index = OrderedIndex(ordering, of: node)
        indexes[ordering] = index
        return .indexed(index)
    }

    /// Brings every index up to date with changed children. O(indexes · keys · log n)
    func updateIndexes(_ keys: [Key], old: Node, new: Node) {
        for ordering in indexes.keys {
            for key in keys {
                let (before, after) = (old.child(key), new.child(key))
                let (was, now) = (ordering.place(key, before), ordering.place(key, after))
                if before.exists, after.exists, was.order(now) == 0 { continue }
                if before.exists { indexes[ordering]?.remove(was) }
                if after.exists { indexes[ordering]?.insert(now) }
            }
        }
    }

    /// After the whole place was written: indexes are built anew when next used, windows now.
    func rebuild(over node: Node) {
        indexes = [:]
        for (query, view) in views {
            guard let query else { continue }
            view.window = QueryWindow(query, over: children(of: node, by: query.orderedBy))
        }
    }
}
