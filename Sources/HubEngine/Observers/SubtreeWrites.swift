import JSONTree

/// Many writes of one commit below an observed place. The database queue does not examine them all: each view takes the part that affects it, and a
/// large part is evaluated off the queue.
///
/// ```
/// commit   ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪     ascending
/// place        └────── range ──────┘
/// window             └ part ┘               in key order: where it shows children
/// ```
struct SubtreeWrites: Sendable {
    /// The observed place, with its values before and after the commit.
    let path: Path
    let old: Node
    let new: Node
    /// All places that the commit has written, ascending. `range` selects those below the observed place.
    let paths: [Path]
    private(set) var range: Range<Int>

    var count: Int { range.count }

    func part(_ range: Range<Int>) -> SubtreeWrites {
        var part = self
        part.range = range
        return part
    }

    /// The children that contain these writes, in key order; nil if more than `most`. O(children · log n), plus O(log writes) for each child with
    /// several writes.
    func children(atMost most: Int) -> [ChildChange]? {
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

    /// The writes that may move a window in key order: those within its bounds. O(log writes)
    func shown(in window: QueryWindow) -> Range<Int> {
        func child(_ path: Path) -> OrderedChild { TreeQuery.Index.key.place(path.keys[self.path.depth], .null) }
        let first = paths.partition(range) { !window.isBefore(child($0)) }
        return first..<paths.partition(first..<range.upperBound) { window.isBehind(child($0)) }
    }
}

extension PlaceChange {
    /// The combined change of many writes. O(writes · log n)
    init(_ writes: SubtreeWrites) {
        let depth = writes.path.depth
        self.init(isOverwritten: false, writes.old, writes.new)
        patches.reserveCapacity(writes.count)
        for path in writes.paths[writes.range] { patches.append((path, new.node(at: path.keys[depth...]))) }
        children = writes.children(atMost: .max) ?? []
    }
}

extension [Path] {
    /// The first index in the range for which `isBehind` is true, given that it stays true after that. O(log n)
    fileprivate func partition(_ range: Range<Int>, _ isBehind: (Path) -> Bool) -> Int {
        var (low, high) = (range.lowerBound, range.upperBound)
        while low < high {
            let middle = (low + high) / 2
            if isBehind(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// The subrange of ascending paths that have this key at this depth. All paths in `range` are deeper. O(log n)
    func range(of key: Key, at depth: Int, in range: Range<Int>) -> Range<Int> {
        let first = partition(range) { $0.keys[depth] >= key }
        return first..<partition(first..<range.upperBound) { $0.keys[depth] > key }
    }

    /// The paths in ascending order; not sorted again if they already are.
    func ascending() -> [Path] {
        for i in indices.dropFirst() where self[i] < self[i - 1] { return sorted() }
        return self
    }

    /// Removes duplicates from ascending paths.
    func withoutRepeated() -> [Path] {
        guard indices.dropFirst().contains(where: { self[$0] == self[$0 - 1] }) else { return self }
        return indices.filter { $0 == 0 || self[$0] != self[$0 - 1] }.map { self[$0] }
    }
}
