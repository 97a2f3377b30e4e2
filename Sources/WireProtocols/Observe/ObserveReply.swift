public import JSONTree

/// The result of a successful request; members that do not apply are omitted on the wire.
public struct ObserveSuccess: Sendable, Equatable {
    /// The sequence number of the write's commit, or of the commit that a read or observe starts from.
    public var seq: Int64?
    /// Result of `get`, in export form.
    public var value: Node?
    /// Result of `get` with a query: the order of the children in `value`, as a JSON object has none.
    public var keys: [Key]?
    /// With `keys`, for a query with `near`: the distance of each child from the centre, in metres.
    public var distances: [Double]?
    /// Result of `push`: the new key.
    public var key: Key?
    /// Result of `count`.
    public var count: Int64?
    /// Result of a request with `explain`: how the query's children are found.
    public var explain: Node?
    /// Result of `auth`: the user's id.
    public var uid: String?
    /// Result of `observe`: whether the rules file lacks an index for the query's order. On the wire only if true.
    public var lacksIndex = false
    /// Result of `observe` with `since`: the epoch to send when resuming.
    public var epoch: String?
    /// Result of `observe` with `since`: whether the client must discard its earlier state. On the wire only if true.
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

/// Messages of the server, one text frame each.
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

    /// `{"id":1,"error":{…}}`; `id` is null if the request had none, and then the connection closes.
    /// - Parameter value: the current value, for `stale`; nil if not sent.
    public static func failed(_ id: Int64?, _ fault: ObserveFault, value: Node? = nil) -> FramedText {
        FramedText { writer in
            writer.raw("{\"id\":")
            if let id { writer.int(id) } else { writer.raw("null") }
            fault.write(to: &writer, value: value)
        }
    }

    /// `{"sub":1,"error":{…}}`: this subscription has ended, for instance because the rules no longer allow it.
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
