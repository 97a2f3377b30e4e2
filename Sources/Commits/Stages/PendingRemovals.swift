package import Journal
package import JSONTree
package import SecurityRules

/// Pending removals: paths removed because others were removed, a part in each follow-up commit. The log keeps them as pending inbox rows with
/// terms of their own, so that both are continued in one order.
extension PendingInboxRows.Item {
    /// Whether these are removals rather than rows.
    package var removes: Bool { ContinuedRemovals.areDescribed(by: terms) }

    /// The removals among these paths that still exist and were not written since.
    package func removals(_ keys: [Key], in tree: Node) -> [TreeWrite] {
        keys.compactMap { key in
            let path = Path(relative: key.string)
            return isKept(path) || !tree.exists(at: path) ? nil : TreeWrite(path, WriteValue(.null))
        }
    }

    /// Whether the path or an ancestor was written since the removal. Its current content is then kept. O(depth)
    private func isKept(_ path: Path) -> Bool {
        guard !without.isEmpty else { return false }
        return (0...path.depth).contains { without.contains(Path(path.keys.prefix($0)).listKey) }
    }

    /// The pending removals that a client's commit cancels: paths that it writes, and ancestors that it creates again.
    /// - Parameters:
    ///   - paths: the written paths.
    ///   - old: the tree before, in which nodes below the written ones may be gone already.
    package func kept(by paths: [Path], old: Node, in tree: Node) -> [JournalOperation] {
        var kept: [Key] = []
        for path in paths where tree.exists(at: path) {
            // Ancestors that were gone are created again. While the list of removals is unknown, all of them count.
            for depth in 1..<max(1, path.depth) {
                let place = Path(path.keys.prefix(depth))
                if !old.exists(at: place), !isListed || lists(place.listKey) { kept.append(place.listKey) }
            }
            let key = path.listKey
            if !isListed || lists(key) || listsBelow(path) { kept.append(key) }
        }
        return kept.filter { !without.contains($0) }.map { .pendingRows(.without(id, $0)) }
    }

    private func listsBelow(_ path: Path) -> Bool {
        if path.isRoot { return firstListed(from: path.listKey) != nil }
        let below = path.listKey.string + "/"
        return firstListed(from: Key(below))?.string.hasPrefix(below) ?? false
    }
}

extension Path {
    /// Its key in the list of pending removals.
    fileprivate var listKey: Key { Key(relativeText) }
}

extension ContinuedRemovals {
    /// The paths to remove, ascending.
    package func list(_ rules: RuleSet, in tree: Node) -> [Key] { rules.removed(by: self, in: tree).map { Key($0.relativeText) }.sorted() }
}
