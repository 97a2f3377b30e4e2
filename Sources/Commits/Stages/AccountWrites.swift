package import JSONTree
import SecurityRules

extension [AccountWrite] {
    /// The writes of one commit: those still due in a tree, in order, and none below a path that another one removes. O(count · depth)
    package func due(in root: Node) -> [TreeWrite] {
        let removed = Set(lazy.filter { $0.value.isNull }.map(\.path))
        var made: Set<Path> = []
        return compactMap { write in
            guard write.isDue(in: root), made.insert(write.path).inserted else { return nil }
            var above = write.path
            while !above.isRoot {
                above = above.parent
                if removed.contains(above) { return nil }
            }
            return TreeWrite(write.path, WriteValue(write.value))
        }
    }
}
