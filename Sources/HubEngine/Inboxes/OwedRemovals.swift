import Journal
import JSONTree
import SecurityRules

/// What commits owe of removals: places that go because others went, a part in each later commit.
extension OwedRows.Item {
    /// Whether these are removals, in place of rows.
    var removes: Bool { ContinuedRemovals.areDescribed(by: terms) }

    /// The next of the places that are there still, and were not written since the removal.
    func removals(_ keys: [Key], in tree: Node) -> [TreeWrite] {
        keys.compactMap { key in
            let path = Path(relative: key.string)
            return isKept(path) || !tree.exists(at: path) ? nil : TreeWrite(path, WriteValue(.null))
        }
    }

    /// Whether a place, or one above it, was written since the removal: what is there now does not go with it. O(depth)
    private func isKept(_ path: Path) -> Bool {
        guard !without.isEmpty else { return false }
        return (0...path.depth).contains { without.contains(Path(path.keys.prefix($0)).owedKey) }
    }

    /// What a client's commit keeps of the places that are to go: those that it writes, and those that it makes again.
    /// - Parameters:
    ///   - paths: where something is written.
    ///   - old: the tree before, in which places below the written ones may be gone already.
    func kept(by paths: [Path], old: Node, in tree: Node) -> [JournalOperation] {
        var kept: [Key] = []
        for path in paths where tree.exists(at: path) {
            // Places above it that were gone are made again. While which places are to go is not known yet, all of them count.
            for depth in 1..<max(1, path.depth) {
                let place = Path(path.keys.prefix(depth))
                if !old.exists(at: place), !isListed || lists(place.owedKey) { kept.append(place.owedKey) }
            }
            let key = path.owedKey
            if !isListed || lists(key) || listsBelow(path) { kept.append(key) }
        }
        return kept.filter { !without.contains($0) }.map { .owed(.without(id, $0)) }
    }

    private func listsBelow(_ path: Path) -> Bool {
        if path.isRoot { return firstListed(from: path.owedKey) != nil }
        let below = path.owedKey.string + "/"
        return firstListed(from: Key(below))?.string.hasPrefix(below) ?? false
    }
}

extension Path {
    /// Its name in the list of what a removal owes.
    fileprivate var owedKey: Key { Key(relativeText) }
}

extension ContinuedRemovals {
    /// The list of what follows from them, ascending.
    func list(_ rules: RuleSet, in tree: Node) -> [Key] { rules.removed(by: self, in: tree).map { Key($0.relativeText) }.sorted() }
}
