extension ChildMap: Sequence {
    /// Children in ascending key order.
    public func makeIterator() -> Iterator { Iterator(self, from: nil) }

    /// Children in ascending order, beginning with the first key that is not below the given one. O(log n) to start.
    public func ascending(from key: Key?) -> IteratorSequence<Iterator> { IteratorSequence(Iterator(self, from: key)) }

    public var underestimatedCount: Int { count }

    /// Walks leaf pages left to right with a stack of the inner pages above.
    public struct Iterator: IteratorProtocol, Sendable {
        private var entries: ContiguousArray<Entry>
        private var index: Int
        private var stack: ContiguousArray<(page: ChildPage, next: Int)> = []

        init(_ map: ChildMap, from key: Key?) {
            guard var page = map.root else {
                entries = map.flat
                index = key.map { map.flat.position(of: $0).index } ?? 0
                return
            }
            while !page.isLeaf {
                let i = key.map { page.pageIndex(for: $0) } ?? 0
                stack.append((page, i + 1))
                page = page.pages[i]
            }
            entries = page.entries
            index = key.map { page.entries.position(of: $0).index } ?? 0
        }

        /// Begins in a leaf page, below the pages of `stack`.
        init(_ entries: ContiguousArray<Entry>, at index: Int, _ stack: ContiguousArray<(page: ChildPage, next: Int)>) {
            self.entries = entries
            self.index = index
            self.stack = stack
        }

        public mutating func next() -> (key: Key, node: Node)? {
            while index >= entries.count {
                guard let top = stack.last else { return nil }
                if top.next >= top.page.pages.count {
                    stack.removeLast()
                    continue
                }
                stack[stack.count - 1].next += 1
                var page = top.page.pages[top.next]
                while !page.isLeaf {
                    stack.append((page, 1))
                    page = page.pages[0]
                }
                entries = page.entries
                index = 0
            }
            defer { index += 1 }
            return (entries[index].key, entries[index].node)
        }
    }
}

extension ChildMap: Equatable {
    /// Deep equality; shared pages and objects are not visited.
    public static func == (a: ChildMap, b: ChildMap) -> Bool {
        guard a.count == b.count else { return false }
        if let x = a.root, let y = b.root, x === y { return true }
        var others = b.makeIterator()
        for (key, node) in a {
            guard let other = others.next(), other.key == key, other.node == node else { return false }
        }
        return true
    }
}

extension ChildMap {
    /// Checks order, counts and page sizes; for tests. Returns the fault, or nil.
    func invariantFault() -> String? {
        if root != nil, !flat.isEmpty { return "flat entries beside pages" }
        var last: Key?
        var seen = 0
        for (key, node) in self {
            if let last, !(last < key) { return "\(last) before \(key)" }
            if node.isNull { return "null child at \(key)" }
            last = key
            seen += 1
        }
        if seen != count { return "count \(count), \(seen) entries" }
        func check(_ page: ChildPage) -> String? {
            if page.isOverfull { return "overfull page" }
            if page.isLeaf { return page.count == page.entries.count && page.count > 0 ? nil : "leaf count" }
            if page.separators.count != page.pages.count { return "separators" }
            if page.pages.reduce(0, { $0 + $1.count }) != page.count { return "inner count" }
            for (i, child) in page.pages.enumerated() {
                if i > 0, child.firstKey < page.separators[i] { return "separator above its page" }
                if let fault = check(child) { return fault }
            }
            return nil
        }
        return root.flatMap(check)
    }
}
