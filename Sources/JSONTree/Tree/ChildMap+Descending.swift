extension ChildMap {
    /// Children in descending order, starting at the last key not above the given one. O(log n) to start.
    public func descending(from key: Key? = nil) -> IteratorSequence<DescendingIterator> {
        IteratorSequence(DescendingIterator(self, from: key))
    }

    /// Walks packed pages right to left, with a stack of the inner pages above.
    public struct DescendingIterator: IteratorProtocol {
        private var leaf: PackedObject?
        /// The index after the next entry.
        private var end = 0
        /// Inner pages, each with the index of the page entered last.
        private var stack: ContiguousArray<(page: ChildPage, entered: Int)> = []

        init(_ map: ChildMap, from key: Key?) {
            guard var page = map.root else {
                if let packed = map.packed { enter(packed, key) }
                return
            }
            while true {
                let i = key.map { page.pageIndex(for: $0) } ?? page.separators.count - 1
                stack.append((page, i))
                if page.isLowest {
                    enter(PackedObject(page.leaves[i]), key)
                    return
                }
                page = page.pages[i]
            }
        }

        private mutating func enter(_ packed: PackedObject, _ key: Key?) {
            leaf = packed
            guard let key else {
                end = packed.count
                return
            }
            let (index, found) = packed.position(of: key)
            end = found ? index + 1 : index
        }

        public mutating func next() -> (key: Key, node: Node)? {
            while end == 0 {
                guard let top = stack.last else { return nil }
                if top.entered == 0 {
                    stack.removeLast()
                    continue
                }
                stack[stack.count - 1].entered -= 1
                if top.page.isLowest {
                    enter(PackedObject(top.page.leaves[top.entered - 1]), nil)
                } else {
                    let page = top.page.pages[top.entered - 1]
                    stack.append((page, page.separators.count))
                }
            }
            guard let leaf else { return nil }
            end -= 1
            return leaf.child(end)
        }
    }
}
