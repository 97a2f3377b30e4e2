/// Iterates over a map in key order and can skip whole pages. Its position is a closed page, an entry, or the end.
struct PageWalk {
    /// A page that is not open.
    enum Page {
        case inner(ChildPage)
        case leaf(PackedPage)

        static func === (a: Page, b: Page) -> Bool {
            switch (a, b) {
            case (.inner(let a), .inner(let b)): a === b
            case (.leaf(let a), .leaf(let b)): a === b
            default: false
            }
        }

        var firstKey: Key {
            switch self {
            case .inner(let page): page.firstKey
            case .leaf(let page): page.firstKey
            }
        }
    }

    /// The next closed page; nil at an entry and at the end.
    private(set) var page: Page?
    /// The number of levels below `page`.
    private(set) var height = 0
    /// The open packed page, and the position among its entries.
    private var leaf: PackedObject?
    private var index = 0
    private var count = 0
    /// The end of its entries, counted from its members.
    private var end = 0
    private var above: ContiguousArray<(page: ChildPage, next: Int, height: Int)> = []

    init(_ map: ChildMap) {
        guard let root = map.root else {
            if let packed = map.packed { enter(packed) }
            return
        }
        page = .inner(root)
        height = 1
        var lower = root
        while !lower.isLowest {
            height += 1
            lower = lower.pages[0]
        }
    }

    /// The current entry of the open page.
    @inline(__always)
    var entry: (object: PackedObject, entry: PackedEntry)? {
        guard index < count, let leaf else { return nil }
        return (leaf, leaf.members.entry(index))
    }

    private mutating func enter(_ packed: PackedObject) {
        (leaf, index, count, end) = (packed, 0, packed.count, packed.end)
    }

    /// - Returns: the opened page, if it is a packed one.
    @discardableResult
    mutating func open() -> PackedPage? {
        guard let opened = page else { return nil }
        switch opened {
        case .leaf(let packed):
            page = nil
            enter(PackedObject(packed.keyed))
            return packed
        case .inner(let inner):
            above.append((inner, 1, height))
            height -= 1
            page = inner.isLowest ? .leaf(inner.leaves[0]) : .inner(inner.pages[0])
            return nil
        }
    }

    /// Skips equal entries in both walks, which must be at entries.
    /// - Returns: the number of entries skipped.
    @discardableResult
    static func passEqual(_ a: inout PageWalk, _ b: inout PageWalk) -> Int {
        guard let x = a.leaf, let y = b.leaf else { return 0 }
        let (one, other) = (x.members, y.members)
        let mayHaveSlots = x.page.slotCount > 0
        let start = a.index
        while a.index < a.count, b.index < b.count {
            let size = one.bound(a.index &+ 1, end: a.end) &- one.offset(a.index)
            guard size == other.bound(b.index &+ 1, end: b.end) &- other.offset(b.index) else { break }
            let (entry, second) = (one.entry(a.index), other.entry(b.index))
            guard memoryEqual(entry.bytes(size), second.bytes(size)) else { break }
            if mayHaveSlots, !x.isSame(entry.value, as: second.value, of: y) { break }
            a.index &+= 1
            b.index &+= 1
        }
        let passed = a.index - start
        if a.index >= a.count { a.climb() }
        if b.index >= b.count { b.climb() }
        return passed
    }

    mutating func skip() {
        page = nil
        climb()
    }

    mutating func advance() {
        index += 1
        if index >= count { climb() }
    }

    /// Moves to the next page to the right.
    private mutating func climb() {
        (leaf, index, count) = (nil, 0, 0)
        while let top = above.last {
            let isLowest = top.page.isLowest
            if top.next < (isLowest ? top.page.leaves.count : top.page.pages.count) {
                above[above.count - 1].next += 1
                page = isLowest ? .leaf(top.page.leaves[top.next]) : .inner(top.page.pages[top.next])
                height = top.height - 1
                return
            }
            above.removeLast()
        }
    }
}
