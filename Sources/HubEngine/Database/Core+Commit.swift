import JSONTree
import SecurityRules

extension Core {
    /// Writes all or nothing, in order, and tells the observers. O(depth · writes + observers touched)
    /// - Returns: the commit's sequence number; that of the last commit when nothing was to be written.
    func commit(_ writes: [TreeWrite], expectedHash: String?, by identity: Identity) throws(Failure) -> UInt64 {
        let now = clock()
        let (candidate, operations) = apply(writes, now: now)
        // Permission is asked before the hash, so that a stranger learns nothing about the content (contract §4.6).
        guard isPermitted(writes, candidate, identity, now: now) else { throw .permissionDenied }
        if let expectedHash, let place = writes.first?.path, root.node(at: place).hash != expectedHash { throw .dataStale }
        guard !writes.isEmpty else { return sequence }
        let old = root
        root = candidate
        sequence += 1
        commits.append(Commit(sequence: sequence, operations: operations))
        fanOut(writes.map(\.path), old: old)
        return sequence
    }

    /// Whether the rules permit writes that are not carried out now.
    func mayWrite(_ writes: [TreeWrite], _ identity: Identity) -> Bool {
        let now = clock()
        return isPermitted(writes, apply(writes, now: now).candidate, identity, now: now)
    }

    private func isPermitted(_ writes: [TreeWrite], _ candidate: Node, _ identity: Identity, now: Int64) -> Bool {
        identity.isAdmin || rules.allowsWrite(writes.map(\.path), old: root, new: candidate, auth: identity.auth, now: now)
    }

    /// The tree after the writes; the current one shares all that they do not touch.
    private func apply(_ writes: [TreeWrite], now: Int64) -> (candidate: Node, [(path: Path, part: TreeWrite.Part, value: Node)]) {
        var candidate = root
        var operations: [(path: Path, part: TreeWrite.Part, value: Node)] = []
        operations.reserveCapacity(writes.count)
        for write in writes {
            let value: Node
            switch write.part {
            case .node:
                value = write.value.deferred.isEmpty
                    ? write.value.node : write.value.resolved(current: candidate.node(at: write.path), now: now)
                candidate.set(value, at: write.path)
            case .priority:
                value = write.value.deferred.isEmpty
                    ? write.value.node : write.value.resolved(current: candidate.node(at: write.path).priority, now: now)
                candidate.setPriority(value, at: write.path)
            }
            operations.append((write.path, write.part, value))
        }
        return (candidate, operations)
    }
}
