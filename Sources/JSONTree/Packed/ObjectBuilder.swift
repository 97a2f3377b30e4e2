/// Packs objects while their members come in, innermost object last, without a node or an array for each.
///
///     bytes   │ entry entry key⟨│ entry entry              entries of the open objects; `key⟨` is a member whose object is open
///
/// A finished object that is small is moved together behind its key; a large one becomes pages as it grows, so that what is kept here
/// stays within some pages. Members may come in any order; of one name the last counts, also a null.
struct ObjectBuilder: ~Copyable {
    private var bytes = PackedScratch()
    /// Where the entries of the open objects begin.
    private var entries = ContiguousArray<UInt32>()
    /// What lies in the slots of those entries, in their order; owned.
    private var slots = ContiguousArray<Unmanaged<AnyObject>>()
    private var level = Level()
    private let allowance: NodeAllowance?
    /// Whether the allowance has refused; nothing is to be added then.
    private(set) var isRefused = false

    /// An open object.
    struct Level {
        fileprivate var firstByte = 0
        fileprivate var firstEntry = 0
        fileprivate var firstSlot = 0
        fileprivate var isAscending = true
        /// The pages of a large object, as long as its members come in order.
        fileprivate var pages = ContiguousArray<PackedPage>()
        /// The members so far of a large object whose members are not in order.
        fileprivate var map: ChildMap?
    }

    init(_ allowance: NodeAllowance? = nil) {
        self.allowance = allowance
        entries.reserveCapacity(32)
    }

    deinit { for slot in slots { slot.release() } }

    // MARK: Members

    /// Begins the next member; its value follows, then `endMember`.
    mutating func beginMember(_ key: UnsafeBufferPointer<UInt8>) {
        bytes.reserve(key.count + 16)
        if level.isAscending, let last = lastKey, Key.order(last, key) >= 0 { level.isAscending = false }
        entries.append(UInt32(truncatingIfNeeded: bytes.count))
        bytes.count += PackedEntry.write(key, to: bytes.base + bytes.count)
    }

    private var lastKey: UnsafeBufferPointer<UInt8>? {
        if entries.count > level.firstEntry { return PackedEntry(UnsafeRawPointer(bytes.base) + Int(entries[entries.count - 1])).key }
        guard let page = level.pages.last else { return nil }
        return page.members.entry(page.count - 1).key
    }

    /// Ends a member of which a value has been added, or none: null.
    mutating func endMember() {
        let start = Int(entries[entries.count - 1])
        let entry = PackedEntry(UnsafeRawPointer(bytes.base) + start)
        if entry.value.start == UnsafeRawPointer(bytes.base) + bytes.count {
            if level.isAscending {
                // No earlier member has this name.
                entries.removeLast()
                bytes.count = start
                return
            }
            bytes.reserve(1)
            bytes.base.storeBytes(of: PackedTag.removed, toByteOffset: bytes.count, as: UInt8.self)
            bytes.count += 1
        }
        if level.map != nil { return moveToMap() }
        if levelBytes > PackedLimits.pageBytes * 7 / 8 || slots.count - level.firstSlot > PackedLimits.pageSlots * 3 / 4 { spill() }
    }

    /// Bytes of a page of the innermost object's entries.
    @inline(__always)
    private var levelBytes: Int {
        PackedPage.size(entries: entries.count &- level.firstEntry, bytes: bytes.count &- level.firstByte)
    }

    /// Where the member that was begun last lies; it stays there until it ends.
    @inline(__always)
    var openEntry: Int { Int(entries[entries.count - 1]) }
    var openKey: Key { key(ofEntryAt: openEntry) }

    /// The key of an open member.
    func key(ofEntryAt offset: Int) -> Key { Key(PackedEntry(UnsafeRawPointer(bytes.base) + offset).key) }

    /// Whether the innermost object has no members so far, nulls not counted.
    mutating func isLevelEmpty() -> Bool {
        if !level.pages.isEmpty, !level.isAscending { beginMap() }
        if let map = level.map { return map.isEmpty }
        guard level.pages.isEmpty else { return false }
        if !level.isAscending { sort() }
        return entries.count == level.firstEntry
    }

    // MARK: Values

