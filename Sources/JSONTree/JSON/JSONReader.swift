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
    /// Offset of the last member name.
    public private(set) var nameOffset = 0
    /// Whether no member or element of the innermost container was read yet.
    private var isFirst = false

    /// The deepest nesting accepted; a deeper text is refused as malformed.
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

    /// The next member's name as a range, without a copy.
    mutating func nextNameText() throws(JSONError) -> ScannedString? {
        let quote = isFirst ? offset : offset &+ 1
        if quote < end, bytes[quote] == UInt8(ascii: "\""), isFirst || bytes[offset] == UInt8(ascii: ",") {
            // The usual case: programs write no space here.
            (offset, isFirst) = (quote, false)
        } else {
            guard try advance(closing: UInt8(ascii: "}")) else { return nil }
            guard try peekByte() == UInt8(ascii: "\"") else { throw .malformed(offset: offset) }
        }
        nameOffset = offset
        let name = try scanString()
        guard try peekByte() == UInt8(ascii: ":") else { throw .malformed(offset: offset) }
        offset &+= 1
        return name
    }

    /// The next member's name if it is one letter, without space or escape, as programs write messages: `{"t":` or `,"d":`. Otherwise nil, and
    /// nothing is read.
    @inline(__always)
    mutating func nextLetterName() -> UInt8? {
        let quote = isFirst ? offset : offset &+ 1
        guard quote &+ 4 <= end, isFirst || bytes[offset] == UInt8(ascii: ",") else { return nil }
        guard bytes[quote] == UInt8(ascii: "\""), bytes[quote &+ 2] == UInt8(ascii: "\""), bytes[quote &+ 3] == UInt8(ascii: ":")
        else { return nil }
        let letter = bytes[quote &+ 1]
        guard Self.isPlain(letter) else { return nil }
        nameOffset = quote
        offset = quote &+ 4
        isFirst = false
        return letter
    }

    /// The next string if it is one letter without an escape. Otherwise nil, and nothing is read.
    @inline(__always)
    mutating func nextLetter() -> UInt8? {
        guard offset &+ 3 <= end, bytes[offset] == UInt8(ascii: "\""), bytes[offset &+ 2] == UInt8(ascii: "\"") else { return nil }
        let letter = bytes[offset &+ 1]
        guard Self.isPlain(letter) else { return nil }
        offset &+= 3
        return letter
    }

    /// Whether a byte within a string represents itself.
    @inline(__always)
    private static func isPlain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte < 0x80 && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
    }

    /// Skips `text` if it comes next exactly, without spaces, as programs write messages. The text is the beginning of a value, up to a member's
    /// value in the last object that it opens. The caller reads that value next, then the members after it.
    public mutating func skip(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard count > 0, count <= end &- offset, let base = UnsafeRawPointer(bytes.baseAddress),
            memoryEqual(base + offset, UnsafeRawPointer(text.utf8Start), count)
        else { return false }
        offset &+= count
        isFirst = false
        return true
    }

    /// Whether the array has another element; at its end, leaves the array.
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

    /// A 64-bit integer; `7.0` is 7.
    public mutating func int() throws(JSONError) -> Int64 {
        let start = offset
        if start < end, bytes[start] &- UInt8(ascii: "0") <= 9 {
            if case .int(let value)? = shortNumber() { return value }
            offset = start
        }
        if case .int(let value) = try number() { return value }
        throw .unexpectedType(offset: start)
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

    @inline(__always)
    private mutating func literal(_ text: StaticString) throws(JSONError) {
        let count = text.utf8CodeUnitCount
        guard count <= end &- offset, let base = UnsafeRawPointer(bytes.baseAddress),
            memoryEqual(base + offset, UnsafeRawPointer(text.utf8Start), count)
        else { throw .malformed(offset: offset) }
        offset &+= count
    }

    /// The error for a value of an unexpected type, or for malformed text.
    private mutating func mismatch() throws(JSONError) -> JSONError {
        _ = try peek()
        return .unexpectedType(offset: offset)
    }

    var limit: Int { end }
}
