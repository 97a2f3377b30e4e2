extension ChildMap: Sequence {
    /// Children in ascending key order.
    public func makeIterator() -> Iterator { Iterator(self, from: nil) }

    /// Children in ascending order, starting at the first key not below the given one. O(log n) to start.
    public func ascending(from key: Key?) -> IteratorSequence<Iterator> { IteratorSequence(Iterator(self, from: key)) }

    public var underestimatedCount: Int { count }

    /// Walks packed pages left to right, with a stack of the inner pages above.
    public struct Iterator: IteratorProtocol, Sendable {
        private var leaf: PackedObject?
        private var index = 0
        private var count = 0
        private var stack: ContiguousArray<(page: ChildPage, next: Int)> = []

        init(_ map: ChildMap, from key: Key?) {
            guard var page = map.root else {
                if let packed = map.packed { enter(packed, at: key.map { packed.position(of: $0).index } ?? 0) }
                return
            }
            while true {
                let i = key.map { page.pageIndex(for: $0) } ?? 0
                stack.append((page, i + 1))
                if page.isLowest {
                    let packed = PackedObject(page.leaves[i])
                    enter(packed, at: key.map { packed.position(of: $0).index } ?? 0)
                    return
                }
                page = page.pages[i]
            }
        }

        /// Starts at the child with an index. O(log n)
        init(_ map: ChildMap, at index: Int) {
            var left = index
            guard var page = map.root else {
                if let packed = map.packed { enter(packed, at: left) }
                return
            }
            while true {
                var i = 0
                if page.isLowest {
                    while i < page.leaves.count - 1, left >= page.leaves[i].count {
                        left -= page.leaves[i].count
                        i += 1
                    }
                    stack.append((page, i + 1))
                    enter(PackedObject(page.leaves[i]), at: left)
                    return
                }
                while i < page.pages.count - 1, left >= page.pages[i].count {
                    left -= page.pages[i].count
                    i += 1
                }
                stack.append((page, i + 1))
                page = page.pages[i]
            }
        }

        private mutating func enter(_ packed: PackedObject, at index: Int) {
            leaf = packed
            self.index = index
            count = packed.count
        }

        /// Moves to the next packed page; false at the end.
        private mutating func climb() -> Bool {
            while let top = stack.last {
                if top.next >= (top.page.isLowest ? top.page.leaves.count : top.page.pages.count) {
                    stack.removeLast()
                    continue
                }
                stack[stack.count - 1].next += 1
                if top.page.isLowest {
                    enter(PackedObject(top.page.leaves[top.next]), at: 0)
                    return true
                }
                stack.append((top.page.pages[top.next], 0))
            }
            return false
        }

        public mutating func next() -> (key: Key, node: Node)? {
            while index >= count { if !climb() { return nil } }
            guard let leaf else { return nil }
            defer { index += 1 }
            return leaf.child(index)
        }
    }
}

extension ChildMap: Equatable {
    /// Deep equality; shared pages and objects are not visited.
    public static func == (a: ChildMap, b: ChildMap) -> Bool {
        var visits = 0
        return a.isEqual(to: b, &visits)
    }

    /// - Parameter visits: incremented by the pages passed or opened, and by the entries compared one by one.
    func isEqual(to other: ChildMap, _ visits: inout Int) -> Bool {
        guard count == other.count else { return false }
        if let x = root, let y = other.root, x === y { return true }
        if let x = packed, let y = other.packed, x.isSame(as: y) { return true }
        var (a, b) = (PageWalk(self), PageWalk(other))
        while true {
            visits += 1
            switch (a.page, b.page) {
            case (let x?, let y?):
                if x === y {
                    a.skip()
                    b.skip()
                } else {
                    let (isTaller, isLower) = (a.height >= b.height, a.height <= b.height)
                    if isTaller { a.open() }
                    if isLower { b.open() }
                }
            // The other walk is inside a page: open this one to compare entry by entry.
            case (_?, nil): a.open()
            case (nil, _?): b.open()
            case (nil, nil):
                PageWalk.passEqual(&a, &b)
                if a.page != nil || b.page != nil { continue }
                guard let (object, entry) = a.entry, let (second, match) = b.entry else { return a.entry == nil && b.entry == nil }
                guard Key.order(entry.key, match.key) == 0, object.node(entry.value) == second.node(match.value) else { return false }
                a.advance()
                b.advance()
            }
        }
    }
}

extension ChildMap {
    /// Checks order, counts and page sizes, for tests. Returns the fault, or nil.
    func invariantFault() -> String? {
        if root != nil, packed != nil { return "a page beside pages" }
        if packed?.count == 0 { return "an empty page" }
        var last: Key?
        var seen = 0
        for (key, node) in self {
            if let last, !(last < key) { return "\(last) before \(key)" }
            if node.isNull { return "null child at \(key)" }
            last = key
            seen += 1
        }
        if seen != count { return "count \(count), \(seen) entries" }
        func check(_ leaf: PackedPage) -> String? {
            if leaf.count == 0 { return "empty leaf" }
            if leaf.isOverfull { return "overfull leaf" }
            if leaf.value.size != leaf.byteCount { return "size of a leaf" }
            if let slots = leaf.slotFault() { return slots }
            return nil
        }
        func check(_ page: ChildPage) -> String? {
            if page.isOverfull { return "overfull page" }
            let width = page.isLowest ? page.leaves.count : page.pages.count
            if page.separators.count != width || width == 0 { return "separators" }
            if page.isLowest {
                if page.leaves.reduce(0, { $0 + $1.count }) != page.count { return "lowest count" }
                if page.leaves.reduce(0, { $0 + $1.namesOneByOne }) != page.named { return "lowest count of names" }
                for (i, leaf) in page.leaves.enumerated() {
                    if i > 0, leaf.firstKey < page.separators[i] { return "separator above its leaf" }
                    if let fault = check(leaf) { return fault }
                }
                return nil
            }
            if page.pages.reduce(0, { $0 + $1.count }) != page.count { return "inner count" }
            if page.pages.reduce(0, { $0 + $1.named }) != page.named { return "inner count of names" }
            for (i, child) in page.pages.enumerated() {
                if i > 0, child.firstKey < page.separators[i] { return "separator above its page" }
                if let fault = check(child) { return fault }
            }
            return nil
        }
        if let packed, packed.offset == 0, let fault = check(packed.page) { return fault }
        return root.flatMap(check)
    }
}

extension PackedPage {
    /// The number of keys that are not indexes, for tests.
    fileprivate var namesOneByOne: Int { (0..<count).count { !key($0).isIndex } }

    /// Whether each used slot belongs to one entry; for tests.
    fileprivate func slotFault() -> String? {
        var slots = Set<Int>()
        for i in 0..<count {
            let value = value(i)
            guard PackedPage.isSlot(value.tag) else { continue }
            let slot = value.start.short(1)
            if slot >= slotCount || !slots.insert(slot).inserted { return "slot \(slot) of \(slotCount)" }
        }
        return slots.count == usedSlots ? nil : "\(usedSlots) slots, \(slots.count) entries with one"
    }
}
