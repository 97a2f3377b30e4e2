import JSONTree

extension RuleSet {
    /// The tree after applying everything a commit leaves pending, for small trees: one row or removal at a time. Like a hub, it skips
    /// writes that a `.validate` or a bound refuses.
    /// - Parameters:
    ///   - old: the tree before the commit.
    ///   - tree: the tree after it.
    ///   - sent: on return with the deliveries of these commits, too.
    func continuing(
        _ rows: [ContinuedRows], _ removals: ContinuedRemovals?, hits: [WatchPair] = [], old: Node, in tree: Node, now: Int64,
        sending sent: inout [RuleDelivery]
    ) -> Node {
        var (tree, pending) = (tree, rows.map { DeferredWork.rows($0) }[...])
        if !hits.isEmpty { pending.append(.hits(hits)) }
        func removed(by removals: ContinuedRemovals, _ old: Node, _ new: Node) -> DeferredWork {
            .removals(self.removed(by: removals.ofRemovals, in: old) + self.removed(by: removals.ofChanges, in: new))
        }
        if let removals { pending.insert(removed(by: removals, old, tree), at: 0) }
        while let next = pending.popFirst() {
            let writes: [(path: Path, value: Node)] = switch next {
            case .rows(let rows): (reached(by: rows, in: tree) ?? []).map { (rows.place(of: $0), rows.value) }
            case .removals(let places): places.map { ($0, .null) }
            case .hits(let pairs): self.rows(of: pairs, in: tree, now: now)
            }
            for (path, value) in writes {
                var after = tree
                after.set(value, at: path)
                var (work, limits) = (textWork, ConsequenceLimits())
                limits.continuesRemovals = .always
                guard after.node(at: path) != tree.node(at: path), isValidSystemWrite([path], old: tree, new: after, now: now),
                    let found = try? consequences(of: [path], old: tree, new: after, by: .administrator, now: now, limits: limits),
                    admits(found, old: tree, now: now, textWork: &work)
                else { continue }
                pending += found.continued.map { .rows($0.rows) }
                if !found.continuedHits.isEmpty { pending.append(.hits(found.continuedHits)) }
                if let more = found.continuedRemovals { pending.append(removed(by: more, tree, found.tree)) }
                sent += found.deliveries
                tree = found.tree
            }
        }
        return tree
    }

    private enum DeferredWork {
        case rows(ContinuedRows)
        case removals([Path])
        case hits([WatchPair])
    }
}
