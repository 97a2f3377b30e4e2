import JSONTree

extension RealtimeMessage {
    /// Parses one message. Members may come in any order; in the order that the SDKs write, the text is read once.
    /// - Throws: `RealtimeError` if the connection must be closed. A request that is only invalid is returned as `RealtimeAction.invalid`.
    public static func parse(
        _ bytes: UnsafeRawBufferPointer, limits: RealtimeLimits = RealtimeLimits()
    ) throws(RealtimeError) -> RealtimeMessage {
        do throws(JSONError) {
            return try RealtimeParser(bytes: bytes, limits: limits).message()
        } catch {
            throw error.isMalformed ? .malformed(offset: error.offset) : .notAnEnvelope(offset: error.offset)
        }
    }
}

/// The parser of one message. A member that depends on a later one (`d` on `t`, `b` on `a`, data on `p`) is skipped and parsed at the end.
private struct RealtimeParser {
    let bytes: UnsafeRawBufferPointer
    let limits: RealtimeLimits

    // MARK: Envelope

    /// `{"t":"d"|"c","d":…}`
    func message() throws(JSONError) -> RealtimeMessage {
        var reader = JSONReader(bytes)
        var type: JSONName?
        var payload: Range<Int>?
        var request: RealtimeRequest?
        if let head = head(&reader) {
            type = JSONName("d")
            request = try self.request(&reader, head)
        } else {
            try reader.beginObject()
        }
        while let name = try reader.nextShortName() {
            switch name {
            case "t": type = try reader.shortText()
            case "d" where type == JSONName("d") && request == nil: request = try self.request(&reader)
            case "d": payload = try reader.skipValue()
            default: try reader.skipValue()
            }
        }
        try reader.expectEnd()
        if let request { return .request(request) }
        guard let payload else { throw .unexpectedType(offset: reader.offset) }
        var inner = JSONReader(bytes, range: payload)
        switch type {
        case .some("d"): return .request(try self.request(&inner))
        case .some("c"): return .control(try control(&inner))
        default: throw .unexpectedType(offset: payload.lowerBound)
        }
    }

    /// The members before a request's body.
    private typealias Head = (number: Int64, name: ActionName)

