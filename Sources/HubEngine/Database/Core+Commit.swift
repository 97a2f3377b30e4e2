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

    // MARK: Fan-out

    /// Tells every view that the commit touched: once each, however many writes touched it (contract §2.5 rule 7). A write
    /// that left its place as it was is told to nobody.
    private func fanOut(_ paths: [Path], old: Node) {
        var touched: [View] = []
        for (index, path) in paths.enumerated() where old.node(at: path) != root.node(at: path) {
            observers.visit(touchedBy: path, old: old, new: root) { view, isBelow in
                if view.touchedBy.isEmpty, !view.isOverwritten { touched.append(view) }
                if isBelow { view.isOverwritten = true } else { view.touchedBy.append(index) }
            }
        }
        // A write at depth reads the same for every view above it, so its frame is shared among those too.
        var shared: [UInt8]?
        for view in touched {
            let change = change(of: view, paths, old: old)
            let isShared = change.patches.count == 1 && paths.count == 1
            for (style, audience) in view.audiences {
                if isShared, case .patches(tag: nil) = style {
                    let frame = shared ?? format.change(change, style: style)
                    shared = frame
                    output.send(frame, to: audience)
                } else {
                    output.send(format.change(change, style: style), to: audience)
                }
            }
            view.touchedBy.removeAll(keepingCapacity: true)
            view.isOverwritten = false
        }
    }

    private func change(of view: View, _ paths: [Path], old: Node) -> ViewChange {
        let (before, after) = (old.node(at: view.path), root.node(at: view.path))
        var patches: [(path: Path, value: Node)] = []
        if !view.isOverwritten {
            for index in view.touchedBy { patches.append((paths[index], root.node(at: paths[index]))) }
        }
        var events: [ChildEvent] = []
        if view.wantsEvents {
            var keys: [Key]?
            if !view.isOverwritten {
                var seen: Set<Key> = []
                keys = patches.compactMap { patch in
                    let key = patch.path.keys[view.path.depth]
                    return seen.insert(key).inserted ? key : nil
                }
                keys?.sort()
            }
            events = ChildEvent.events(from: before, to: after, keys: keys)
        }
        return ViewChange(path: view.path, sequence: sequence, old: before, new: after, patches: patches, events: events)
    }
}
