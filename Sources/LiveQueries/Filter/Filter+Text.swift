import JSONTree

/// The text form, in `where=` of REST and `--where` of the command line: the JSON form, or conditions separated by commas.
///
///     status == open, rating >= 3, types has food, name prefix "An, d", kind in ["a", "b"]
///
/// A value that is JSON is read as JSON: `3`, `true`, `null`, `"3"`, `["a"]`. Anything else is an unquoted text. Unquoted texts that could be a
/// second condition, misplaced quotes or a number are refused, so quote them. Also quote a path that contains a blank or begins like an operator.
extension Filter {
    /// - Throws: `QueryFault`, which names the condition.
    public init(text: String, limits: FilterLimits = FilterLimits()) throws(QueryFault) {
        let bytes = Array(text.utf8)
        guard bytes.count <= 4 * limits.bytes else { throw .tooBig("where", "has more than \(4 * limits.bytes) bytes") }
        if bytes.first(where: { $0 != Self.blank }) == UInt8(ascii: "[") {
            let json: JSONValue
            do throws(JSONError) { json = try JSONValue(bytes) } catch { throw .malformed("where", "is no JSON: \(error.description)") }
            try self.init(json, limits: limits)
            return
        }
        let parts = Self.parts(bytes)
        guard parts.count <= limits.conditions else { throw .tooBig("where", "has more than \(limits.conditions) conditions") }
        var conditions: [Condition] = []
        var size = 0
        for (i, part) in parts.enumerated() {
            var words = ConditionText(part)
            let member = "where[\(i)]"
            guard let path = words.path(), let name = words.operator(), let value = try words.value(of: name, member) else {
                throw .malformed(member, "must be a path, an operator and a value, as status == open")
            }
            conditions.append(try Condition(path, name, value, member, limits, &size))
        }
        guard size <= limits.bytes else { throw .tooBig("where", "has more than \(limits.bytes) bytes of paths and texts") }
        self.init(conditions)
    }

    fileprivate static let blank = UInt8(ascii: " ")

    /// Splits at commas outside quotes and brackets. No parts for a blank text.
    private static func parts(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
        var parts: [ArraySlice<UInt8>] = []
        var (start, depth, isQuoted, i) = (0, 0, false, 0)
        while i < bytes.count {
            switch bytes[i] {
            case UInt8(ascii: "\\") where isQuoted: i += 1
            case UInt8(ascii: "\""): isQuoted.toggle()
            case UInt8(ascii: "[") where !isQuoted: depth += 1
            case UInt8(ascii: "]") where !isQuoted: depth -= 1
            case UInt8(ascii: ",") where !isQuoted && depth == 0:
                parts.append(bytes[start..<i])
                start = i + 1
            default: break
            }
            i += 1
        }
        if start > 0 || bytes.contains(where: { $0 != blank }) { parts.append(bytes[start...]) }
        return parts
    }
}

/// One condition as text, read from the left.
private struct ConditionText {
    private var rest: ArraySlice<UInt8>

    init(_ text: ArraySlice<UInt8>) { rest = text }

    private mutating func skipBlanks() { rest = rest.drop { $0 == Filter.blank } }

    mutating func path() -> String? {
        skipBlanks()
        if rest.first == UInt8(ascii: "\"") {
            var end = rest.startIndex + 1
            while end < rest.endIndex, rest[end] != UInt8(ascii: "\"") { end += rest[end] == UInt8(ascii: "\\") ? 2 : 1 }
            guard end < rest.endIndex else { return nil }
            defer { rest = rest[(end + 1)...] }
            return (try? JSONValue(Array(rest[...end])))?.string
        }
        let path = rest.prefix { $0 != Filter.blank && !Self.isSign($0) }
        rest = rest[path.endIndex...]
        return path.isEmpty ? nil : String(decoding: path, as: UTF8.self)
    }

    mutating func `operator`() -> String? {
        skipBlanks()
        guard let first = rest.first else { return nil }
        let name = Self.isSign(first) ? rest.prefix { Self.isSign($0) } : rest.prefix { $0 != Filter.blank }
        rest = rest[name.endIndex...]
        return String(decoding: name, as: UTF8.self)
    }

    /// - Throws: `QueryFault` for an ambiguous unquoted text.
    mutating func value(of name: String, _ member: String) throws(QueryFault) -> JSONValue? {
        skipBlanks()
        while rest.last == Filter.blank { rest.removeLast() }
        if rest.isEmpty { return nil }
        if let value = try? JSONValue(Array(rest)) { return value }
        let text = String(decoding: rest, as: UTF8.self)
        if let fault = Self.ambiguity(text, name) { throw .malformed(member, fault) }
        return .string(text)
    }

    /// Why an unquoted text is refused; nil if it is accepted.
    private static func ambiguity(_ text: String, _ name: String) -> String? {
        let quoted = JSONValue.string(text).json
        if text.first == "\"" || text.count(where: { $0 == "\"" }) % 2 == 1 {
            return "the quotes of \(text.prefix(64)) are not those of a text: they open and close it, and one within it is written \\\""
        }
        if text.first == "'" { return "texts have double quotes, as \"open\", or none: not \(text.prefix(64))" }
        let words = text.split(separator: " ").map { $0.lowercased() }
        let isCompared = ["==", "!=", "<", ">"].contains { text.contains($0) }
        if isCompared || words.contains(where: { ["and", "or", "&&", "||"].contains($0) }) {
            return "\(text.prefix(64)) is taken for more than a value: conditions that all must hold stand between commas, "
                + "as status == open, rating > 3; for several values there is kind in [\"a\",\"b\"], and no other 'or'; "
                + "a text with such words or signs has double quotes, \(quoted.prefix(66))"
        }
        guard Condition.Operator(rawValue: name)?.comparesOrder == true else { return nil }
        return "\(name) takes a number, and \(text.prefix(64)) is none; to compare with a text, in the order of texts, put it in double "
            + "quotes: \(name) \(quoted.prefix(66))"
    }

    private static func isSign(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "=") || byte == UInt8(ascii: "!") || byte == UInt8(ascii: "<") || byte == UInt8(ascii: ">")
    }
}
