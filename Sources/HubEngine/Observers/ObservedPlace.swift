import JSONTree

/// A place with observers at or below it: its views and the indexes that they need. Confined to the database queue.
final class ObservedPlace {
    let path: Path
    var children: [Key: ObservedPlace] = [:]
    /// Views by query; nil for the view of the whole place.
    private(set) var views: [TreeQuery?: View] = [:]
    /// Orders of the children other than by key, while a live query needs them: few, and changed in place.
    private var indexes: [(ordering: TreeQuery.Index, index: OrderedIndex)] = []

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
        let view = View(path: path, query: query, window: window, lanes: lanes)
        views[query] = view
        return view
    }

    func existingView(_ query: TreeQuery?) -> View? { views[query] }

    /// Forgets a view without observers, and the index that only it needed.
    func removeView(_ query: TreeQuery?) {
        views[query] = nil
        guard let ordering = query?.orderedBy else { return }
        if !views.keys.contains(where: { $0?.orderedBy == ordering }) { indexes.removeAll { $0.ordering == ordering } }
    }

    // MARK: Indexes

    /// The index of an order, if a live query keeps it.
    func existingIndex(_ ordering: TreeQuery.Index) -> OrderedIndex? { indexes.first { $0.ordering == ordering }?.index }

    /// The children in an order; its index is built on first use. O(n log n) then, O(1) later.
    func children(of node: Node, by ordering: TreeQuery.Index) -> OrderedChildren {
        if ordering == .key { return .byKey(node.object?.children ?? ChildMap()) }
        if let index = existingIndex(ordering) { return .indexed(index) }
        let index = OrderedIndex(ordering, of: node)
        indexes.append((ordering, index))
        return .indexed(index)
    }

    /// Brings every index up to date with changed children. O(indexes · children · log n)
    func updateIndexes(_ changes: [ChildChange]) {
        for i in indexes.indices {
            let ordering = indexes[i].ordering
            for change in changes {
                let (was, now) = (ordering.place(change.key, change.old), ordering.place(change.key, change.new))
                if change.old.exists, change.new.exists, was.order(now) == 0 { continue }
                if change.old.exists { indexes[i].index.remove(was) }
                if change.new.exists { indexes[i].index.insert(now) }
            }
        }
    }

    /// After the whole place was written: indexes are built anew when next used, windows now.
    func rebuild(over node: Node) {
        indexes = []
        for view in views.values {
            guard let query = view.query else { continue }
            view.window = QueryWindow(query, over: children(of: node, by: query.orderedBy))
        }
    }
}

/// One child of a place before and after a commit; null where it does not exist.
struct ChildChange {
    let key: Key
    let old: Node
    let new: Node
}
