import JSONTree

/// What a view currently shows of a place, updated with each commit.
///
/// Confined to the database queue.
enum Shown {
    /// Everything stored there.
    case place
    /// The children that a query selects.
    case window(ShownWindow)
    /// The result of a live query. `LiveQueryUpdater` updates it with the others of its place.
    case live(ShownLiveQuery)

    /// True if all writes below the place are shown unchanged. Only then may observers receive the writes themselves, or parts of the place.
    var showsWrites: Bool { if case .place = self { true } else { false } }

    /// Applies a commit that touched the place.
    /// - Parameters:
    ///   - children: the children that contain the writes.
    ///   - placed: the same children with their positions in the order of the query.
    /// - Returns: what its observers receive. Nil if the commit changes nothing shown, or if the result is not yet known.
    func apply(_ change: Change, _ children: [ChildChange], _ placed: [PlacedChild], at place: TrieNode) -> Difference? {
        switch self {
        case .place: change.isOverwritten ? .value(change.new, before: change.old) : .children(children, .byKey(change.new.children), change)
        case .window(let window): window.apply(change, children, placed, at: place)
        case .live: nil
        }
    }

    /// Applies many writes at once. The differences are computed later. O(log n)
    func move(along change: Change, at place: TrieNode) -> Difference? {
        switch self {
        case .place: .written(change)
        case .window(let window): window.move(along: change, at: place)
        case .live: nil
        }
    }

    /// The part of the writes that may change the result. O(log writes) where the order allows a search.
    func part(of change: Change) -> Change {
        if case .window(let window) = self { window.part(of: change) } else { change }
    }

    /// Everything that is shown now. Nil while it is not known yet; observers then receive it later.
    func all(of node: Node, at place: TrieNode) -> Difference? {
        switch self {
        case .place: .value(node, before: node)
        case .window(let window): window.all(of: node, at: place)
        case .live(let query): query.all(of: node)
        }
    }

    /// Starts again from `node`, after an overwrite or a rollback.
    func reset(over node: Node, at place: TrieNode) { if case .window(let window) = self { window.reset(over: node, at: place) } }
}

/// What a commit changed in a view. `ViewChange` makes patches (realtime protocol, event streams), child events (observe protocol) and values of it.
enum Difference: Sendable {
    /// The whole place may differ.
    case value(Node, before: Node)
    /// Everything that a query shows may differ, because the place was overwritten.
    /// - since: the content that its observers have last seen; nil if it is not compared.
    case selection(TreeQuery, OrderedChildren, of: Node, since: Node?)
    /// These children differ. A child not shown before or after is null there. Observers receive the writes below children that were shown before,
    /// and whole children otherwise.
    case children([ChildChange], SiblingOrder, Change)
    /// Many writes below the place, all of which is shown.
    indirect case written(Change)
    /// Many writes to children that a query showed before, or shows now in this order.
    indirect case moved(QueryWindow, Change, over: OrderedChildren)
    /// A change of a live query, or its whole result, in this content.
    indirect case live(LiveChange, of: Node)

    /// The same difference for observers whose last seen content is `lastSeen`.
    func since(_ lastSeen: Node) -> Difference {
        switch self {
        case .value(let value, _): .value(value, before: lastSeen)
        case .selection(let query, let children, let node, _): .selection(query, children, of: node, since: lastSeen)
        case .children, .written, .moved, .live: self
        }
    }

    /// How many children are shown now; nil if the count is unchanged. O(1); like `QueryWindow.countShown` for a window not yet counted; O(children
    /// that differ).
    var count: Int? {
        switch self {
        case .value(let value, let before):
            return value.childCount == before.childCount && !value.isIdentical(to: before) ? nil : value.childCount
        case .selection(let query, let children, _, _): return query.extent(in: children).count
        case .children(let differing, let order, _):
            let change = differing.reduce(0) { $0 + ($1.old.isNull ? 1 : 0) - ($1.new.isNull ? 1 : 0) }
            return change == 0 ? nil : order.count
        case .written(let change): return change.old.childCount == change.new.childCount ? nil : change.new.childCount
        case .live(let change, _): return change.hasOtherCount ? change.count : nil
        case .moved(let window, _, let children):
            // The window is the previous one: its count is known if it was counted.
            let now = window.query.extent(in: children).count
            return window.counted == now ? nil : now
        }
    }
}

/// The order of the children that a view shows.
enum SiblingOrder: Sendable {
    case byKey(ChildMap)
    case window(QueryWindow, OrderedChildren, of: Node)