    @inline(__always)
    mutating func add(_ value: Int64) {
        bytes.reserve(9)
        bytes.count &+= PackedValue.write(value, to: bytes.base + bytes.count)
    }

    mutating func add(_ value: Double) {
        bytes.reserve(9)
        bytes.count &+= PackedValue.write(value, to: bytes.base + bytes.count)
    }

    mutating func add(_ value: Bool) {
        bytes.reserve(1)
        bytes.base.storeBytes(of: value ? PackedTag.yes : PackedTag.no, toByteOffset: bytes.count, as: UInt8.self)
        bytes.count &+= 1
    }

    /// A text that fits packed bytes (`PackedLimits.textBytes`).
    @inline(__always)
    mutating func add(text: UnsafeBufferPointer<UInt8>) {
        bytes.reserve(text.count &+ 3)
        bytes.count &+= PackedValue.write(text: text, to: bytes.base + bytes.count)
    }

    mutating func add(_ node: Node) {
        if node.isNull { return }
        if let size = node.packedSize {
            bytes.reserve(size)
            bytes.count += node.writePacked(to: bytes.base + bytes.count)
            return
        }
        let (tag, object) = node.slotted()
        bytes.reserve(PackedTag.slotBytes)
        bytes.base.storeBytes(of: tag, toByteOffset: bytes.count, as: UInt8.self)
        bytes.count += PackedTag.slotBytes
        slots.append(object)
    }

    mutating func add(_ key: Key, _ node: Node) {
        key.text.withBytes { beginMember($0) }
        add(node)
        endMember()
    }

    // MARK: Objects

    /// Begins an object as the value of the open member, or the outermost one.
    mutating func beginObject() -> Level {
        let outer = level
        level = Level(firstByte: bytes.count, firstEntry: entries.count, firstSlot: slots.count)
        return outer
    }

    /// Ends the innermost object, which becomes the value of the open member; none without members.
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

    /// Puts the head of the innermost object in front of its entries.
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

    /// The innermost object as a node; its entries are removed.
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

    /// The entries of the innermost object, which are in order, as a page; nil without any.
    private mutating func takePage(_ priority: Node, besidesLast: Bool = false) -> PackedPage? {
        let last = entries.count - (besidesLast ? 1 : 0)
        let count = last - level.firstEntry
        guard count > 0 else { return nil }
        let end = besidesLast ? Int(entries[last]) : bytes.count
        let ownSlots = slots.count - level.firstSlot
        let kept = besidesLast && slotCount(from: last) > 0 ? 1 : 0
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
        entries.removeSubrange(level.firstEntry..<last)
        if besidesLast {
            let rest = bytes.count - end
            (bytes.base + level.firstByte).copyMemory(from: bytes.base + end, byteCount: rest)
            entries[level.firstEntry] = UInt32(truncatingIfNeeded: level.firstByte)
            bytes.count = level.firstByte + rest
        } else {
            bytes.count = level.firstByte
        }
        return writer.page
    }

    private func slotCount(from first: Int) -> Int {
        var count = 0
        for i in first..<entries.count where PackedPage.isSlot(PackedEntry(UnsafeRawPointer(bytes.base) + Int(entries[i])).value.tag) {
            count += 1
        }
        return count
    }

    // MARK: Large objects

    /// Moves the entries that are in order into a page, or all into a map that sorts them.
    private mutating func spill() {
        if level.isAscending {
            // The last one waits for the next page if it is too much for this one.
            let isTooMuch = levelBytes > PackedLimits.pageBytes && entries.count - level.firstEntry > 1
            if let page = takePage(.null, besidesLast: isTooMuch) { level.pages.append(page) }
            return
        }
        if level.pages.isEmpty {
            let all = entries.count - level.firstEntry
            sort()
            // Removed ones make room.
            if entries.count - level.firstEntry < all, levelBytes < PackedLimits.pageBytes / 2,
                slots.count - level.firstSlot <= PackedLimits.pageSlots / 2
            {
                return
            }
        }
        beginMap()
    }

    /// From here on the members are sorted by a map.
    private mutating func beginMap() {
        level.map = ChildMap(pages: level.pages)
        level.pages = []
        level.isAscending = false
        moveToMap()
    }

