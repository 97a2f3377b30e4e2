extension Node {
    /// Approximate bytes of the node in memory: objects, pages and texts, with allocator overhead. Includes parts shared with other trees.
    /// O(nodes)
    public var memoryBytes: Int {
        var sum = MemorySum()
        sum.add(self)
        return sum.bytes
    }

    /// Approximate bytes of the node that another version does not share, rather overestimated.
    /// - Parameter most: the most entries and pages to visit.
    /// - Returns: nil if that is exceeded, as for versions that share nothing. O(min(`most`, difference))
    public func memoryBytes(besides other: Node, atMost most: Int) -> Int? {
        var sum = MemorySum(left: most)
        return sum.add(self, besides: other) ? sum.bytes : nil
    }
}

private struct MemorySum {
    var bytes = 0
    /// The number of entries and pages that may still be visited.
    var left = Int.max

    mutating func add(_ node: Node) {
        switch node {
        case .object(let object):
            add(object)
            if let root = object.children.root { add(root) } else if let packed = object.children.packed { add(packed.page) }
        case .packed(let object): bytes += object.memoryBytes
        default: add(leaf: node)
        }
    }

    private mutating func add(_ page: ChildPage) {
        bytes += page.ownBytes
        for leaf in page.leaves { add(leaf) }
        for inner in page.pages { add(inner) }
    }

    private mutating func add(_ page: PackedPage) {
        bytes += page.memoryBytes
        guard page.slotCount > 0 else { return }
        let object = PackedObject(page)
        for i in 0..<object.count where PackedPage.isSlot(object.members.entry(i).value.tag) { add(object.node(i)) }
    }

    private mutating func add(leaf: Node) {
        switch leaf {
        case .string(let text): bytes += NodeCost.text(text.utf8Count) + (text.utf8Count > PackedLimits.textBytes ? NodeCost.longText : 0)
        case .prioritized(let leaf):
            bytes += NodeCost.prioritized
            add(leaf: leaf.leaf)
            add(leaf: leaf.priority)
        default: break
        }
    }

    private mutating func add(_ object: ObjectNode) {
        bytes += NodeCost.object
        if object.isHashed { bytes += NodeCost.hash }
        add(leaf: object.priority)
    }

    /// Adds the parts that the other version does not share.
    mutating func add(_ node: Node, besides other: Node) -> Bool {
        left -= 1
        guard left >= 0 else { return false }
        guard case .object(let object) = node else {
            if !node.isSameObject(as: other) { add(node) }
            return true
        }
        if case .object(let second) = other, object === second { return true }
        guard other.hasChildren else {
            left -= object.children.count
            guard left >= 0 else { return false }
            add(node)
            return true
        }
        add(object)
        var budget = ChildMap.Budget(left: left)
        guard let changes = object.children.changes(since: other.children, &budget) else { return false }
        left = budget.left
        // Inner pages copied along add about one 24th.
        bytes += budget.ownBytes + budget.ownBytes / 24
        for change in changes {
            // Nodes in packed bytes are included in the pages' bytes.
            guard let node = change.new, node.packedSize == nil else { continue }
            guard add(node, besides: change.old ?? .null) else { return false }
        }
        return true
    }
}

extension ChildPage {
    /// The page's own bytes, without the pages below.
    fileprivate var ownBytes: Int {
        let names = separators.reduce(0) { $0 + NodeCost.text($1.text.utf8Count) }
        return NodeCost.innerPage + names + separators.capacity * MemoryLayout<Key>.stride
            + (pages.capacity + leaves.capacity) * MemoryLayout<ChildPage>.stride
    }
}
