/// A pull parser over JSON bytes (RFC 8259) without intermediate dictionaries: the caller requests the expected types.
///
///     try reader.beginObject()
///     while let name = try reader.nextName() {
///         switch name { case "r": number = try reader.int(); default: try reader.skipValue() }
///     }
///
/// The bytes must stay valid and unchanged while the reader is used. Text that is not UTF-8 is repaired with U+FFFD.
public struct JSONReader {
    let bytes: UnsafeBufferPointer<UInt8>
    /// Offset of the next byte to read.
    public internal(set) var offset: Int
    private let end: Int
    /// Offset of the last name.
    public private(set) var nameOffset = 0
    /// No member or element of the innermost container has been read yet.
    private var isFirst = false

    /// Deepest nesting that is scanned; a deeper text is refused as malformed.
    static let maxNesting = 256

    public init(_ bytes: UnsafeRawBufferPointer) {
        self.init(bytes, range: 0..<bytes.count)
    }

    /// Parses one part of a text, such as a range from `rawValue()`; offsets are those of the whole text.
    public init(_ bytes: UnsafeRawBufferPointer, range: Range<Int>) {
        self.bytes = bytes.bindMemory(to: UInt8.self)
        offset = range.lowerBound
        end = range.upperBound
    }

    public enum Kind: Sendable { case object, array, string, number, bool, null }

    /// The type of the next value, without reading it.
    public mutating func peek() throws(JSONError) -> Kind {
        switch try peekByte() {
        case UInt8(ascii: "{"): return .object
        case UInt8(ascii: "["): return .array
        case UInt8(ascii: "\""): return .string
        case UInt8(ascii: "t"), UInt8(ascii: "f"): return .bool
        case UInt8(ascii: "n"): return .null
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number
        default: throw .malformed(offset: offset)
        }
    }

    // MARK: Containers

    public mutating func beginObject() throws(JSONError) { try begin(UInt8(ascii: "{")) }
    public mutating func beginArray() throws(JSONError) { try begin(UInt8(ascii: "[")) }

    private mutating func begin(_ open: UInt8) throws(JSONError) {
        guard try peekByte() == open else { throw try mismatch() }
        offset &+= 1
        isFirst = true
    }

    /// The next member's name, whose value must be read or skipped next; nil at the end of the object.
    public mutating func nextName() throws(JSONError) -> String? {
        guard let name = try nextNameText() else { return nil }
        return try string(name)
    }

    /// The same, without a copy.
    mutating func nextNameText() throws(JSONError) -> ScannedString? {
        guard try advance(closing: UInt8(ascii: "}")) else { return nil }
        guard try peekByte() == UInt8(ascii: "\"") else { throw .malformed(offset: offset) }
        nameOffset = offset
        let name = try scanString()
        guard try peekByte() == UInt8(ascii: ":") else { throw .malformed(offset: offset) }
        offset &+= 1
        return name
    }

    /// Whether another element follows in the array; at its end, leaves it.
    public mutating func nextElement() throws(JSONError) -> Bool { try advance(closing: UInt8(ascii: "]")) }

    private mutating func advance(closing: UInt8) throws(JSONError) -> Bool {
        let byte = try peekByte()
        if byte == closing {
            offset &+= 1
            isFirst = false
            return false
        }
        if !isFirst {
            guard byte == UInt8(ascii: ",") else { throw .malformed(offset: offset) }
            offset &+= 1
            if try peekByte() == closing { throw .malformed(offset: offset) }
        }
        isFirst = false
        return true
    }

    /// Checks that only white space follows.
    public mutating func expectEnd() throws(JSONError) {
        skipSpace()
        if offset < end { throw .malformed(offset: offset) }
    }

    // MARK: Leaves

    public mutating func null() throws(JSONError) {
        guard try peekByte() == UInt8(ascii: "n") else { throw try mismatch() }
        try literal("null")
    }

    public mutating func bool() throws(JSONError) -> Bool {
        switch try peekByte() {
        case UInt8(ascii: "t"):
            try literal("true")
            return true
        case UInt8(ascii: "f"):
            try literal("false")
            return false
        default: throw try mismatch()
        }
    }

    /// An integer of 64 bits; `7.0` is 7.
    public mutating func int() throws(JSONError) -> Int64 {
        let start = offset
        if case .int(let value) = try number() { return value }
        throw .unexpectedType(offset: start)
    }

