public import JSONTree

/// The result of a successful request; members that do not apply are absent on the wire.
public struct ObserveSuccess: Sendable, Equatable {
    /// Number of the commit that a write made, or that a read or an observe starts from.
    public var seq: Int64?
    /// Answer to `get`, in export form.
    public var value: Node?
    /// Answer to `get` with a query: the children of `value` in the order of the query; an object has none.
    public var keys: [Key]?
    /// Beside `keys`, for a query with `near`: how far each of them is from the centre, in metres.
    public var distances: [Double]?
    /// Answer to `push`: the new key.
    public var key: Key?
    /// Answer to `count`.
    public var count: Int64?
    /// Answer to a request with `explain`: from where the children of its query are looked for.
    public var explain: Node?
    /// Answer to `auth`: the user's id.
    public var uid: String?
    /// Answer to `observe`: the rules file does not declare the order of the query. On the wire only when it is so.
    public var lacksIndex = false
    /// Answer to `observe` with `since`: what the client sends with it to come back.
    public var epoch: String?
    /// Answer to `observe` with `since`: what was observed before counts no more. On the wire only when it is so.
    public var isReset = false

    public init(
        seq: Int64? = nil, value: Node? = nil, key: Key? = nil, uid: String? = nil, count: Int64? = nil, lacksIndex: Bool = false,
        epoch: String? = nil, isReset: Bool = false, keys: [Key]? = nil, distances: [Double]? = nil, explain: Node? = nil
    ) {
        self.seq = seq
        self.value = value
        self.keys = keys
        self.distances = distances
        self.explain = explain
        self.key = key
        self.uid = uid
        self.count = count
        self.lacksIndex = lacksIndex
        self.epoch = epoch
        self.isReset = isReset
    }
}

/// Answers of the server, one text frame each.
public enum ObserveReply {
    /// `{"id":1,"ok":{…}}`
    public static func ok(_ id: Int64, _ success: ObserveSuccess = ObserveSuccess()) -> FramedText {
        FramedText { writer in
            writer.raw("{\"id\":")
            writer.int(id)
            writer.raw(",\"ok\":{")
            var isFirst = true
            func member(_ name: StaticString, _ writer: inout JSONWriter) {
                if !isFirst { writer.raw(",") }
                isFirst = false
                writer.raw(name)
            }
            if let seq = success.seq {
                member("\"seq\":", &writer)
                writer.int(seq)
            }
            if let key = success.key {
                member("\"key\":", &writer)
                writer.string(key.text)
            }
            if let uid = success.uid {
                member("\"uid\":", &writer)
                writer.string(uid)
            }
            if let count = success.count {
                member("\"count\":", &writer)
                writer.int(count)
            }
            if let epoch = success.epoch {
                member("\"epoch\":", &writer)
                writer.string(epoch)
            }
            if success.isReset { member("\"reset\":true", &writer) }
            if success.lacksIndex { member("\"lacksIndex\":true", &writer) }
            if let explain = success.explain {
                member("\"explain\":", &writer)
                writer.node(explain)
            }
            if let keys = success.keys {
                member("\"keys\":", &writer)
                writer.list(keys) { $1.string($0.text) }
            }
            if let distances = success.distances {
                member("\"distances\":", &writer)
                writer.list(distances) { $1.metres($0) }
            }
            if let value = success.value {
                member("\"value\":", &writer)
                writer.node(value)
            }
            writer.raw("}}")
        }
    }

    /// `{"id":1,"error":{…}}`; `id` is null when the request had none, and the connection closes behind it.
    /// - Parameter value: what is at the place, for `stale`; nil where that is not told.
    public static func failed(_ id: Int64?, _ fault: ObserveFault, value: Node? = nil) -> FramedText {
        FramedText { writer in
            writer.raw("{\"id\":")
            if let id { writer.int(id) } else { writer.raw("null") }
            fault.write(to: &writer, value: value)
        }
    }

    /// `{"sub":1,"error":{…}}`: this observe has ended, for instance because the rules no longer allow it.
    public static func ended(sub: Int64, _ fault: ObserveFault) -> FramedText {
        FramedText { writer in
            writer.raw("{\"sub\":")
            writer.int(sub)
            fault.write(to: &writer)
        }
    }
}

extension JSONWriter {
    fileprivate mutating func list<Element>(_ elements: [Element], _ write: (Element, inout JSONWriter) -> Void) {
        raw("[")
        for (i, element) in elements.enumerated() {
            if i > 0 { raw(",") }
            write(element, &self)
        }
        raw("]")
    }
}

extension ObserveFault {
    fileprivate func write(to writer: inout JSONWriter, value: Node? = nil) {
        writer.raw(",\"error\":{\"code\":\"")
        writer.raw(code.rawValue.utf8)
        writer.raw("\",\"message\":")
        writer.string(message)
        if let member {
            writer.raw(",\"member\":")
            writer.string(member)
        }
        if !messages.isEmpty {
            writer.raw(",\"messages\":")
            writer.strings(messages)
        }
        if let retryAfterMs {
            writer.raw(",\"retryAfterMs\":")
            writer.int(retryAfterMs)
        }
        if let value {
            writer.raw(",\"value\":")
            writer.node(value)
        }
        writer.raw("}}")
    }
}
