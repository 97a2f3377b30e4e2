import JSONTree

/// A value of the rules file's JSON syntax, with its byte offset.
struct LocatedJSON {
    let offset: Int
    let value: Value

    enum Value {
        case object([Member])
        case array([LocatedJSON])
        case string(LocatedString)
        case bool(Bool)
        /// Numbers and null are used in test cases and in some values, but not as rules.
        case number(Node)
        case null
    }

    struct Member {
        let name: LocatedString
        let value: LocatedJSON
    }
}

extension LocatedJSON {
    /// All its texts, apart from names of members.
    var texts: [LocatedString] {
        switch value {
        case .string(let text): [text]
        case .array(let elements): elements.flatMap(\.texts)
        case .object(let members): members.flatMap(\.value.texts)
        default: []
        }
    }
}

/// Parses the syntax of rules files: JSON with comments, trailing commas and raw line breaks in strings (rules contract §1.1). Parsing ends
/// at the first fault, as the text after it cannot be interpreted.
struct LocatedJSONParser {
    private let bytes: [UInt8]
    private var offset = 0
    private var nesting = 0

    /// The deepest nesting of the text: rules 32 deep, plus the objects around and inside them.
    private static let maxNesting = 48

    init(_ text: RulesText) { bytes = text.bytes }

    /// Reads the whole text.
    mutating func parse() throws(LocatedError) -> LocatedJSON {
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { offset = 3 }
        try skipSpace()
        guard let byte else {
            let found = bytes.isEmpty ? "the file is empty" : "there is nothing but space and comments"
            throw LocatedError(offset: 0, message: "Parse error.", hint: "\(found); the least is {\"rules\": {}}, which denies everything")
        }
        guard isWordByte(byte) || "{[\"".utf8.contains(byte) else {
            throw LocatedError(offset: offset, message: "Parse error.", hint: "a file of rules is JSON: {\"rules\": { … }}")
        }
        let value = try value()
        try skipSpace()
        guard offset == bytes.count else {
            throw LocatedError(offset: offset, message: "Parse error.", hint: "the file should end here: what is before this is complete")
        }
        return value
    }

    private func error(_ message: String) -> LocatedError { LocatedError(offset: offset, message: message) }

    private var byte: UInt8? { offset < bytes.count ? bytes[offset] : nil }

    private mutating func value() throws(LocatedError) -> LocatedJSON {
        let start = offset
        switch byte {
        case UInt8(ascii: "{"): return LocatedJSON(offset: start, value: .object(try members()))
        case UInt8(ascii: "["): return LocatedJSON(offset: start, value: .array(try elements()))
        case UInt8(ascii: "\""): return LocatedJSON(offset: start, value: .string(try string()))
        default: return LocatedJSON(offset: start, value: try word())
        }
    }

    private mutating func members() throws(LocatedError) -> [LocatedJSON.Member] {
        try enter()
        var members: [LocatedJSON.Member] = []
        try skipSpace()
        if byte == UInt8(ascii: ",") { throw error("Unexpected ','.") }
        while byte != UInt8(ascii: "}") {
            guard byte == UInt8(ascii: "\"") else { throw error("Expected '\"'.") }
            let name = try string()
            try skipSpace()
            guard byte == UInt8(ascii: ":") else { throw error("Expected ':'.") }
            offset += 1
            try skipSpace()
            members.append(LocatedJSON.Member(name: name, value: try value()))
            try skipSpace()
            if byte == UInt8(ascii: ",") {
                offset += 1
                try skipSpace()
            } else if byte != UInt8(ascii: "}") {
                throw error("Expected '}'.")
            }
        }
        leave()
        return members
    }

    private mutating func elements() throws(LocatedError) -> [LocatedJSON] {
        try enter()
        var elements: [LocatedJSON] = []
        try skipSpace()
        while byte != UInt8(ascii: "]") {
            if byte == UInt8(ascii: ",") { throw error("Unexpected ','.") }
            elements.append(try value())
            try skipSpace()
            if byte == UInt8(ascii: ",") {
                offset += 1
                try skipSpace()
            } else if byte != UInt8(ascii: "]") {
                throw error("Expected ']'.")
            }
        }
        leave()
        return elements
    }

    private mutating func enter() throws(LocatedError) {
        nesting += 1
        guard nesting <= Self.maxNesting else { throw error("Rules are nested too deeply.") }
        offset += 1
    }

    private mutating func leave() {
        nesting -= 1
        offset += 1
    }

    private mutating func string() throws(LocatedError) -> LocatedString {
        let quote = offset
        var scanner = JSONStringScanner(bytes: bytes, offset: offset + 1)
        var value = String.UnicodeScalarView()
        while let scalar = try scanner.next() { value.append(scalar) }
        offset = scanner.offset
        return LocatedString(value: String(value), quote: quote)
    }

    private mutating func word() throws(LocatedError) -> LocatedJSON.Value {
        let start = offset
        while let byte, isWordByte(byte) { offset += 1 }
        let text = String(decoding: bytes[start..<offset], as: UTF8.self)
        switch text {
        case "true": return .bool(true)
        case "false": return .bool(false)
        case "null": return .null
        default:
            guard let first = text.utf8.first, first == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first),
                let number = Double(text), number.isFinite
            else {
                throw LocatedError(
                    offset: start, message: "Parse error.", hint: "expected JSON: an object in { }, a text in \" \", true or false")
            }
            return .number(Int64(text).map { .int($0) } ?? .number(number))
        }
    }

    private func isWordByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
            UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    /// Skips white space and comments.
    private mutating func skipSpace() throws(LocatedError) {
        while let byte {
            switch byte {
            case 0x20, 0x09, 0x0A, 0x0D: offset += 1
            case UInt8(ascii: "/"):
                guard offset + 1 < bytes.count else { throw error("Parse error.") }
                switch bytes[offset + 1] {
                case UInt8(ascii: "/"):
                    while let byte = self.byte, byte != UInt8(ascii: "\n") { offset += 1 }
                case UInt8(ascii: "*"):
                    var end = offset + 2
                    while end + 1 < bytes.count, !(bytes[end] == UInt8(ascii: "*") && bytes[end + 1] == UInt8(ascii: "/")) { end += 1 }
                    guard end + 1 < bytes.count else { throw error("Parse error.") }
                    offset = end + 2
                default: throw error("Parse error.")
                }
            default: return
            }
        }
    }
}
