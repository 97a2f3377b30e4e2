/// An object in packed bytes: a page's own object, or one nested in it. Immutable.
public struct PackedObject: @unchecked Sendable {
    // Sendable: a page is changed only by its single owner (isKnownUniquelyReferenced); immutable once shared.
    let page: PackedPage
    /// The offset of its value in the page's bytes.
    let offset: UInt32

    init(_ page: PackedPage, offset: Int = 0) {
        self.page = page
        self.offset = UInt32(truncatingIfNeeded: offset)
    }

    @inline(__always)
    var value: PackedValue { PackedValue(UnsafeRawPointer(page.bytes) + Int(offset)) }
    @inline(__always)
    var members: PackedMembers { value.members }
    @inline(__always)
    var count: Int { members.count }
    /// The end of the entries, counted from the start of the members.
    var end: Int { value.size - (members.start - value.start) }

    /// The node of one of its members' values.
    @inline(__always)
    func node(_ value: PackedValue) -> Node {
        let tag = value.tag
        if value.isObject { return .packed(PackedObject(page, offset: value.start - UnsafeRawPointer(page.bytes))) }
        guard PackedPage.isSlot(tag) else { return value.leaf }
        let pointer = page.slot(value.start.short(1))
        switch tag {
        case PackedTag.objectSlot: return .object(Unmanaged<ObjectNode>.fromOpaque(pointer).takeUnretainedValue())
        case PackedTag.textSlot: return .string(Unmanaged<LongText>.fromOpaque(pointer).takeUnretainedValue().text)
        default: return .prioritized(Unmanaged<PrioritizedLeaf>.fromOpaque(pointer).takeUnretainedValue())
        }
    }

    /// The node of the child at an index.
    func node(_ i: Int) -> Node { node(members.entry(i).value) }
    func key(_ i: Int) -> Key { Key(members.entry(i).key) }

    @inline(__always)
    func child(_ probe: Key.Probe) -> Node? { members.value(probe).map { node($0) } }

    /// Key and node of the child at an index; works in a run, too.
    @inline(__always)
    func child(_ i: Int) -> (key: Key, node: Node) {
        if value.tag == PackedTag.run { return (page.key(i), node(page.value(i))) }
        let entry = members.entry(i)
        return (Key(entry.key), node(entry.value))
    }

    /// Whether both are at the same address.
    func isSame(as other: PackedObject) -> Bool { page === other.page && offset == other.offset }

    /// Whether both have equal content. O(bytes)
    func isEqual(to other: PackedObject) -> Bool { isSame(as: other) || value.hasBytes(of: other.value) }
}

extension Node {
    /// The size in packed bytes of a small object that uses no slots; nil for other nodes. Its JSON text usually has a third fewer to twice as
    /// many bytes, or up to five times as many for an object full of priorities. Escapes are not counted. O(1)
    public var packedBytes: Int? {
        guard case .packed(let object) = self, object.page.slotCount == 0 else { return nil }
        return object.value.size
    }
}

extension PackedValue {
    /// Whether both have the same bytes; for values without slots this means equality.
    func hasBytes(of other: PackedValue) -> Bool {
        let size = size
        return size == other.size && size > 0 && memoryEqual(bytes(size), other.bytes(size))
    }

    @inline(__always)
    private func bytes(_ size: Int) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: start.assumingMemoryBound(to: UInt8.self), count: size)
    }
}

extension Key {
    /// Copies a key from packed bytes.
    @inline(__always)
    init(_ bytes: UnsafeBufferPointer<UInt8>) { text = Text(String(decoding: bytes, as: UTF8.self)) }
}
