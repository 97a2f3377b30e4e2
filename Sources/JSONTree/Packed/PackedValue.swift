/// A value in packed bytes, in place. Valid while the page with the bytes is retained.
struct PackedValue {
    let start: UnsafeRawPointer

    @inline(__always)
    init(_ start: UnsafeRawPointer) { self.start = start }

    @inline(__always)
    var tag: UInt8 { start.byte() }

    @inline(__always)
    var isObject: Bool { tag == PackedTag.object || tag == PackedTag.prioritizedObject }

    /// The members of an object.
    @inline(__always)
    var members: PackedMembers {
        if tag == PackedTag.object { return PackedMembers(start + PackedTag.objectHead) }
        if tag == PackedTag.run { return PackedMembers(start + PackedTag.runHead) }
        return PackedMembers(start + PackedTag.objectHead + PackedValue(start + PackedTag.objectHead).size)
    }

    /// Bytes of the value with its tag. O(1)
    var size: Int {
        let tag = tag
        if tag >= PackedTag.smallInteger { return 1 }
        if tag >= PackedTag.shortText { return 1 &+ Int(tag & 0x3F) }
        switch tag {
        case PackedTag.no, PackedTag.yes, PackedTag.removed: return 1
        case PackedTag.integer1: return 2
        case PackedTag.integer2: return 3
        case PackedTag.integer4: return 5
        case PackedTag.integer8, PackedTag.double: return 9
        case PackedTag.text1: return 2 &+ Int(start.byte(1))
        case PackedTag.text2: return 3 &+ start.short(1)
        case PackedTag.object, PackedTag.prioritizedObject, PackedTag.run: return start.short(1)
        case PackedTag.prioritizedLeaf:
            let priority = PackedValue(start + 1).size
            return 1 &+ priority &+ PackedValue(start + 1 + priority).size
        default: return PackedTag.slotBytes
        }
    }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: start, count: size) }

    /// The bytes of a text; nil for other values.
    @inline(__always)
    var text: UnsafeBufferPointer<UInt8>? {
        let tag = tag
        if tag >= PackedTag.shortText, tag < PackedTag.smallInteger { return Self.bytes(start + 1, Int(tag & 0x3F)) }
        if tag == PackedTag.text1 { return Self.bytes(start + 2, Int(start.byte(1))) }
        if tag == PackedTag.text2 { return Self.bytes(start + 3, start.short(1)) }
        return nil
    }

    @inline(__always)
    private static func bytes(_ start: UnsafeRawPointer, _ count: Int) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: start.assumingMemoryBound(to: UInt8.self), count: count)
    }

    /// The number of an integer value.
    @inline(__always)
    var integer: Int64? {
        let tag = tag
        if tag >= PackedTag.smallInteger { return Int64(tag & 0x7F) }
        switch tag {
        case PackedTag.integer1: return Int64(start.loadUnaligned(fromByteOffset: 1, as: Int8.self))
        case PackedTag.integer2: return Int64(Int16(littleEndian: start.loadUnaligned(fromByteOffset: 1, as: Int16.self)))
        case PackedTag.integer4: return Int64(Int32(littleEndian: start.loadUnaligned(fromByteOffset: 1, as: Int32.self)))
        case PackedTag.integer8: return Int64(littleEndian: start.loadUnaligned(fromByteOffset: 1, as: Int64.self))
        default: return nil
        }
    }

    var double: Double {
        Double(bitPattern: UInt64(littleEndian: start.loadUnaligned(fromByteOffset: 1, as: UInt64.self)))
    }

    /// The two parts of a leaf with a priority.
    var prioritized: (priority: PackedValue, leaf: PackedValue) {
        let priority = PackedValue(start + 1)
        return (priority, PackedValue(start + 1 + priority.size))
    }

    /// The priority of an object or a leaf; null without one.
    var priority: Node {
        switch tag {
        case PackedTag.prioritizedObject: PackedValue(start + PackedTag.objectHead).leaf
        case PackedTag.prioritizedLeaf: PackedValue(start + 1).leaf
        default: .null
        }
    }

    /// The leaf as a node, with its priority; null for objects and slots. Copies a text of more than 15 bytes.
    var leaf: Node {
        if let integer { return .int(integer) }
        if let text { return .string(Text(String(decoding: text, as: UTF8.self))) }
        switch tag {
        case PackedTag.no: return .bool(false)
        case PackedTag.yes: return .bool(true)
        case PackedTag.double: return .double(double)
        case PackedTag.prioritizedLeaf:
            let (priority, leaf) = prioritized
            return .prioritized(PrioritizedLeaf(leaf: leaf.leaf, priority: priority.leaf))
        default: return .null
        }
    }
}

