/// Writes a page entry by entry, in key order. The number and total size of the entries must be known in advance.
struct PageWriter {
    let page: PackedPage
    private let members: UnsafeMutableRawPointer
    private var index = 0
    /// The offset of the next entry, counted from the start of the members.
    private var next: Int
    private var nextSlot = 0

    /// - Parameters:
    ///   - entryBytes: the bytes of all entries; a value in a slot takes `PackedTag.slotBytes`.
    ///   - priority: the object's priority, which must have a packed size, or null.
    init(entries: Int, entryBytes: Int, slots: Int, priority: Node = .null) {
        let priorityBytes = priority.packedSize ?? 0
        let size = PackedPage.size(entries: entries, bytes: entryBytes, priority: priorityBytes)
        page = PackedPage.make(byteCount: size, slotCount: slots)
        let start = page.bytes
        start.storeBytes(of: priorityBytes > 0 ? PackedTag.prioritizedObject : PackedTag.object, as: UInt8.self)
        start.setShort(size, at: 1)
        priority.writePacked(to: start + PackedTag.objectHead)
        members = start + PackedTag.objectHead + priorityBytes
        members.setShort(entries, at: 0)
        next = 2 + 2 * entries
    }

    /// Adds an entry whose value needs no slot.
    @inline(__always)
    mutating func add(_ entry: UnsafeRawPointer, _ count: Int) {
        members.setShort(next, at: 2 &+ 2 &* index)
        (members + next).copyMemory(from: entry, byteCount: count)
        index &+= 1
        next &+= count
    }

    /// Adds an entry with a slot; consumes the reference.
    mutating func add(_ entry: UnsafeRawPointer, _ count: Int, _ object: Unmanaged<AnyObject>) {
        add(entry, count)
        (members + next).setShort(nextSlot, at: -2)
        page.fill(nextSlot, object)
        nextSlot += 1
    }

    /// Copies an entry of another page, with the object in its slot.
    mutating func add(_ i: Int, of source: PackedPage, _ members: PackedMembers, end: Int) {
        let entry = members.entry(i)
        let value = entry.value
        guard PackedPage.isSlot(value.tag) else { return add(entry.start, end - members.offset(i)) }
        let object = Unmanaged<AnyObject>.fromOpaque(source.slot(value.start.short(1))).retain()
        add(entry.start, end - members.offset(i), object)
    }

    /// Adds an entry of a key and a packed value without a slot.
    mutating func add(_ key: UnsafeBufferPointer<UInt8>, _ value: UnsafeRawBufferPointer) {
        members.setShort(next, at: 2 &+ 2 &* index)
        next &+= PackedEntry.write(key, to: members + next)
        index &+= 1
        if let start = value.baseAddress { (members + next).copyMemory(from: start, byteCount: value.count) }
        next &+= value.count
    }

    mutating func add(_ key: UnsafeBufferPointer<UInt8>, _ node: Node) {
        members.setShort(next, at: 2 &+ 2 &* index)
        next &+= PackedEntry.write(key, to: members + next)
        index &+= 1
        if node.packedSize != nil {
            next &+= node.writePacked(to: members + next)
            return
        }
        let (tag, object) = node.slotted()
        members.storeBytes(of: tag, toByteOffset: next, as: UInt8.self)
        members.setShort(nextSlot, at: next + 1)
        next &+= PackedTag.slotBytes
        page.fill(nextSlot, object)
        nextSlot += 1
    }
}

extension PackedMembers {
    /// The offset of the entry at an index, or `end` for the index after the last.
    @inline(__always)
    func bound(_ i: Int, end: Int) -> Int { i < count ? offset(i) : end }
}

extension PackedPage {
    /// The end of the page's entries, counted from the start of its members.
    var end: Int { PackedObject(self).end }

    /// A page with a range of the entries.
    func part(_ range: Range<Int>) -> PackedPage { PackedPage.joining([(self, range)]) }

    /// Whether two neighbours fit into one page with space left. Runs stay separate: they are full pages.
    func fits(beside other: PackedPage) -> Bool {
        if isRun || other.isRun { return false }
        return byteCount + other.byteCount <= PackedLimits.pageBytes * 3 / 4
            && slotCount + other.slotCount <= PackedLimits.pageSlots * 3 / 4
    }

    /// A page with the entries of both pages; all of this one sort before those of `right`.
    func joined(with right: PackedPage) -> PackedPage { PackedPage.joining([(self, 0..<count), (right, 0..<right.count)]) }

    private static func joining(_ parts: [(page: PackedPage, range: Range<Int>)]) -> PackedPage {
        var (entries, bytes, slots) = (0, 0, 0)
        for (page, range) in parts {
            let (members, end) = (page.members, page.end)
            entries += range.count
            bytes += members.bound(range.upperBound, end: end) - members.bound(range.lowerBound, end: end)
            if page.slotCount > 0 { for i in range where isSlot(members.entry(i).value.tag) { slots += 1 } }
        }
        var writer = PageWriter(entries: entries, entryBytes: bytes, slots: slots)
        for (page, range) in parts {
            let (members, end) = (page.members, page.end)
            for i in range { writer.add(i, of: page, members, end: members.bound(i + 1, end: end)) }
        }
        return writer.page
    }

    /// A page with one child.
    static func of(_ key: Key, _ node: Node) -> PackedPage {
        key.text.withBytes { key in
            let size = node.packedSize
            var writer = PageWriter(
                entries: 1, entryBytes: PackedEntry.keyBytes(key.count) + (size ?? PackedTag.slotBytes), slots: size == nil ? 1 : 0)
            writer.add(key, node)
            return writer.page
        }
    }
}
