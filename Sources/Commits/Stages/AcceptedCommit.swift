package import Journal
package import JSONTree
package import SecurityRules

/// A commit that has passed the rules, with its consequences: a candidate made on the database queue, or a write prepared in the background.
/// Immutable; a class, because many functions pass it on.
package final class AcceptedCommit {
    package let tree: Node
    package let found: Consequences?
    /// The operations to store, in order. The journal has staged the first part already if there is a `stage`.
    package let operations: [JournalOperation]
    package let moreOperations: [JournalOperation]
    package let stage: JournalStage?
    /// Where it writes, consequences included. For many paths, their common ancestor.
    package let paths: [Path]
    /// The paths written directly, without consequences.
    package let written: [Path]
    /// The paths whose content differs, ascending, none within another. Nil if they were not compared: then they are few.
    package let changed: [Path]?
    /// Where nodes may expire: those checked now, and those searched for in the background.
    package let expiring: WrittenNodes
    package let manyExpiring: WrittenPlaces?
    /// Where there may be copies, and whether a node exists at each of these paths.
    package let copied: [Path]
    package let exist: Bool
    /// The value that the only operation stores, if nothing follows from it.
    package let onlyValue: Node?
    /// Orders of children with the commit applied; nil if none were prepared for exactly this content.
    package let orders: PreparedOrders?

    /// - Parameter candidate: with the consequences added.
    package init(_ candidate: Candidate, _ found: Consequences?) {
        tree = candidate.tree
        self.found = found
        (operations, moreOperations, stage) = (candidate.operations, [], nil)
        (paths, written, changed) = (candidate.touched, candidate.paths, nil)
        let values = candidate.values()
        (expiring, manyExpiring) = (values.map(WrittenNodes.values) ?? .places(candidate.stored), nil)
        (copied, exist) = (paths, values != nil)
        (onlyValue, orders) = (found == nil ? candidate.onlyValue : nil, nil)
    }

    /// - Parameters:
    ///   - root: the tree before the commit.
    ///   - most: operations whose paths are recorded and searched one by one.
    package init(_ write: PreparedWrite, _ found: Consequences?, on root: Node, followedPlaces most: Int, _ stage: JournalStage?) {
        let (tree, more) = (found?.tree ?? write.candidate, found?.paths ?? [])
        (self.tree, self.found, self.stage) = (tree, found, stage)
        (operations, moreOperations) = (write.operations, found?.operations ?? [])
        let isFollowed = write.operations.count <= most
        (paths, written) = ((isFollowed ? write.paths : [write.commonAncestor]) + more, write.paths)
        // The consequences are few and compared here. The rest was compared in the background.
        changed = write.changed.with(more.filter { root.node(at: $0) != tree.node(at: $0) })
        expiring = .places(isFollowed ? write.stored + more : more)
        manyExpiring = isFollowed ? nil : write.expiring
        (copied, exist) = (write.copied + more, false)
        (onlyValue, orders) = (nil, more.isEmpty ? write.orders : nil)
    }
}
