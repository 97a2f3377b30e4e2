public import JSONTree

/// The JSON form, in requests of the observe protocol and in `where=`:
///
///     [["status", "==", "open"], ["rating", ">=", 3], ["types", "has", "food"], ["name", "prefix", "An"], ["kind", "in", ["a", "b"]]]
extension Filter {
    /// Stands for the child's own value in place of a path.
    static let ownValue = ".value"

    /// Reads the value of a `where`: a list of conditions, each `[path, operator, value]`. An empty list selects every child.
    /// - Throws: `QueryFault`, which names the condition.
    public init(_ json: JSONValue, limits: FilterLimits = FilterLimits()) throws(QueryFault) {
        guard let list = json.elements else { throw .malformed("where", "must be a list of conditions, as [[\"status\",\"==\",\"open\"]]") }
        guard list.count <= limits.conditions else { throw .tooBig("where", "has more than \(limits.conditions) conditions") }
        var conditions: [Condition] = []
        var bytes = 0
        for (i, json) in list.enumerated() { conditions.append(try Condition(json, "where[\(i)]", limits, &bytes)) }
        guard bytes <= limits.bytes else { throw .tooBig("where", "has more than \(limits.bytes) bytes of paths and texts") }
        self.init(conditions)
    }

    /// The canonical form as JSON. `Filter(json)` reads it back.
    public var json: JSONValue { .array(conditions.map(\.json)) }
}

extension Condition {
    fileprivate init(_ json: JSONValue, _ member: String, _ limits: FilterLimits, _ bytes: inout Int) throws(QueryFault) {
        guard let parts = json.elements, parts.count == 3 else {
            throw .malformed(member, "must be [path, operator, value], as [\"status\",\"==\",\"open\"]")
        }
        guard let path = parts[0].string else { throw .malformed(member, "the path must be a text") }
        guard let name = parts[1].string else { throw .malformed(member, "the operator must be a text") }
        try self.init(path, name, parts[2], member, limits, &bytes)
    }

    /// - Parameter bytes: raised by the bytes of the path and the texts.
    init(
        _ path: String, _ name: String, _ value: JSONValue, _ member: String, _ limits: FilterLimits, _ bytes: inout Int
    ) throws(QueryFault) {
        guard let known = Operator(rawValue: name) else {
            let names = Operator.allCases.map(\.rawValue).joined(separator: " ")
            throw .malformed(member, "the operator \"\(name.prefix(64))\" is not known; known are \(names)")
        }
        bytes += path.utf8.count + value.textBytes
        self.init(try Self.path(path, member), try Self.test(known, value, member, limits))
    }

    private static func path(_ text: String, _ member: String) throws(QueryFault) -> Path {
        if text == Filter.ownValue { return .root }
        let path: Path
        do throws(PathError) { path = try Path(parsing: text) } catch { throw .malformed(member, "\"\(text.prefix(64))\" is no path") }
        if path.isRoot { throw .malformed(member, "the path is empty; \"\(Filter.ownValue)\" is the child's own value") }
        return path
    }

    private static func test(
        _ known: Operator, _ value: JSONValue, _ member: String, _ limits: FilterLimits
    ) throws(QueryFault) -> Test {
        switch known {
        case .oneOf:
            guard let elements = value.elements, !elements.isEmpty else {
                throw .malformed(member, "\"in\" takes a list of at least one value")
            }
            guard elements.count <= limits.values else { throw .tooBig(member, "\"in\" has more than \(limits.values) values") }
            var constants: ContiguousArray<Constant> = []
            for element in elements { constants.append(try constant(element, "\"in\"", member)) }
            return .oneOf(constants)
        case .has:
            // A key may also be written as a number.
            let name = if case .int(let number) = value { String(number) } else { value.string }
            guard let key = name.map({ Key($0) }), key.isValid else {
                throw .malformed(member, "\"has\" takes the name of a child, which \(value.excerpt) is not")
            }
            return .has(key)
        case .prefix:
            guard let text = value.string else { throw .malformed(member, "\"prefix\" takes a text") }
            return .prefix(Text(text))
        default: break
        }
        let constant = try constant(value, "\"\(known.rawValue)\"", member)
        switch known {
        case .equal: return .equal(constant)
        case .notEqual: return .notEqual(constant)
        case .above: return .above(constant, orEqual: false)
        case .atLeast: return .above(constant, orEqual: true)
        case .below: return .below(constant, orEqual: false)
        default: return .below(constant, orEqual: true)
        }
    }

    private static func constant(_ value: JSONValue, _ name: String, _ member: String) throws(QueryFault) -> Constant {
        guard let constant = Constant(value) else {
            throw .malformed(member, "\(name) compares with null, true, false, numbers and texts, not with \(value.excerpt)")
        }
        return constant
    }

    fileprivate var json: JSONValue {
        let value: JSONValue =
            switch test {
            case .equal(let constant), .notEqual(let constant), .above(let constant, _), .below(let constant, _): constant.json
            case .oneOf(let constants): .array(constants.map(\.json))
            case .has(let key): .string(key.string)
            case .prefix(let text): .string(text.string)
            }
        return .array([.string(path.isRoot ? Filter.ownValue : path.relativeText), .string(`operator`.rawValue), value])
    }
}

extension Constant {
    fileprivate init?(_ json: JSONValue) {
        switch json {
        case .null: self = .null
        case .bool(let flag): self.init(booleanLiteral: flag)
        case .int(let number): self.init(integerLiteral: number)
        case .double(let number):
            guard number.isFinite else { return nil }
            self.init(floatLiteral: number)
        case .string(let text): self.init(stringLiteral: text)
        case .array, .object: return nil
        }
    }

    fileprivate var json: JSONValue {
        switch value {
        case .bool(let flag): .bool(flag)
        case .int(let number): .int(number)
        case .double(let number): .double(number)
        case .string(let text): .string(text.string)
        default: .null
        }
    }
}

extension JSONValue {
    fileprivate var textBytes: Int {
        switch self {
        case .string(let text): text.utf8.count
        case .array(let elements): elements.reduce(0) { $0 + $1.textBytes }
        default: 8
        }
    }

    /// The beginning of the JSON text, for messages.
    var excerpt: String {
        let text = json
        return text.utf8.count <= 64 ? text : "\(text.prefix(64))…"
    }
}
