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
        return patches.keepingPriorities(below: path, from: old, to: new) ?? []
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
        return patches.keepingPriorities(below: change.path, from: change.old, to: change.new, isOwnShown: false) ?? patches
    }
}

extension [(path: Path, value: Node)] {
    /// Observers apply patches one after another. If these remove all old children of a node, it is empty in between, and an observer forgets its
    /// priority, which the node keeps in the tree (contract check 87). So one patch with the whole node replaces those below it.
    ///
    /// It holds nothing else: a node without old children has only written ones. O(removals · depth · log n)
    /// - Parameters:
    ///   - old: the value of the place before; nil if unknown. Then it is assumed to have had other children.
    ///   - isOwnShown: whether observers see the priority of the place itself.
    /// - Returns: nil if that node is the place itself.
    package func keepingPriorities(
        below place: Path, from old: Node?, to new: Node, isOwnShown: Bool = true
    ) -> [(path: Path, value: Node)]? {
        guard count > 1 else { return self }
        var whole: [Path: Node] = [:]
        for patch in self where patch.value.isNull {
            // The nearest node above that still exists: those below it have no priority any more, and those above it kept a child.
            var (node, depth) = (new, place.depth)
            while depth < patch.path.depth, case let child = node.child(patch.path.keys[depth]), child.exists { (node, depth) = (child, depth + 1) }
            guard node.hasChildren, !node.priority.isNull, depth > place.depth || isOwnShown else { continue }
            if let before = old?.node(at: patch.path.keys[place.depth..<depth]) {
                guard before.hasChildren, !before.children.contains(where: { node.child($0.key).exists }) else { continue }
            }
            whole[Path(patch.path.keys[..<depth])] = node
        }
        if whole.isEmpty { return self }
        if whole[place] != nil { return nil }
        var kept: [(path: Path, value: Node)] = []
        var sent: Set<Path> = []
        for patch in self {
            let above = (place.depth + 1..<patch.path.depth).lazy.map { Path(patch.path.keys[..<$0]) }.first { whole[$0] != nil }
            if let above, let node = whole[above] {
                if sent.insert(above).inserted { kept.append((above, node)) }
            } else {
                kept.append(patch)
            }
        }
        return kept
    }
}
