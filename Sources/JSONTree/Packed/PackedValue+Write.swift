extension Node {
    /// Size of the node as a packed value; nil if it needs a slot. O(1)
    var packedSize: Int? {
        switch self {
        case .null: return nil
        case .bool: return 1
        case .int(let value): return PackedValue.size(value)
        case .double: return 9
        case .string(let text): return text.utf8Count <= PackedLimits.textBytes ? PackedValue.size(textBytes: text.utf8Count) : nil
        case .packed(let object): return object.value.size
        case .object: return nil
        case .prioritized(let leaf):
            guard let priority = leaf.priority.packedSize, let size = leaf.leaf.packedSize else { return nil }
            return 1 + priority + size
        }
    }

    /// Writes the packed value, which has `packedSize` bytes; returns the bytes written.
    @discardableResult
    func writePacked(to target: UnsafeMutableRawPointer) -> Int {
        switch self {
        case .null, .object: return 0
        case .bool(let value):
            target.storeBytes(of: value ? PackedTag.yes : PackedTag.no, as: UInt8.self)
            return 1
        case .int(let value): return PackedValue.write(value, to: target)
        case .double(let value): return PackedValue.write(value, to: target)
        case .string(let text): return text.withBytes { PackedValue.write(text: $0, to: target) }
        case .packed(let object):
            let bytes = object.value.bytes
            if let base = bytes.baseAddress { target.copyMemory(from: base, byteCount: bytes.count) }
            return bytes.count
        case .prioritized(let leaf):
            target.storeBytes(of: PackedTag.prioritizedLeaf, as: UInt8.self)
            let priority = leaf.priority.writePacked(to: target + 1)
            return 1 + priority + leaf.leaf.writePacked(to: target + 1 + priority)
        }
    }
}

extension PackedValue {
    @inline(__always)
    static func size(_ value: Int64) -> Int {
        if value >= 0, value < 128 { return 1 }
        if Int8(exactly: value) != nil { return 2 }
        if Int16(exactly: value) != nil { return 3 }
        return Int32(exactly: value) != nil ? 5 : 9
    }

    @inline(__always)
    static func size(textBytes count: Int) -> Int {
        count <= PackedTag.longestShortText ? 1 &+ count : count < 256 ? 2 &+ count : 3 &+ count
    }

    @inline(__always)
    static func write(_ value: Int64, to target: UnsafeMutableRawPointer) -> Int {
        if value >= 0, value < 128 {
            target.storeBytes(of: PackedTag.smallInteger | UInt8(truncatingIfNeeded: value), as: UInt8.self)
            return 1
        }
        if let small = Int8(exactly: value) {
            target.storeBytes(of: PackedTag.integer1, as: UInt8.self)
            target.storeBytes(of: small, toByteOffset: 1, as: Int8.self)
            return 2
        }
        if let small = Int16(exactly: value) {
            target.storeBytes(of: PackedTag.integer2, as: UInt8.self)
            target.storeBytes(of: small.littleEndian, toByteOffset: 1, as: Int16.self)
            return 3
        }
        if let small = Int32(exactly: value) {
            target.storeBytes(of: PackedTag.integer4, as: UInt8.self)
            target.storeBytes(of: small.littleEndian, toByteOffset: 1, as: Int32.self)
            return 5
        }
        target.storeBytes(of: PackedTag.integer8, as: UInt8.self)
        target.storeBytes(of: value.littleEndian, toByteOffset: 1, as: Int64.self)
        return 9
    }

    @inline(__always)
    static func write(_ value: Double, to target: UnsafeMutableRawPointer) -> Int {
        target.storeBytes(of: PackedTag.double, as: UInt8.self)
        target.storeBytes(of: value.bitPattern.littleEndian, toByteOffset: 1, as: UInt64.self)
        return 9
    }

    @inline(__always)
    static func write(text: UnsafeBufferPointer<UInt8>, to target: UnsafeMutableRawPointer) -> Int {
        let count = text.count
        let head = writeTextHead(count, to: target)
        if let base = text.baseAddress { (target + head).copyFew(base, count) }
        return head &+ count
    }

    /// Tag and length of a text.
    @inline(__always)
    static func writeTextHead(_ count: Int, to target: UnsafeMutableRawPointer) -> Int {
        if count <= PackedTag.longestShortText {
            target.storeBytes(of: PackedTag.shortText | UInt8(truncatingIfNeeded: count), as: UInt8.self)
            return 1
        }
        if count < 256 {
            target.storeBytes(of: PackedTag.text1, as: UInt8.self)
            target.storeBytes(of: UInt8(truncatingIfNeeded: count), toByteOffset: 1, as: UInt8.self)
            return 2
        }
        target.storeBytes(of: PackedTag.text2, as: UInt8.self)
        target.setShort(count, at: 1)
        return 3
    }
}
