import Synchronization

/// One allocation with an object in packed bytes: a small object, or a page of a large one's children.
///
///     hash │ sizes │ slots (8 each) │ packed object
///
/// Immutable once published: only its single owner changes it in place, and only while no hash is cached.
public final class PackedPage: ManagedBuffer<PackedPage.Header, UInt64> {

    public struct Header {
        /// Owned reference to a `HashText`: the contribution of the page's children to their object's hash (contract §4.5). 0 until it is computed.
        /// The first field, as it is accessed atomically at this address.
        fileprivate var hash: UInt = 0
        /// Bytes of the packed object.
        var byteCount: UInt32
        var slotCount: UInt32
    }

    /// An uninitialized page with empty slots.
    static func make(byteCount: Int, slotCount: Int) -> PackedPage {
        let words = slotCount + (byteCount + 7) / 8
        let buffer = create(minimumCapacity: words) { _ in
            Header(byteCount: UInt32(truncatingIfNeeded: byteCount), slotCount: UInt32(truncatingIfNeeded: slotCount))
        }
        let page = unsafeDowncast(buffer, to: PackedPage.self)
        page.withUnsafeMutablePointerToElements { $0.update(repeating: 0, count: slotCount) }
        return page
    }

    deinit {
        if let hash = UnsafeRawPointer(bitPattern: withHash { $0.pointee.load(ordering: .relaxed) }) {
            Unmanaged<HashText>.fromOpaque(hash).release()
        }
        let count = slotCount
        if count > 0 { withUnsafeMutablePointerToElements { slots in for i in 0..<count { Self.release(slots[i]) } } }
    }

    @inline(__always)
    var byteCount: Int { withUnsafeMutablePointerToHeader { Int($0.pointee.byteCount) } }
    @inline(__always)
    var slotCount: Int { withUnsafeMutablePointerToHeader { Int($0.pointee.slotCount) } }

    /// The packed bytes; valid as long as the page is held.
    @inline(__always)
    var bytes: UnsafeMutableRawPointer {
        withUnsafeMutablePointers { header, elements in UnsafeMutableRawPointer(elements + Int(header.pointee.slotCount)) }
    }

    /// The page's object.
    @inline(__always)
    var value: PackedValue { PackedValue(UnsafeRawPointer(bytes)) }
    @inline(__always)
    var members: PackedMembers { value.members }
    @inline(__always)
    var count: Int { members.count }

    private func withHash<R>(_ body: (UnsafeMutablePointer<Atomic<UInt>>) -> R) -> R {
        withUnsafeMutablePointerToHeader { body(UnsafeMutableRawPointer($0).assumingMemoryBound(to: Atomic<UInt>.self)) }
    }

    var hashText: String? {
        let hash = withHash { $0.pointee.load(ordering: .acquiring) }
        return UnsafeRawPointer(bitPattern: hash).map { Unmanaged<HashText>.fromOpaque($0).takeUnretainedValue().text }
    }

    @inline(__always)
    var isHashed: Bool { withHash { $0.pointee.load(ordering: .relaxed) } != 0 }

    /// Caches the text; if several threads compute it, the first one stays.
    func keep(hashText: String) {
        let made = Unmanaged.passRetained(HashText(hashText))
        let isKept = withHash {
            $0.pointee.compareExchange(expected: 0, desired: UInt(bitPattern: made.toOpaque()), ordering: .acquiringAndReleasing).exchanged
        }
        if !isKept { made.release() }
    }

    /// Whether the page alone represents its object, so that no `ObjectNode` is needed.
    var isWhole: Bool { byteCount <= PackedLimits.objectBytes && usedSlots == 0 }

    /// Approximate bytes in memory, with allocator overhead; texts in slots not included.
    var memoryBytes: Int { NodeCost.page(bytes: byteCount, slots: slotCount) }

    // MARK: Slots

    /// Whether a value's tag refers to a slot.
    @inline(__always)
    static func isSlot(_ tag: UInt8) -> Bool { tag >= PackedTag.objectSlot && tag <= PackedTag.leafSlot }

    var usedSlots: Int {
        let count = slotCount
        if count == 0 { return 0 }
        return withUnsafeMutablePointerToElements { slots in (0..<count).reduce(0) { $0 + (slots[$1] == 0 ? 0 : 1) } }
    }

    /// The object in a slot, which must be used.
    @inline(__always)
    func slot(_ i: Int) -> UnsafeRawPointer {
        withUnsafeMutablePointerToElements { UnsafeRawPointer(bitPattern: UInt($0[i])).unsafelyUnwrapped }
    }

    /// Fills an empty slot; takes over the reference.
    func fill(_ i: Int, _ object: Unmanaged<AnyObject>) {
        withUnsafeMutablePointerToElements { $0[i] = UInt64(UInt(bitPattern: object.toOpaque())) }
    }

    /// Empties a slot; the caller takes over the reference.
    func empty(_ i: Int) -> Unmanaged<AnyObject> {
        withUnsafeMutablePointerToElements { slots in
            let object = Unmanaged<AnyObject>.fromOpaque(UnsafeRawPointer(bitPattern: UInt(slots[i])).unsafelyUnwrapped)
            slots[i] = 0
            return object
        }
    }

    static func retain(_ slot: UInt64) {
        if let pointer = UnsafeRawPointer(bitPattern: UInt(slot)) { _ = Unmanaged<AnyObject>.fromOpaque(pointer).retain() }
    }

    static func release(_ slot: UInt64) {
        if let pointer = UnsafeRawPointer(bitPattern: UInt(slot)) { Unmanaged<AnyObject>.fromOpaque(pointer).release() }
    }

    /// The bytes of a page with only the entries of `members`.
    static func size(entries: Int, bytes: Int, priority: Int = 0) -> Int { PackedTag.objectHead + priority + 2 + 2 * entries + bytes }
}

/// A text too long for packed bytes.
final class LongText: @unchecked Sendable {
    // Sendable: immutable; `bytes` points into `text`.
    let text: Text
    /// The text's bytes, in place.
    let bytes: UnsafeBufferPointer<UInt8>

    init(_ text: Text) {
        var native = text.string
        native.makeContiguousUTF8()
        self.text = Text(native)
        // Strings above 15 bytes are on the heap or in the binary, so their address is stable.
        bytes = self.text.withBytes { $0 }
    }
}

extension Node {
    /// The slot tag and the retained object of a node without a packed value.
    func slotted() -> (tag: UInt8, object: Unmanaged<AnyObject>) {
        switch self {
        case .object(let object): (PackedTag.objectSlot, Unmanaged.passRetained(object as AnyObject))
        case .prioritized(let leaf): (PackedTag.leafSlot, Unmanaged.passRetained(leaf as AnyObject))
        case .string(let text): (PackedTag.textSlot, Unmanaged.passRetained(LongText(text) as AnyObject))
        default: preconditionFailure("a node that packed bytes can hold has no slot")
        }
    }
}
