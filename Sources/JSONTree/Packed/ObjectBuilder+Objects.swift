/// Begins and ends objects: a small one is moved behind the key of its member, a large one becomes a node.
extension ObjectBuilder {
    /// Begins an object as the value of the open member, or the outermost one.
    mutating func beginObject() -> Level {
        let outer = level
        level = Level(firstByte: bytes.count, firstEntry: entries.count, firstSlot: slots.count)
        return outer
    }

    /// Ends the innermost object, which becomes the value of the open member. An object without members adds no value.
    mutating func endObject(_ outer: consuming Level, priority: Node = .null) {
        if level.pages.isEmpty, level.map == nil, slots.count == level.firstSlot {
            if !level.isAscending { sort() }
            let count = entries.count - level.firstEntry
            if count == 0 {
                level = outer
                return
            }
            let entryBytes = bytes.count - level.firstByte
            let prioritySize = priority.isNull ? 0 : priority.packedSize
            if let prioritySize {
                let size = PackedPage.size(entries: count, bytes: entryBytes, priority: prioritySize)
                if size <= PackedLimits.objectBytes {
                    wrap(count, size: size, head: PackedTag.objectHead + prioritySize, priority)
                    level = outer
                    return
                }
            }
        }
        let node = takeNode(priority)
        level = outer
        add(node)
    }

    /// Ends the outermost object; null without members.
    mutating func finish(priority: Node = .null) -> Node { takeNode(priority) }

    /// Inserts the head of the innermost object before its entries.
    private mutating func wrap(_ count: Int, size: Int, head: Int, _ priority: Node) {
        let entryBytes = bytes.count - level.firstByte
        bytes.reserve(size - entryBytes)
        let start = bytes.base + level.firstByte
        let table = head + 2 + 2 * count
        (start + table).copyMemory(from: start, byteCount: entryBytes)
        let shift = table - head - level.firstByte
        (start + head).setShort(count, at: 0)
        for i in 0..<count { (start + head).setShort(Int(entries[level.firstEntry + i]) + shift, at: 2 + 2 * i) }
        start.storeBytes(of: priority.isNull ? PackedTag.object : PackedTag.prioritizedObject, as: UInt8.self)
        start.setShort(size, at: 1)
        priority.writePacked(to: start + PackedTag.objectHead)
        entries.removeSubrange(level.firstEntry...)
        bytes.count = level.firstByte + size
    }

    /// Converts the innermost object into a node and removes its entries.
    private mutating func takeNode(_ priority: Node) -> Node {
        if level.pages.isEmpty, level.map == nil {
            if !level.isAscending { sort() }
            guard let page = takePage(priority) else { return .null }
            if page.value.tag == PackedTag.prioritizedObject || (priority.isNull && page.isWhole) { return .packed(PackedObject(page)) }
            charge(NodeCost.object)
            return .object(ObjectNode(children: ChildMap(PackedObject(page)), priority: priority))
        }
        charge(NodeCost.object)
        if level.map == nil, !level.isAscending { beginMap() }
        if let map = level.map {
            level.map = nil
            return Node(map, priority: priority)
        }
        if let page = takePage(.null) { level.pages.append(page) }
        return Node(ChildMap(pages: level.pages), priority: priority)
    }
}
