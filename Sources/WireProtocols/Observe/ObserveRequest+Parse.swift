import JSONTree
import LiveQueries

extension ObserveRequest {
    /// Parses one request; members may come in any order.
    /// - Throws: `ObserveError` if the connection must be closed. A request that is only invalid is returned as `ObserveOperation.invalid`.
    public static func parse(
        _ bytes: UnsafeRawBufferPointer, limits: TreeWriteLimits = TreeWriteLimits()
    ) throws(ObserveError) -> ObserveRequest {
        do throws(JSONError) {
            return try ObserveRequestParser(bytes: bytes, limits: limits).request()
        } catch {
            throw error.isMalformed ? .malformed(offset: error.offset) : .notAMessage
        }
    }
}

/// Parses one request. `value` is parsed once `op` and `path` are known: immediately, or at the end.
private struct ObserveRequestParser {
    let bytes: UnsafeRawBufferPointer
    let limits: TreeWriteLimits

    private struct Members {
        var id: Int64?
        var op: String?
        var place: TreePlace?
        var valueText: Range<Int>?
        var value: WriteValue?
        var entries: [TreeWrite]?
        var events: ObserveEvents?
        var query: Query?
        var maxHz: Double?
        var since: ObserveSince?
        var sub: Int64?
        /// The new centre or region of a `move`.
        var target: QueryMove?
        var token: String?
        /// The operation at disconnect: `do` of `onDisconnect`.
        var leaving: String?
        /// The hash of the value that a transaction expects.
        var hash: String?
        /// Whether the response must explain the query.
        var explains = false
        /// A name that no operation of this server uses.
        var unsupported: String?
        /// The names of the request's members, to refuse those that its operation does not take.
        var names: Set<String> = []
        var fault: RequestFault?

        /// The operation that determines how `value` is parsed; nil until known.
        var valueKind: String? {
            switch op {
            case "onDisconnect": leaving
            case "transaction": "set"
            default: op
            }
        }
        var mayReadValue: Bool { valueKind != nil && place != nil }
    }

    func request() throws(JSONError) -> ObserveRequest {
        var reader = JSONReader(bytes)
        var members = Members()
        try reader.beginObject()
        while let name = try reader.nextName() {
            // Only the first unknown name is reported.
            if Self.known.contains(name), !members.names.insert(name).inserted { members.fault = members.fault ?? .repeated(name) }
            switch name {
            case "id": members.id = try reader.int()
            case "op": members.op = try reader.text(of: name, &members.fault)
            case "path": members.place = try reader.place(of: name, &members.fault)
            case "value":
                if members.mayReadValue {
                    try readValue(&reader, &members)
                } else {
                    members.valueText = try reader.skipValue()
                }
            case "events": members.events = try events(&reader, &members)
            case "query": members.query = try Query.read(&reader, of: bytes, &members.fault)
            case "since": members.since = try since(&reader, &members.fault)
            case "explain": members.explains = try flag(of: name, &reader, &members.fault)
            case "maxHz": members.maxHz = try rate(&reader, &members.fault)
            case "sub": members.sub = try reader.integer(of: name, &members.fault)
            case "near": members.target = try Query.centre(&reader, of: bytes, &members.fault).map { .centre($0) }
            case "within": members.target = try Query.within("within", &reader, of: bytes, &members.fault).map { .within($0) }
            case "do": members.leaving = try reader.text(of: name, &members.fault)
            case "was": members.hash = try was(&reader, &members.fault)
            case "hash": members.hash = try reader.text(of: name, &members.fault)
            case "token": members.token = try reader.text(of: name, &members.fault)
            default:
                members.unsupported = members.unsupported ?? name
                try reader.skipValue()
            }
        }
        try reader.expectEnd()
        guard let id = members.id else { throw .unexpectedType(offset: reader.offset) }
        if members.mayReadValue, let text = members.valueText {
            var inner = JSONReader(bytes, range: text)
            try readValue(&inner, &members)
        }
        return ObserveRequest(id: id, operation(members))
    }

    private func readValue(_ reader: inout JSONReader, _ members: inout Members) throws(JSONError) {
        guard let place = members.place else { return }
        switch members.valueKind {
        case "update":
            members.entries = try TreeWrite.entries(&reader, base: place.path, limits, &members.fault)
        case "set":
            let depth = place.path.depth
            guard try TreeWrite.isPermitted(place.path, &reader, limits, &members.fault) else { return }
            members.value = try TreeWrite.value(&reader, at: place, depth: depth, limits, &members.fault)
        case "push":
            let depth = place.path.depth + 1
            members.value = try TreeWrite.value(&reader, at: place, depth: depth, limits, &members.fault)
        default:
            try reader.skipValue()
        }
    }

