/// Objects larger than a page: a list of pages while members arrive in key order, otherwise a map that sorts them.
extension ObjectBuilder {
    /// Moves the entries into a page if they are in key order, otherwise all members into a map that sorts them.
    mutating func spill() {
        if level.isAscending {
            // An entry that does not fit into this page waits for the next one.
            let isTooMuch = levelBytes > PackedLimits.pageBytes && entries.count - level.firstEntry > 1
            if let page = takePage(.null, besidesLast: isTooMuch, isFull: true) { level.pages.append(page) }
            return
        }
        if level.pages.isEmpty {
            let all = entries.count - level.firstEntry
            sort()
            // Entries removed by sorting have freed space.
            if entries.count - level.firstEntry < all, levelBytes < PackedLimits.pageBytes / 2,
                slots.count - level.firstSlot <= PackedLimits.pageSlots / 2
            {
                return
            }
        }
        beginMap()
    }

    /// Switches to a map, which sorts the members from here on.
    mutating func beginMap() {
        level.map = ChildMap(pages: level.pages)
        level.pages = []
        level.isAscending = false
        moveToMap()
    }

    mutating func moveToMap() {
        guard var map = level.map else { return }
        level.map = nil
        var slot = level.firstSlot
        for i in level.firstEntry..<entries.count {
            let start = Int(entries[i])
            let entry = PackedEntry(UnsafeRawPointer(bytes.base) + start)
            let node: Node
            if PackedPage.isSlot(entry.value.tag) {
                node = Node(slot: entry.value.tag, slots[slot])
                slot += 1
            } else {
                node = NodeCursor(entry.value).node
            }
            // Charge 5/4 of the size: pages that are split end up two thirds to nine tenths full.
            let size = PackedEntry.keyBytes(entry.key.count) + entry.value.size
            charge((size + 2) * 5 / 4)
            map.set(Key(entry.key), node)
        }
        for i in level.firstSlot..<slot { slots[i].release() }
        slots.removeSubrange(level.firstSlot...)
        entries.removeSubrange(level.firstEntry...)
        bytes.count = level.firstByte
        level.map = map
    }

    /// Takes the sorted entries of the innermost object as a page; nil without entries. A full page may be a run.
    mutating func takePage(_ priority: Node, besidesLast: Bool = false, isFull: Bool = false) -> PackedPage? {
        let last = entries.count - (besidesLast ? 1 : 0)
        let count = last - level.firstEntry
        guard count > 0 else { return nil }
        let end = besidesLast ? Int(entries[last]) : bytes.count
        let ownSlots = slots.count - level.firstSlot
        let kept = besidesLast && slotCount(from: last) > 0 ? 1 : 0
        if isFull, ownSlots == 0, let run = takeRun(upTo: last, end: end) {
            charge(run.memoryBytes)
            remove(upTo: last, end: end)
            return run
        }
        let size = PackedPage.size(entries: count, bytes: end - level.firstByte, priority: priority.packedSize ?? 0)
        let isPacked = ownSlots == 0 && size <= PackedLimits.objectBytes && (priority.isNull || priority.packedSize != nil)
        charge(NodeCost.page(bytes: size, slots: ownSlots))
        var writer = PageWriter(
            entries: count, entryBytes: end - level.firstByte, slots: ownSlots - kept, priority: isPacked ? priority : .null)
        var slot = level.firstSlot
        for i in level.firstEntry..<last {
            let start = Int(entries[i])
            let size = (i + 1 < entries.count ? Int(entries[i + 1]) : bytes.count) - start
            let entry = UnsafeRawPointer(bytes.base) + start
            if ownSlots > 0, PackedPage.isSlot(PackedEntry(entry).value.tag) {
                writer.add(entry, size, slots[slot])
                slot += 1
            } else {
                writer.add(entry, size)
            }
        }
        slots.removeSubrange(level.firstSlot..<slot)
        remove(upTo: last, end: end)
        return writer.page
    }

    /// Removes the first entries of the innermost object, which are now in a page. The entries after `end` move to the front.
    private mutating func remove(upTo last: Int, end: Int) {
        entries.removeSubrange(level.firstEntry..<last)
        let rest = bytes.count - end
        if rest > 0 {
            (bytes.base + level.firstByte).copyMemory(from: bytes.base + end, byteCount: rest)
            entries[level.firstEntry] = UInt32(truncatingIfNeeded: level.firstByte)
        }
        bytes.count = level.firstByte + rest
    }

    private func slotCount(from first: Int) -> Int {
        var count = 0
        for i in first..<entries.count where PackedPage.isSlot(PackedEntry(UnsafeRawPointer(bytes.base) + Int(entries[i])).value.tag) {
            count += 1
        }
        return count
    }
}

extension Node {
    /// The node stored in a slot.
    init(slot tag: UInt8, _ object: Unmanaged<AnyObject>) {
        switch tag {
        case PackedTag.objectSlot: self = .object(Unmanaged<ObjectNode>.fromOpaque(object.toOpaque()).takeUnretainedValue())
        case PackedTag.textSlot: self = .string(Unmanaged<LongText>.fromOpaque(object.toOpaque()).takeUnretainedValue().text)
        default: self = .prioritized(Unmanaged<PrioritizedLeaf>.fromOpaque(object.toOpaque()).takeUnretainedValue())
        }
    }
}
