public import JSONTree

/// An event for an observer, in commit order.
public enum ObserveEvent: Sendable, Equatable {
    /// The whole value at the observed place; null if absent.
    case value(Node)
    /// A new child.
    /// - distance: from the centre of a `near` query to the child, in metres; nil for other queries.
    case added(key: Key, value: Node, prev: ObservePrevious, distance: Double? = nil)
    case changed(key: Key, value: Node, prev: ObservePrevious, distance: Double? = nil)
    /// `value` is the child's last value.
    /// - why: the reason, for queries with `where` or `near`; nil for others.
    case removed(key: Key, value: Node, distance: Double? = nil, why: ObserveReason? = nil)
    /// A child's position in a query may have changed, because its order value changed; its value follows in `changed`. Or the centre of the circle
    /// has moved, and the child is unchanged.
    case moved(key: Key, prev: ObservePrevious, distance: Double? = nil)
    /// The initial state is complete.
    case ready
    /// The number of children, or of those that a query selects.
    case count(Int)
}

/// The position of a child in an observer's order: the member `prev`.
public enum ObservePrevious: Sendable, Hashable {
    /// After this child.
    case key(Key)
    /// `null`
    case first
    /// Without the member: the order is by distance, and the distances give the position.
    case notSent

    /// - Parameter key: nil for the first child.
    public init(_ key: Key?) { self = key.map { .key($0) } ?? .first }

    /// Nil for the first child, and if not sent.
    public var key: Key? { if case .key(let key) = self { key } else { nil } }
}

extension ObservePrevious: ExpressibleByStringLiteral, ExpressibleByNilLiteral {
    public init(stringLiteral key: String) { self = .key(Key(key)) }
    public init(nilLiteral: ()) { self = .first }
}

/// Why a child left a query: the member `why`.
public enum ObserveReason: String, Sendable, Hashable {
    /// It still exists, but the query no longer selects it.
    case left
    case deleted
}

/// One event, encoded once for all observers of the place.
///
/// ```
/// {"sub":1,   "seq":8124,"event":"changed","key":"p1","value":…,"prev":"p0"}
/// └ prefix ┘ └───────────────────── rest, shared ─────────────────────────┘
/// ```
public struct ObservePush: Sendable {
    /// The shared end of the message, after the prefix.
    public let rest: [UInt8]

    public init(_ event: ObserveEvent, seq: Int64) {
        var writer = JSONWriter()
        writer.raw("\"seq\":")
        writer.int(seq)
        switch event {
        case .value(let value):
            writer.raw(",\"event\":\"value\",\"value\":")
            writer.node(value)
        case .added(let key, let value, let prev, let distance):
            writer.raw(",\"event\":\"added\"")
            Self.child(key, value, &writer)
            Self.place(prev, distance, &writer)
        case .changed(let key, let value, let prev, let distance):
            writer.raw(",\"event\":\"changed\"")
            Self.child(key, value, &writer)
            Self.place(prev, distance, &writer)
        case .removed(let key, let value, let distance, let why):
            writer.raw(",\"event\":\"removed\"")
            Self.child(key, value, &writer)
            if let distance { Self.distance(distance, &writer) }
            if let why {
                writer.raw(",\"why\":\"")
                writer.raw(why.rawValue.utf8)
                writer.raw("\"")
            }
        case .moved(let key, let prev, let distance):
            writer.raw(",\"event\":\"moved\",\"key\":")
            writer.string(key.text)
            Self.place(prev, distance, &writer)
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

    private static func place(_ prev: ObservePrevious, _ distance: Double?, _ writer: inout JSONWriter) {
        switch prev {
        case .key(let key):
            writer.raw(",\"prev\":")
            writer.string(key.text)
        case .first: writer.raw(",\"prev\":null")
        case .notSent: break
        }
        if let distance { Self.distance(distance, &writer) }
    }

    private static func distance(_ metres: Double, _ writer: inout JSONWriter) {
        writer.raw(",\"distance\":")
        writer.metres(metres)
    }

    /// The part before `rest`, for one subscription.
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
    /// - Parameter isFollowed: whether another event of the same commit and subscription follows: `"more":true`.
    public func frame(sub: Int64, isFollowed: Bool = false) -> [UInt8] {
        guard isFollowed else { return head(sub: sub) + rest }
        return WebSocketFrame.text(Self.prefix(sub: sub) + rest.dropLast() + Array(",\"more\":true}".utf8))
    }
}

extension JSONWriter {
    /// A distance, rounded to centimetres.
    mutating func metres(_ metres: Double) { node(.number((metres * 100).rounded() / 100)) }
}
