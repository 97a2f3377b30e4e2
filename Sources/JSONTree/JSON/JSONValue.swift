/// Any JSON value, unmodified: for account requests and responses, claims, key sets and settings files. Unlike a `Node` it keeps arrays, the
/// order of members, and `null`, which clears a field.
public enum JSONValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case int(Int64)
    case double(Double)
    case string(String)
    case array([JSONValue])
    case object([Member])

    public struct Member: Sendable, Equatable {
        public var name: String
        public var value: JSONValue

        public init(_ name: String, _ value: JSONValue) {
            self.name = name
            self.value = value
        }
    }

    /// The deepest nesting parsed.
    static let depth = 32

    /// Parses a whole text.
    public init(_ bytes: [UInt8]) throws(JSONError) {
        self = try bytes.withUnsafeBufferPointer { buffer throws(JSONError) in
            var reader = JSONReader(UnsafeRawBufferPointer(buffer))
            let value = try JSONValue(&reader, depth: 0)
            try reader.expectEnd()
            return value
        }
    }

    private init(_ reader: inout JSONReader, depth: Int) throws(JSONError) {
        guard depth <= Self.depth else { throw .tooDeep(offset: reader.offset) }
        switch try reader.peek() {
        case .object:
            var members: [Member] = []
            try reader.beginObject()
            while let name = try reader.nextName() { members.append(Member(name, try JSONValue(&reader, depth: depth + 1))) }
            self = .object(members)
        case .array:
            var elements: [JSONValue] = []
            try reader.beginArray()
            while try reader.nextElement() { elements.append(try JSONValue(&reader, depth: depth + 1)) }
            self = .array(elements)
        case .string: self = .string(try reader.string())
        case .bool: self = .bool(try reader.bool())
        case .number:
            switch try reader.number() {
            case .int(let number): self = .int(number)
            case .double(let number): self = .double(number)
            default: throw .malformed(offset: reader.offset)
            }
        case .null:
            try reader.null()
            self = .null
        }
    }

    public func write(to writer: inout JSONWriter) {
        switch self {
        case .null: writer.raw("null")
        case .bool(let flag): writer.raw(flag ? "true" : "false")
        case .int(let number): writer.int(number)
        case .double(let number): writer.double(number)
        case .string(let text): writer.string(text)
        case .array(let elements):
            writer.raw("[")
            for (i, element) in elements.enumerated() {
                if i > 0 { writer.raw(",") }
                element.write(to: &writer)
            }
            writer.raw("]")
        case .object(let members):
            writer.raw("{")
            for (i, member) in members.enumerated() {
                if i > 0 { writer.raw(",") }
                writer.string(member.name)
                writer.raw(":")
                member.value.write(to: &writer)
            }
            writer.raw("}")
        }
    }

    public var bytes: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }

    public var json: String { String(decoding: bytes, as: UTF8.self) }
}

// MARK: Access

extension JSONValue {
    /// A member, named in camel case or snake case (accounts contract §2.2). Nil if absent, `.null` if null. The last of duplicate names counts.
    public subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        if let member = members.last(where: { $0.name == name }) { return member.value }
        let snake = Self.snakeCase(name)
        return snake == name ? nil : members.last { $0.name == snake }?.value
    }

    private static func snakeCase(_ name: String) -> String {
        var out = ""
        for character in name {
            if character.isUppercase { out += "_" + character.lowercased() } else { out.append(character) }
        }
        return out
    }

    public var isNull: Bool { self == .null }

    public var string: String? { if case .string(let text) = self { text } else { nil } }

    public var bool: Bool? { if case .bool(let flag) = self { flag } else { nil } }

    /// An integer, also if written as a string of digits or as an integral double (contract §2.2: int64 fields).
    public var int: Int64? {
        switch self {
        case .int(let number): number
        case .double(let number): Int64(exactly: number)
        case .string(let text): Int64(text)
        default: nil
        }
    }

    public var elements: [JSONValue]? { if case .array(let elements) = self { elements } else { nil } }

    public var members: [Member]? { if case .object(let members) = self { members } else { nil } }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int64) { self = .int(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    public init(dictionaryLiteral elements: (String, JSONValue)...) { self = .object(elements.map { Member($0.0, $0.1) }) }
}

extension [JSONValue.Member] {
    /// Adds a member unless the value is nil: responses omit absent fields (contract §2.3).
    public mutating func add(_ name: String, _ value: JSONValue?) {
        if let value { append(JSONValue.Member(name, value)) }
    }

    public mutating func add(_ name: String, _ text: String?) { add(name, text.map(JSONValue.string)) }
}
