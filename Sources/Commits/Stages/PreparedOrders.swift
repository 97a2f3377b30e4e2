package import JSONTree

/// Orders that live queries need, updated off the queue with a large write before it is applied. The commit uses them, so the queries are notified
/// before the client is answered.
///
/// ```
/// queue:      current orders ──► suspended ──────────────────► commit: adds changes of other writes ──► observers notified ──► answer
/// background:            └► updated with the write ┘
/// ```
package struct PreparedOrders: Sendable {
    package struct Order: Sendable {
        package let path: Path
        package let ordering: TreeQuery.Index
        /// The children of `node` in this order.
        package var sorted: OrderedIndex
        package var node: Node
    }

    private var orders: [Order] = []

    package init() {}

    package var isEmpty: Bool { orders.isEmpty }
    /// Maximum number of orders for one write. Further orders are updated after the answer, and their observers notified then.
    package static let most = 16
    package var isFull: Bool { orders.count >= Self.most }

    /// Memory that updating the orders may take.
    package var bytes: Int { orders.reduce(0) { $0 + $1.sorted.count * OrderedIndex.bytesOfEntry } }

    package mutating func add(_ path: Path, _ ordering: TreeQuery.Index, _ sorted: OrderedIndex, of node: Node) {
        orders.append(Order(path: path, ordering: ordering, sorted: sorted, node: node))
    }

    /// The orders of another tree. O(children that differ · log n). If more than half differ, the order is sorted from scratch.
    package func following(_ tree: Node) -> PreparedOrders {
        var followed = self
        for i in orders.indices {
            let (ordering, node) = (orders[i].ordering, tree.node(at: orders[i].path))
            if !followed.orders[i].sorted.follow(from: orders[i].node, to: node, atMost: node.childCount / 2) {
                followed.orders[i].sorted = OrderedIndex(ordering, of: node)
            }
            followed.orders[i].node = node
        }
        return followed
    }

    /// The current order of a place, if it differs from the prepared one in at most `most` children. O(most · log n)
    package func sorted(_ path: Path, by ordering: TreeQuery.Index, of node: Node, atMost most: Int) -> OrderedIndex? {
        guard var order = orders.first(where: { $0.ordering == ordering && $0.path == path }),
            order.sorted.follow(from: order.node, to: node, atMost: most)
        else { return nil }
        return order.sorted
    }
}
