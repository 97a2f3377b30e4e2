/// A text in a tree, a path or a program, in place: valid while its owner retains it. Holds no references.
///
///     base ──► Text              count -1
///     base ──► UTF-8 bytes       count of them
///     base = number              count -2: the key of an array element, whose digits are computed on demand
///
/// `==` compares address and form; `isEqual(to:)` compares the texts.
public struct TextCursor: Equatable {
    @usableFromInline let base: UnsafeRawPointer
    /// The number of bytes at `base`; -1 if `base` points at a `Text`, -2 if it is a number.
    @usableFromInline let count: Int

    @inlinable public init(_ text: UnsafePointer<Text>) {
        base = UnsafeRawPointer(text)
        count = -1
    }

    /// A key's only field is its text.
    @inlinable public init(_ key: UnsafePointer<Key>) {
        base = UnsafeRawPointer(key)
        count = -1
    }

    /// Points at well-formed UTF-8.
    @inlinable init(_ bytes: UnsafeBufferPointer<UInt8>) {
        // An empty text may have any address.
        base = UnsafeRawPointer(bytes.baseAddress) ?? UnsafeRawPointer(bitPattern: 1).unsafelyUnwrapped
        count = bytes.count
    }

    /// The key of an array's element.
    init(index: Int) {
        // Adds one, as no address is 0.
        base = UnsafeRawPointer(bitPattern: index + 1).unsafelyUnwrapped
        count = -2
    }

    /// The `Text` in place, if any.
    @usableFromInline var stored: UnsafePointer<Text>? {
        @inline(__always) get { count == -1 ? base.assumingMemoryBound(to: Text.self) : nil }
    }

    @usableFromInline @inline(never)
    func withDigits<R>(_ body: (UnsafeBufferPointer<UInt8>) -> R) -> R { Key.withBytes(ofIndex: Int(bitPattern: base) - 1, body) }

    /// The UTF-8 bytes: in place, or valid during the call.
    @inlinable @inline(__always)
    public func withBytes<R>(_ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
        if count < 0 {
            if count == -2 { return withDigits(body) }
            return base.assumingMemoryBound(to: Text.self).pointee.withBytes(body)
        }
        return body(UnsafeBufferPointer(start: base.assumingMemoryBound(to: UInt8.self), count: count))
    }

    /// The number that the text represents by the rules of keys.
    var integer: Int32? { count == -2 ? Int32(exactly: Int(bitPattern: base) - 1) : withBytes(Key.integer) }

    /// Length in bytes of UTF-8.
    @inlinable public var utf8Count: Int {
        @inline(__always) get { count >= 0 ? count : withBytes(\.count) }
    }

    /// Length in UTF-16 code units. O(bytes), less for a `Text`
    public var utf16Count: Int {
        if let stored { return stored.pointee.string.utf16.count }
        return withBytes { bytes in
            var units = 0
            var rest = bytes[...]
            // ASCII bytes are one unit each, and most texts are ASCII.
            if let base = UnsafeRawPointer(bytes.baseAddress) {
                while units &+ 8 <= bytes.count, base.loadUnaligned(fromByteOffset: units, as: UInt64.self) & 0x8080_8080_8080_8080 == 0 {
                    units &+= 8
                }
                rest = bytes[units...]
            }
            // Each scalar is one unit; above U+FFFF, with four bytes, it is two.
            for byte in rest { units &+= (byte & 0xC0 != 0x80 ? 1 : 0) &+ (byte >= 0xF0 ? 1 : 0) }
            return units
        }
    }

    /// A copy.
    public var string: String {
        if let stored { return stored.pointee.string }
        return withBytes { String(decoding: $0, as: UTF8.self) }
    }

    /// A copy.
    public var text: Text { Text(string) }

    /// A copy, not validated.
    public var key: Key { Key(string) }
}

extension TextCursor {
    /// Whether both texts are equal; immediate if they share their storage, as equal short `Text`s do.
    @inlinable @inline(__always)
    public func isEqual(to other: TextCursor) -> Bool {
        if self == other { return true }
        // For two `Text`s, equal 16 bytes mean equal texts.
        if count & other.count == -1, base.load(as: UInt64.self) == other.base.load(as: UInt64.self),
            base.load(fromByteOffset: 8, as: UInt64.self) == other.base.load(fromByteOffset: 8, as: UInt64.self)
        {
            return true
        }
        return hasBytes(of: other)
    }

    @usableFromInline @inline(never)
    func hasBytes(of other: TextCursor) -> Bool {
        if let a = stored, let b = other.stored { return a.pointee == b.pointee }
        return withBytes { x in other.withBytes { y in x.count == y.count && (x.isEmpty || memoryEqual(x, y)) } }
    }

    /// Whether the text sorts before the other by UTF-16 code unit, like `Text`.
    public func isBelow(_ other: TextCursor) -> Bool { withBytes { x in other.withBytes { y in utf16Order(x, y) < 0 } } }

    /// A quick hash of the length and the first and last eight bytes, which differ for the names of a rules file.
    public var fingerprint: UInt64 {
        withBytes { bytes in
            guard let base = UnsafeRawPointer(bytes.baseAddress) else { return 0 }
            let count = bytes.count
            var (first, last): (UInt64, UInt64) = (0, 0)
            if count >= 8 {
                first = base.loadUnaligned(as: UInt64.self)
                last = base.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self)
            } else {
                for i in 0..<count { first = first &<< 8 | UInt64(bytes[i]) }
            }
            return (first &* 0x9E37_79B9_7F4A_7C15 ^ last) &* 0xBF58_476D_1CE4_E5B9 &+ UInt64(truncatingIfNeeded: count)
        }
    }

    /// The text itself if it can be one segment of a path: non-empty, at most `Key.maxBytes` long and without a slash.
    public var segment: TextCursor? {
        let isOne = withBytes { bytes in
            guard !bytes.isEmpty, bytes.count <= Key.maxBytes else { return false }
            for byte in bytes where byte == UInt8(ascii: "/") { return false }
            return true
        }
        return isOne ? self : nil
    }
}
