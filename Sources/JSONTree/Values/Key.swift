/// The name of a child: 1–768 UTF-8 bytes without `. $ # [ ] /` and without control characters (contract §4.1).
///
/// Keys that read as 32-bit integers come first, in numeric order; all others follow by UTF-16 code unit (contract §3.2).
/// Query bounds (`[MIN_NAME]`, padded successors) use the same type, although they are not valid child names.
public struct Key: Sendable, Hashable, ExpressibleByStringLiteral, CustomStringConvertible {
    public let text: Text

    /// Creates a key without validation; see `isValid` for the rules of stored keys.
    public init(_ string: String) { text = Text(string) }
    public init(stringLiteral value: String) { text = Text(value) }
    /// The key of an array element.
    public init(index: Int) { text = Text(String(index)) }

    /// Calls `body` with the bytes of an array element's key.
    @inline(__always)
    static func withBytes<R>(ofIndex index: Int, _ body: (UnsafeBufferPointer<UInt8>) -> R) -> R {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var (i, rest) = (digits.count, index)
            repeat {
                i &-= 1
                digits[i] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            return body(UnsafeBufferPointer(rebasing: digits[i...]))
        }
    }

    public var string: String { text.string }
    public var description: String { text.string }

    /// Longest key in bytes of UTF-8 (contract §4.1).
    public static let maxBytes = 768

    /// Whether this is a valid name of a stored child.
    public var isValid: Bool { text.withBytes(Key.isValid) }

    /// Whether the bytes are a valid name of a stored child, by length and forbidden characters.
    public static func isValid(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        let count = bytes.count
        guard count > 0, count <= maxBytes, let base = UnsafeRawPointer(bytes.baseAddress) else { return false }
        if count < 4 {
            for byte in bytes where isForbidden(byte) { return false }
            return true
        }
        if count < 8 {
            let (first, last) = (base.loadUnaligned(as: UInt32.self), base.loadUnaligned(fromByteOffset: count &- 4, as: UInt32.self))
            return !hasForbidden(UInt64(first) | UInt64(last) &<< 32)
        }
        var i = 0
        while i &+ 8 < count {
            if hasForbidden(base.loadUnaligned(fromByteOffset: i, as: UInt64.self)) { return false }
            i &+= 8
        }
        // The last eight bytes overlap the ones before.
        return !hasForbidden(base.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self))
    }

    /// Whether one of eight bytes is forbidden.
    @inline(__always)
    private static func hasForbidden(_ word: UInt64) -> Bool {
        let (ones, highs): (UInt64, UInt64) = (0x0101_0101_0101_0101, 0x8080_8080_8080_8080)
        var found = (word &- ones &* 0x20) & ~word
        // Marks bytes where `difference` is 0; other bytes are marked only above such a byte.
        func mark(_ difference: UInt64) { found |= (difference &- ones) & ~difference }
        mark(word ^ (ones &* 0x23))
        mark(word ^ (ones &* 0x24))
        mark(word ^ (ones &* 0x5B))
        mark(word ^ (ones &* 0x5D))
        mark(word ^ (ones &* 0x7F))
        // 2E and 2F, checked together.
        mark((word ^ (ones &* 0x2E)) & ~ones)
        return found & highs != 0
    }

    /// `. $ # [ ] /`, U+0000–001F and U+007F.
    @inline(__always)
    static func isForbidden(_ byte: UInt8) -> Bool {
        if byte < 0x20 || byte == 0x7F { return true }
        switch byte {
        case UInt8(ascii: "."), UInt8(ascii: "$"), UInt8(ascii: "#"), UInt8(ascii: "["), UInt8(ascii: "]"), UInt8(ascii: "/"): return true
        default: return false
        }
    }

    /// The integer that the key represents: `-?0*[0-9]{1,10}` within 32 bits, at most 11 characters (the mobile SDKs' limit).
    public var integer: Int32? { text.withBytes(Key.integer) }

    @inline(__always)
    static func integer(_ bytes: UnsafeBufferPointer<UInt8>) -> Int32? {
        guard let first = bytes.first, first <= UInt8(ascii: "9"), bytes.count <= 11 else { return nil }
        var i = 0
        let negative = first == UInt8(ascii: "-")
        if negative { i = 1 }
        guard i < bytes.count else { return nil }
        var value: Int64 = 0
        while i < bytes.count {
            let digit = bytes[i] &- UInt8(ascii: "0")
            guard digit <= 9 else { return nil }
            value = value &* 10 &+ Int64(digit)
            i &+= 1
        }
        return Int32(exactly: negative ? -value : value)
    }
}