    /// Reads `{"t":"d","d":{"r":number,"a":action,"b":` in one step, as the SDKs write it. Otherwise nil, and nothing is read.
    private func head(_ reader: inout JSONReader) -> Head? {
        var ahead = reader
        guard ahead.skip(#"{"t":"d","d":{"r":"#), let number = try? ahead.int(), ahead.skip(#","a":"#), let name = try? ActionName(&ahead),
            ahead.skip(#","b":"#)
        else { return nil }
        reader = ahead
        return (number, name)
    }

    /// `{"t":type,"d":…}`
    private func control(_ reader: inout JSONReader) throws(JSONError) -> RealtimeControl {
        var type: String?
        try reader.beginObject()
        while let name = try reader.nextShortName() {
            if name == "t" { type = try reader.string() } else { try reader.skipValue() }
        }
        switch type {
        case "p": return .ping
        case "a": return .switchAck
        case "n": return .endTransmission
        case let type?: return .unknown(type)
        case nil: throw .unexpectedType(offset: reader.offset)
        }
    }

    /// `{"r":number,"a":action,"b":body}`
    /// - Parameter head: the members already read, up to the body.
    private func request(_ reader: inout JSONReader, _ head: Head? = nil) throws(JSONError) -> RealtimeRequest {
        var number = head?.number
        var name = head?.name
        var payload: Range<Int>?
        var action: RealtimeAction?
        if let head { action = try self.action(head.name, &reader) } else { try reader.beginObject() }
        while let member = try reader.nextShortName() {
            switch member {
            case "r": number = try reader.int()
            case "a": name = try ActionName(&reader)
            case "b":
                if let name, action == nil {
                    action = try self.action(name, &reader)
                } else {
                    payload = try reader.skipValue()
                }
            default: try reader.skipValue()
            }
        }
        guard let number, let name else { throw .unexpectedType(offset: reader.offset) }
        if action == nil, let payload {
            var inner = JSONReader(bytes, range: payload)
            action = try self.action(name, &inner)
        }
        return RealtimeRequest(number: number, action: action ?? finish(name, Body()))
    }

    // MARK: Body

    /// Members of a request body. `data` is parsed as `p`, `m`, `o` or `om` requires.
    private struct Body {
        var place: TreePlace?
        var data: Range<Int>?
        var value: WriteValue?
        var entries: [TreeWrite]?
        var query: TreeQuery?
        var tag: Int64?
        var hash: String?
        var credential: String?
        var noauth = false
        var authvar: Node?
        var fault: RequestFault?
    }

    private enum Data {
        case value, entries, none
    }

    /// The action of a request; its text is created only for a response that needs it.
    private struct ActionName {
        let short: JSONName
        private let reader: JSONReader
        var text: String {
            var reader = reader
            return (try? reader.string()) ?? ""
        }

        init(_ reader: inout JSONReader) throws(JSONError) {
            self.reader = reader
            short = try reader.shortText()
        }
    }

    private static func data(of action: ActionName) -> Data {
        switch action.short {
        case "p", "o": .value
        case "m", "om": .entries
        default: .none
        }
    }

    private func action(_ action: ActionName, _ reader: inout JSONReader) throws(JSONError) -> RealtimeAction {
        var body = Body()
        guard try reader.peek() == .object else {
            body.fault = .member("b")
            try reader.skipValue()
            return finish(action, body)
        }
        let kind = Self.data(of: action)
        try reader.beginObject()
        while let name = try reader.nextShortName() {
            switch name {
            case "p":
                if body.place != nil { body.fault = body.fault ?? .repeated("p") }
                body.place = try reader.place(of: "p", &body.fault)
            case "d":
                if body.place == nil || kind == .none {
                    body.data = try reader.skipValue()
                } else {
                    try readData(kind, &reader, &body)
                }
            case "h": body.hash = try reader.text(of: "h", &body.fault)
            case "q": body.query = try TreeQuery.read(&reader, &body.fault)
            case "t": body.tag = try reader.integer(of: "t", &body.fault)
            case "cred": body.credential = try reader.text(of: "cred", &body.fault)
            case "token": body.credential = try reader.text(of: "token", &body.fault)
            case "noauth":
                if try reader.peek() == .bool { body.noauth = try reader.bool() } else { try reader.skipValue() }
            case "authvar":
                body.authvar = try reader.optional(&body.fault) { reader throws(JSONError) in
                    try reader.claims(allowance: limits.write.allowance)
                }
            default: try reader.skipValue()
            }
        }
        if body.place != nil, let data = body.data, kind != .none {
            var inner = JSONReader(bytes, range: data)
            try readData(kind, &inner, &body)
        }
        return finish(action, body)
    }

    /// Parses `d` once the place is known, as the place limits the depth of the data.
    private func readData(_ kind: Data, _ reader: inout JSONReader, _ body: inout Body) throws(JSONError) {
        guard let place = body.place else { return }
        if kind == .value {
            guard try TreeWrite.isPermitted(place.path, &reader, limits.write, &body.fault) else { return }
            body.value = try TreeWrite.value(
                &reader, at: place, depth: place.path.depth, limits.write, &body.fault)
        } else {
            body.entries = try TreeWrite.entries(&reader, base: place.path, limits.write, &body.fault)
        }
    }

    // MARK: Action

    private func finish(_ name: ActionName, _ body: Body) -> RealtimeAction {
        func invalid(_ fault: RequestFault) -> RealtimeAction { .invalid(action: name.text, RealtimeRefusal(body.fault ?? fault)) }
        /// The action, if there is no fault and `p` is not a priority.
        func at(_ action: (Path) -> RealtimeAction?) -> RealtimeAction {
            guard body.fault == nil, let place = body.place else { return invalid(.member("p")) }
            guard place.part == .node else { return invalid(.path(.invalidKey(".priority"))) }
            return action(place.path) ?? invalid(.member("d"))
        }
        func put(_ action: (TreeWrite) -> RealtimeAction) -> RealtimeAction {
            guard body.fault == nil, let place = body.place else { return invalid(.member("p")) }
            guard let value = body.value else { return invalid(.member("d")) }
            return action(TreeWrite(place.path, part: place.part, value))
        }
        func credential(_ action: (RealtimeCredential) -> RealtimeAction) -> RealtimeAction {
            guard body.fault == nil, let text = body.credential else { return invalid(.member("cred")) }
            return action(RealtimeCredential(credential: text, noauth: body.noauth, authvar: body.authvar))
        }
        switch name.short {
        case "s": return .stats
        case "q", "l": return at { .listen(path: $0, query: body.query, tag: body.tag, hash: body.hash) }
        case "n", "u": return at { .unlisten(path: $0, query: body.query, tag: body.tag) }
        case "g": return at { path in body.query.map { .select(path: path, $0) } ?? .get(path: path) }
        case "p": return put { .put($0, hash: body.hash) }
        case "m": return at { path in body.entries.map { .merge(path: path, $0, hash: body.hash) } }
        case "o": return put { .onDisconnectPut($0) }
        case "om": return at { path in body.entries.map { .onDisconnectMerge(path: path, $0) } }
        case "oc": return at { .onDisconnectCancel(path: $0) }
        case "auth": return credential { .auth($0) }
        case "gauth": return credential { .gauth($0) }
        case "unauth": return .unauth
        case "appcheck": return credential { .appCheck(token: $0.credential) }
        case "unappcheck", "unappeck": return .unappCheck
        default: return .unknown(name.text)
        }
    }
}
