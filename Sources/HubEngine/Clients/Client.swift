public import JSONTree
import LiveQueries
public import Synchronization

/// One connected program as the engine sees it. HubServer subclasses it with what it needs to send bytes.
///
/// Made on a net loop; afterwards the mutable parts belong to the database queue of the client's namespace.
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
    /// The observations of the client: place and style.
    var observations = Observations()
    /// What this client is charged for its observers and for the shared state that it pays for, and to which owners. Maintained by
    /// `ListenCounts`.
    var charge = ListenCharge()
    var chargedOwners: [Owner] = []
    var paid: Set<SharedState> = []
    /// The observations whose permission depends on data; maintained by `ObserverRegistry`.
    var dependents: [Observation: Dependent] = [:]
    var pending = PendingWrites()
    /// Upper bound of the pending writes' bytes: overwritten ones count until the next recount.
    var pendingBytes = 0
    /// Whom these bytes are charged to.
    var pendingOwners: [Owner] = []
    /// Under which the log knows the pending writes; nil while there are none.
    var pendingID: String?
    var hasEnded = false
    /// Set while the client does not keep up with reading.
    var lag: Lag?
    /// Set while requests of the client wait for their turn.
    var line: RequestTurns.Line?
    /// Set while a request of the client is prepared off the queue.
    var parked: Parked?
    /// Number of the last batch that said something to this client alone.
    var lastSent = -1
    /// Bytes sent to this client alone since its lane last said that everything had left.
    var unprobedBytes = 0
    /// Set where the client's writes go to another hub.
    var forwarded: ForwardedClient?
    /// Set for a client of another hub.
    var remote: RemoteMarks?
    /// Set when the client's rights are over while something of it is parked: it observes nothing from then on, and ends behind that.
    var isRevoked = false
    /// Set on the net loop as soon as the connection is lost, and before a session that lags or has something parked is ended: content
    /// is not sent any more. Writes still count.
    public let isGone = Atomic<Bool>(false)

    /// - Parameter identity: who it is from the start; requests can change that.
    public init(lane: Int, dialect: Dialect, identity: Identity = .anonymous) {
        self.lane = lane
        self.dialect = dialect
        self.identity = identity
    }

    /// An answer to a client of the dialects `rest` and `system`. Called on the loop of the client's lane.
    open func replied(_ reply: Reply) {}

    /// The session of a client of the dialect `rest` has ended (`Delivery.close`). Called on the loop of the client's lane.
    open func dismissed() {}
}

/// The wire protocol of a client.
public enum Dialect: Sendable {
    /// Realtime protocol v5, spoken by the stock SDKs.
    case realtime
    /// Vigla's own observe protocol.
    case observe
    /// REST: answers are passed as values (`Client.replied`) and encoded by the receiver, so that the database queue spends no time
    /// on large answers. Only the events of a stream are bytes.
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
    /// When the credential runs out, seconds since the epoch; nil for never. The session then ends.
    public var expires: Int64?

    public init(auth: Node, isAdmin: Bool = false, expires: Int64? = nil) {
        self.auth = auth
        self.isAdmin = isAdmin
        self.expires = expires
    }

    public static let anonymous = Identity(auth: .null)
    public static let admin = Identity(auth: .null, isAdmin: true)
}

/// How an observer wants changes written down; observers of one place and style share every encoded frame.
public enum ObserverStyle: Hashable, Sendable {
    /// The written values at their own paths (realtime v5); `tag` names a filtered listen.
    case patches(tag: Int64?)
    /// Named events (observe protocol), under the client's subscription id.
    /// - pace: ms between two values; nil tells each.
    case events(id: Int64, kinds: EventKinds, pace: Int32? = nil)
    /// The written values below the place (event streams of REST).
    case stream(StreamForm)
    /// How many children there are, and nothing else (event streams of REST).
    case countStream

    /// Whether an observer of a whole place can be sent changes of parts of it.
    var tellsOfParts: Bool {
        switch self {
        case .patches(let tag): tag == nil
        case .stream: true
        case .events, .countStream: false
        }
    }

    /// Whether the observer is all that its client has, and the client ends with it.
    var isStream: Bool {
        switch self {
        case .stream, .countStream: true
        case .patches, .events: false
        }
    }
}

/// How an event stream shows values.
public enum StreamForm: Sendable {
    /// As REST shows a place.
    case plain
    /// As REST shows a query in another order than by key: an object, whatever its keys are.
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
    /// A child stands elsewhere in the order of a query.
    public static let moved = EventKinds(rawValue: 16)
    /// Once, behind the first content.
    public static let ready = EventKinds(rawValue: 32)
    /// How many children are shown, when that changes.
    public static let count = EventKinds(rawValue: 64)
    /// No event: the observer may come back, so the last event of each commit is marked by what the others have.
    public static let resumable = EventKinds(rawValue: 128)
    public static let children: EventKinds = [.added, .changed, .removed, .moved]

    /// Whether only values and counts are told of what changes, each of which stands for all before it.
    var areValues: Bool { isDisjoint(with: .children) && !isDisjoint(with: [.value, .count]) }
    /// Whether nothing of the content is told but how many children it has.
    var areCounts: Bool { contains(.count) && isDisjoint(with: .children) && !contains(.value) }
}

/// One observer of one client.
struct Observation: Hashable {
    let path: Path
    /// Nil for the whole place.
    let query: ChildQuery?
    let style: ObserverStyle

    /// Whether a live query holds what it shows for it, or only how much that is.
    var showing: LiveQueryView.Showing { style.isCount ? .count : .children }
}
