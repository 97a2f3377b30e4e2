import HTTPTypes
import JSONTree

extension RESTRequest {
    /// Whether a target is a REST data path: its last segment ends in `.json`, and no other segment is reserved.
    public static func isDataPath(_ target: HTTPTarget) -> Bool {
        target.segments.last?.hasSuffix(".json") == true && !target.hasTrailingSlash
    }

    /// Parses target and fields; ``RESTBody`` parses the body.
    /// - Throws: the refusal to respond with.
    public init(_ request: HTTPInboundRequest) throws(RESTRefusal) {
        let target = request.target
        (path, part) = try Self.place(target.segments)
        (method, isHead) = try Self.method(request)
        try readParameters(target)
        readCredential(request)
        readConditions(request.fields)
        try checkConditions()
        isStream = method == .get && !isHead && request.fields.hasToken("text/event-stream", in: .accept)
        if isStream, explains { throw .bad("An event stream has no 'explain': ask for it once") }
    }

    /// The place that the target's segments name; the last one ends in `.json`.
    static func place(_ segments: [String]) throws(RESTRefusal) -> (Path, TreeWrite.Part) {
        var keys = ContiguousArray<Key>()
        var part = TreeWrite.Part.node
        for (i, segment) in segments.enumerated() {
            var name = segment
            if i == segments.count - 1 {
                name.removeLast(5)
                if name.isEmpty { continue }
                if name == ".priority" {
                    part = .priority
                    continue
                }
            }
            let key = Key(name)
            guard key.isValid else { throw name.utf8.count > Key.maxBytes ? .longKey : .badPath }
            guard keys.count < Path.maxDepth else { throw .bad("Invalid path: more than \(Path.maxDepth) levels") }
            keys.append(key)
        }
        return (Path(keys), part)
    }

    /// The method, or its override: some proxies let only GET and POST pass.
    private static func method(_ request: HTTPInboundRequest) throws(RESTRefusal) -> (Method, isHead: Bool) {
        var name = request.method.rawValue
        if request.method == .post, let other = request.fields.value("x-http-method-override")
            ?? request.target.value("x-http-method-override") {
            name = other.uppercased()
        }
        switch name {
        case "GET": return (.get, false)
        // HEAD cannot be an override: the sent method decides whether the response has a body.
        case "HEAD" where request.method == .head: return (.get, true)
        case "PUT": return (.put, false)
        case "PATCH": return (.patch, false)
        case "POST": return (.post, false)
        case "DELETE": return (.delete, false)
        default: throw RESTRefusal(.methodNotAllowed, "Method \(name.prefix(32)) is not supported. Use GET, PUT, PATCH, POST or DELETE.")
        }
    }

    // MARK: Credentials

    private mutating func readCredential(_ request: HTTPInboundRequest) {
        credential = Self.credential(request)
    }

    /// The credential of a request: a parameter, else a bearer token.
    public static func credential(_ request: HTTPInboundRequest) -> String? {
        for name in ["auth", "access_token"] {
            if let given = request.target.value(name), !given.isEmpty { return given }
        }
        guard let field = request.fields[.authorization] else { return nil }
        let words = field.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].lowercased() == "bearer" else { return nil }
        return String(words[1])
    }

    // MARK: Conditions

    private mutating func readConditions(_ fields: HTTPFields) {
        wantsETag = fields.value("x-firebase-etag")?.lowercased() == "true"
        ifMatch = fields[.ifMatch].map { ETag(field: $0) }
        ifNoneMatch = fields[.ifNoneMatch].map { ETag(field: $0) }
    }

    /// Refuses conditions that cannot be combined (contract §7.3).
    private func checkConditions() throws(RESTRefusal) {
        guard wantsETag || ifMatch != nil || ifNoneMatch != nil else { return }
        if method == .patch { throw .bad("X-Firebase-ETag, if-match and if-none-match are not supported for PATCH requests") }
        if ifMatch != nil, method != .put, method != .delete { throw .bad("if-match is supported for PUT and DELETE requests only") }
        if ifNoneMatch != nil, method != .get { throw .bad("if-none-match is supported for GET requests only") }
        if ifMatch != nil || ifNoneMatch != nil, shallow != nil || query != nil || isSilent { throw .mixedCondition }
        if let alone { throw .bad("Mixing '\(alone)' and etag requests is not supported") }
        if shallow != nil { throw .mixedETag }
        if part == .priority { throw .bad("ETags are not supported for .priority") }
    }
}

extension HTTPFields {
    /// The first value of a field with this lower-case name.
    func value(_ name: String) -> String? { first { $0.name.canonicalName == name }?.value }
}
