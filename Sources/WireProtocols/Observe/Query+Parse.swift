import JSONTree
import LiveQueries

extension Query {
    /// Nil if it selects all children in key order, which equals the place itself.
    var chosen: Query? { isPlain && tree.isDefault && tree.orderedBy == .key ? nil : self }

    /// Parses the member `query` of `observe`, `get` and `count`; invalid content is recorded in `fault`.
    ///
    /// ```
    /// "query":{"orderBy":"timestamp","startAfter":[1718000000000,"-Nx3"],"limitToFirst":50}
    /// "query":{"near":{"lat":37.975,"lng":23.735,"radius":1000,"limit":20},"where":[["status","==","open"]]}
    /// "query":{"within":{"south":37.9,"west":23.6,"north":38.1,"east":23.9}}
    /// ```
    /// Without `orderBy` the order is by key; with `near` it is by distance, which has no index, and with `within` there is none.
    /// - Parameter bytes: the text that `reader` reads.
    static func read(
        _ reader: inout JSONReader, of bytes: UnsafeRawBufferPointer, _ fault: inout RequestFault?
    ) throws(JSONError) -> Query? {
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
                if let text = try reader.text(of: "query.orderBy", &fault) { members.order = index(text, &fault) }
            case "startAt", "startAfter", "endAt", "endBefore", "equalTo": members.bounds[name] = try bound(name, &reader, &fault)
            case "limitToFirst", "limitToLast":
                if let limit = try self.limit(name, &reader, &fault) { members.limit = limit }
            case "where": members.filter = try filter(&reader, of: bytes, &fault)
            case "near": members.near = try circle(&reader, of: bytes, &fault)
            case "within": members.within = try within("query.within", &reader, of: bytes, &fault)
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
        var order: TreeQuery.Index?
        var filter = Filter.all
        var near: NearQuery?
        var within: WithinQuery?
        var bounds: [String: (value: Node, key: Key?)] = [:]
        var limit: Int?

        func query(_ fault: inout RequestFault?) -> Query? {
            let pairs = [("limitToFirst", "limitToLast"), ("startAt", "startAfter"), ("endAt", "endBefore")]
            let equal = ["startAt", "startAfter", "endAt", "endBefore"].map { ("equalTo", $0) }
            for (one, other) in pairs + equal where names.contains(one) && names.contains(other) {
                fault = fault ?? .query("\"\(one)\" and \"\(other)\" exclude each other", member: "query.\(other)")
            }
            let index = order ?? (near == nil && within == nil ? .key : nil)
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
            return made(query, &fault)
        }

        private func made(_ query: TreeQuery, _ fault: inout RequestFault?) -> Query? {
            do throws(QueryFault) {
                let made = try Query(query, where: filter, near: near, within: within)
                if made.exceedsNearest {
                    fault = fault ?? .tooBig(Query.tooMany, member: "query.limitToFirst")
                }
                return made
            } catch {
                fault = fault ?? RequestFault(error, below: "query.")
                return nil
            }
        }

        /// Without a key, `startAfter` and `endBefore` skip all children with the value.
        private static func bound(_ name: String, _ bound: (value: Node, key: Key?), _ index: TreeQuery.Index?) -> TreeQuery.Bound? {
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

    /// A primitive, or an array of a primitive and a key.
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
}

extension Query {
    /// Whether it asks for more of the nearest than one `near` allows as `limit`.
    var exceedsNearest: Bool { near != nil && isByPosition && (tree.limit ?? 0) > NearLimits().nearest }

    static let tooMany = "the nearest are at most \(NearLimits().nearest)"
}

// MARK: Conditions and circles

extension Query {
    /// Most bytes of a `where` or a `near` as JSON. Longer ones exceed the limits of their content, and are not parsed.
    private static let textBytes = 4 * FilterLimits().bytes

    private static func json(
        _ name: String, _ reader: inout JSONReader, _ bytes: UnsafeRawBufferPointer, atMost most: Int = textBytes,
        _ fault: inout RequestFault?
    ) throws(JSONError) -> JSONValue? {
        let text = try reader.skipValue()
        guard text.count <= most else {
            fault = fault ?? .tooBig("\"\(name)\" has more than \(most) bytes", member: name)
            return nil
        }
        do throws(JSONError) { return try JSONValue(Array(bytes[text])) } catch {
            fault = fault ?? .query("\"\(name)\": \(error.description)", member: name)
            return nil
        }
    }

    private static func filter(
        _ reader: inout JSONReader, of bytes: UnsafeRawBufferPointer, _ fault: inout RequestFault?
    ) throws(JSONError) -> Filter {
        guard let json = try json("query.where", &reader, bytes, &fault) else { return .all }
        do throws(QueryFault) { return try Filter(json) } catch {
            fault = fault ?? RequestFault(error, below: "query.")
            return .all
        }
    }

    private static func circle(
        _ reader: inout JSONReader, of bytes: UnsafeRawBufferPointer, _ fault: inout RequestFault?
    ) throws(JSONError) -> NearQuery? {
        guard let json = try json("query.near", &reader, bytes, &fault) else { return nil }
        do throws(QueryFault) { return try NearQuery(json) } catch {
            fault = fault ?? RequestFault(error, below: "query.")
            return nil
        }
    }

    /// The member `within` of a query and of `move`.
    static func within(
        _ name: String, _ reader: inout JSONReader, of bytes: UnsafeRawBufferPointer, _ fault: inout RequestFault?
    ) throws(JSONError) -> WithinQuery? {
        guard let json = try json(name, &reader, bytes, atMost: WithinQuery.mostBytes, &fault) else { return nil }
        do throws(QueryFault) { return try WithinQuery(json) } catch {
            fault = fault ?? RequestFault(error, below: String(name.dropLast("within".count)))
            return nil
        }
    }

    /// The member `near` of `move`: only a position.
    static func centre(
        _ reader: inout JSONReader, of bytes: UnsafeRawBufferPointer, _ fault: inout RequestFault?
    ) throws(JSONError) -> GeoPoint? {
        guard let json = try json("near", &reader, bytes, &fault) else { return nil }
        do throws(QueryFault) {
            let near = try NearQuery(json)
            guard let other = near.metres != nil ? "radius" : near.limit != nil ? "limit" : nil else { return near.centre }
            fault = fault ?? .query("\"move\" takes \"lat\" and \"lng\", and leaves the \(other) as it is", member: "near.\(other)")
        } catch {
            fault = fault ?? RequestFault(error, below: "")
        }
        return nil
    }
}
