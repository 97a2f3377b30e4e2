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
        var work = Int.max
        return try commit(writes, if: condition, by: identity, pending: pending, textWork: &work)
    }

    /// - Parameter work: that the rules may do on texts; what they did is taken off.
    func commit(
        _ writes: [TreeWrite], if condition: Condition? = nil, by identity: Identity, pending: [PendingChange] = [],
        textWork work: inout Int
    ) throws(Failure) -> UInt64 {
        let now = clock()
        let (candidate, operations) = try TreeWrite.apply(writes, to: root, now: now)
        // Permission is asked before the hash, so that a stranger learns nothing about the content (contract §4.6).
        guard isPermitted(.write, writes, candidate, identity, now: now, textWork: &work) else { throw .permissionDenied }
        if let condition {
            // A large one is compared in the background; when that was always overtaken, nobody knows.
            guard let isSame = root.node(at: condition.path).hasHash(condition.hash, within: limits.hashNodes) else { throw .overtaken }
            if !isSame { throw .dataStale }
        }
        guard !writes.isEmpty else { return sequence }
        try mustTakeWrites()
        let old = root
        root = candidate
        sequence += 1
        counters.commits += 1
        spent += writes.count
        commits.append(Commit(sequence: sequence, operations: operations, pending: pending))
        let paths = writes.map(\.path)
        if recent.followers > 0 { recent.note(paths) }
        recheckDependents(of: paths, old: old)
        fanOut(paths, old: old)
        return sequence
    }

    /// Refuses writes that are not carried out now but could not be either.
    func check(_ writes: [TreeWrite], _ identity: Identity) throws(Failure) {
        var work = Int.max
        try check(writes, identity, textWork: &work)
    }

    /// - Parameter work: that the rules may do on texts; what they did is taken off.
    func check(_ writes: [TreeWrite], _ identity: Identity, textWork work: inout Int) throws(Failure) {
        let now = clock()
        let candidate = try TreeWrite.apply(writes, to: root, now: now).candidate
        guard isPermitted(.onDisconnect, writes, candidate, identity, now: now, textWork: &work) else { throw .permissionDenied }
    }

    private func isPermitted(
        _ request: RuledRequest, _ writes: [TreeWrite], _ candidate: Node, _ identity: Identity, now: Int64, textWork work: inout Int
    ) -> Bool {
        if identity.isAdmin { return true }
        let locations = writes.map(\.path)
        if rules.allowsWrite(locations, old: root, new: candidate, auth: identity.auth, now: now, textWork: &work) { return true }
        note(request) { _ in
            RuleQuestion(operation: .write(locations), rules: rules, old: root, new: candidate, auth: identity.auth, now: now)
        }
        return false
    }

    /// The tree as it would be after writes that are not made.
    func candidate(_ writes: [TreeWrite], now: Int64) throws(Failure) -> Node {
        dispatchPrecondition(condition: .onQueue(queue))
        return try TreeWrite.apply(writes, to: root, now: now).candidate
    }
}
