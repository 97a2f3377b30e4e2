/// The durable state of each namespace, by name. What a transaction changes in it is taken back when the transaction fails. O(changes)
struct Registry {
    private(set) var rows: [String: Row]
    /// What the transaction under way has replaced, in order.
    private var replaced: [(name: String, row: Row?)] = []

    /// The row of a namespace.
    struct Row {
        let id: Int64
        /// The last durable commit.
        var last: UInt64
        /// The last commit in the stored snapshot.
        var snapshotSequence: UInt64
        /// The newest of its writers.
        var epoch: UInt64
    }

    init(_ rows: [String: Row]) { self.rows = rows }

    subscript(name: String) -> Row? { rows[name] }

    /// Within a transaction.
    mutating func set(_ row: Row, for name: String) { replaced.append((name, rows.updateValue(row, forKey: name))) }

    /// The transaction is durable.
    mutating func keep() { replaced.removeAll(keepingCapacity: true) }

    /// The transaction has failed.
    mutating func restore() {
        for (name, row) in replaced.reversed() { rows[name] = row }
        replaced.removeAll(keepingCapacity: true)
    }
}
