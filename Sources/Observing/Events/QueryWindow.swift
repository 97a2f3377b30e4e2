package import Commits
package import JSONTree

/// The window of children that a query shows, updated as children change. The cost depends on the change, not on the size of the place or the window.
///
///     index order   … | ▇ ▇ ▇ ▇ ▇ | … … …        a window of limitToFirst(5)
///                            edge ┘  └ the next children, found in the index when a child leaves
///
/// The children themselves are in the index. A window with a limit stores its count and, while full, its outermost child. Without a limit it is just
/// the range. So a thousand windows of 100,000 children cost next to nothing.
package struct QueryWindow: Sendable {
    /// The immutable part, as one reference: a window is copied for each change that it shows.
    private final class Range: Sendable {
        let query: TreeQuery
        let lower: OrderBound?
        let upper: OrderBound?

        init(_ query: TreeQuery) {
            self.query = query
            lower = query.lowerBound
            upper = query.upperBound
        }
    }

    private let range: Range
    package var query: TreeQuery { range.query }
    private var lower: OrderBound? { range.lower }
    private var upper: OrderBound? { range.upper }
    /// Number of children shown; only for queries with a limit.
    private var count = 0
    /// The same for a query without a limit, once requested.
    private var unlimited: Int?
    /// The outermost shown child on the side that the limit cuts off. Nil while fewer than the limit are shown.
    private var edge: OrderedChild?

    package struct Move {
        /// Children shown now but not before.
        package internal(set) var entered: [Key] = []
        /// Children shown before but not now.
        package var left: [Key] = []
        /// Changed children shown before and now.
        package internal(set) var stayed: [Key] = []
    }

    private init(_ query: TreeQuery) {
        range = Range(query)
    }

    /// Does not visit the shown children. O(log n) by key, O(log n + n / 256) in another order.
    package init(_ query: TreeQuery, over children: OrderedChildren) {
        self.init(query)
        guard let limit = query.limit else { return }
        let extent = query.extent(in: children)
        count = extent.count
        if count == limit { edge = extent.edge }
    }

    /// - Parameter selected: what the query selects now.
    package init(_ query: TreeQuery, showing selected: ContiguousArray<OrderedChild>) {
        self.init(query)
        guard let limit = query.limit else { return }
        count = selected.count
        if count == limit { edge = keepsFirst ? selected.last : selected.first }
    }

    /// The number of shown children, if known.
    package var counted: Int? { query.limit == nil ? unlimited : count }
    package var isCounted: Bool { query.limit != nil || unlimited != nil }

    /// The number of shown children, updated with changes from then on. The first call costs O(log n) by key, otherwise O(log n + n / 256).
    package mutating func countShown(over children: OrderedChildren) -> Int {
        if query.limit != nil { return count }
        let counted = unlimited ?? query.extent(in: children).count
        unlimited = counted
        return counted
    }

    /// Applies changes of children, at most one per child. O(changes · log n)
    /// - Parameter children: the order after the changes.
    package mutating func apply(_ changes: [PlacedChild], over children: OrderedChildren) -> Move {
        // First as if the edge did not move.
        var difference = Move()
        for change in changes {
            switch (change.old.map(shows) ?? false, change.new.map(shows) ?? false) {
            case (false, true): difference.entered.append(change.key)
            case (true, false): difference.left.append(change.key)
            case (true, true): difference.stayed.append(change.key)
            case (false, false): break
            }
        }
        guard let limit = query.limit else {
            if let before = unlimited { unlimited = before + difference.entered.count - difference.left.count }
            return difference
        }
        count += difference.entered.count - difference.left.count
        if count > limit {
            drop(count - limit, children, &difference)
        } else if count < limit, let edge {
            fill(limit - count, beyond: edge, children, &difference)
        } else if count == limit, edge.map({ edge in changes.contains { $0.key == edge.key } }) ?? true {
            edge = outermost(children)
        }
        return difference
    }

    /// The key of the sibling before a shown child, in the query's order; nil for the first child. O(log n)
    package func sibling(before key: Key, in node: Node, over children: OrderedChildren) -> Key? {
        let child = query.orderedBy.place(key, node.child(key))
        var found: Key?
        children.descend(from: OrderBound(excluding: child)) { other in
            if shows(other) { found = other.key }
            return false
        }
        return found
    }

    private var keepsFirst: Bool { query.keeps == .first }

    /// True if this position is in the range and not beyond the edge.
    private func shows(_ child: OrderedChild) -> Bool { !isBefore(child) && !isBehind(child) }

    /// True if this position comes before everything that the window can show without moving its edge.
    package func isBefore(_ child: OrderedChild) -> Bool {
        if let lower, !lower.admitsAsStart(child) { return true }
        if !keepsFirst, let edge { return child.order(edge) < 0 }
        return false
    }

    /// The same for positions after the window.
    package func isBehind(_ child: OrderedChild) -> Bool {
        if let upper, !upper.admitsAsEnd(child) { return true }
        if keepsFirst, let edge { return child.order(edge) > 0 }
        return false
    }

    /// Removes the outermost children from the window, or keeps them from entering.
    private mutating func drop(_ surplus: Int, _ children: OrderedChildren, _ difference: inout Move) {
        if surplus == 1 { return dropOne(children, &difference) }
        var dropped: Set<Key> = []
        let cut = edge.map { OrderBound(including: $0) } ?? (keepsFirst ? upper : lower)
        edge = nil
        walk(outward: false, from: cut, children) { child in
            if dropped.count == surplus {
                edge = child
                return false
            }
            dropped.insert(child.key)
            return true
        }
        count -= surplus
        var unshown = dropped
        difference.entered.removeAll { key in
            guard dropped.contains(key) else { return false }
            unshown.remove(key)
            return true
        }
        difference.stayed.removeAll { dropped.contains($0) }
        difference.left += unshown
    }

    /// The fast path for the usual commit, which adds one child: removes the outermost one.
    private mutating func dropOne(_ children: OrderedChildren, _ difference: inout Move) {
        var outermost: Key?
        let cut = edge.map { OrderBound(including: $0) } ?? (keepsFirst ? upper : lower)
        edge = nil
        walk(outward: false, from: cut, children) { child in
            if outermost == nil {
                outermost = child.key
                return true
            }
            edge = child
            return false
        }
        guard let outermost else { return }
        count -= 1
        if let at = difference.entered.firstIndex(of: outermost) {
            difference.entered.remove(at: at)
        } else {
            difference.stayed.removeAll { $0 == outermost }
            difference.left.append(outermost)
        }
    }

    /// Shows the next children beyond the edge, as far as they exist.
    private mutating func fill(_ missing: Int, beyond old: OrderedChild, _ children: OrderedChildren, _ difference: inout Move) {
        var found: [OrderedChild] = []
        walk(outward: true, from: OrderBound(excluding: old), children) { child in
            found.append(child)
            return found.count < missing
        }
        count += found.count
        edge = found.count == missing ? found.last : nil
        // A shown child that moved beyond the old edge may be shown again.
        let moved = Set(difference.left).intersection(found.lazy.map(\.key))
        if !moved.isEmpty {
            difference.left.removeAll { moved.contains($0) }
            difference.stayed += moved
        }
        difference.entered += found.lazy.map(\.key).filter { !moved.contains($0) }
    }

    /// The outermost child of a full window.
    private func outermost(_ children: OrderedChildren) -> OrderedChild? {
        var found: OrderedChild?
        walk(outward: false, from: edge.map { OrderBound(including: $0) } ?? (keepsFirst ? upper : lower), children) { child in
            found = child
            return false
        }
        return found
    }

    /// Calls `body` with the children of the range, starting at a bound, until it returns false. `outward` walks away from the end that the limit
    /// keeps.
    private func walk(outward: Bool, from bound: OrderBound?, _ children: OrderedChildren, _ body: (OrderedChild) -> Bool) {
        if outward == keepsFirst {
            children.ascend(from: bound) { [upper] child in (upper?.admitsAsEnd(child) ?? true) && body(child) }
        } else {
            children.descend(from: bound) { [lower] child in (lower?.admitsAsStart(child) ?? true) && body(child) }
        }
    }
}

