/// One change of an object's members: an entry is replaced, inserted or removed. The bytes around it are copied unchanged.
struct PackedEdit {
    /// The object before the change; it stays unchanged.
    let source: PackedObject
    let index: Int
    /// Whether the entry at the index is removed.
    let removes: Bool
    let key: UnsafeBufferPointer<UInt8>
    /// The new value; null for none.
    let node: Node
    /// The size of the packed object after the change.
    let size: Int
    private let entryBytes: Int
    private let nodeSize: Int?

    init(_ source: PackedObject, at index: Int, removes: Bool, _ key: UnsafeBufferPointer<UInt8>, _ node: Node) {
        self.source = source
        self.index = index
        self.removes = removes
        self.key = key
        self.node = node
        nodeSize = node.packedSize
        let value = source.value
        let members = value.members
        entryBytes = node.isNull ? 0 : PackedEntry.keyBytes(key.count) + (nodeSize ?? PackedTag.slotBytes)
        let end = source.end
        let cut = removes ? members.bound(index + 1, end: end) - members.offset(index) : 0
        size = value.size + 2 * ((node.isNull ? 0 : 1) - (removes ? 1 : 0)) + entryBytes - cut
    }

    /// Whether the new value needs a slot.
    var needsSlot: Bool { node.exists && nodeSize == nil }

    /// The object after the change, in its own page.
    func page() -> PackedPage {
        let value = source.value
        let members = value.members
        let head = members.start - value.start
        let end = value.size - head
        let count = members.count
        let isAdding = node.exists
        let cutStart = members.bound(index, end: end)
        let cutEnd = removes ? members.bound(index + 1, end: end) : cutStart
        let newCount = count + (isAdding ? 1 : 0) - (removes ? 1 : 0)
        let shift = 2 * (newCount - count)

        // Only the outermost object of a page has slots.
        let old = source.offset == 0 ? source.page : nil
        let dropped = removes && PackedPage.isSlot(members.entry(index).value.tag) ? members.entry(index).value.start.short(1) : -1
        let (slotCount, slot) = slots(old, dropped: dropped)
        let page = PackedPage.make(byteCount: size, slotCount: slotCount)
        old?.copySlots(to: page, except: dropped)

        let target = page.bytes
        target.copyMemory(from: value.start, byteCount: head)
        target.setShort(size, at: 1)
        let newMembers = target + head
        newMembers.setShort(newCount, at: 0)
        for i in 0..<index { newMembers.setShort(members.offset(i) &+ shift, at: 2 &+ 2 &* i) }
        var position = index
        if isAdding {
            newMembers.setShort(cutStart + shift, at: 2 + 2 * index)
            position += 1
        }
        let moved = shift + entryBytes - (cutEnd - cutStart)
        var i = index + (removes ? 1 : 0)
        while i < count {
            newMembers.setShort(members.offset(i) &+ moved, at: 2 &+ 2 &* position)
            i &+= 1
            position &+= 1
        }
        let first = 2 + 2 * count
        (newMembers + 2 + 2 * newCount).copyMemory(from: members.start + first, byteCount: cutStart - first)
        (newMembers + cutEnd + moved).copyMemory(from: members.start + cutEnd, byteCount: end - cutEnd)
        if isAdding { write(to: newMembers + cutStart + shift, page, slot: slot) }
        return page
    }

    /// The number of slots of the new page, and the new value's slot.
    private func slots(_ old: PackedPage?, dropped: Int) -> (count: Int, new: Int) {
        let count = old?.slotCount ?? 0
        guard needsSlot else { return (old?.hasUsedSlots(besides: dropped) ?? false ? count : 0, -1) }
        if dropped >= 0 { return (count, dropped) }
        if let free = old?.freeSlot { return (count, free) }
        return (count + 1, count)
    }

    private func write(to target: UnsafeMutableRawPointer, _ page: PackedPage, slot: Int) {
        let value = target + PackedEntry.write(key, to: target)
        guard slot >= 0 else {
            node.writePacked(to: value)
            return
        }
        let (tag, object) = node.slotted()
        value.storeBytes(of: tag, as: UInt8.self)
        value.setShort(slot, at: 1)
        page.fill(slot, object)
    }
}

extension PackedPage {
    fileprivate func hasUsedSlots(besides dropped: Int) -> Bool {
        let count = slotCount
        return withUnsafeMutablePointerToElements { slots in (0..<count).contains { $0 != dropped && slots[$0] != 0 } }
    }

    fileprivate var freeSlot: Int? {
        let count = slotCount
        return withUnsafeMutablePointerToElements { slots in (0..<count).first { slots[$0] == 0 } }
    }

    fileprivate func copySlots(to page: PackedPage, except dropped: Int) {
        let count = min(slotCount, page.slotCount)
        withUnsafeMutablePointerToElements { from in
            page.withUnsafeMutablePointerToElements { to in
                for i in 0..<count where i != dropped {
                    PackedPage.retain(from[i])
                    to[i] = from[i]
                }
            }
        }
    }

    /// Lets `body` change the child of a key (`null` if missing); a child left `null` is removed. The page must be an object without a priority,
    /// or a part of one. It is replaced, or changed in place if this is its only owner.
    /// - Parameter isReplaced: whether `body` sets the child without reading it: then it gets `null` if the old node would have to be created.
    /// - Returns: the change of the count.
    static func mutate(_ page: inout PackedPage, _ key: Key, isReplaced: Bool = false, _ body: (inout Node) -> Void) -> Int {
        if page.isRun { page = page.keyed }
        let (i, found) = key.text.withBytes { page.members.position(Key.Probe($0)) }
        var node = Node.null
        if found {
            let value = page.members.entry(i).value
            if value.tag == PackedTag.objectSlot, isKnownUniquelyReferenced(&page), !page.isHashed {
                return mutate(&page, i, slot: value.start.short(1), key, body)
            }
            if !isReplaced { node = PackedObject(page).node(value) }
        }
        body(&node)
        guard found || node.exists else { return 0 }
        if found, page.has(node, at: i) { return 0 }
        if found, isKnownUniquelyReferenced(&page), !page.isHashed, page.overwrite(i, node) { return 0 }
        key.text.withBytes { page = PackedEdit(PackedObject(page), at: i, removes: found, $0, node).page() }
        return (node.exists ? 1 : 0) - (found ? 1 : 0)
    }

    /// Changes an object in a slot of a uniquely owned page. The object is moved out meanwhile, so that `body` can change it in place.
    private static func mutate(_ page: inout PackedPage, _ i: Int, slot: Int, _ key: Key, _ body: (inout Node) -> Void) -> Int {
        var node = Node.object(unsafeDowncast(page.empty(slot).takeRetainedValue(), to: ObjectNode.self))
        body(&node)
        if case .object(let object) = node {
            page.fill(slot, Unmanaged.passRetained(object as AnyObject))
            return 0
        }
        key.text.withBytes { page = PackedEdit(PackedObject(page), at: i, removes: true, $0, node).page() }
        return node.exists ? 0 : -1
    }

    /// Whether the node is the identical value at the index.
    private func has(_ node: Node, at i: Int) -> Bool {
        guard case .packed(let object) = node, object.page === self else { return false }
        return object.value.start == members.entry(i).value.start
    }

    /// Overwrites a value with one of the same size.
    private func overwrite(_ i: Int, _ node: Node) -> Bool {
        let value = members.entry(i).value
        guard !PackedPage.isSlot(value.tag), let size = node.packedSize, size == value.size else { return false }
        node.writePacked(to: UnsafeMutableRawPointer(mutating: value.start))
        return true
    }
}