    /// The key of the sibling before a shown child; nil for the first one. O(log n)
    func sibling(before key: Key) -> Key? {
        switch self {
        case .byKey(let children): children.key(before: key)
        case .window(let window, let children, let node): window.sibling(before: key, in: node, over: children)
        }
    }

    var count: Int {
        switch self {
        case .byKey(let children): return children.count
        case .window(var window, let children, _): return window.countShown(over: children)
        }
    }

    /// True if a child shown before and after has, or may have, another position: the value that it is ordered by differs.
    func hasMoved(_ child: ChildChange) -> Bool {
        guard case .window(let window, _, _) = self, window.query.orderedBy != .key else { return false }
        let ordering = window.query.orderedBy
        return ordering.place(child.key, child.old).value.valueOrder(ordering.place(child.key, child.new).value) != 0
    }

    /// Shown children in the view's order. O(n log n), or O(1) in key order.
    func sorted(_ children: [ChildChange]) -> [ChildChange] {
        guard children.count > 1, case .window(let window, _, _) = self else { return children }
        let ordering = window.query.orderedBy
        let places = children.map { ordering.place($0.key, $0.new) }
        return children.indices.sorted { places[$0].order(places[$1]) < 0 }.map { children[$0] }
    }
}

/// Shows the children that a query selects.
final class ShownWindow {
    private let query: TreeQuery
    /// Nil while its index is being built.
    private var window: QueryWindow?
    /// True if an observer receives the number of shown children.
    var counts = false

    /// - Parameter window: what the query shows now.
    init(_ query: TreeQuery, _ window: QueryWindow?) {
        self.query = query
        self.window = window
    }

    func apply(_ change: Change, _ children: [ChildChange], _ placed: [PlacedChild], at place: TrieNode) -> Difference? {
        if change.isOverwritten { return all(of: change.new, at: place)?.since(change.old) }
        guard let order = place.children(of: change.new, by: query.orderedBy) else { return nil }
        // `order` is the one after the commit. A count taken from it must not be adjusted by this commit again.
        defer { if counts { _ = window?.countShown(over: order) } }
        guard let differing = window?.apply(placed, of: children, from: change.old, to: change.new, over: order), let window else { return nil }
        return differing.isEmpty ? nil : .children(differing, .window(window, order, of: change.new), change)
    }

    func part(of change: Change) -> Change {
        guard let window else { return change.part(change.range.prefix(0)) }
        return query.orderedBy == .key ? change.part(change.shown(in: window)) : change
    }

    func move(along change: Change, at place: TrieNode) -> Difference? {
        guard let before = window, let children = place.children(of: change.new, by: query.orderedBy) else { return nil }
        window = QueryWindow(query, over: children)
        if counts { _ = window?.countShown(over: children) }
        return .moved(before, change, over: children)
    }

    func all(of node: Node, at place: TrieNode) -> Difference? {
        guard window != nil, let children = place.children(of: node, by: query.orderedBy) else { return nil }
        return .selection(query, children, of: node, since: nil)
    }

    func reset(over node: Node, at place: TrieNode) {
        let children = place.children(of: node, by: query.orderedBy)
        window = children.map { QueryWindow(query, over: $0) }
        if counts, let children { _ = window?.countShown(over: children) }
    }
}

extension QueryWindow {
    /// Applies a commit to the window. Returns the shown children that differ. O(changes · log n)
    /// - Parameters:
    ///   - placed: the changed children, with their positions in the order.
    ///   - children: the same children. A single one is not looked up again.
    mutating func apply(
        _ placed: [PlacedChild], of children: [ChildChange], from old: Node, to new: Node, over order: OrderedChildren
    ) -> [ChildChange] {
        let moved = apply(placed, over: order)
        var differing: [ChildChange] = []
        differing.reserveCapacity(moved.left.count + moved.entered.count + moved.stayed.count)
        func add(_ key: Key, wasShown: Bool, isShown: Bool) {
            let known = children.count == 1 && children[0].key == key ? children[0] : nil
            differing.append(
                ChildChange(
                    key: key, old: wasShown ? known?.old ?? old.child(key) : .null, new: isShown ? known?.new ?? new.child(key) : .null))
        }
        for key in moved.left { add(key, wasShown: true, isShown: false) }
        for key in moved.entered { add(key, wasShown: false, isShown: true) }
        for key in moved.stayed { add(key, wasShown: true, isShown: true) }
        return differing
    }
}

#if DEBUG
    extension ShownWindow {
        /// True if the window is what the query shows of a node, or is not ready.
        func holds(over node: Node, at place: TrieNode) -> Bool {
            guard let window, let children = place.children(of: node, by: query.orderedBy) else { return true }
            return window.holds(over: children)
        }
    }
#endif
