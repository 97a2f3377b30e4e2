import JSONTree

/// Many writes of one commit below an observed place. What they did there is not looked at on the database queue: each view takes
/// the part that concerns it, and what is much of that is found out beside the queue.
///
/// ```
/// commit   ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪     ascending
/// place        └────── range ──────┘
/// window             └ part ┘               by key: where it shows children
/// ```
struct WrittenBelow: Sendable {
    /// The observed place, and what it held before and holds now.
    let path: Path
    let old: Node
    let new: Node
    /// All places that the commit has written, ascending, and which of them lie below the observed one.
    let paths: [Path]
    private(set) var range: Range<Int>

    var count: Int { range.count }

    /// Some of the writes.
    func part(_ range: Range<Int>) -> WrittenBelow {
        var part = self
        part.range = range
        return part
    }

    /// The children that they lie in, in key order; nil for more than `most`. O(children · log n), and log writes
    /// for each of them with several.
    func children(atMost most: Int) -> [ChildChange]? {
        var children: [ChildChange] = []
        var next = range.lowerBound
        while next < range.upperBound {
            if children.count == most { return nil }
            let key = paths[next].keys[path.depth]
            children.append(ChildChange(key: key, old: old.child(key), new: new.child(key)))
            next += 1
            // Most often one write of each child, else it may be many.
            guard next < range.upperBound, paths[next].keys[path.depth] == key else { continue }
            next = paths.partition(next..<range.upperBound) { $0.keys[path.depth] != key }
        }
        return children
    }

    /// The writes whose child a window by key may be moved by: where it shows any. O(log writes)
    func shown(in window: QueryWindow) -> Range<Int> {
        func child(_ path: Path) -> OrderedChild { TreeQuery.Index.key.place(path.keys[self.path.depth], .null) }
        let first = paths.partition(range) { !window.isBefore(child($0)) }
        return first..<paths.partition(first..<range.upperBound) { window.isBehind(child($0)) }
    }
}

extension PlaceChange {
    /// What many writes did. O(writes · log n)
    init(_ writes: WrittenBelow) {
        let depth = writes.path.depth
        self.init(isOverwritten: false, writes.old, writes.new)
        patches.reserveCapacity(writes.count)
        for path in writes.paths[writes.range] { patches.append((path, new.node(at: path.keys[depth...]))) }
        children = writes.children(atMost: .max) ?? []
    }
}

extension [Path] {
    /// The first of a range that is behind something, given that those before it are not. O(log n)
    fileprivate func partition(_ range: Range<Int>, _ isBehind: (Path) -> Bool) -> Int {
        var (low, high) = (range.lowerBound, range.upperBound)
        while low < high {
            let middle = (low + high) / 2
            if isBehind(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// Which of ascending paths in a range have a key at a depth; all of the range are deeper. O(log n)
    func range(of key: Key, at depth: Int, in range: Range<Int>) -> Range<Int> {
        let first = partition(range) { $0.keys[depth] >= key }
        return first..<partition(first..<range.upperBound) { $0.keys[depth] > key }
    }

    /// Ascending; those that are so already are not sorted.
    func ascending() -> [Path] {
        for i in indices.dropFirst() where self[i] < self[i - 1] { return sorted() }
        return self
    }

    /// Ascending ones, each once.
    func withoutRepeated() -> [Path] {
        guard indices.dropFirst().contains(where: { self[$0] == self[$0 - 1] }) else { return self }
        return indices.filter { $0 == 0 || self[$0] != self[$0 - 1] }.map { self[$0] }
    }
}
