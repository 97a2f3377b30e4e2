public import JSONTree

extension TreeQuery {
    /// Parses a `q` object. Unknown members are ignored; invalid values are recorded in `fault`.
    static func read(_ reader: inout JSONReader, _ fault: inout RequestFault?) throws(JSONError) -> TreeQuery? {
        guard try reader.peek() == .object else {
            fault = fault ?? .member("q")
            try reader.skipValue()
            return nil
        }
        var query = TreeQuery()
        var start = PartialBound()
        var end = PartialBound()
        try reader.beginObject()
        while let name = try reader.nextName() {
            switch name {
            case "i":
                if let text = try reader.text(of: name, &fault) { query.index = Index(text, &fault) }
            case "sp": start.value = try leaf(&reader, &fault)
            case "ep": end.value = try leaf(&reader, &fault)
            case "sn": start.key = try reader.text(of: name, &fault).map(Key.init(_:))
            case "en": end.key = try reader.text(of: name, &fault).map(Key.init(_:))
            case "sin": start.inclusive = try flag(&reader, name, &fault)
            case "ein": end.inclusive = try flag(&reader, name, &fault)
            case "l":
                guard let limit = try reader.integer(of: name, &fault) else { continue }
                if limit > 0 { query.limit = Int(limit) } else { fault = fault ?? .query("Limit must be positive") }
            case "vf":
                guard let text = try reader.text(of: name, &fault) else { continue }
                query.viewFrom = Side(rawValue: text)
                if query.viewFrom == nil { fault = fault ?? .query("\"vf\" must be \"l\" or \"r\"") }
            default: try reader.skipValue()
            }
        }
        query.start = start.bound
        query.end = end.bound
        if query.index == .key {
            for case let bound? in [query.start, query.end] {
                if case .string = bound.value { continue }
                fault = fault ?? .query("Provided key index type is invalid, must be string")
            }
        }
        return query
    }

    /// Appends the query as it was sent.
    public func write(to writer: inout JSONWriter) {
        writer.raw("{")
        var separator: StaticString = ""
        func name(_ name: StaticString) {
            writer.raw(separator)
            writer.raw(name)
            separator = ","
        }
        func bound(_ bound: Bound?, _ names: (value: StaticString, key: StaticString, inclusive: StaticString)) {
            guard let bound else { return }
            name(names.value)
            writer.node(bound.value)
            if let key = bound.key {
                name(names.key)
                writer.string(key.text)
            }
            if let inclusive = bound.inclusive {
                name(names.inclusive)
                writer.raw(inclusive ? "true" : "false")
            }
        }
        bound(start, ("\"sp\":", "\"sn\":", "\"sin\":"))
        bound(end, ("\"ep\":", "\"en\":", "\"ein\":"))
        if let limit {
            name("\"l\":")
            writer.int(Int64(limit))
        }
        if let viewFrom {
            name("\"vf\":")
            writer.string(viewFrom.rawValue)
        }
        if let index {
            name("\"i\":")
            writer.string(index.text)
        }
        writer.raw("}")
    }

    private struct PartialBound {
        var value: Node?
        var key: Key?
        var inclusive: Bool?

        /// The presence of the value creates the bound (contract §3.1).
        var bound: Bound? { value.map { Bound(value: $0, key: key, inclusive: inclusive) } }
    }

    private static func leaf(_ reader: inout JSONReader, _ fault: inout RequestFault?) throws(JSONError) -> Node? {
        if let value = try reader.primitive() { return value }
        try reader.skipValue()
        fault = fault ?? .query("Constraint index field must be a JSON primitive")
        return nil
    }

    private static func flag(
        _ reader: inout JSONReader, _ name: String, _ fault: inout RequestFault?
    ) throws(JSONError) -> Bool? {
        if try reader.peek() == .bool { return try reader.bool() }
        fault = fault ?? .member(name)
        try reader.skipValue()
        return nil
    }
}

extension TreeQuery.Index {
    /// `.key`, `.value`, `.priority` or a child path.
    init?(_ text: String, _ fault: inout RequestFault?) {
        switch text {
        case ".key": self = .key
        case ".value": self = .value
        case ".priority": self = .priority
        default:
            guard let path = try? Path(parsing: text), !path.isRoot else {
                fault = fault ?? .query("orderBy must be a valid path")
                return nil
            }
            self = .child(path)
        }
    }
}

extension JSONReader {
    /// Reads null, a boolean, a number or a string. Nil, with nothing consumed, before an object or an array.
    mutating func primitive() throws(JSONError) -> Node? {
        switch try peek() {
        case .null:
            try null()
            return .null
        case .bool: return .bool(try bool())
        case .number: return try number()
        case .string: return .string(try string())
        case .object, .array: return nil
        }
    }
}
