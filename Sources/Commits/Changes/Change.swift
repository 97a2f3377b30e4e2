package import JSONTree

/// What one commit did to a place: its value before and after, and the writes below it. Everything that observers receive derives from it, on any
/// queue. Each view takes the part that affects it. A class, so that all views share it.
///
/// ```
/// commit   ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪     ascending; none lies below another
/// place        └────── range ──────┘
/// window             └ part ┘               in key order: where it shows children
/// ```
package final class Change: Sendable {
    package let path: Path
    package let old: Node
    package let new: Node
    /// All places that the commit has written. `range` selects those below this place.
    package let paths: [Path]
    package let range: Range<Int>
    /// True if the place itself or an ancestor was written. Then it has no writes below it.
    package let isOverwritten: Bool

    /// - Parameter range: the writes below the place; nil if it was overwritten.
    package init(at path: Path, from old: Node, to new: Node, by paths: [Path], below range: Range<Int>?) {
        self.path = path
        self.old = old
        self.new = new
        self.paths = paths
        self.range = range ?? 0..<0
        isOverwritten = range == nil
    }

    /// Number of writes below the place.
    package var count: Int { range.count }

    package func part(_ range: Range<Int>) -> Change { Change(at: path, from: old, to: new, by: paths, below: range) }

    /// The children that contain the writes, in key order; nil if more than `most`. O(children · log n), plus O(log writes) for each child with
    /// several writes.
    package func children(atMost most: Int = .max) -> [ChildChange]? {
        var children: [ChildChange] = []
        var next = range.lowerBound
        while next < range.upperBound {
            if children.count == most { return nil }
            let key = paths[next].keys[path.depth]
            children.append(ChildChange(key: key, old: old.child(key), new: new.child(key)))
            next += 1
            // Most often each child has one write; otherwise skip its writes by binary search.
            guard next < range.upperBound, paths[next].keys[path.depth] == key else { continue }
            next = paths.partition(next..<range.upperBound) { $0.keys[path.depth] != key }
        }
        return children
    }
}

/// One child of a place before and after a commit; null where it does not exist.
package struct ChildChange: Sendable {
    package let key: Key
    package let old: Node
    package let new: Node

    package init(key: Key, old: Node, new: Node) {
        (self.key, self.old, self.new) = (key, old, new)
    }
}

extension [Path] {
    /// The first index in the range for which `isBehind` is true, given that it stays true after that. O(log n)
    package func partition(_ range: Range<Int>, _ isBehind: (Path) -> Bool) -> Int {
        var (low, high) = (range.lowerBound, range.upperBound)
        while low < high {
            let middle = (low + high) / 2
            if isBehind(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// The subrange of ascending paths that have this key at this depth. All paths in `range` are deeper. O(log n)
    package func range(of key: Key, at depth: Int, in range: Range<Int>) -> Range<Int> {
        let first = partition(range) { $0.keys[depth] >= key }
        return first..<partition(first..<range.upperBound) { $0.keys[depth] > key }
    }
}
