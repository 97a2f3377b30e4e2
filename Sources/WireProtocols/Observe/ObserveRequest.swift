public import JSONTree
public import LiveQueries

/// One request of the observe protocol (`docs/observe-protocol.md`), as read by the server and written by a client.
public struct ObserveRequest: Sendable, Equatable {
    /// Chosen by the client; repeated in the answer, and for an observe the `sub` of its events.
    public var id: Int64
    public var operation: ObserveOperation

    public init(id: Int64, _ operation: ObserveOperation) {
        self.id = id
        self.operation = operation
    }
}

public enum ObserveOperation: Sendable, Equatable {
    case auth(token: String)
    /// - query: which children; nil for the whole place.
    /// - maxHz: at most so many values a second; nil tells each.
    /// - since: for an observer that may come back, or does; nil for others.
    case observe(path: Path, events: ObserveEvents, query: ObserveQuery? = nil, maxHz: Double? = nil, since: ObserveSince? = nil)
    /// Ends the observe whose request had this id.
    case unobserve(sub: Int64)
    /// Moves the centre of that observe's `near`, and nothing else of it.
    case move(sub: Int64, to: GeoPoint)
    case get(path: Path, query: ObserveQuery? = nil)
    /// How many children there are.
    case count(path: Path, query: ObserveQuery? = nil)
    /// An observe, a get or a count whose answer also says from where the children of its query are looked for.
    indirect case explained(ObserveOperation)
    case set(TreeWrite)
    /// Paths of the writes are relative to `path` and do not overlap.
    case update(path: Path, [TreeWrite])
    /// Sets a new child of `path`, whose key the server chooses.
    case push(path: Path, WriteValue)
    case remove(TreeWrite)
    /// Sets a place if it has a certain value.
    /// - hash: of that value, as the realtime protocol computes it; empty for nothing.
    case transaction(TreeWrite, hash: String)
    /// To be done when the connection has ended.
    case onDisconnect(ObserveLeaving)
    case ping
    /// Read from the wire, but it cannot be carried out: answer this request so, and go on.
    case invalid(ObserveFault)
}

extension ObserveOperation {
    /// Values a second that an observe may ask for.
    public static let rates = 0.001...1000.0
}

/// The member `since`: from where an observer is told.
public enum ObserveSince: Sendable, Equatable {
    /// `null`: from now on; it may come back.
    case now
    /// `{"epoch":"k3","seq":8123}`: what followed this commit, of which it was told last.
    case after(epoch: String, seq: Int64)
}

/// What a connection leaves behind for its end: the member `do` of `onDisconnect`.
public enum ObserveLeaving: Sendable, Equatable {
    case set(TreeWrite)
    /// Paths of the writes are relative to `path` and do not overlap.
    case update(path: Path, [TreeWrite])
    case remove(TreeWrite)
    /// Nothing at the place and below it any more.
    case cancel(path: Path)
}

/// Which events an observe asks for.
public struct ObserveEvents: OptionSet, Sendable, Hashable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    public static let value = ObserveEvents(rawValue: 1)
    public static let added = ObserveEvents(rawValue: 2)
    public static let changed = ObserveEvents(rawValue: 4)
    public static let removed = ObserveEvents(rawValue: 8)
    public static let moved = ObserveEvents(rawValue: 16)
    public static let ready = ObserveEvents(rawValue: 32)
    public static let count = ObserveEvents(rawValue: 64)
    public static let children: ObserveEvents = [.added, .changed, .removed]

    /// All events by their names on the wire.
    public static let names: [(name: String, event: ObserveEvents)] = [
        ("value", .value), ("added", .added), ("changed", .changed), ("removed", .removed), ("moved", .moved), ("ready", .ready),
        ("count", .count),
    ]
}
