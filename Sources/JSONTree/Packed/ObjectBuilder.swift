/// Packs objects while their members arrive, innermost object last, without allocating a node or array for each.
///
///     bytes   │ entry entry key⟨│ entry entry              entries of the open objects; `key⟨` is a member whose object is open
///
/// A finished small object is moved together behind its key. A large one becomes pages as it grows, so that the builder holds only a few
/// pages. Members may arrive in any order; the last of equal names counts, even if it is null.
///
/// This file has members and their values. `+Objects` ends objects, `+Pages` splits large ones into pages, `+Sorting` sorts members.
struct ObjectBuilder: ~Copyable {
    var bytes = PackedScratch()
    /// The offsets of the open objects' entries.
    var entries = ContiguousArray<UInt32>()
    /// The owned objects in the slots of those entries, in the same order.
    var slots = ContiguousArray<Unmanaged<AnyObject>>()
    /// The innermost open object.
    var level = Level()
    private let allowance: NodeAllowance?
    /// Whether the allowance has refused; then nothing may be added.
    private(set) var isRefused = false

    /// An open object.
    struct Level {
        var firstByte = 0
        var firstEntry = 0
        var firstSlot = 0
        var isAscending = true
        /// The pages of a large object, as long as its members arrive in key order.
        var pages = ContiguousArray<PackedPage>()
        /// The members so far of a large object with members out of order.
        var map: ChildMap?
    }

    init(_ allowance: NodeAllowance? = nil) {
        self.allowance = allowance
        entries.reserveCapacity(32)
    }

    deinit { for slot in slots { slot.release() } }

    // MARK: Members

    /// Begins the next member; the caller adds its value, then calls `endMember`.
    mutating func beginMember(_ key: UnsafeBufferPointer<UInt8>) {
        bytes.reserve(key.count + 16)
        if level.isAscending, !sortsAfterLast(key) { level.isAscending = false }
        entries.append(UInt32(truncatingIfNeeded: bytes.count))
        bytes.count += PackedEntry.write(key, to: bytes.base + bytes.count)
    }

    private func sortsAfterLast(_ key: UnsafeBufferPointer<UInt8>) -> Bool {
        if entries.count > level.firstEntry {
            return Key.order(PackedEntry(UnsafeRawPointer(bytes.base) + Int(entries[entries.count - 1])).key, key) < 0
        }
        guard let page = level.pages.last else { return true }
        return page.keyCursor(page.count - 1).withBytes { Key.order($0, key) } < 0
    }

    /// Ends a member; without an added value the member is null.
    mutating func endMember() {
        let start = Int(entries[entries.count - 1])
        let entry = PackedEntry(UnsafeRawPointer(bytes.base) + start)
        if entry.value.start == UnsafeRawPointer(bytes.base) + bytes.count {
            if level.isAscending {
                // No earlier member has this name, so the null needs no entry.
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

    /// The bytes of a page with the innermost object's entries.
    @inline(__always)
    var levelBytes: Int {
        PackedPage.size(entries: entries.count &- level.firstEntry, bytes: bytes.count &- level.firstByte)
    }

    /// The offset of the last begun member, fixed until it ends.
    @inline(__always)
    var openEntry: Int { Int(entries[entries.count - 1]) }
    var openKey: Key { key(ofEntryAt: openEntry) }

    /// The key of an open member.
    func key(ofEntryAt offset: Int) -> Key { Key(PackedEntry(UnsafeRawPointer(bytes.base) + offset).key) }

    /// Whether the innermost object has no members so far, ignoring nulls.
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

    /// Adds a text that fits packed bytes (`PackedLimits.textBytes`).
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

    /// Charges bytes of the value being built; a refusal ends the build.
    mutating func charge(_ bytes: Int) {
        if let allowance, !allowance.charge(bytes) { isRefused = true }
    }
}
