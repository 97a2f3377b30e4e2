public import JSONTree
import LiveQueries
public import Synchronization

/// One connected program as the engine sees it. HubServer subclasses it with the state for sending bytes.
///
/// Created on a net loop; afterwards the mutable parts belong to the database queue of the client's namespace.
open class Client: @unchecked Sendable {
    // Sendable: `lane` and `dialect` never change; the rest is confined to the database queue, which its users check.

    /// Index of the net loop that owns the connection.
    public let lane: Int
    /// The protocol in which replies and events are written.
    public let dialect: Dialect

    var identity = Identity.anonymous
    var sessionID: String?
    /// The peer's address: observers of a client without a user are charged to it. Nil: to no owner. Set before the first request.
    public var address: String?
    /// The observations of the client.
    var observations = Observations()
    /// The client's charge for its observers and for the shared state it pays for, and the owners charged. Maintained by `ListenCounts`.
    var charge = ListenCharge()
    var chargedOwners: [Owner] = []
    var paid: Set<SharedState> = []
    /// The observations whose permission depends on data; maintained by `ObserverRegistry`.
    var dependents: [Observation: Dependent] = [:]
    var pending = PendingWrites()
    /// Upper bound of the pending writes' bytes: overwritten ones count until the next recount.
    var pendingBytes = 0
    /// The owners charged for these bytes.
    var pendingOwners: [Owner] = []
    /// The id of the pending writes in the log; nil while there are none.
    var pendingID: String?
    var hasEnded = false
    /// Set while the client reads too slowly.
    var lag: Lag?
    /// Set while requests of the client wait for their turn.
    var requestQueue: RequestTurns.ClientQueue?
    /// Set while a request of the client is prepared off the queue.
    var suspendedRequest: SuspendedRequest?
    /// Number of the last batch with output for this client alone.
    var lastSent = -1
    /// Bytes sent to this client alone since its lane last reported that everything had left.
    var unprobedBytes = 0
    /// Set on a follower, for a client whose writes are forwarded.
    var forwarded: ForwardedClient?
    /// Set on the writer, for a client of another hub.
    var remote: RemoteMarks?
    /// Set when the client's credential expires while one of its requests is suspended: it observes nothing from then on, and its session
    /// ends after that request.
    var isRevoked = false
    /// Set on the net loop when the connection is lost, and before a session that lags or has a suspended request is ended. From then on no
    /// content is sent; writes still count.
    public let isGone = Atomic<Bool>(false)

    /// - Parameter identity: the initial identity; requests can change it.
    public init(lane: Int, dialect: Dialect, identity: Identity = .anonymous) {
        self.lane = lane
        self.dialect = dialect
        self.identity = identity
    }

    /// An answer to a client of the dialects `rest` and `system`. Called on the net loop of the client.
    open func replied(_ reply: Reply) {}

    /// The session of a client of the dialect `rest` has ended (`Delivery.close`). Called on the net loop of the client.
    open func dismissed() {}
}

/// The wire protocol of a client.
public enum Dialect: Sendable {
    /// Realtime protocol v5, spoken by the stock SDKs.
    case realtime
    /// Vigla's own observe protocol.
    case observe
    /// REST: answers are passed as values (`Client.replied`) and encoded by the receiver, so that large answers take no time on the
    /// database queue. Only the events of a stream are bytes.
    case rest
    /// Writes of the hub itself; answers are passed as values, too.
    case system

    /// Whether answers are passed as values.
    public var hasReplies: Bool { self == .rest || self == .system }
}

/// The identity of a client, for the rules.
public struct Identity: Sendable, Equatable {
    /// The rules' `auth` variable: null when signed out, else an object with `uid`, `provider` and `token`.
    public var auth: Node
    /// Administrators bypass rules, not data validity (contract §8.1).
    public var isAdmin: Bool
    /// When the credential expires, seconds since the epoch; nil for never. The session then ends.
    public var expires: Int64?

    public init(auth: Node, isAdmin: Bool = false, expires: Int64? = nil) {
        self.auth = auth
        self.isAdmin = isAdmin
        self.expires = expires
    }

    public static let anonymous = Identity(auth: .null)
    public static let admin = Identity(auth: .null, isAdmin: true)
}

/// The form in which an observer receives changes. Observers with the same path and style share every encoded frame.
public enum ObserverStyle: Hashable, Sendable {
    /// The written values at their own paths (realtime v5); `tag` names a filtered listen.
    case patches(tag: Int64?)
    /// Named events (observe protocol), under the client's subscription id.
    /// - pace: minimum ms between two values; nil sends each change.
    case events(id: Int64, kinds: EventKinds, pace: Int32? = nil)
    /// The written values below the path (REST event streams).
    case stream(StreamForm)
    /// The number of children only (REST event streams).
    case countStream

    /// Whether an observer of a whole path can be sent changes of parts of it.
    var sendsPartialChanges: Bool {
        switch self {
        case .patches(let tag): tag == nil
        case .stream: true
        case .events, .countStream: false
        }
    }

    /// Whether the observer is its client's only one, so that the client ends with it.
    var isStream: Bool {
        switch self {
        case .stream, .countStream: true
        case .patches, .events: false
        }
    }
}

/// How an event stream shows values.
public enum StreamForm: Sendable {
    /// As REST shows a path.
    case plain
    /// As REST shows a query in an order other than by key: always an object, whatever its keys.
    case ordered
    /// With priorities, and without arrays.
    case export
}

/// The kinds of events that an observer asked for.
public struct EventKinds: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }
    public static let value = EventKinds(rawValue: 1)
    public static let added = EventKinds(rawValue: 2)
    public static let changed = EventKinds(rawValue: 4)
    public static let removed = EventKinds(rawValue: 8)
    /// A child has another position in the order of a query.
    public static let moved = EventKinds(rawValue: 16)
    /// Once, after the first content.
    public static let ready = EventKinds(rawValue: 32)
    /// The number of children shown, when it changes.
    public static let count = EventKinds(rawValue: 64)
    /// No event: the observer may resume, so the last event of each commit carries a resume position.
    public static let resumable = EventKinds(rawValue: 128)
    public static let children: EventKinds = [.added, .changed, .removed, .moved]

    /// Whether only values and counts are sent, each of which replaces all earlier ones.
    var areValues: Bool { isDisjoint(with: .children) && !isDisjoint(with: [.value, .count]) }
    /// Whether only the number of children is sent.
    var areCounts: Bool { contains(.count) && isDisjoint(with: .children) && !contains(.value) }
}

/// One observer of one client.
struct Observation: Hashable {
    let path: Path
    /// Nil for all content of the path.
    let query: ChildQuery?
    let style: ObserverStyle

    /// Whether the live query must hold the children for it, or only their number.
    var showing: LiveQueryView.Showing { style.isCount ? .count : .children }
}
