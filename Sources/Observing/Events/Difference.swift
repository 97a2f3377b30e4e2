package import Commits
package import JSONTree

/// What a commit changed in a view. `ViewChange` creates patches (realtime protocol, event streams), child events (observe protocol) and values from it.
package enum Difference: Sendable {
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
    package func since(_ lastSeen: Node) -> Difference {
        switch self {
        case .value(let value, _): .value(value, before: lastSeen)
        case .selection(let query, let children, let node, _): .selection(query, children, of: node, since: lastSeen)
        case .children, .written, .moved, .live: self
        }
    }

    /// How many children are shown now; nil if the count is unchanged. O(1); like `QueryWindow.countShown` for a window not yet counted; O(children
    /// that differ).
    package var count: Int? {
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
package enum SiblingOrder: Sendable {
    case byKey(ChildMap)
    case window(QueryWindow, OrderedChildren, of: Node)

    /// The key of the sibling before a shown child; nil for the first one. O(log n)
    package func sibling(before key: Key) -> Key? {
        switch self {
        case .byKey(let children): children.key(before: key)
        case .window(let window, let children, let node): window.sibling(before: key, in: node, over: children)
        }
    }

    package var count: Int {
        switch self {
        case .byKey(let children): return children.count
        case .window(var window, let children, _): return window.countShown(over: children)
        }
    }

    /// True if a child shown before and after has, or may have, another position: the value that it is ordered by differs.
    package func hasMoved(_ child: ChildChange) -> Bool {
        guard case .window(let window, _, _) = self, window.query.orderedBy != .key else { return false }
        let ordering = window.query.orderedBy
        return ordering.place(child.key, child.old).value.valueOrder(ordering.place(child.key, child.new).value) != 0
    }

    /// Shown children in the view's order. O(n log n), or O(1) in key order.
    package func sorted(_ children: [ChildChange]) -> [ChildChange] {
        guard children.count > 1, case .window(let window, _, _) = self else { return children }
        let ordering = window.query.orderedBy
        let places = children.map { ordering.place($0.key, $0.new) }
        return children.indices.sorted { places[$0].order(places[$1]) < 0 }.map { children[$0] }
    }
}