/// The members of an object in packed bytes, ascending by key. Those of a run have no keys: `PackedPage+Run` reads them.
struct PackedMembers {
    let start: UnsafeRawPointer

    @inline(__always)
    init(_ start: UnsafeRawPointer) { self.start = start }

    @inline(__always)
    var count: Int { start.short() }

    @inline(__always)
    func offset(_ i: Int) -> Int { start.short(2 &+ 2 &* i) }

    @inline(__always)
    func entry(_ i: Int) -> PackedEntry { PackedEntry(start + offset(i)) }

    /// The value of a key. Small objects are searched linearly, as most names differ in length or in the first bytes.
    @inline(__always)
    func value(_ probe: Key.Probe) -> PackedValue? {
        let count = count
        if count <= 8 {
            var i = 0
            while i < count {
                let entry = entry(i)
                if entry.hasKey(probe.bytes) { return entry.value }
                i &+= 1
            }
            return nil
        }
        let (i, found) = position(probe)
        return found ? entry(i).value : nil
    }

    /// The index of a key, or its insertion index. O(log n)
    func position(_ probe: Key.Probe) -> (index: Int, found: Bool) {
        var (low, high) = (0, count)
        // Compare with the last key first: most inserts append in key order (push ids), and most reads are of recent children.
        if high > 4 {
            let order = probe.order(entry(high &- 1).key)
            if order <= 0 { return order == 0 ? (high &- 1, true) : (high, false) }
            high &-= 1
        }
        // All keys between two others share their common prefix, so it is not compared again.
        var word: Key.ProbeWord?
        if high > 8 {
            let first = entry(0).key
            let order = probe.order(first)
            if order >= 0 { return (0, order == 0) }
            low = 1
            word = Key.ProbeWord(probe, between: first, entry(high).key)
        }
        while low < high {
            let middle = (low &+ high) / 2
            let key = entry(middle).key
            let order = word?.order(key) ?? probe.order(key)
            if order == 0 { return (middle, true) }
            if order < 0 { low = middle &+ 1 } else { high = middle }
        }
        return (low, false)
    }
}

/// A key and its value, in place.
struct PackedEntry {
    let start: UnsafeRawPointer

    @inline(__always)
    init(_ start: UnsafeRawPointer) { self.start = start }

    @inline(__always)
    private var head: (bytes: Int, count: Int) {
        let first = Int(start.byte())
        return first < 0x80 ? (1, first) : (2, (first & 0x7F) &<< 8 | Int(start.byte(1)))
    }

    @inline(__always)
    var key: UnsafeBufferPointer<UInt8> {
        let (bytes, count) = head
        return UnsafeBufferPointer(start: (start + bytes).assumingMemoryBound(to: UInt8.self), count: count)
    }

    @inline(__always)
    var value: PackedValue {
        let (bytes, count) = head
        return PackedValue(start + bytes + count)
    }

    /// A buffer over the entry's bytes; the caller knows their number.
    @inline(__always)
    func bytes(_ count: Int) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: start.assumingMemoryBound(to: UInt8.self), count: count)
    }

    @inline(__always)
    func hasKey(_ other: UnsafeBufferPointer<UInt8>) -> Bool {
        let (bytes, count) = head
        guard count == other.count, let other = UnsafeRawPointer(other.baseAddress) else { return false }
        return memoryEqual(start + bytes, other, count)
    }

    /// The bytes of a key with its length.
    @inline(__always)
    static func keyBytes(_ count: Int) -> Int { count &+ (count < 0x80 ? 1 : 2) }

    /// Writes a key with its length; returns the bytes written.
    @inline(__always)
    static func write(_ key: UnsafeBufferPointer<UInt8>, to target: UnsafeMutableRawPointer) -> Int {
        let count = key.count
        precondition(count <= PackedLimits.keyBytes, "a key that is too long to be stored")
        var head = 1
        if count < 0x80 {
            target.storeBytes(of: UInt8(truncatingIfNeeded: count), as: UInt8.self)
        } else {
            target.storeBytes(of: UInt8(truncatingIfNeeded: 0x80 | count &>> 8), as: UInt8.self)
            target.storeBytes(of: UInt8(truncatingIfNeeded: count), toByteOffset: 1, as: UInt8.self)
            head = 2
        }
        if let base = key.baseAddress { (target + head).copyFew(base, count) }
        return head &+ count
    }
}
