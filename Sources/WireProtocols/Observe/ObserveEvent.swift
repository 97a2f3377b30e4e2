public import JSONTree

/// What an observer sees, in the order of commits.
public enum ObserveEvent: Sendable, Equatable {
    /// The whole value at the observed place; null when there is none.
    case value(Node)
    /// A child that was not there before, behind `prev` (nil: it is the first).
    case added(key: Key, value: Node, prev: Key?)
    case changed(key: Key, value: Node, prev: Key?)
    /// `value` is what the child was.
    case removed(key: Key, value: Node)
    /// A child of a query may stand elsewhere, as what it is ordered by has changed; its value comes with `changed`.
    case moved(key: Key, prev: Key?)
    /// All that was there at the start has been told.
    case ready
    /// How many children there are, or a query selects.
    case count(Int)
}

/// One event, encoded once for all observers of the place.
///
/// ```
/// {"sub":1,   "seq":8124,"event":"changed","key":"p1","value":…,"prev":"p0"}
/// └ prefix ┘ └───────────────────── rest, shared ─────────────────────────┘
/// ```
public struct ObservePush: Sendable {
    /// The shared end of the message.
    public let rest: [UInt8]

    public init(_ event: ObserveEvent, seq: Int64) {
        var writer = JSONWriter()
        writer.raw("\"seq\":")
        writer.int(seq)
        switch event {
        case .value(let value):
            writer.raw(",\"event\":\"value\",\"value\":")
            writer.node(value)
        case .added(let key, let value, let prev):
            writer.raw(",\"event\":\"added\"")
            Self.child(key, value, &writer)
            Self.previous(prev, &writer)
        case .changed(let key, let value, let prev):
            writer.raw(",\"event\":\"changed\"")
            Self.child(key, value, &writer)
            Self.previous(prev, &writer)
        case .removed(let key, let value):
            writer.raw(",\"event\":\"removed\"")
            Self.child(key, value, &writer)
        case .moved(let key, let prev):
            writer.raw(",\"event\":\"moved\",\"key\":")
            writer.string(key.text)
            Self.previous(prev, &writer)
        case .count(let count):
            writer.raw(",\"event\":\"count\",\"count\":")
            writer.int(Int64(count))
        case .ready: writer.raw(",\"event\":\"ready\"")
        }
        writer.raw("}")
        rest = writer.bytes
    }

    private static func child(_ key: Key, _ value: Node, _ writer: inout JSONWriter) {
        writer.raw(",\"key\":")
        writer.string(key.text)
        writer.raw(",\"value\":")
        writer.node(value)
    }

    private static func previous(_ prev: Key?, _ writer: inout JSONWriter) {
        writer.raw(",\"prev\":")
        if let prev { writer.string(prev.text) } else { writer.raw("null") }
    }

    /// The part before `rest` for one subscription.
    public static func prefix(sub: Int64) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 32)
        writer.raw("{\"sub\":")
        writer.int(sub)
        writer.raw(",")
        return writer.bytes
    }

    /// Frame header and prefix, to be sent directly before the shared `rest`.
    public func head(sub: Int64) -> [UInt8] {
        let prefix = Self.prefix(sub: sub)
        var head: [UInt8] = []
        head.reserveCapacity(prefix.count + 10)
        WebSocketFrame.appendHeader(.text, payloadLength: prefix.count + rest.count, to: &head)
        head += prefix
        return head
    }

    /// The whole event in one frame.
    /// - Parameter isFollowed: whether another event of the same commit and observe follows: `"more":true`.
    public func frame(sub: Int64, isFollowed: Bool = false) -> [UInt8] {
        guard isFollowed else { return head(sub: sub) + rest }
        return WebSocketFrame.text(Self.prefix(sub: sub) + rest.dropLast() + Array(",\"more\":true}".utf8))
    }
}