extension Key: Comparable {
    public static func < (a: Key, b: Key) -> Bool { order(a, b) < 0 }

    /// Negative, zero or positive if `a` comes before, equals, or comes after `b`. Equal integers order by length: `1` before `01`.
    @inline(__always)
    static func order(_ a: Key, _ b: Key) -> Int {
        a.text.withBytes { x in b.text.withBytes { y in order(x, y) } }
    }

    /// A key for repeated comparison in a lookup, with precomputed properties.
    struct Probe {
        let bytes: UnsafeBufferPointer<UInt8>
        let integer: Int32?

        @inline(__always)
        init(_ bytes: UnsafeBufferPointer<UInt8>) {
            self.bytes = bytes
            integer = Key.integer(bytes)
        }

        /// Negative, zero or positive if `key` comes before, equals, or comes after the probe.
        @inline(__always)
        func order(_ key: Key) -> Int { key.text.withBytes { order($0) } }

        @inline(__always)
        func order(_ x: UnsafeBufferPointer<UInt8>) -> Int {
            // Most keys differ in their first byte. Integers begin with a digit, and UTF-16 order deviates from byte order above 0xED.
            if let a = x.first, let b = bytes.first, a != b, a > UInt8(ascii: "9"), b > UInt8(ascii: "9"), a < 0xEE, b < 0xEE {
                return Int(a) &- Int(b)
            }
            return Key.order(x, Key.integer(x), bytes, integer)
        }
    }

    /// The eight bytes after the prefix that the probe shares with all candidates.
    struct ProbeWord {
        private let at: Int
        private let word: UInt64

        /// Nil for short keys, and if the candidates include numbers.
        @inline(__always)
        init?(_ probe: Probe, between first: UnsafeBufferPointer<UInt8>, _ last: UnsafeBufferPointer<UInt8>) {
            let bytes = probe.bytes
            guard bytes.count >= 8, Key.integer(first) == nil, let base = UnsafeRawPointer(bytes.baseAddress) else { return nil }
            at = min(commonPrefix(first, last), bytes.count &- 8)
            word = base.loadUnaligned(fromByteOffset: at, as: UInt64.self)
        }

        /// The order as the probe defines it; nil if these eight bytes do not decide.
        @inline(__always)
        func order(_ key: UnsafeBufferPointer<UInt8>) -> Int? {
            guard key.count >= at &+ 8, let base = UnsafeRawPointer(key.baseAddress) else { return nil }
            let other = base.loadUnaligned(fromByteOffset: at, as: UInt64.self)
            return other == word ? nil : utf16Order(other, word)
        }
    }

    @inline(__always)
    static func order(_ x: UnsafeBufferPointer<UInt8>, _ y: UnsafeBufferPointer<UInt8>) -> Int {
        if let a = x.first, let b = y.first, a > UInt8(ascii: "9"), b > UInt8(ascii: "9") {
            // Neither is an integer; UTF-16 order deviates from byte order above 0xED.
            return a != b && a < 0xEE && b < 0xEE ? Int(a) &- Int(b) : utf16Order(x, y)
        }
        return order(x, integer(x), y, integer(y))
    }

    @inline(__always)
    private static func order(_ x: UnsafeBufferPointer<UInt8>, _ m: Int32?, _ y: UnsafeBufferPointer<UInt8>, _ n: Int32?) -> Int {
        switch (m, n) {
        case (nil, nil): return utf16Order(x, y)
        case (_, nil): return -1
        case (nil, _): return 1
        case (let m?, let n?): return m != n ? (m < n ? -1 : 1) : (x.count != y.count ? x.count - y.count : utf16Order(x, y))
        }
    }
}
