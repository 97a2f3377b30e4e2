/// The children of a place in some order; for key order the tree itself is the index.
public enum OrderedChildren: Sendable {
    case byKey(ChildMap)
    case indexed(OrderedIndex)

    /// Calls `body` for children in ascending order, from the first one that the start bound admits, until it returns false.
    public func ascend(from bound: OrderBound?, _ body: (OrderedChild) -> Bool) {
        switch self {
        case .indexed(let index): index.ascend(from: bound, body)
        case .byKey(let children):
            var start: Key?
            switch bound?.key {
            case .highest: return
            case .key(let key): start = key
            case .lowest, nil: break
            }
            for (key, _) in children.ascending(from: start) {
                let child = OrderedChild(value: .null, key: key)
                if let bound, !bound.admitsAsStart(child) { continue }
                if !body(child) { return }
            }
        }
    }

    /// Calls `body` for children in descending order, from the last one that the end bound admits, until it returns false.
    public func descend(from bound: OrderBound?, _ body: (OrderedChild) -> Bool) {
        switch self {
        case .indexed(let index): index.descend(from: bound, body)
        case .byKey(let children):
            var start: Key?
            switch bound?.key {
            case .lowest: return
            case .key(let key): start = key
            case .highest, nil: break
            }
            for (key, _) in children.descending(from: start) {
                let child = OrderedChild(value: .null, key: key)
                if let bound, !bound.admitsAsEnd(child) { continue }
                if !body(child) { return }
            }
        }
    }
}

extension OrderedChildren {
    /// The most steps that `TreeQuery.extent` takes.
    public var extentSteps: Int { if case .indexed(let index) = self { 3 * index.parts } else { 0 } }

    fileprivate func rank(of child: OrderedChild) -> Int {
        switch self {
        case .byKey(let children): children.rank(of: child.key)
        case .indexed(let index): index.rank(of: child)
        }
    }

    fileprivate func child(at rank: Int) -> OrderedChild? {
        switch self {
        case .byKey(let children): children.key(at: rank).map { OrderedChild(value: .null, key: $0) }
        case .indexed(let index): index.child(at: rank)
        }
    }
}

extension TreeQuery {
    /// The number of selected children, and the outermost of them on the side that the limit cuts; nil if the selection is empty. Visits no
    /// child: O(log n) by key, O(log n + n / 256) in another order.
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

    /// The selected children; nil if there are more than `most`. Visits no more than those.
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
