import Dispatch
import JSONTree
import SecurityRules

extension Core {
    /// Writes all or nothing, in order, and tells the observers. O(depth · writes + observers touched)
    /// - Parameter pending: what becomes durable together with the writes.
    /// - Returns: the commit's sequence number; that of the last commit when nothing was to be written.
    func commit(
        _ writes: [TreeWrite], if condition: Condition? = nil, by identity: Identity, pending: [PendingChange] = []
    ) throws(Failure) -> UInt64 {
        let now = clock()
        let (candidate, operations) = try apply(writes, now: now)
        // Permission is asked before the hash, so that a stranger learns nothing about the content (contract §4.6).
        guard isPermitted(.write, writes, candidate, identity, now: now) else { throw .permissionDenied }
        if let condition, !root.node(at: condition.path).hasHash(condition.hash) { throw .dataStale }
        guard !writes.isEmpty else { return sequence }
        try mustTakeWrites()
        let old = root
        root = candidate
        sequence += 1
        counters.commits += 1
        commits.append(Commit(sequence: sequence, operations: operations, pending: pending))
        let paths = writes.map(\.path)
        recheckDependents(of: paths, old: old)
        fanOut(paths, old: old)
        return sequence
    }

    /// Refuses writes that are not carried out now but could not be either.
    func check(_ writes: [TreeWrite], _ identity: Identity) throws(Failure) {
        let now = clock()
        guard isPermitted(.onDisconnect, writes, try apply(writes, now: now).candidate, identity, now: now) else { throw .permissionDenied }
    }

    private func isPermitted(_ request: RuledRequest, _ writes: [TreeWrite], _ candidate: Node, _ identity: Identity, now: Int64) -> Bool {
        if identity.isAdmin { return true }
        let locations = writes.map(\.path)
        if rules.allowsWrite(locations, old: root, new: candidate, auth: identity.auth, now: now) { return true }
        note(request) { _ in
            RuleQuestion(operation: .write(locations), rules: rules, old: root, new: candidate, auth: identity.auth, now: now)
        }
        return false
    }

    /// The tree as it would be after writes that are not made.
    func candidate(_ writes: [TreeWrite], now: Int64) throws(Failure) -> Node {
        dispatchPrecondition(condition: .onQueue(queue))
        return try apply(writes, now: now).candidate
    }

    /// The tree after the writes; the current one shares all that they do not touch.
    ///
    /// What the tree cannot hold is refused here, whatever protocol let it through (contract §4.1, §4.2).
    private func apply(_ writes: [TreeWrite], now: Int64) throws(Failure) -> (candidate: Node, [(path: Path, part: TreeWrite.Part, value: Node)]) {
        var candidate = root
        var operations: [(path: Path, part: TreeWrite.Part, value: Node)] = []
        operations.reserveCapacity(writes.count)
        for write in writes {
            let value: Node
            switch write.part {
            case .node:
                value = write.value.deferred.isEmpty
                    ? write.value.node : write.value.resolved(current: candidate.node(at: write.path), now: now)
                guard value.fits(below: write.path.depth) else { throw .tooDeep }
                candidate.set(value, at: write.path)
            case .priority:
                value = write.value.deferred.isEmpty
                    ? write.value.node : write.value.resolved(current: candidate.node(at: write.path).priority, now: now)
                guard value.canBePriority else { throw .badPriority }
                candidate.setPriority(value, at: write.path)
            }
            operations.append((write.path, write.part, value))
        }
        return (candidate, operations)
    }
}

extension Failure {
    static let tooDeep = Failure(.failure, "\(JSONError.tooDeep(offset: 0))")
    static let badPriority = Failure(.failure, "\(JSONError.invalidPriority(offset: 0))")
}
