/// The durable state of each namespace, by name. A failed transaction undoes its changes. O(changes)
struct Registry {
    private(set) var rows: [String: Row]
    /// Rows that the current transaction has replaced, in order.
    private var replaced: [(name: String, row: Row?)] = []

    /// The row of a namespace.
    struct Row {
        let id: Int64
        /// The last durable commit.
        var last: UInt64
        /// The last commit in the stored snapshot.
        var snapshotSequence: UInt64
        /// The newest epoch of its writers.
        var epoch: UInt64
    }

    init(_ rows: [String: Row]) { self.rows = rows }

    subscript(name: String) -> Row? { rows[name] }

    /// Sets a row within a transaction.
    mutating func set(_ row: Row, for name: String) { replaced.append((name, rows.updateValue(row, forKey: name))) }

    /// Keeps the changes: the transaction is durable.
    mutating func keep() { replaced.removeAll(keepingCapacity: true) }

    /// Undoes the changes: the transaction has failed.
    mutating func restore() {
        for (name, row) in replaced.reversed() { rows[name] = row }
        replaced.removeAll(keepingCapacity: true)
    }
}
