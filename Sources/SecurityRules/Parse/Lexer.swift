/// A token of an expression.
struct Token {
    enum Kind: Equatable {
        case number(Double)
        case string(String)
        case identifier(String)
        /// An operator or bracket, as spelt.
        case symbol(String)
        case end
    }
    let kind: Kind
    /// UTF-8 offset of its first byte.
    let offset: Int
}

/// Splits an expression into tokens (rules contract §3). A regular expression is read only where the parser expects an operand; elsewhere
/// `/` divides.
struct Lexer {
    private let bytes: [UInt8]
    /// The next byte to read.
    private(set) var offset = 0

    init(_ text: String) { bytes = Array(text.utf8) }

    private func byte(_ ahead: Int = 0) -> UInt8? { offset + ahead < bytes.count ? bytes[offset + ahead] : nil }

    mutating func next() throws(ExpressionError) -> Token {
        try skipSpace()
        let start = offset
        guard let first = byte() else { return Token(kind: .end, offset: start) }
        switch first {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): return Token(kind: .number(try number()), offset: start)
        case UInt8(ascii: ".") where byte(1).map(isDigit) == true: return Token(kind: .number(try number()), offset: start)
        case UInt8(ascii: "'"), UInt8(ascii: "\""): return Token(kind: .string(try string(quote: first)), offset: start)
        case let letter where isIdentifierStart(letter):
            while let next = byte(), isIdentifierStart(next) || isDigit(next) { offset += 1 }
            return Token(kind: .identifier(String(decoding: bytes[start..<offset], as: UTF8.self)), offset: start)
        default: return Token(kind: .symbol(try symbol()), offset: start)
        }
    }

    private static let symbols = [
        "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", "(", ")", "[", "]", ".", ",",
        "=",
    ].map { Array($0.utf8) }

    private mutating func symbol() throws(ExpressionError) -> String {
        for symbol in Self.symbols where bytes[offset...].starts(with: symbol) {
            offset += symbol.count
            return String(decoding: symbol, as: UTF8.self)
        }
        var end = offset + 1
        while end < bytes.count, bytes[end] & 0xC0 == 0x80 { end += 1 }
        let character = String(decoding: bytes[offset..<end], as: UTF8.self)
        throw ExpressionError(offset: offset, message: "Unexpected character '\(character)'.")
    }

    private mutating func skipSpace() throws(ExpressionError) {
        while let current = byte() {
            switch current {
            case 0x20, 0x09, 0x0A, 0x0D: offset += 1
            case UInt8(ascii: "/") where byte(1) == UInt8(ascii: "/"):
                while let next = byte(), next != UInt8(ascii: "\n") { offset += 1 }
            case UInt8(ascii: "/") where byte(1) == UInt8(ascii: "*"):
                let start = offset
                offset += 2
                while !(byte() == UInt8(ascii: "*") && byte(1) == UInt8(ascii: "/")) {
                    guard offset < bytes.count else { throw ExpressionError(offset: start, message: "Unterminated comment.") }
                    offset += 1
                }
                offset += 2
            default: return
            }
        }
    }

    private func isDigit(_ byte: UInt8) -> Bool { byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9") }

    private func isIdentifierStart(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"), UInt8(ascii: "$"): true
        default: false
        }
    }

    private mutating func digits() {
        while let next = byte(), isDigit(next) { offset += 1 }
    }

    private mutating func number() throws(ExpressionError) -> Double {
        let start = offset
        digits()
        if byte() == UInt8(ascii: "."), byte(1).map(isDigit) == true {
            offset += 1
            digits()
        }
        if byte() == UInt8(ascii: "e") || byte() == UInt8(ascii: "E") {
            let signed = byte(1) == UInt8(ascii: "+") || byte(1) == UInt8(ascii: "-")
            if byte(signed ? 2 : 1).map(isDigit) == true {
                offset += signed ? 2 : 1
                digits()
            }
        }
        guard byte().map(isIdentifierStart) != true,
            let value = Double("0" + String(decoding: bytes[start..<offset], as: UTF8.self)), value.isFinite
        else { throw ExpressionError(offset: start, message: "Invalid number.") }
        return value
    }

    private mutating func string(quote: UInt8) throws(ExpressionError) -> String {
        let start = offset
        var content: [UInt8] = []
        offset += 1
        while let current = byte(), current != UInt8(ascii: "\n"), current != UInt8(ascii: "\r") {
            if current == quote {
                offset += 1
                return String(decoding: content, as: UTF8.self)
            }
            if current == UInt8(ascii: "\\") {
                try escape(&content)
            } else {
                content.append(current)
                offset += 1
            }
        }
        throw ExpressionError(offset: start, message: "Unterminated string literal.")
    }

    /// Decodes a JavaScript escape; a backslash before punctuation stands for the character itself.
    private mutating func escape(_ content: inout [UInt8]) throws(ExpressionError) {
        let start = offset
        guard let letter = byte(1) else { throw ExpressionError(offset: start, message: "Unterminated string literal.") }
        offset += 2
        switch letter {
        case UInt8(ascii: "n"): content.append(0x0A)
        case UInt8(ascii: "t"): content.append(0x09)
        case UInt8(ascii: "r"): content.append(0x0D)
        case UInt8(ascii: "b"): content.append(0x08)
        case UInt8(ascii: "f"): content.append(0x0C)
        case UInt8(ascii: "v"): content.append(0x0B)
        case UInt8(ascii: "u"):
            guard let unit = unit() else { throw ExpressionError(offset: start, message: "Invalid escape in string literal.") }
            var scalar = Unicode.Scalar(UInt32(unit)) ?? "\u{FFFD}"
            if unit & 0xFC00 == 0xD800, byte() == UInt8(ascii: "\\"), byte(1) == UInt8(ascii: "u") {
                let mark = offset
                offset += 2
                if let low = self.unit(), low & 0xFC00 == 0xDC00 {
                    scalar = Unicode.Scalar(0x10000 + (UInt32(unit & 0x3FF) << 10 | UInt32(low & 0x3FF))) ?? "\u{FFFD}"
                } else {
                    offset = mark
                }
            }
            content.append(contentsOf: Array(String(scalar).utf8))
        case let other where isDigit(other) || other < 0x20 || other >= 0x80 || (
            isIdentifierStart(other) && other != UInt8(ascii: "$") && other != UInt8(ascii: "_")):
            throw ExpressionError(offset: start, message: "Invalid escape in string literal.")
        default: content.append(letter)
        }
    }

    private mutating func unit() -> UInt16? {
        guard offset + 4 <= bytes.count else { return nil }
        var value: UInt16 = 0
        for byte in bytes[offset..<offset + 4] {
            guard let digit = hexDigit(byte) else { return nil }
            value = value << 4 | UInt16(digit)
        }
        offset += 4
        return value
    }

    /// Reads a regular expression literal whose opening slash is at `start`; the lexer continues after it.
    mutating func regex(at start: Int) throws(ExpressionError) -> (pattern: String, ignoresCase: Bool) {
        offset = start + 1
        var inClass = false
        while true {
            guard let current = byte(), current != UInt8(ascii: "\n"), current != UInt8(ascii: "\r") else {
                throw ExpressionError(offset: start, message: "unterminated regular expression literal")
            }
            if current == UInt8(ascii: "/"), !inClass { break }
            if current == UInt8(ascii: "\\"), byte(1) != nil { offset += 1 }
            if current == UInt8(ascii: "[") { inClass = true }
            if current == UInt8(ascii: "]") { inClass = false }
            offset += 1
        }
        let pattern = String(decoding: bytes[start + 1..<offset], as: UTF8.self)
        offset += 1
        let flags = offset
        while let next = byte(), isIdentifierStart(next) || isDigit(next) { offset += 1 }
        switch bytes[flags..<offset] {
        case []: return (pattern, false)
        case [UInt8(ascii: "i")]: return (pattern, true)
        default: throw ExpressionError(offset: start, message: "regular expressions do not support flags other than i")
        }
    }
}
