/// A string of the rules file with the offset of its opening quote, so that a byte of its decoded content can be located in the text.
struct LocatedString {
    let value: String
    /// Byte offset of the opening quote.
    let quote: Int
}

/// The bytes of a rules file, with conversion from a byte offset to line and column.
struct RulesText {
    let bytes: [UInt8]
    /// The line and column at every `stride`-th byte, so that a lookup costs the same in a file with one long line.
    private let marks: [(line: Int, column: Int)]

    private static let stride = 1024

    init(_ text: String) {
        bytes = Array(text.utf8)
        var marks: [(line: Int, column: Int)] = []
        var position = (line: 1, column: 1)
        for (i, byte) in bytes.enumerated() {
            if i % Self.stride == 0 { marks.append(position) }
            Self.advance(&position, over: byte)
        }
        self.marks = marks
    }

    private static func advance(_ position: inout (line: Int, column: Int), over byte: UInt8) {
        if byte == UInt8(ascii: "\n") {
            position = (position.line + 1, 1)
        } else if byte & 0xC0 != 0x80 {
            position.column += byte >= 0xF0 ? 2 : 1
        }
    }

    /// 1-based line, and column in UTF-16 code units.
    func position(at offset: Int) -> (line: Int, column: Int) {
        guard !marks.isEmpty else { return (1, 1) }
        let mark = min(offset / Self.stride, marks.count - 1)
        var position = marks[mark]
        for byte in bytes[mark * Self.stride..<max(mark * Self.stride, min(offset, bytes.count))] { Self.advance(&position, over: byte) }
        return position
    }

    /// The offset in the text of byte `offset` of a string's decoded content.
    func offset(in string: LocatedString, at offset: Int) -> Int {
        var scanner = JSONStringScanner(bytes: bytes, offset: string.quote + 1)
        var decoded = 0
        while decoded < offset {
            let before = scanner.offset
            guard let scalar = try? scanner.next() else { return before }
            decoded += UTF8.width(scalar)
            if decoded > offset { return before }
        }
        return scanner.offset
    }
}

/// Decodes the content of a JSON string scalar by scalar. Strings of rules files may contain raw line feeds and tabs (rules contract §1.1).
struct JSONStringScanner {
    let bytes: [UInt8]
    /// The next byte to read; after the closing quote once `next` has returned nil.
    var offset: Int

    /// The next scalar, or nil at the closing quote.
    mutating func next() throws(LocatedError) -> Unicode.Scalar? {
        guard offset < bytes.count else { throw LocatedError(offset: offset, message: "Parse error.") }
        let byte = bytes[offset]
        switch byte {
        case UInt8(ascii: "\""):
            offset += 1
            return nil
        case UInt8(ascii: "\\"): return try escape()
        case 0x00...0x08, 0x0B, 0x0C, 0x0E...0x1F: throw LocatedError(offset: offset, message: "Parse error.")
        case 0x00...0x7F:
            offset += 1
            return Unicode.Scalar(byte)
        default:
            // The bytes come from a String, so they are well-formed UTF-8.
            let width = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2
            var value = UInt32(byte & (0x7F >> width))
            for i in 1..<width { value = value << 6 | UInt32(bytes[offset + i] & 0x3F) }
            offset += width
            return Unicode.Scalar(value) ?? "\u{FFFD}"
        }
    }

    private mutating func escape() throws(LocatedError) -> Unicode.Scalar {
        let start = offset
        guard offset + 1 < bytes.count else { throw LocatedError(offset: start, message: "Parse error.") }
        let letter = bytes[offset + 1]
        offset += 2
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(letter)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            guard let unit = hexUnit(offset) else { throw LocatedError(offset: start, message: "Invalid escape: '\\u'") }
            offset += 4
            if unit & 0xFC00 == 0xD800, offset
                + 1 < bytes.count, bytes[offset] == UInt8(ascii: "\\"), bytes[offset + 1] == UInt8(ascii: "u"),
                let low = hexUnit(offset + 2), low & 0xFC00 == 0xDC00
            {
                offset += 6
                return Unicode.Scalar(0x10000 + (UInt32(unit & 0x3FF) << 10 | UInt32(low & 0x3FF))) ?? "\u{FFFD}"
            }
            return Unicode.Scalar(UInt32(unit)) ?? "\u{FFFD}"
        default:
            let shown = letter < 0x80 ? String(Unicode.Scalar(letter)) : "?"
            throw LocatedError(offset: start, message: "Invalid escape: '\\\(shown)'")
        }
    }

    private func hexUnit(_ at: Int) -> UInt16? {
        guard at + 4 <= bytes.count else { return nil }
        var value: UInt16 = 0
        for byte in bytes[at..<at + 4] {
            guard let digit = hexDigit(byte) else { return nil }
            value = value << 4 | UInt16(digit)
        }
        return value
    }
}

/// The value of a hexadecimal digit.
func hexDigit(_ byte: UInt8) -> UInt8? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
    default: nil
    }
}