    /// The hash of a value; empty for null.
    private func was(_ reader: inout JSONReader, _ fault: inout RequestFault?) throws(JSONError) -> String? {
        let place = TreePlace(path: .root, part: .node)
        guard let value = try TreeWrite.value(&reader, at: place, depth: 0, limits, &fault) else { return nil }
        guard value.deferred.isEmpty else {
            fault = fault ?? .member("was")
            return nil
        }
        return value.node.exists ? value.node.hash : ""
    }

    /// Null, or an object with an epoch and a sequence number.
    private func since(_ reader: inout JSONReader, _ fault: inout RequestFault?) throws(JSONError) -> ObserveSince? {
        let refusal = RequestFault.query("\"since\" is null, or {\"epoch\":…,\"seq\":…} as the hub has told them", member: "since")
        switch try reader.peek() {
        case .null:
            try reader.null()
            return .now
        case .object:
            var (epoch, seq) = (String?.none, Int64?.none)
            try reader.beginObject()
            while let name = try reader.nextName() {
                switch name {
                case "epoch": epoch = try reader.text(of: "since", &fault)
                case "seq": seq = try reader.integer(of: "since", &fault)
                default:
                    fault = fault ?? refusal
                    try reader.skipValue()
                }
            }
            if let epoch, let seq, seq >= 0 { return .after(epoch: epoch, seq: seq) }
        default: try reader.skipValue()
        }
        fault = fault ?? refusal
        return nil
    }

    /// A rate in values per second.
    private func rate(_ reader: inout JSONReader, _ fault: inout RequestFault?) throws(JSONError) -> Double? {
        var rate: Double?
        if try reader.peek() == .number {
            switch try reader.number() {
            case .int(let number): rate = Double(number)
            case .double(let number): rate = number
            default: break
            }
        } else {
            try reader.skipValue()
        }
        if let rate, ObserveOperation.rates.contains(rate) { return rate }
        fault = fault ?? .query("\"maxHz\" is a number from 0.001 to 1000", member: "maxHz")
        return nil
    }

    private func flag(of name: String, _ reader: inout JSONReader, _ fault: inout RequestFault?) throws(JSONError) -> Bool {
        guard try reader.peek() == .bool else {
            fault = fault ?? .query("\"\(name)\" is true or false", member: name)
            try reader.skipValue()
            return false
        }
        return try reader.bool()
    }

    private func events(_ reader: inout JSONReader, _ members: inout Members) throws(JSONError) -> ObserveEvents? {
        guard try reader.peek() == .array else {
            members.fault = members.fault ?? .member("events")
            try reader.skipValue()
            return nil
        }
        var events: ObserveEvents = []
        try reader.beginArray()
        while try reader.nextElement() {
            guard let name = try reader.text(of: "events", &members.fault) else { continue }
            if let known = ObserveEvents.names.first(where: { $0.name == name }) {
                events.insert(known.event)
            } else {
                members.fault = members.fault ?? .unsupported("event \"\(name.prefix(64))\"", member: "events")
            }
        }
        if events.isEmpty { members.fault = members.fault ?? .empty("events") }
        return events
    }

    // MARK: Operation

    private static let known: Set<String> = [
        "id", "op", "path", "value", "events", "query", "maxHz", "since", "sub", "token", "do", "was", "hash", "near", "within", "explain",
    ]

    /// The members that each operation takes, in addition to `id` and `op`.
    private static let taken: [String: Set<String>] = [
        "auth": ["token"], "observe": ["path", "events", "query", "maxHz", "since", "explain"], "unobserve": ["sub"],
        "move": ["sub", "near", "within"],
        "get": ["path", "query", "explain"], "count": ["path", "query", "explain"],
        "set": ["path", "value"], "update": ["path", "value"], "push": ["path", "value"], "remove": ["path"],
        "transaction": ["path", "was", "hash", "value"], "onDisconnect": ["do", "path", "value"], "ping": [],
    ]

