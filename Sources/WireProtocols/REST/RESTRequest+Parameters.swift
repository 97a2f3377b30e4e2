import JSONTree
import LiveQueries

/// The query parameters (contract §7.2). Unknown ones are ignored; the first of repeated ones counts.
extension RESTRequest {
    mutating func readParameters(_ target: HTTPTarget) throws(RESTRefusal) {
        if target.query.isEmpty { return }
        switch target.value("print") {
        case "pretty": form.isPretty = true
        case "silent": isSilent = true
        default: break
        }
        if target.value("format") == "export" { (form.showsPriorities, form.arrays) = (true, .never) }
        if let size = target.value("writeSizeLimit") {
            guard let known = WriteSize(rawValue: size) else {
                throw .bad("writeSizeLimit must be tiny, small, medium, large or unlimited")
            }
            writeSize = known
        }
        isImport = target.value("derive") == "false"
        if let text = target.value("timeout") { timeoutMs = try Self.milliseconds(text) }
        if let text = target.value("auth_variable_override") { override = try Self.identity(text) }
        if method == .get {
            download = target.value("download").flatMap { $0.isEmpty ? nil : $0 }
            if let name = target.value("callback") {
                guard Self.isFunctionName(name) else { throw .bad("callback must be the name of a JavaScript function") }
                callback = name
            }
            sizeUpTo = try target.value("sizeUpTo").map { text throws(RESTRefusal) in try Self.limit(text, "sizeUpTo") }
            try readQuery(target)
            isCount = target.value("count") == "true"
            explains = target.value("explain") == "true"
            try checkNumbers()
        }
    }

    /// `count` and `explain` replace the whole response, so other reductions are refused.
    private func checkNumbers() throws(RESTRefusal) {
        guard let name = alone else { return }
        if shallow != nil || sizeUpTo != nil { throw .bad("Mixing '\(name)' and 'shallow' or 'sizeUpTo' is not supported") }
        if part == .priority { throw .bad("A priority has no children: '\(name)' is not supported there") }
    }

    /// The parameter that replaces the content of the response; nil without one.
    var alone: String? { explains ? "explain" : isCount ? "count" : nil }

    /// `500ms`, `3s`, `2min`
    private static func milliseconds(_ text: String) throws(RESTRefusal) -> Int {
        for (unit, factor) in [("ms", 1), ("min", 60_000), ("s", 1000)] where text.hasSuffix(unit) {
            let digits = text.dropLast(unit.count)
            guard !digits.isEmpty, digits.utf8.allSatisfy(\.isDigit), let number = Int(digits), number > 0,
                number <= longestTimeoutMs / factor else { break }
            return number * factor
        }
        throw .bad("timeout must be a number with its unit, such as 500ms, 3s or 2min, of at most 15min")
    }

    private static func identity(_ text: String) throws(RESTRefusal) -> Node {
        let node = read(text) { reader throws(JSONError) in
            switch try reader.peek() {
            case .object: return try reader.claims()
            case .null:
                try reader.null()
                return .null
            default: throw .unexpectedType(offset: 0)
            }
        }
        guard let node else { throw .bad("auth_variable_override must be a JSON object or null") }
        return node
    }

