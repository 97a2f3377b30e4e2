import Journal
import JSONTree

/// The durable content of one namespace.
struct DurableState {
    var root = Node.null
    var pending = PendingSessions()
    var written = WrittenTimes()
    var pendingRows = PendingInboxRows()
    var peers = PeerRequests()

    mutating func apply(_ operation: JournalOperation) {
        switch operation {
        case .pending(let change): pending.apply(change)
        case .written, .open: written.apply(operation)
        case .pendingRows(let change): pendingRows.apply(change, in: root)
        case .peer(let change): peers.apply(change)
        case .set, .priority, .add: root.apply(operation)
        }
    }

    mutating func apply(_ operations: [JournalOperation]) { for operation in operations { apply(operation) } }
}
