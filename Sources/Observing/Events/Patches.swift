import Commits
package import JSONTree

extension Change {
    /// The writes below the place, with the values stored there now. Empty if the place must be sent as a whole, to keep its priority. O(writes · log n)
    /// - Parameter children: those that contain the writes (`children`).
    func patches(of children: [ChildChange]) -> [(path: Path, value: Node)] {
        var next = children.startIndex
        let patches = paths[range].map { written in
            let key = written.keys[path.depth]
            while children[next].key != key { next += 1 }
            return (path: written, value: children[next].new.node(at: written.keys[(path.depth + 1)...]))
        }
        return patches.keepingPriorities(below: path, in: new) ?? []
    }
}

extension [ChildChange] {
    /// A query's patches for a commit (contract §3.5): null for children that leave, whole children that enter, and the writes below all others.
    func patches(of change: Change) -> [(path: Path, value: Node)] {
        let depth = change.path.depth
        var patches: [(path: Path, value: Node)] = []
        var stayed: [(key: Key, new: Node)] = []
        for child in self {
            if child.new.isNull || child.old.isNull {
                patches.append((change.path.appending(child.key), child.new))
            } else {
                stayed.append((child.key, child.new))
            }
        }
        if stayed.isEmpty { return patches }
        let many = stayed.count > 8 ? [Key: Node](uniqueKeysWithValues: stayed.lazy.map { ($0.key, $0.new) }) : nil
        for written in change.paths[change.range] {
            let key = written.keys[depth]
            guard let child = many.map({ $0[key] }) ?? stayed.first(where: { $0.key == key })?.new else { continue }
            patches.append((written, child.node(at: written.keys[(depth + 1)...])))
        }
        // A result does not show the priority of its place.
        return patches.keepingPriorities(below: change.path, in: change.new, isOwnShown: false) ?? patches
    }
}

extension [(path: Path, value: Node)] {
    /// Observers apply patches one after another. If these remove children of a node and name all others, the node may be empty in between, and an
    /// observer forgets its priority, which the node keeps in the tree (contract check 87). So one patch with the whole node replaces those below
    /// it. It is no larger: they name all its children. O(patches · depth · log n)
    /// - Parameters:
    ///   - node: the value of the place.
    ///   - isOwnShown: whether observers see the priority of the place itself.
    ///   - isOneCommit: false if the patches are of several commits. Then a node may also have lost a priority in between.
    /// - Returns: nil if that node is the place itself.
    package func keepingPriorities(
        below place: Path, in node: Node, isOwnShown: Bool = true, isOneCommit: Bool = true
    ) -> [(path: Path, value: Node)]? {
        guard count > 1, contains(where: { $0.value.isNull }) else { return self }
        let isAscending = indices.dropFirst().allSatisfy { self[$0 - 1].path < self[$0].path }
        let patches = isAscending ? self : sorted { $0.path < $1.path }
        var kept: [(path: Path, value: Node)] = []

        /// - Returns: whether the patches remove anything, and whether the node has a child during all of them.
        func visit(_ range: Range<Int>, _ node: Node, _ depth: Int) -> (removes: Bool, isNeverEmpty: Bool) {
            let first = patches[range.lowerBound]
            if first.path.depth == depth {
                kept.append(first)
                return (first.value.isNull, false)
            }
            let start = kept.count
            var (removes, isNeverEmpty, named) = (false, false, 0)
            var rest = range
            while !rest.isEmpty {
                let key = patches[rest.lowerBound].path.keys[depth]
                let end = rest.first { patches[$0].path.keys[depth] != key } ?? rest.upperBound
                let child = node.child(key)
                let found = visit(rest.lowerBound..<end, child, depth + 1)
                removes = removes || found.removes
                isNeverEmpty = isNeverEmpty || found.isNeverEmpty
                if child.exists { named += 1 }
                rest = end..<rest.upperBound
            }
            isNeverEmpty = isNeverEmpty || node.childCount > named
            let isShown = depth > place.depth || isOwnShown
            if removes, !isNeverEmpty, node.hasChildren, isShown, !isOneCommit || !node.priority.isNull {
                kept.removeSubrange(start...)
                kept.append((Path(first.path.keys[..<depth]), node))
            }
            return (removes, isNeverEmpty)
        }
        _ = visit(patches.indices, node, place.depth)
        return kept.first?.path.depth == place.depth ? nil : kept
    }
}
