/// A short text, such as a member name, as two integers: cheap to compare, and read without creating a string. All texts above 15 bytes
/// share one value, which equals no literal.
@frozen public struct JSONName: Sendable, Equatable, ExpressibleByStringLiteral {
    /// Up to 15 bytes, the first one in the lowest byte, and the length in the highest. All longer texts have the length 255 and no bytes.
    @usableFromInline let low: UInt64
    @usableFromInline let high: UInt64

    /// - Parameter text: at most 15 bytes. Evaluated by the compiler.
    @inlinable @inline(__always)
    public init(stringLiteral text: StaticString) {
        self.init(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @inlinable @inline(__always)
    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        var (low, high) = (UInt64(0), UInt64(0))
        let count = bytes.count
        if count <= 15 {
            for i in 0..<min(8, count) { low |= UInt64(bytes[i]) &<< UInt64(8 &* i) }
            if count > 8 { for i in 8..<count { high |= UInt64(bytes[i]) &<< UInt64(8 &* (i &- 8)) } }
            high |= UInt64(count) &<< 56
        } else {
            high = 255 &<< 56
        }
        (self.low, self.high) = (low, high)
    }

    /// A text of one byte.
    @inline(__always)
    init(letter: UInt8) { (low, high) = (UInt64(letter), 1 &<< 56) }

    @inlinable @inline(__always)
    public static func == (a: JSONName, b: JSONName) -> Bool { a.low == b.low && a.high == b.high }
}

extension JSONReader {
    /// The next member's name, like `nextName`.
    public mutating func nextShortName() throws(JSONError) -> JSONName? {
        if let letter = nextLetterName() { return JSONName(letter: letter) }
        guard let name = try nextNameText() else { return nil }
        return try shortText(name)
    }

    /// The text of a string, for comparisons with short literals.
    public mutating func shortText() throws(JSONError) -> JSONName {
        if let letter = nextLetter() { return JSONName(letter: letter) }
        guard try peek() == .string else { throw .unexpectedType(offset: offset) }
        return try shortText(try scanString())
    }

    private func shortText(_ scanned: ScannedString) throws(JSONError) -> JSONName {
        if scanned.isPlain { return JSONName(UnsafeBufferPointer(rebasing: bytes[scanned.content])) }
        var text = try string(scanned)
        return text.withUTF8 { JSONName($0) }
    }

    /// Calls `body` with the bytes of a string, with escapes resolved and invalid UTF-8 repaired.
    public mutating func withString<R>(_ body: (UnsafeBufferPointer<UInt8>) -> R) throws(JSONError) -> R {
        guard try peek() == .string else { throw .unexpectedType(offset: offset) }
        let scanned = try scanString()
        if scanned.isPlain { return body(UnsafeBufferPointer(rebasing: bytes[scanned.content])) }
        var text = try string(scanned)
        return text.withUTF8(body)
    }
}
