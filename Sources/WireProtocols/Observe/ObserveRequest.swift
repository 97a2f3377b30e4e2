public import JSONTree
public import LiveQueries

/// One request of the observe protocol (`docs/observe-protocol.md`), as read by the server and written by a client.
public struct ObserveRequest: Sendable, Equatable {
    /// Chosen by the client and repeated in the response; for an observe also the `sub` of its events.
    public var id: Int64
    public var operation: ObserveOperation

    public init(id: Int64, _ operation: ObserveOperation) {
        self.id = id
        self.operation = operation
    }
}

public enum ObserveOperation: Sendable, Equatable {
    case auth(token: String)
    /// - query: the selected children; nil for the whole place.
    /// - maxHz: the most values per second; nil sends each.
    /// - since: for an observer that may resume, or resumes; nil for others.
    case observe(path: Path, events: ObserveEvents, query: Query? = nil, maxHz: Double? = nil, since: ObserveSince? = nil)
    /// Ends the subscription whose request had this id.
    case unobserve(sub: Int64)
    /// Moves the centre of the subscription's `near`, or changes the region of its `within`, and nothing else.
    case move(sub: Int64, to: QueryMove)
    case get(path: Path, query: Query? = nil)
    /// The number of children.
    case count(path: Path, query: Query? = nil)
    /// An observe, get or count whose response also explains how the query's children are found.
    indirect case explained(ObserveOperation)
    case set(TreeWrite)
    /// Paths of the writes are relative to `path` and do not overlap.
    case update(path: Path, [TreeWrite])
    /// Sets a new child of `path` with a key chosen by the server.
    case push(path: Path, WriteValue)
    case remove(TreeWrite)
    /// Sets a place if it has the expected value.
    /// - hash: the hash of the expected value, computed as in the realtime protocol; empty for null.
    case transaction(TreeWrite, hash: String)
    /// Runs after the connection has ended.
    case onDisconnect(DisconnectOperation)
    case ping
    /// Parsed, but invalid: respond with the fault and continue.
    case invalid(ObserveFault)
}

extension ObserveOperation {
    /// The values per second that an observe may request.
    public static let rates = 0.001...1000.0
}

/// The member `since`: the commit after which an observer receives events.
public enum ObserveSince: Sendable, Equatable {
    /// `null`: from now on; the observer may resume later.
    case now
    /// `{"epoch":"k3","seq":8123}`: the events after this commit, the last one that the observer received.
    case after(epoch: String, seq: Int64)
}

/// An operation that runs after the connection has ended: the member `do` of `onDisconnect`.
public enum DisconnectOperation: Sendable, Equatable {
    case set(TreeWrite)
    /// Paths of the writes are relative to `path` and do not overlap.
    case update(path: Path, [TreeWrite])
    case remove(TreeWrite)
    /// Cancels the operations at the place and below it.
    case cancel(path: Path)
}

/// The events that an observe requests.
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

    /// All events with their names on the wire.
    public static let names: [(name: String, event: ObserveEvents)] = [
        ("value", .value), ("added", .added), ("changed", .changed), ("removed", .removed), ("moved", .moved), ("ready", .ready),
        ("count", .count),
    ]
}