    private func operation(_ members: Members) -> ObserveOperation {
        func invalid(_ fault: RequestFault) -> ObserveOperation { .invalid(ObserveFault(members.fault ?? fault)) }
        func asked(_ read: ObserveOperation) -> ObserveOperation { members.explains ? .explained(read) : read }
        guard let op = members.op else { return invalid(.member("op")) }
        guard let taken = Self.taken[op] else { return invalid(.unsupported("op \"\(op.prefix(64))\"", member: "op")) }
        if let name = members.unsupported?.prefix(64) {
            return .invalid(ObserveFault(.unsupported("\"\(name)\"", member: String(name))))
        }
        if let name = members.names.subtracting(taken).subtracting(["id", "op"]).min() {
            return .invalid(ObserveFault(.badRequest, "\"\(op)\" takes no \"\(name)\"", member: name))
        }
        if let fault = members.fault { return .invalid(ObserveFault(fault)) }

        switch op {
        case "ping": return .ping
        case "auth": return members.token.map { .auth(token: $0) } ?? invalid(.member("token"))
        case "unobserve": return members.sub.map { .unobserve(sub: $0) } ?? invalid(.member("sub"))
        case "move":
            guard let sub = members.sub else { return invalid(.member("sub")) }
            if members.names.isSuperset(of: ["near", "within"]) {
                return invalid(.query("\"near\" and \"within\" exclude each other", member: "within"))
            }
            return members.target.map { .move(sub: sub, to: $0) } ?? invalid(.member("near"))
        default: break
        }
        guard let place = members.place else { return invalid(.member("path")) }
        switch op {
        case "set":
            guard let value = members.value else { return invalid(.member("value")) }
            return .set(TreeWrite(place.path, part: place.part, value))
        case "remove":
            return .remove(TreeWrite(place.path, part: place.part, WriteValue(.null)))
        case "onDisconnect": return leaving(members, place)
        default: break
        }
        guard place.part == .node else { return invalid(.path(.invalidKey(".priority"))) }
        switch op {
        case "observe":
            let events = members.events ?? .value
            if members.maxHz != nil, events.isDisjoint(with: [.value, .count]) || !events.isDisjoint(with: [.children, .moved]) {
                let text = "\"maxHz\" goes with \"value\" and \"count\" alone: events of children are each told"
                return invalid(.query(text, member: "maxHz"))
            }
            let (query, since) = (members.query?.chosen, members.since)
            return asked(.observe(path: place.path, events: events, query: query, maxHz: members.maxHz, since: since))
        case "count": return asked(.count(path: place.path, query: members.query?.chosen))
        case "get": return asked(.get(path: place.path, query: members.query?.chosen))
        case "update":
            guard let entries = members.entries else { return invalid(.member("value")) }
            return .update(path: place.path, entries)
        case "transaction":
            if members.names.isSuperset(of: ["was", "hash"]) {
                return invalid(.query("\"was\" and \"hash\" exclude each other", member: "hash"))
            }
            guard let hash = members.hash else { return invalid(.member("was")) }
            guard let value = members.value else { return invalid(.member("value")) }
            return .transaction(TreeWrite(place.path, value), hash: hash)
        default:
            guard let value = members.value else { return invalid(.member("value")) }
            return .push(path: place.path, value)
        }
    }

    private func leaving(_ members: Members, _ place: TreePlace) -> ObserveOperation {
        func invalid(_ fault: RequestFault) -> ObserveOperation { .invalid(ObserveFault(fault)) }
        guard let kind = members.leaving else { return invalid(.member("do")) }
        let takesValue = kind == "set" || kind == "update"
        if members.names.contains("value"), !takesValue {
            return invalid(.query("onDisconnect with \"do\":\"\(kind.prefix(64))\" takes no \"value\"", member: "value"))
        }
        if kind == "set" {
            guard let value = members.value else { return invalid(.member("value")) }
            return .onDisconnect(.set(TreeWrite(place.path, part: place.part, value)))
        }
        if kind == "remove" { return .onDisconnect(.remove(TreeWrite(place.path, part: place.part, WriteValue(.null)))) }
        guard place.part == .node else { return invalid(.path(.invalidKey(".priority"))) }
        switch kind {
        case "update": return members.entries.map { .onDisconnect(.update(path: place.path, $0)) } ?? invalid(.member("value"))
        case "cancel": return .onDisconnect(.cancel(path: place.path))
        default: return invalid(.unsupported("onDisconnect with \"do\":\"\(kind.prefix(64))\"", member: "do"))
        }
    }
}