    /// Letters, digits, `_`, `$` and dots between names: accepts only a function's name.
    private static func isFunctionName(_ text: String) -> Bool {
        guard text.utf8.count <= 128 else { return false }
        return text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { name in
            guard let first = name.utf8.first, !first.isDigit else { return false }
            return name.utf8.allSatisfy { byte in
                byte.isDigit || (0x61...0x7A).contains(byte | 0x20) || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "$")
            }
        }
    }

    // MARK: Queries

    private mutating func readQuery(_ target: HTTPTarget) throws(RESTRefusal) {
        let bounds = ["startAt", "startAfter", "endAt", "endBefore", "equalTo"].filter { target.value($0) != nil }
        let first = try target.value("limitToFirst").map { text throws(RESTRefusal) in try Self.limit(text, "limitToFirst") }
        let last = try target.value("limitToLast").map { text throws(RESTRefusal) in try Self.limit(text, "limitToLast") }
        if first != nil, last != nil { throw .bothLimits }
        let order = target.value("orderBy")
        let (filter, near, within) = try (Self.filter(target), Self.near(target), Self.within(target))
        let isConditional = filter != nil || near != nil || within != nil
        if target.value("shallow") == "true", order == nil, !isConditional {
            if sizeUpTo != nil { throw .bad("Mixing 'shallow' and 'sizeUpTo' is not supported") }
            return shallow = try Self.shallow(target, bounds, limit: first ?? last, keepsLast: last != nil)
        }
        guard order != nil || isConditional else {
            if !bounds.isEmpty || first != nil || last != nil { throw .noOrder }
            return
        }
        if target.value("shallow") == "true" { throw .bad("Mixing 'shallow' and querying parameters is not supported") }
        // Without an order: by distance if `near` is given, none if `within` is, otherwise by key.
        let index = try order.map { text throws(RESTRefusal) in try Self.index(text) } ?? (near == nil && within == nil ? .key : nil)
        var query = TreeQuery(index: index, limit: first ?? last)
        if first != nil { query.viewFrom = .first }
        if last != nil { query.viewFrom = .last }
        if bounds.contains("equalTo"), bounds.count > 1 { throw .equalAndBound }
        for (a, b) in [("startAt", "startAfter"), ("endAt", "endBefore")] where bounds.contains(a) && bounds.contains(b) {
            throw .bad("Only one of \(a) and \(b) may be specified")
        }
        for name in bounds {
            var (value, key) = try Self.bound(target.value(name) ?? "")
            if query.index == .key {
                guard case .string = value else { throw .badKeyBound }
                key = nil
            }
            switch name {
            case "startAt": query.start = TreeQuery.Bound(value: value, key: key, inclusive: true)
            case "endAt": query.end = TreeQuery.Bound(value: value, key: key, inclusive: true)
            // Without a key, all children with the value are skipped.
            case "startAfter":
                query.start = TreeQuery.Bound(value: value, key: key ?? (query.index == .key ? nil : "[MAX_NAME]"), inclusive: false)
            case "endBefore":
                query.end = TreeQuery.Bound(value: value, key: key ?? (query.index == .key ? nil : "[MIN_NAME]"), inclusive: false)
            default:
                query.start = TreeQuery.Bound(value: value, key: key, inclusive: true)
                query.end = query.start
            }
        }
        let made: Query
        do throws(QueryFault) {
            made = try Query(query, where: filter ?? .all, near: near, within: within)
        } catch { throw .bad(error.description) }
        guard !made.exceedsNearest else { throw .bad("limitToFirst: \(Query.tooMany)") }
        self.query = made
    }

    private static func filter(_ target: HTTPTarget) throws(RESTRefusal) -> Filter? {
        guard let text = target.value("where") else { return nil }
        guard target.query.count(where: { $0.name == "where" }) == 1 else {
            throw .bad("where is given twice: put all conditions into one, separated by commas")
        }
        do throws(QueryFault) { return try Filter(text: text) } catch { throw .bad(error.description) }
    }

    private static func near(_ target: HTTPTarget) throws(RESTRefusal) -> NearQuery? {
        guard let text = target.value("near") else { return nil }
        do throws(QueryFault) { return try NearQuery(text: text) } catch { throw .bad(error.description) }
    }

    private static func within(_ target: HTTPTarget) throws(RESTRefusal) -> WithinQuery? {
        guard let text = target.value("within") else { return nil }
        do throws(QueryFault) { return try WithinQuery(text: text) } catch { throw .bad(error.description) }
    }

    private static func shallow(_ target: HTTPTarget, _ bounds: [String], limit: Int?, keepsLast: Bool) throws(RESTRefusal) -> Shallow {
        var shallow = Shallow(limit: limit, keepsLast: keepsLast)
        for name in bounds {
            guard name == "startAfter" else { throw .noOrder }
            let (value, _) = try bound(target.value(name) ?? "")
            guard case .string(let text) = value else { throw .badKeyBound }
            shallow.startAfter = Key(text.string)
        }
        return shallow
    }

    /// A JSON string that names the order.
    private static func index(_ text: String) throws(RESTRefusal) -> TreeQuery.Index {
        guard let name = read(text, { reader throws(JSONError) in try reader.string() }) else { throw .badOrder }
        switch name {
        case "$key": return .key
        case "$value": return .value
        case "$priority": return .priority
        default:
            guard let path = try? Path(parsing: name), !path.isRoot else { throw .badOrder }
            return .child(path)
        }
    }

    private static func limit(_ text: String, _ name: String) throws(RESTRefusal) -> Int {
        let digits = text.utf8.first == UInt8(ascii: "-") ? text.utf8.dropFirst() : text.utf8[...]
        guard !digits.isEmpty, digits.allSatisfy(\.isDigit) else { throw .bad("\(name) must be an integer") }
        guard text.utf8.first != UInt8(ascii: "-"), digits.contains(where: { $0 != UInt8(ascii: "0") }) else {
            throw .bad("\(name) must be positive")
        }
        // A limit beyond Int is no limit.
        return Int(text) ?? .max
    }

    /// One JSON primitive, and an optional key after it.
    private static func bound(_ text: String) throws(RESTRefusal) -> (Node, Key?) {
        let bytes = Array(text.utf8)
        let read = bytes.withUnsafeBytes { buffer -> (Node, Key?)? in
            var reader = JSONReader(buffer)
            guard let value = try? reader.primitive() else { return nil }
            if (try? reader.expectEnd()) != nil { return (value, nil) }
            guard let comma = bytes[reader.offset...].firstIndex(of: UInt8(ascii: ",")),
                bytes[reader.offset..<comma].allSatisfy(\.isBlank)
            else { return nil }
            var rest = JSONReader(buffer, range: comma + 1..<bytes.count)
            guard let key = try? rest.string(), (try? rest.expectEnd()) != nil else { return nil }
            return (value, Key(key))
        }
        guard let read else { throw .badBound }
        return read
    }

    /// Parses a text that is exactly one JSON value of the expected type; nil for anything else.
    private static func read<Value>(_ text: String, _ body: (inout JSONReader) throws(JSONError) -> Value) -> Value? {
        Array(text.utf8).withUnsafeBytes { buffer in
            var reader = JSONReader(buffer)
            guard let value = try? body(&reader), (try? reader.expectEnd()) != nil else { return nil }
            return value
        }
    }
}
