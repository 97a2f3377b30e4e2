extension Node {
    /// Approximate bytes of the node in memory: objects, pages and texts, with the allocator's overhead. Parts shared with other trees are
    /// included. O(nodes)
    public var memoryBytes: Int {
        var sum = MemorySum()
        sum.add(self)
        return sum.bytes
    }

    /// Approximate bytes of the node that another version does not share, rather too many.
    /// - Parameter most: most entries and pages to visit.
    /// - Returns: nil when that is not enough, as with versions that share nothing. O(least of `most` and the difference)
    public func memoryBytes(besides other: Node, atMost most: Int) -> Int? {
        var sum = MemorySum(left: most)
        return sum.add(self, besides: other) ? sum.bytes : nil
    }
}

private struct MemorySum {
    var bytes = 0
    /// Entries and pages that may still be visited.
    var left = Int.max

    mutating func add(_ node: Node) {
        withUnsafePointer(to: node) { _ = add(NodeCursor($0)) }
    }

    /// Adds the whole node; false when the visits are used up.
    private mutating func add(_ cursor: NodeCursor) -> Bool {
        left -= 1
        guard left >= 0 else { return false }
        switch cursor.kind {
        case .null, .bool, .int, .double: return true
        case .text(let text): bytes += NodeCost.text(text.utf8Count)
        case .prioritized: add(leaf: cursor.node)
        case .object:
            guard case .object(let object) = cursor.place.pointee else { return true }
            add(object)
            bytes += object.children.storageBytes
            return cursor.allChildren { key, child in
                bytes += NodeCost.text(key.utf8Count)
                return add(child)
            }
        }
        return true
    }

    private mutating func add(leaf: Node) {
        switch leaf {
        case .string(let text): bytes += NodeCost.text(text.utf8Count)
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
        guard case .object(let object) = node, case .object(let second) = other else {
            return withUnsafePointer(to: node) { add(NodeCursor($0)) }
        }
        if object === second { return true }
        add(object)
        var look = ChildMap.Look(left: left) { $0.key.text.sharesStorage(with: $1.key.text) && $0.node.sharesStorage(with: $1.node) }
        guard let changes = object.children.changes(since: second.children, &look) else { return false }
        left = look.left
        // Inner pages, which were copied with them, are a 24th.
        bytes += look.ownEntries * NodeCost.child
        for change in changes {
            guard let node = change.new else { continue }
            bytes += NodeCost.text(change.key.text.utf8Count)
            guard add(node, besides: change.old ?? .null) else { return false }
        }
        return true
    }
}

extension ChildMap {
    /// Bytes of the entries' storage. O(pages)
    fileprivate var storageBytes: Int { root?.storageBytes ?? flat.capacity * MemoryLayout<Entry>.stride }
}

extension ChildPage {
    fileprivate var storageBytes: Int {
        if isLeaf { return NodeCost.object + entries.capacity * MemoryLayout<Entry>.stride }
        let own = NodeCost.object + 32 + separators.capacity * MemoryLayout<Key>.stride + pages.capacity * MemoryLayout<ChildPage>.stride
        return pages.reduce(own) { $0 + $1.storageBytes }
    }
}

extension Node {
    /// Whether the node shares all storage with the other: the same object, or the same text buffer.
    fileprivate func sharesStorage(with other: Node) -> Bool {
        switch (self, other) {
        case (.object(let a), .object(let b)): a === b
        case (.prioritized(let a), .prioritized(let b)): a === b
        case (.string(let a), .string(let b)): a.utf8Count < 16 || a.sharesStorage(with: b)
        case (.object, _), (.prioritized, _), (.string, _): false
        default: true
        }
    }
}

extension Text {
    /// Whether both texts share a buffer, or are equal and stored inline.
    fileprivate func sharesStorage(with other: Text) -> Bool {
        withUnsafeBytes(of: self) { a in withUnsafeBytes(of: other) { b in a.elementsEqual(b) } }
    }
}
