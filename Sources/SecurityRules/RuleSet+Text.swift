import JSONTree

extension RuleSet {
    /// Parses and checks the bytes of a rules file.
    /// - Throws: all faults, like `init(parsing:)` with text; invalid UTF-8 is one fault.
    public init(parsing bytes: [UInt8]) throws(RulesErrors) {
        guard bytes.count <= Self.maxBytes else { throw .tooLarge }
        if let offset = Self.endOfText(bytes) {
            // Decoding replaces only invalid bytes, so the offsets before them stay correct.
            let text = RulesText(String(decoding: bytes[..<offset], as: UTF8.self))
            let hint = offset == 0 ? "this is no text file; rules are JSON" : "this byte is no UTF-8; save the file as UTF-8"
            throw RulesErrors([LocatedError(offset: text.bytes.count, message: "Parse error.", hint: hint)], in: text)
        }
        try self.init(parsing: String(decoding: bytes, as: UTF8.self))
    }

    /// The offset of the first byte that is not text; nil if all are. A zero byte is not text: it indicates another encoding, such as UTF-16.
    private static func endOfText(_ bytes: [UInt8]) -> Int? {
        var decoder = UTF8()
        var iterator = bytes.makeIterator()
        var offset = 0
        while true {
            switch decoder.decode(&iterator) {
            case .scalarValue("\0"): return offset
            case .scalarValue(let scalar): offset += UTF8.width(scalar)
            case .emptyInput: return nil
            case .error: return offset
            }
        }
    }

    /// The rules as plain JSON without comments and formatting; members keep their order.
    public var plainJSON: String {
        var parser = LocatedJSONParser(RulesText(text))
        guard let json = try? parser.parse() else { return "{}" }
        var writer = JSONWriter(reservingCapacity: text.utf8.count)
        writer.value(json)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Every key with a dot, in the order of the file: its name, such as `/users/$uid.write` or `/posts.rate`, and the text of its value.
    /// An expression is given as written, anything else as plain JSON.
    public var declarations: [(name: String, text: String)] {
        var parser = LocatedJSONParser(RulesText(text))
        guard let json = try? parser.parse(), case .object(let members) = json.value,
            let rules = members.first(where: { $0.name.value == "rules" })
        else { return [] }
        var found: [(name: String, text: String)] = []
        Self.collect(rules.value, at: "", &found)
        return found
    }

    private static func collect(_ json: LocatedJSON, at place: String, _ found: inout [(name: String, text: String)]) {
        guard case .object(let members) = json.value else { return }
        for member in members {
            let key = member.name.value
            if key.utf8.first == UInt8(ascii: ".") {
                found.append(((place.isEmpty ? "/" : place) + key, plainText(member.value)))
            } else {
                collect(member.value, at: "\(place)/\(key)", &found)
            }
        }
    }

    private static func plainText(_ json: LocatedJSON) -> String {
        if case .string(let text) = json.value { return text.value }
        var writer = JSONWriter()
        writer.value(json)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

extension JSONWriter {
    fileprivate mutating func value(_ json: LocatedJSON) {
        switch json.value {
        case .null: raw("null")
        case .bool(let flag): raw(flag ? "true" : "false")
        case .number(let number): node(number)
        case .string(let text): string(text.value)
        case .array(let elements):
            raw("[")
            for (i, element) in elements.enumerated() {
                if i > 0 { raw(",") }
                value(element)
            }
            raw("]")
        case .object(let members):
            raw("{")
            for (i, member) in members.enumerated() {
                if i > 0 { raw(",") }
                string(member.name.value)
                raw(":")
                value(member.value)
            }
            raw("}")
        }
    }
}
