public import JSONTree

/// Which children of a place a request is about: the member `query` of `observe` and `get`.
///
/// ```
/// "query":{"orderBy":"timestamp","startAfter":[1718000000000,"-Nx3"],"limitToFirst":50}
/// ```
/// Everything that chooses children is in this one value. `where` and `near` are refused as not supported.
public struct ObserveQuery: Sendable, Hashable {
    /// Order, range and limit.
    public var tree: TreeQuery

    public init(_ tree: TreeQuery) {
        self.tree = tree
    }

    /// Nil when it is all children in the order of their keys, which is the place itself.
    var filter: ObserveQuery? { tree.isDefault && tree.orderedBy == .key ? nil : self }
}

extension ObserveQuery {
    /// Reads the object; what it cannot mean is recorded in `fault`.
    static func read(_ reader: inout JSONReader, _ fault: inout RequestFault?) throws(JSONError) -> ObserveQuery? {
        guard try reader.peek() == .object else {
            fault = fault ?? .member("query")
            try reader.skipValue()
            return nil
        }
        var members = Members()
        try reader.beginObject()
        while let name = try reader.nextName() {
            if !members.names.insert(name).inserted { fault = fault ?? .repeated("query.\(name)") }
            switch name {
            case "orderBy":
                if let text = try reader.text(of: "query.orderBy", &fault) { members.index = index(text, &fault) }
            case "startAt", "startAfter", "endAt", "endBefore", "equalTo": members.bounds[name] = try bound(name, &reader, &fault)
            case "limitToFirst", "limitToLast":
                if let limit = try self.limit(name, &reader, &fault) { members.limit = limit }
            default:
                let name = "query.\(name.prefix(64))"
                fault = fault ?? .unsupported("\"\(name)\"", member: name)
                try reader.skipValue()
            }
        }
        return members.query(&fault)
    }

    private struct Members {
        var names: Set<String> = []
        var index: TreeQuery.Index? = .key
        var bounds: [String: (value: Node, key: Key?)] = [:]
        var limit: Int?

        func query(_ fault: inout RequestFault?) -> ObserveQuery? {
            let pairs = [("limitToFirst", "limitToLast"), ("startAt", "startAfter"), ("endAt", "endBefore")]
            let equal = ["startAt", "startAfter", "endAt", "endBefore"].map { ("equalTo", $0) }
            for (one, other) in pairs + equal where names.contains(one) && names.contains(other) {
                fault = fault ?? .query("\"\(one)\" and \"\(other)\" exclude each other", member: "query.\(other)")
            }
            guard let index else { return nil }
            var query = TreeQuery(index: index, limit: limit)
            if limit != nil { query.viewFrom = names.contains("limitToFirst") ? .first : .last }
            for (name, bound) in bounds {
                guard let made = Self.bound(name, bound, index) else {
                    fault = fault ?? .query("with the order \"$key\", \"\(name)\" is one string", member: "query.\(name)")
                    continue
                }
                if name.hasPrefix("start") || name == "equalTo" { query.start = made }
                if name.hasPrefix("end") || name == "equalTo" { query.end = made }
            }
            return ObserveQuery(query)
        }

        /// Without a key, `startAfter` and `endBefore` pass all children with the value.
        private static func bound(_ name: String, _ bound: (value: Node, key: Key?), _ index: TreeQuery.Index) -> TreeQuery.Bound? {
            let isInclusive = name != "startAfter" && name != "endBefore"
            if index == .key {
                guard case .string = bound.value, bound.key == nil else { return nil }
                return TreeQuery.Bound(value: bound.value, inclusive: isInclusive)
            }
            let passing: Key? = isInclusive ? nil : name == "startAfter" ? "[MAX_NAME]" : "[MIN_NAME]"
            return TreeQuery.Bound(value: bound.value, key: bound.key ?? passing, inclusive: isInclusive)
        }
    }

    private static func index(_ text: String, _ fault: inout RequestFault?) -> TreeQuery.Index? {
        switch text {
        case "$key": return .key
        case "$value": return .value
        case "$priority": return .priority
        default:
            guard let path = try? Path(parsing: text), !path.isRoot else {
                fault = fault ?? .query(
                    "\"orderBy\" is \"$key\", \"$value\", \"$priority\" or a path below each child", member: "query.orderBy")
                return nil
            }
            return .child(path)
        }
    }

    /// A primitive, or an array of that and a key.
    private static func bound(
        _ name: String, _ reader: inout JSONReader, _ fault: inout RequestFault?
    ) throws(JSONError) -> (value: Node, key: Key?)? {
        if let value = try reader.primitive() { return (value, nil) }
        let refusal = RequestFault.query("\"\(name)\" is null, a boolean, a number, a string, or [that, a key]", member: "query.\(name)")
        guard try reader.peek() == .array else {
            fault = fault ?? refusal
            try reader.skipValue()
            return nil
        }
        var (value, key, count) = (Node?.none, Key?.none, 0)
        try reader.beginArray()
        while try reader.nextElement() {
            count += 1
            if count == 1, let primitive = try reader.primitive() {
                value = primitive
            } else if count == 2, try reader.peek() == .string {
                key = Key(try reader.string())
            } else {
                try reader.skipValue()
            }
        }
        if count == 2, let value, let key { return (value, key) }
        fault = fault ?? refusal
        return nil
    }

    private static func limit(_ name: String, _ reader: inout JSONReader, _ fault: inout RequestFault?) throws(JSONError) -> Int? {
        guard let limit = try reader.integer(of: "query.\(name)", &fault) else { return nil }
        if limit > 0 { return Int(limit) }
        fault = fault ?? .query("\"\(name)\" is 1 or more", member: "query.\(name)")
        return nil
    }

    /// Appends the member, behind others.
    func write(to writer: inout JSONWriter) {
        writer.raw(",\"query\":{\"orderBy\":")
        switch tree.orderedBy {
        case .key: writer.string("$key")
        case .value: writer.string("$value")
        case .priority: writer.string("$priority")
        case .child(let path): writer.string(path.relativeText)
        }
        func bound(_ bound: TreeQuery.Bound, _ inclusive: String, _ exclusive: String) {
            writer.raw(",\"")
            writer.raw((bound.isInclusive ? inclusive : exclusive).utf8)
            writer.raw("\":")
            let isPassing = !bound.isInclusive && ["[MIN_NAME]", "[MAX_NAME]"].contains(bound.key?.string)
            guard let key = bound.key, !isPassing else { return writer.node(bound.value) }
            writer.raw("[")
            writer.node(bound.value)
            writer.raw(",")
            writer.string(key.text)
            writer.raw("]")
        }
        if let start = tree.start, start == tree.end, start.isInclusive {
            bound(start, "equalTo", "equalTo")
        } else {
            if let start = tree.start { bound(start, "startAt", "startAfter") }
            if let end = tree.end { bound(end, "endAt", "endBefore") }
        }
        if let limit = tree.limit {
            writer.raw(tree.keeps == .first ? ",\"limitToFirst\":" : ",\"limitToLast\":")
            writer.int(Int64(limit))
        }
        writer.raw("}")
    }
}
