import JSONTree

/// The tree as it would be after a commit, with what was written: the third stage. It shares all that the writes do not touch with
/// the tree that it was made on. Pure: on any queue.
struct Candidate: Sendable {
    /// The tree that it was made on.
    let base: Node
    private(set) var tree: Node
    /// What is stored where, in the order of the writes.
    private(set) var operations: [TreeWrite.Operation] = []
    /// ms since the epoch: the time of the commit.
    let now: Int64

    /// O(depth and size of the writes)
    /// - Throws: when the tree cannot hold what a write stores.
    init(_ writes: [TreeWrite], on base: Node, now: Int64) throws(Failure) {
        self.base = base
        self.now = now
        tree = base
        operations.reserveCapacity(writes.count)
        for write in writes {
            let value = ServerValues.resolve(write, in: tree, now: now)
            try WriteShape.check(value, of: write)
            switch write.part {
            case .node: tree.set(value, at: write.path)
            case .priority: tree.setPriority(value, at: write.path)
            }
            operations.append((write.path, write.part, value))
        }
    }
}

extension TreeWrite {
    /// What was written: the resolved value at a place.
    typealias Operation = (path: Path, part: Part, value: Node)
}
