import GRDB

/// The durable state of each namespace, by name. A failed transaction undoes its changes. O(changes)
///
/// Confined to the journal queue.
final class Registry: @unchecked Sendable {
    // Sendable: confined to the journal queue.

    private(set) var rows: [String: Row]
    /// Removed namespaces whose rows still exist, by their stored names (`Schema.removedName`).
    private(set) var removed: [String: Row]
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

    /// - Parameter rows: those of removed namespaces included.
    init(_ rows: [String: Row]) {
        self.rows = rows.filter { !Schema.isRemoved($0.key) }
        removed = rows.filter { Schema.isRemoved($0.key) }
    }

    subscript(name: String) -> Row? { rows[name] }

    /// The last durable commit of a namespace; 0 before the first one.
    func last(of name: String) -> UInt64 { rows[name]?.last ?? 0 }

    /// The row of a namespace, which is stored if it is new. Within a transaction; `set` must follow.
    func register(_ name: String, _ db: Database) throws -> Row {
        if let known = rows[name] { return known }
        try db.execute(sql: "INSERT INTO namespace (name) VALUES (?)", arguments: [name])
        return Row(id: db.lastInsertedRowID, last: 0, snapshotSequence: 0, epoch: 0)
    }

    /// Sets a row within a transaction.
    func set(_ row: Row, for name: String) { replaced.append((name, rows.updateValue(row, forKey: name))) }

    /// Removes a namespace within a transaction; its rows remain.
    func drop(_ name: String, _ row: Row) {
        replaced.append((name, rows.removeValue(forKey: name)))
        removed[Schema.removedName(name, row.id)] = row
    }

    /// The rows of a removed namespace are gone.
    func forget(removed id: Int64) { removed = removed.filter { $0.value.id != id } }

    /// Keeps the changes: the transaction is durable.
    func keep() { replaced.removeAll(keepingCapacity: true) }

    /// Undoes the changes: the transaction has failed.
    func restore() {
        for (name, row) in replaced.reversed() {
            rows[name] = row
            if let row { removed[Schema.removedName(name, row.id)] = nil }
        }
        replaced.removeAll(keepingCapacity: true)
    }
}
