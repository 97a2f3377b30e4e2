import JSONTree

/// Orders of children that live queries need, brought up to date beside the queue with a large write before it is made. Its commit takes
/// them over, so that the queries are told of it before the writer has its answer.
///
/// ```
/// queue:   orders of now ──► parked ───────────────► commit: what others have changed meanwhile is followed ──► told ──► answer
/// beside:                └► following the write ┘
/// ```
struct PreparedOrders: Sendable {
    struct Order: Sendable {
        let path: Path
        let ordering: TreeQuery.Index
        /// The children of `node` in that order.
        var sorted: OrderedIndex
        var node: Node
    }

    private var orders: [Order] = []

    var isEmpty: Bool { orders.isEmpty }
    /// Most orders of one write. What needs more shows its commit when it has been brought up to date, behind the answer.
    static let most = 16
    var isFull: Bool { orders.count >= Self.most }

    /// Memory that following them may take.
    var bytes: Int { orders.reduce(0) { $0 + $1.sorted.count * OrderedIndex.bytesOfEntry } }

    mutating func add(_ path: Path, _ ordering: TreeQuery.Index, _ sorted: OrderedIndex, of node: Node) {
        orders.append(Order(path: path, ordering: ordering, sorted: sorted, node: node))
    }

    /// The same orders of another tree. O(children that differ · log n); where more than half do, they are sorted anew.
    func following(_ tree: Node) -> PreparedOrders {
        var followed = self
        for i in orders.indices {
            let (ordering, node) = (orders[i].ordering, tree.node(at: orders[i].path))
            if !followed.orders[i].sorted.follow(ordering, from: orders[i].node, to: node, atMost: node.childCount / 2) {
                followed.orders[i].sorted = OrderedIndex(ordering, of: node)
            }
            followed.orders[i].node = node
        }
        return followed
    }

    /// An order of a place as it is now, if it differs in no more than `most` children from what was prepared. O(most · log n)
    func sorted(_ path: Path, by ordering: TreeQuery.Index, of node: Node, atMost most: Int) -> OrderedIndex? {
        guard var order = orders.first(where: { $0.ordering == ordering && $0.path == path }),
            order.sorted.follow(ordering, from: order.node, to: node, atMost: most)
        else { return nil }
        return order.sorted
    }
}
