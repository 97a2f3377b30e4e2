extension ChildMap {
    /// Children in descending order, beginning with the last key that is not above the given one. O(log n) to start.
    public func descending(from key: Key? = nil) -> IteratorSequence<DescendingIterator> {
        IteratorSequence(DescendingIterator(self, from: key))
    }

    /// Walks leaf pages right to left with a stack of the inner pages above.
    public struct DescendingIterator: IteratorProtocol {
        private var entries: ContiguousArray<Entry>
        /// One behind the next entry.
        private var end: Int
        /// Inner pages with the index of the page that was entered last.
        private var stack: ContiguousArray<(page: ChildPage, entered: Int)> = []

        init(_ map: ChildMap, from key: Key?) {
            guard var page = map.root else {
                entries = map.flat
                end = Self.end(map.flat, key)
                return
            }
            while !page.isLeaf {
                let i = key.map { page.pageIndex(for: $0) } ?? page.pages.count - 1
                stack.append((page, i))
                page = page.pages[i]
            }
            entries = page.entries
            end = Self.end(page.entries, key)
        }

        private static func end(_ entries: ContiguousArray<Entry>, _ key: Key?) -> Int {
            guard let key else { return entries.count }
            let (index, found) = entries.position(of: key)
            return found ? index + 1 : index
        }

        public mutating func next() -> (key: Key, node: Node)? {
            while end == 0 {
                guard let top = stack.last else { return nil }
                if top.entered == 0 {
                    stack.removeLast()
                    continue
                }
                stack[stack.count - 1].entered -= 1
                var page = top.page.pages[top.entered - 1]
                while !page.isLeaf {
                    stack.append((page, page.pages.count - 1))
                    page = page.pages[page.pages.count - 1]
                }
                entries = page.entries
                end = entries.count
            }
            end -= 1
            return (entries[end].key, entries[end].node)
        }
    }
}
