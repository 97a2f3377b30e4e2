import Journal
import JSONTree

/// The tree as it would be after a commit, with what was written: the third stage. It shares all that the writes do not touch with
/// the tree that it was made on. Pure: on any queue.
struct Candidate: Sendable {
    /// The tree that it was made on.
    let base: Node
    private(set) var tree: Node
    /// The operations of the commit, in the order of the writes.
    private(set) var operations: [JournalOperation] = []
    /// Where they write.
    let paths: [Path]
    /// ms since the epoch: the time of the commit.
    let now: Int64

    /// O(depth and size of the writes)
    /// - Throws: when the tree cannot hold what a write stores.
    init(_ writes: [TreeWrite], on base: Node, now: Int64) throws(Failure) {
        self.base = base
        self.now = now
        tree = base
        paths = writes.map(\.path)
        operations.reserveCapacity(writes.count)
        for write in writes {
            let value = ServerValues.resolve(write, in: tree, now: now)
            try WriteShape.check(value, of: write)
            switch write.part {
            case .node:
                tree.set(value, at: write.path)
                operations.append(.set(write.path, value))
            case .priority:
                tree.setPriority(value, at: write.path)
                operations.append(.priority(write.path, value))
            }
        }
    }
}

extension JournalOperation {
    /// The stored value: the node, or the priority.
    var value: Node {
        switch self {
        case .set(_, let value), .priority(_, let value), .add(_, let value): value
        case .pending: .null
        }
    }
}
