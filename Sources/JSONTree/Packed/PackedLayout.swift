/// The layout of values in packed bytes. All numbers are little-endian and unaligned.
///
///     value   tag, then by tag:
///             00 false │ 01 true │ 02–05 integer of 1, 2, 4, 8 bytes │ 06 double
///             07 length (1) text │ 08 length (2) text │ 40–7F text of 0–63 bytes │ 80–FF integer 0–127
///             09 size (2) members                          object
///             0A size (2) priority value, members          object with a priority
///             0B priority value, leaf value                leaf with a priority
///             0C–0E slot (2)                               values that do not fit: object, long text, leaf with a long text
///             10 size (2) index (4) members                page of a long array, entries without keys (`PackedPage+Run`)
///     members count (2) │ offset (2) of each entry │ entries ascending by key
///     entry   length of the key (1 below 128, else 2), key, value
///
/// `size` counts the whole value with its tag; an offset counts from the start of the members. Slots exist only in the outermost object of a
/// page (`PackedPage`). Equal values without slots have equal bytes.
enum PackedTag {
    static let no: UInt8 = 0x00
    static let yes: UInt8 = 0x01
    static let integer1: UInt8 = 0x02
    static let integer2: UInt8 = 0x03
    static let integer4: UInt8 = 0x04
    static let integer8: UInt8 = 0x05
    static let double: UInt8 = 0x06
    static let text1: UInt8 = 0x07
    static let text2: UInt8 = 0x08
    static let object: UInt8 = 0x09
    static let prioritizedObject: UInt8 = 0x0A
    static let prioritizedLeaf: UInt8 = 0x0B
    static let objectSlot: UInt8 = 0x0C
    static let textSlot: UInt8 = 0x0D
    static let leafSlot: UInt8 = 0x0E
    /// A member that a later null of the same name removed; occurs only while an object is built.
    static let removed: UInt8 = 0x0F
    static let run: UInt8 = 0x10
    static let shortText: UInt8 = 0x40
    static let smallInteger: UInt8 = 0x80

    static let longestShortText = 63
    static let slotBytes = 3
    /// Tag and size of an object.
    static let objectHead = 3
    /// Tag, size and first index of a run.
    static let runHead = 7
}

/// Sizes of packed buffers in bytes; `docs/fast-paths.md` compares alternatives.
enum PackedLimits {
    /// The largest object stored as one value in packed bytes, including everything below it.
    static let objectBytes = 1024
    /// A page of a larger object is split above this size.
    static let pageBytes = 4096
    /// The longest key, so that the sizes of a page fit two bytes. Stored keys are shorter (`Key.maxBytes`).
    static let keyBytes = 4096
    /// The longest text stored inside a page; longer ones use a slot.
    static let textBytes = 512
    /// The most slots of a page: copying a page retains each slot.
    static let pageSlots = 32
}

extension UnsafeRawPointer {
    @inline(__always)
    func byte(_ offset: Int = 0) -> UInt8 { load(fromByteOffset: offset, as: UInt8.self) }

    @inline(__always)
    func short(_ offset: Int = 0) -> Int { Int(UInt16(littleEndian: loadUnaligned(fromByteOffset: offset, as: UInt16.self))) }
}

extension UnsafeMutableRawPointer {
    /// Copies a few bytes inline, as a call would cost more.
    @inline(__always)
    func copyFew(_ source: UnsafeRawPointer, _ count: Int) {
        if count > 16 { return copyMemory(from: source, byteCount: count) }
        if count >= 8 {
            let (first, last) = (source.loadUnaligned(as: UInt64.self), source.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self))
            storeBytes(of: first, as: UInt64.self)
            storeBytes(of: last, toByteOffset: count &- 8, as: UInt64.self)
        } else if count >= 4 {
            let (first, last) = (source.loadUnaligned(as: UInt32.self), source.loadUnaligned(fromByteOffset: count &- 4, as: UInt32.self))
            storeBytes(of: first, as: UInt32.self)
            storeBytes(of: last, toByteOffset: count &- 4, as: UInt32.self)
        } else {
            var i = 0
            while i < count {
                storeBytes(of: source.byte(i), toByteOffset: i, as: UInt8.self)
                i &+= 1
            }
        }
    }

    @inline(__always)
    func setShort(_ value: Int, at offset: Int) {
        storeBytes(of: UInt16(truncatingIfNeeded: value).littleEndian, toByteOffset: offset, as: UInt16.self)
    }
}
