/// A string that is equal only to the same UTF-8 bytes, ordered by UTF-16 code unit.
///
/// `String` compares by canonical equivalence ("é" as one scalar equals "e" plus an accent), which would merge keys and
/// values the contract keeps apart. The order is the one every SDK uses, so a server window is a client window
/// (contract §3.2).
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

    /// The string's UTF-8 bytes, without a copy where the string is stored on the heap.
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

/// Whether two texts of the same length, at least one byte, are equal.
@inline(__always)
func memoryEqual(_ x: UnsafeBufferPointer<UInt8>, _ y: UnsafeBufferPointer<UInt8>) -> Bool {
    var i = 0
    let n = x.count
    let (p, q) = (UnsafeRawPointer(x.baseAddress!), UnsafeRawPointer(y.baseAddress!))
    while i &+ 8 <= n {
        if p.loadUnaligned(fromByteOffset: i, as: UInt64.self) != q.loadUnaligned(fromByteOffset: i, as: UInt64.self) { return false }
        i &+= 8
    }
    while i < n {
        if x[i] != y[i] { return false }
        i &+= 1
    }
    return true
}

/// Compares two UTF-8 texts as if they were UTF-16: negative, zero or positive.
///
/// Byte order of UTF-8 is scalar order. The two orders differ only between U+E000–U+FFFF (first byte EE or EF) and the
/// scalars above U+FFFF (first byte F0–F4), which UTF-16 writes with surrogates D800–DFFF and so puts first.
func utf16Order(_ x: UnsafeBufferPointer<UInt8>, _ y: UnsafeBufferPointer<UInt8>) -> Int {
    let n = min(x.count, y.count)
    var i = 0
    if n >= 8, let p = UnsafeRawPointer(x.baseAddress), let q = UnsafeRawPointer(y.baseAddress) {
        // Consecutive push ids share a prefix: compare it in words.
        while i &+ 8 <= n {
            let (a, b) = (p.loadUnaligned(fromByteOffset: i, as: UInt64.self), q.loadUnaligned(fromByteOffset: i, as: UInt64.self))
            if a != b {
                i &+= UInt64(littleEndian: a ^ b).trailingZeroBitCount / 8
                break
            }
            i &+= 8
        }
    }
    while i < n {
        let (a, b) = (x[i], y[i])
        if a != b {
            if a >= 0xEE && b >= 0xEE && (a >= 0xF0) != (b >= 0xF0) { return a >= 0xF0 ? -1 : 1 }
            return Int(a) - Int(b)
        }
        i &+= 1
    }
    return x.count - y.count
}