extension QueryWindow {
    /// Applies a commit to the window. Returns the shown children that differ. O(changes · log n)
    /// - Parameters:
    ///   - placed: the changed children, with their positions in the order.
    ///   - children: the same children. A single one is not looked up again.
    package mutating func apply(
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

/// One child before and after a commit, at its positions in a query's order. Nil where it does not exist.
package struct PlacedChild: Sendable {
    package let key: Key
    package let old: OrderedChild?
    package let new: OrderedChild?

    package init(key: Key, old: OrderedChild?, new: OrderedChild?) {
        (self.key, self.old, self.new) = (key, old, new)
    }
}

#if DEBUG
    extension QueryWindow {
        package func holds(over children: OrderedChildren) -> Bool {
            let extent = query.extent(in: children)
            guard let limit = query.limit else { return unlimited == nil || unlimited == extent.count }
            return count == extent.count && edge?.key == (count == limit ? extent.edge?.key : nil)
        }
    }
#endif

extension Change {
    /// The writes that may move a window in key order: those within its bounds. O(log writes)
    package func shown(in window: QueryWindow) -> Range<Int> {
        func child(_ path: Path) -> OrderedChild { TreeQuery.Index.key.place(path.keys[self.path.depth], .null) }
        let first = paths.partition(range) { !window.isBefore(child($0)) }
        return first..<paths.partition(first..<range.upperBound) { window.isBehind(child($0)) }
    }
}

extension [ChildChange] {
    /// The changes with their positions in an order.
    package func placed(by ordering: TreeQuery.Index) -> [PlacedChild] {
        map { child in
            PlacedChild(
                key: child.key, old: child.old.exists ? ordering.place(child.key, child.old) : nil,
                new: child.new.exists ? ordering.place(child.key, child.new) : nil)
        }
    }
}