    private mutating func moveToMap() {
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
            // Pages that are split are two thirds to nine tenths full.
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

    /// An entry of the innermost object while they are sorted.
    private struct Place {
        let start: Int
        let end: Int
        /// The index of what lies in its slot; -1 without one.
        let slot: Int
    }

    /// Brings the entries of the innermost object into key order; of one name the last stays, and removed ones go.
    private mutating func sort() {
        let count = entries.count - level.firstEntry
        let size = bytes.count - level.firstByte
        // Sorted behind the entries, and moved to their place.
        bytes.reserve(size)
        level.isAscending = true
        if count == 0 { return }
        withUnsafeTemporaryAllocation(of: Place.self, capacity: count) { places in
            fill(places)
            arrange(places)
        }
    }

    private func fill(_ places: UnsafeMutableBufferPointer<Place>) {
        let base = UnsafeRawPointer(bytes.base)
        let hasSlots = slots.count > level.firstSlot
        var slot = level.firstSlot
        for i in 0..<places.count {
            let start = Int(entries[level.firstEntry + i])
            let end = i + 1 < places.count ? Int(entries[level.firstEntry + i + 1]) : bytes.count
            let isSlot = hasSlots && PackedPage.isSlot(PackedEntry(base + start).value.tag)
            (places.baseAddress.unsafelyUnwrapped + i).initialize(to: Place(start: start, end: end, slot: isSlot ? slot : -1))
            if isSlot { slot += 1 }
        }
        if places.count > 24 {
            var places = places
            places.sort { a, b in
                let order = Key.order(PackedEntry(base + a.start).key, PackedEntry(base + b.start).key)
                return order != 0 ? order < 0 : a.start < b.start
            }
            return
        }
        for i in 1..<max(1, places.count) {
            let place = places[i]
            let key = PackedEntry(base + place.start).key
            var j = i
            while j > 0, Key.order(PackedEntry(base + places[j &- 1].start).key, key) > 0 {
                places[j] = places[j &- 1]
                j &-= 1
            }
            places[j] = place
        }
    }

    /// Writes the entries in the order of `places`.
    private mutating func arrange(_ places: UnsafeMutableBufferPointer<Place>) {
        let base = UnsafeRawPointer(bytes.base)
        var target = bytes.base + bytes.count
        var kept = ContiguousArray<Unmanaged<AnyObject>>()
        var written = level.firstEntry
        var next = level.firstByte
        for i in 0..<places.count {
            let place = places[i]
            let entry = PackedEntry(base + place.start)
            let isLast = i + 1 == places.count || Key.order(entry.key, PackedEntry(base + places[i + 1].start).key) != 0
            let isKept = isLast && entry.value.tag != PackedTag.removed
            if isKept {
                let size = place.end - place.start
                target.copyMemory(from: entry.start, byteCount: size)
                entries[written] = UInt32(truncatingIfNeeded: next)
                written &+= 1
                target += size
                next &+= size
            }
            if place.slot >= 0 { if isKept { kept.append(slots[place.slot]) } else { slots[place.slot].release() } }
        }
        (bytes.base + level.firstByte).copyMemory(from: bytes.base + bytes.count, byteCount: next - level.firstByte)
        bytes.count = next
        entries.removeLast(entries.count - written)
        if slots.count > level.firstSlot { slots.replaceSubrange(level.firstSlot..., with: kept) }
    }

    private mutating func charge(_ bytes: Int) {
        if let allowance, !allowance.charge(bytes) { isRefused = true }
    }
}

extension Node {
    /// What lies in a slot.
    init(slot tag: UInt8, _ object: Unmanaged<AnyObject>) {
        switch tag {
        case PackedTag.objectSlot: self = .object(Unmanaged<ObjectNode>.fromOpaque(object.toOpaque()).takeUnretainedValue())
        case PackedTag.textSlot: self = .string(Unmanaged<LongText>.fromOpaque(object.toOpaque()).takeUnretainedValue().text)
        default: self = .prioritized(Unmanaged<PrioritizedLeaf>.fromOpaque(object.toOpaque()).takeUnretainedValue())
        }
    }
}