    /// `Node.int` or `Node.double`; a number too large for a double is malformed.
    public mutating func number() throws(JSONError) -> Node {
        guard try peek() == .number else { throw .unexpectedType(offset: offset) }
        let start = offset
        var negative = false
        if bytes[offset] == UInt8(ascii: "-") {
            negative = true
            offset &+= 1
        }
        var (value, overflow) = (Int64(0), false)
        let digitsStart = offset
        while offset < end {
            let digit = bytes[offset] &- UInt8(ascii: "0")
            guard digit <= 9 else { break }
            let (product, o1) = value.multipliedReportingOverflow(by: 10)
            // Counted downwards from zero for negatives, so that the lowest integer fits too.
            let (sum, o2) = negative ? product.subtractingReportingOverflow(Int64(digit)) : product.addingReportingOverflow(Int64(digit))
            overflow = overflow || o1 || o2
            value = sum
            offset &+= 1
        }
        let digits = offset - digitsStart
        if digits == 0 || (digits > 1 && bytes[digitsStart] == UInt8(ascii: "0")) { throw .malformed(offset: start) }
        let digitsEnd = offset
        let fraction = try scanFraction(start)
        if !fraction, !overflow { return .int(value) }
        if !overflow, let exact = exactDecimal(whole: value, digitsEnd, negative) { return .number(exact) }
        guard let double = Double(String(decoding: bytes[start..<offset], as: UTF8.self)), double.isFinite else {
            throw .malformed(offset: start)
        }
        return .number(double)
    }

    /// A short decimal without exponent such as `23.735901`: a significand of at most 2^53 divided by a power of ten that is
    /// a double itself is correctly rounded by one division. Everything else is left to the general conversion.
    private func exactDecimal(whole: Int64, _ digitsEnd: Int, _ negative: Bool) -> Double? {
        let decimals = offset - digitsEnd - 1
        guard bytes[digitsEnd] == UInt8(ascii: "."), decimals < Self.powersOfTen.count, whole.magnitude < 1_000_000_000 else { return nil }
        var significand = whole.magnitude
        for i in digitsEnd + 1..<offset {
            let digit = bytes[i] &- UInt8(ascii: "0")
            guard digit <= 9 else { return nil }
            significand = significand &* 10 &+ UInt64(digit)
        }
        guard significand <= 1 << 53 else { return nil }
        let value = Double(significand) / Self.powersOfTen[decimals]
        return negative ? -value : value
    }

    /// With nine digits before the point, ten after it stay within 64 bits.
    private static let powersOfTen: [Double] = [1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10]

    private mutating func scanFraction(_ start: Int) throws(JSONError) -> Bool {
        var found = false
        if offset < end, bytes[offset] == UInt8(ascii: ".") {
            offset &+= 1
            guard scanDigits() else { throw .malformed(offset: start) }
            found = true
        }
        if offset < end, bytes[offset] | 0x20 == UInt8(ascii: "e") {
            offset &+= 1
            if offset < end, bytes[offset] == UInt8(ascii: "+") || bytes[offset] == UInt8(ascii: "-") { offset &+= 1 }
            guard scanDigits() else { throw .malformed(offset: start) }
            found = true
        }
        return found
    }

    private mutating func scanDigits() -> Bool {
        let start = offset
        while offset < end, bytes[offset] &- UInt8(ascii: "0") <= 9 { offset &+= 1 }
        return offset > start
    }

    // MARK: Skipping

    /// Skips the next value, checking its syntax; returns the range of its text.
    @discardableResult
    public mutating func skipValue() throws(JSONError) -> Range<Int> {
        _ = try peekByte()
        let start = offset
        try skip(nesting: 0)
        return start..<offset
    }

    private mutating func skip(nesting: Int) throws(JSONError) {
        guard nesting < Self.maxNesting else { throw .malformed(offset: offset) }
        switch try peek() {
        case .object:
            try beginObject()
            while try advance(closing: UInt8(ascii: "}")) {
                guard try peekByte() == UInt8(ascii: "\"") else { throw .malformed(offset: offset) }
                _ = try scanString()
                guard try peekByte() == UInt8(ascii: ":") else { throw .malformed(offset: offset) }
                offset &+= 1
                try skip(nesting: nesting + 1)
            }
        case .array:
            try beginArray()
            while try nextElement() { try skip(nesting: nesting + 1) }
        case .string: _ = try scanString()
        case .number: _ = try number()
        case .bool: _ = try bool()
        case .null: try null()
        }
    }

    // MARK: Bytes

    @inline(__always)
    mutating func peekByte() throws(JSONError) -> UInt8 {
        skipSpace()
        guard offset < end else { throw .malformed(offset: offset) }
        return bytes[offset]
    }

    @inline(__always)
    private mutating func skipSpace() {
        while offset < end {
            switch bytes[offset] {
            case 0x20, 0x09, 0x0A, 0x0D: offset &+= 1
            default: return
            }
        }
    }

    private mutating func literal(_ text: StaticString) throws(JSONError) {
        guard offset + text.utf8CodeUnitCount <= end else { throw .malformed(offset: offset) }
        for i in 0..<text.utf8CodeUnitCount where bytes[offset + i] != text.utf8Start[i] { throw .malformed(offset: offset) }
        offset &+= text.utf8CodeUnitCount
    }

    /// The error for a value of another type than expected, or for malformed text.
    private mutating func mismatch() throws(JSONError) -> JSONError {
        _ = try peek()
        return .unexpectedType(offset: offset)
    }

    var limit: Int { end }
}
