/// The children of a place in some order; for key order the tree itself is the index.
public enum OrderedChildren: Sendable {
    case byKey(ChildMap)
    /// An index, and the children it was built of, which a sparse one does not contain.
    case indexed(OrderedIndex, of: ChildMap)

    /// Calls `body` for children in ascending order, from the first one that the start bound admits, until it returns false.
    public func ascend(from bound: OrderBound?, _ body: (OrderedChild) -> Bool) {
        switch self {
        case .byKey(let children): _ = Self.ascend(children, from: bound, body)
        case .indexed(let index, let children):
            if omitsChildren, bound?.admitsNull ?? true, !Self.ascend(children, from: bound, without: index.ordering, body) { return }
            index.ascend(from: bound, body)
        }
    }

    /// Calls `body` for children in descending order, from the last one that the end bound admits, until it returns false.
    public func descend(from bound: OrderBound?, _ body: (OrderedChild) -> Bool) {
        switch self {
        case .byKey(let children): Self.descend(children, from: bound, body)
        case .indexed(let index, let children):
            guard omitsChildren else { return index.descend(from: bound, body) }
            var continues = true
            index.descend(from: bound) {
                continues = body($0)
                return continues
            }
            // A bound behind the first value does not restrict those without one.
            if continues { Self.descend(children, from: bound.flatMap { $0.admitsNull ? $0 : nil }, without: index.ordering, body) }
        }
    }

    /// True if a sparse index leaves out some of the children.
    private var omitsChildren: Bool {
        guard case .indexed(let index, let children) = self else { return false }
        return index.isSparse && index.count < children.count
    }

    /// - Parameter ordering: skips children that have a value in this order.
    /// - Returns: false if `body` did.
    private static func ascend(
        _ children: ChildMap, from bound: OrderBound?, without ordering: TreeQuery.Index? = nil, _ body: (OrderedChild) -> Bool
    ) -> Bool {
        var start: Key?
        switch bound?.key {
        case .highest: return true
        case .key(let key): start = key
        case .lowest, nil: break
        }
        for (key, node) in children.ascending(from: start) where ordering?.place(key, node).value.isNull ?? true {
            let child = OrderedChild(value: .null, key: key)
            if let bound, !bound.admitsAsStart(child) { continue }
            if !body(child) { return false }
        }
        return true
    }

    private static func descend(
        _ children: ChildMap, from bound: OrderBound?, without ordering: TreeQuery.Index? = nil, _ body: (OrderedChild) -> Bool
    ) {
        var start: Key?
        switch bound?.key {
        case .lowest: return
        case .key(let key): start = key
        case .highest, nil: break
        }
        for (key, node) in children.descending(from: start) where ordering?.place(key, node).value.isNull ?? true {
            let child = OrderedChild(value: .null, key: key)
            if let bound, !bound.admitsAsEnd(child) { continue }
            if !body(child) { return }
        }
    }
}

extension OrderedChildren {
    /// The most steps that `TreeQuery.extent` takes.
    public var extentSteps: Int {
        guard case .indexed(let index, _) = self else { return 0 }
        return omitsChildren ? 100 * index.count : 3 * index.parts
    }

    fileprivate func rank(of child: OrderedChild) -> Int {
        switch self {
        case .byKey(let children): return children.rank(of: child.key)
        case .indexed(let index, let children):
            guard omitsChildren else { return index.rank(of: child) }
            guard child.value.isNull else { return children.count - index.count + index.rank(of: child) }
            let rank = children.rank(of: child.key)
            return rank - index.valuedRanks(in: children).count { $0 < rank }
        }
    }

    fileprivate func child(at rank: Int) -> OrderedChild? {
        switch self {
        case .byKey(let children): return children.key(at: rank).map { OrderedChild(value: .null, key: $0) }
        case .indexed(let index, let children):
            let others = omitsChildren ? children.count - index.count : 0
            guard rank < others else { return index.child(at: rank - others) }
            // Behind those with a value that come before it by key.
            let at = index.valuedRanks(in: children).reduce(rank) { at, valued in valued <= at ? at + 1 : at }
            return children.key(at: at).map { OrderedChild(value: .null, key: $0) }
        }
    }
}

extension TreeQuery {
    /// The number of selected children, and the outermost of them on the side that the limit cuts; nil if the selection is empty. Visits no
    /// child: O(log n) by key, O(log n + n / 256) in another order, O(m log n) if a sparse index has m entries.
    public func extent(in children: OrderedChildren) -> (count: Int, edge: OrderedChild?) {
        var ends: (first: OrderedChild?, last: OrderedChild?)
        children.ascend(from: lowerBound) {
            ends.first = $0
            return false
        }
        children.descend(from: upperBound) {
            ends.last = $0
            return false
        }
        guard let first = ends.first, let last = ends.last, first.order(last) <= 0 else { return (0, nil) }
        let (low, high) = (children.rank(of: first), children.rank(of: last) + 1)
        let count = min(high - low, limit ?? .max)
        return (count, children.child(at: keeps == .first ? low + count - 1 : high - count))
    }

    /// The selected children in ascending order. O(log n + result)
    public func select(from children: OrderedChildren) -> ContiguousArray<OrderedChild> { select(from: children, first: limit ?? .max) }

    /// The selected children; nil if there are more than `most`. Visits no more than those, and the entries of a sparse index between them.
    public func select(from children: OrderedChildren, atMost most: Int) -> ContiguousArray<OrderedChild>? {
        let selected = select(from: children, first: min(limit ?? .max, most + 1))
        return selected.count > most ? nil : selected
    }

    /// - Parameter most: where to stop, counted from the side that the limit keeps.
    private func select(from children: OrderedChildren, first most: Int) -> ContiguousArray<OrderedChild> {
        var selected = ContiguousArray<OrderedChild>()
        if limit == nil || keeps == .first {
            let upper = upperBound
            children.ascend(from: lowerBound) { child in
                if let upper, !upper.admitsAsEnd(child) { return false }
                selected.append(child)
                return selected.count < most
            }
        } else {
            let lower = lowerBound
            children.descend(from: upperBound) { child in
                if let lower, !lower.admitsAsStart(child) { return false }
                selected.append(child)
                return selected.count < most
            }
            selected.reverse()
        }
        return selected
    }

    /// The bytes that `value(of:in:)` copies, including the names. O(result · log n)
    public static func copiedBytes(of selected: some Sequence<OrderedChild>, in node: Node) -> Int {
        let children = node.children
        return selected.reduce(0) { sum, child in
            let name = child.key.text.utf8Count
            let value = children[child.key]?.packedSize ?? PackedTag.slotBytes + 8
            return sum + (PackedEntry.keyBytes(name) + 2 + value) * 5 / 4 + NodeCost.text(name)
        }
    }

    /// The query's result as a value: the selected children without the place's own priority. Null for a leaf, a missing place or an empty
    /// selection (contract §3.3).
    public static func value(of selected: some Sequence<OrderedChild>, in node: Node) -> Node {
        let children = node.children
        return .object(selected.lazy.map { ($0.key, children[$0.key] ?? .null) })
    }
}
