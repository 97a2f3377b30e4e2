import Journal
import JSONTree

/// The durable content of one namespace.
struct DurableState {
    var root = Node.null
    var pending = PendingSessions()
    var beside = StateBesideTree()

    mutating func apply(_ operation: JournalOperation) {
        switch operation {
        case .pending(let change): pending.apply(change)
        case .written, .open, .pendingRows, .peer, .delivery, .watch: beside.apply(operation, in: root)
        case .set, .priority, .add: root.apply(operation)
        }
    }

    mutating func apply(_ operations: [JournalOperation]) { for operation in operations { apply(operation) } }
}
