/// The children of an object in key order: a flat sorted array while small, a B+ tree of copy-on-write pages when large.
///
///     ≤ 32 children      flat  [k v k v k v …]
///     more               root ─► [sep page | sep page | …] ─► … ─► leaf pages of ≤ 32 entries
///
/// A value type: copying is O(1), and a change copies the shared pages on its path.
/// Look-up and change are O(log n); iteration is in key order from any key, forwards or backwards.
public struct ChildMap: Sendable {
    @usableFromInline struct Entry: Sendable {
        var key: Key
        var node: Node
    }

    /// Entries while small; empty when `root` is set.
    var flat: ContiguousArray<Entry> = []
    var root: ChildPage?

    /// Most children in a flat map, and most entries in a page.
    static let pageCapacity = 32

    public init() {}

    /// Builds from entries that are already in ascending key order without duplicates. O(n)
    init(sorted entries: ContiguousArray<Entry>) {
        if entries.count <= Self.pageCapacity {
            flat = entries
        } else {
            root = ChildPage.build(entries)
        }
    }

    public var count: Int { root?.count ?? flat.count }
    public var isEmpty: Bool { root == nil && flat.isEmpty }

    /// The child, or nil. O(log n)
    public subscript(key: Key) -> Node? {
        key.text.withBytes { bytes in
            let probe = Key.Probe(bytes)
            guard let root else { return flat.node(probe) }
            return root.node(probe)
        }
    }

    /// Sets or, with `null`, removes a child. O(log n)
    public mutating func set(_ key: Key, _ node: Node) {
        mutate(key) { $0 = node }
    }

    /// Lets `body` change the child in place (`null` when missing); a child left `null` is removed. O(log n) plus the body.
    mutating func mutate(_ key: Key, _ body: (inout Node) -> Void) {
        guard root != nil else {
            _ = flat.mutate(key, body)
            if flat.count > Self.pageCapacity {
                root = ChildPage.build(flat)
                flat = []
            }
            return
        }
        if !isKnownUniquelyReferenced(&root!) { root = root!.copy() }
        root!.mutate(key, body)
        if root!.isOverfull {
            let left = root!
            let (separator, right) = left.split(appending: false)
            root = ChildPage(separators: [left.firstKey, separator], pages: [left, right])
        }
        while let page = root, !page.isLeaf, page.pages.count == 1 { root = page.pages[0] }
        if let page = root, page.isLeaf, page.entries.count <= Self.pageCapacity / 2 {
            flat = page.entries
            root = nil
        }
    }

    /// Children below the key. O(log n)
    func rank(of key: Key) -> Int {
        guard var page = root else { return flat.position(of: key).index }
        var rank = 0
        while !page.isLeaf {
            let i = page.pageIndex(for: key)
            for before in page.pages[..<i] { rank += before.count }
            page = page.pages[i]
        }
        return rank + page.entries.position(of: key).index
    }

    /// The key that so many others come before; nil when there are no more. O(log n)
    func key(at rank: Int) -> Key? {
        guard rank < count else { return nil }
        guard var page = root else { return flat[rank].key }
        var left = rank
        while !page.isLeaf {
            var i = 0
            while left >= page.pages[i].count {
                left -= page.pages[i].count
                i += 1
            }
            page = page.pages[i]
        }
        return page.entries[left].key
    }

    /// The greatest key below the given one, or nil. O(log n)
    public func key(before key: Key) -> Key? {
        guard var page = root else {
            let (i, _) = flat.position(of: key)
            return i > 0 ? flat[i - 1].key : nil
        }
        var candidate: ChildPage?
        while !page.isLeaf {
            let i = page.pageIndex(for: key)
            if i > 0 { candidate = page.pages[i - 1] }
            page = page.pages[i]
        }
        let (i, _) = page.entries.position(of: key)
        if i > 0 { return page.entries[i - 1].key }
        return candidate?.lastEntry.key
    }
}

extension ContiguousArray<ChildMap.Entry> {
    /// The node of a key, or nil.
    @inline(__always)
    func node(_ probe: Key.Probe) -> Node? {
        withUnsafeBufferPointer { entries in
            var (low, high) = (0, entries.count)
            while low < high {
                let middle = (low &+ high) / 2
                let order = probe.order(entries[middle].key)
                if order == 0 { return entries[middle].node }
                if order < 0 { low = middle &+ 1 } else { high = middle }
            }
            return nil
        }
    }

    /// The index of the key, or the index at which to insert it.
    @inline(__always)
    func position(of key: Key) -> (index: Int, found: Bool) {
        var (low, high) = (0, count)
        // Appends in key order (push ids) are the usual insert: compare with the last key first.
        if count > 4, Key.order(self[count - 1].key, key) < 0 { return (count, false) }
        while low < high {
            let middle = (low + high) / 2
            let order = Key.order(self[middle].key, key)
            if order == 0 { return (middle, true) }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return (low, false)
    }

    /// Changes, inserts or removes the entry of a key. Returns the change of the count.
    mutating func mutate(_ key: Key, _ body: (inout Node) -> Void) -> Int {
        let (i, found) = position(of: key)
        var node = Node.null
        if found { swap(&node, &self[i].node) }
        body(&node)
        if found {
            if node.isNull {
                remove(at: i)
                return -1
            }
            self[i].node = node
            return 0
        }
        if node.isNull { return 0 }
        insert(ChildMap.Entry(key: key, node: node), at: i)
        return 1
    }
}
