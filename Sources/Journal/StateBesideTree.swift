public import JSONTree

/// What a namespace keeps beside its tree, except the sessions' onDisconnect writes. The same commits change both, and both are stored and
/// restored together.
public struct StateBesideTree: Sendable {
    /// When nodes were last written, if the rules need that.
    public var written = WrittenTimes()
    /// Inbox rows and removals that commits left pending.
    public var pendingRows = PendingInboxRows()
    /// Which requests of other hubs were carried out.
    public var peers = PeerRequests()
    /// Deliveries to phones, mailboxes and other programs that are still due.
    public var deliveries = PendingDeliveries()
    /// Until when watches are silent about what they have found.
    public var watchHits = WatchHits()

    public init() {}

    /// - Parameter root: the tree with the preceding operations of the same commit applied.
    public mutating func apply(_ operation: JournalOperation, in root: Node) {
        switch operation {
        case .written, .open: written.apply(operation)
        case .pendingRows(let change): pendingRows.apply(change, in: root)
        case .peer(let change): peers.apply(change)
        case .delivery(let id, let item): deliveries.apply(id, item)
        case .watch(let change): watchHits.apply(change)
        case .set, .priority, .add, .pending: break
        }
    }

    /// The operations that recreate this value from an empty one.
    public var operations: [JournalOperation] {
        var all = written.operations
        pendingRows.forEach { all.append(.pendingRows($0)) }
        all += peers.changes.map { .peer($0) }
        deliveries.forEach { all.append(.delivery($0, $1)) }
        all += watchHits.changes.map { .watch($0) }
        return all
    }
}
