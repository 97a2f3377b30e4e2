/// A string that is equal only to the same UTF-8 bytes, ordered by UTF-16 code unit.
///
/// `String` compares by canonical equivalence ("é" as one scalar equals "e" plus an accent), which would merge keys and values that the
/// contract distinguishes. Every SDK uses this order, so a query window on the server equals that on the client (contract §3.2).
public struct Text: Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    public let string: String

    @inlinable public init(_ string: String) { self.string = string }
    @inlinable public init(stringLiteral value: String) { string = value }
    public var description: String { string }

    /// Length in bytes of UTF-8.
    public var utf8Count: Int { string.utf8.count }
}

extension Text: Hashable {
    public static func == (a: Text, b: Text) -> Bool {
        a.withBytes { x in
            b.withBytes { y in x.count == y.count && (x.isEmpty || memoryEqual(x, y)) }
        }
    }

    public func hash(into hasher: inout Hasher) {
        withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    /// The string's UTF-8 bytes, without a copy if the string is stored on the heap.
    @inlinable @inline(__always)
    func withBytes<R>(_ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
        if let result = string.utf8.withContiguousStorageIfAvailable(body) { return result }
        var native = string
        return native.withUTF8(body)
    }
}

extension Text: Comparable {
    public static func < (a: Text, b: Text) -> Bool {
        a.withBytes { x in b.withBytes { y in utf16Order(x, y) < 0 } }
    }
}

/// Whether two texts of equal, non-zero length are equal.
@inline(__always)
func memoryEqual(_ x: UnsafeBufferPointer<UInt8>, _ y: UnsafeBufferPointer<UInt8>) -> Bool {
    memoryEqual(UnsafeRawPointer(x.baseAddress!), UnsafeRawPointer(y.baseAddress!), x.count)
}

/// Whether `n` bytes are equal. Compares words; the last one overlaps the one before.
@inline(__always)
func memoryEqual(_ p: UnsafeRawPointer, _ q: UnsafeRawPointer, _ n: Int) -> Bool {
    if p == q { return true }
    var i = 0
    guard n >= 8 else {
        if n >= 4 {
            return p.loadUnaligned(as: UInt32.self) == q.loadUnaligned(as: UInt32.self)
                && p.loadUnaligned(fromByteOffset: n &- 4, as: UInt32.self) == q.loadUnaligned(fromByteOffset: n &- 4, as: UInt32.self)
        }
        while i < n {
            if p.byte(i) != q.byte(i) { return false }
            i &+= 1
        }
        return true
    }
    while i &+ 8 < n {
        if p.loadUnaligned(fromByteOffset: i, as: UInt64.self) != q.loadUnaligned(fromByteOffset: i, as: UInt64.self) { return false }
        i &+= 8
    }
    return p.loadUnaligned(fromByteOffset: n &- 8, as: UInt64.self) == q.loadUnaligned(fromByteOffset: n &- 8, as: UInt64.self)
}

/// Compares two UTF-8 texts as if they were UTF-16: negative, zero or positive.
///
/// UTF-8 byte order is scalar order. The two orders differ only between U+E000–U+FFFF (first byte EE or EF) and the scalars above U+FFFF
/// (first byte F0–F4). UTF-16 writes the latter with surrogates D800–DFFF, and so sorts them first.
func utf16Order(_ x: UnsafeBufferPointer<UInt8>, _ y: UnsafeBufferPointer<UInt8>) -> Int {
    let n = min(x.count, y.count)
    var i = 0
    guard n >= 8, let p = UnsafeRawPointer(x.baseAddress), let q = UnsafeRawPointer(y.baseAddress) else {
        while i < n {
            if x[i] != y[i] { return utf16Order(x[i], y[i]) }
            i &+= 1
        }
        return x.count - y.count
    }
    // Consecutive push ids share a prefix: compare words, the last one overlapping the one before.
    while i < n {
        let at = min(i, n &- 8)
        let (a, b) = (p.loadUnaligned(fromByteOffset: at, as: UInt64.self), q.loadUnaligned(fromByteOffset: at, as: UInt64.self))
        if a != b { return utf16Order(a, b) }
        i &+= 8
    }
    return x.count - y.count
}

/// The order of two words of eight bytes in memory order, which differ and follow equal bytes.
@inline(__always)
func utf16Order(_ a: UInt64, _ b: UInt64) -> Int {
    let shift = UInt64(UInt64(littleEndian: a ^ b).trailingZeroBitCount & ~7)
    let (u, v) = (UInt64(littleEndian: a) &>> shift, UInt64(littleEndian: b) &>> shift)
    return utf16Order(UInt8(truncatingIfNeeded: u), UInt8(truncatingIfNeeded: v))
}

/// The number of leading bytes that both share.
@inline(__always)
func commonPrefix(_ x: UnsafeBufferPointer<UInt8>, _ y: UnsafeBufferPointer<UInt8>) -> Int {
    let n = min(x.count, y.count)
    guard let p = UnsafeRawPointer(x.baseAddress), let q = UnsafeRawPointer(y.baseAddress) else { return 0 }
    var i = 0
    while i &+ 8 <= n {
        let different = p.loadUnaligned(fromByteOffset: i, as: UInt64.self) ^ q.loadUnaligned(fromByteOffset: i, as: UInt64.self)
        if different != 0 { return i &+ UInt64(littleEndian: different).trailingZeroBitCount / 8 }
        i &+= 8
    }
    while i < n, p.byte(i) == q.byte(i) { i &+= 1 }
    return i
}

/// The order by the first bytes that differ.
@inline(__always)
private func utf16Order(_ a: UInt8, _ b: UInt8) -> Int {
    if a >= 0xEE && b >= 0xEE && (a >= 0xF0) != (b >= 0xF0) { return a >= 0xF0 ? -1 : 1 }
    return Int(a) - Int(b)
}
