public import JSONTree
public import LiveQueries
public import SecurityRules

/// A request of a client to its database. Requests of one client are handled and answered in the order of submission.
/// Those with much in them are indirect: requests are handed on by value, and most are reads and writes.
public enum Request: Sendable {
    /// First request of a session; `replacing` names the client's previous session, which ends now (contract §1.2 `ls`).
    case begin(sessionID: String, replacing: String?)
    /// The connection has closed: observers are removed, onDisconnect writes are made. Not answered.
    case end
    case identify(Identity)
    /// From now on the client is anonymous.
    case signOut
    /// - Parameters:
    ///   - query: which children; nil for the whole place.
    ///   - hash: of what the client holds already; equal content is not sent again (contract §2.5 rule 3).
    ///   - since: how far the client was told before (observe protocol).
    indirect case observe(Path, query: ChildQuery? = nil, style: ObserverStyle, hash: String, since: Position? = nil)
    case unobserve(Path, style: ObserverStyle)
    /// Ends the observer with this subscription id, at any place (observe protocol).
    case unobserveID(Int64)
    /// Moves the centre of an observed circle; the observer is told the difference behind the answer (observe protocol).
    case move(Int64, to: GeoPoint)
    case get(Path, query: ChildQuery? = nil)
    /// How many children a place has, or a query selects of them.
    case count(Path, query: ChildQuery? = nil)
    /// One of the three before; its answer also tells from where the children of its query are looked for (observe protocol).
    indirect case explained(Request)
    /// All or nothing.
    /// - update: the place of an update, whose keys the writes are; nil for a set.
    case write([TreeWrite], condition: Condition? = nil, update: Path? = nil)
    /// The hub itself writes, all or nothing, and no rule is asked. Answered as `written`.
    case system([TreeWrite], SystemCause)
    /// The hub itself makes what is due still of the writes that a deleted account causes, as one commit. Answered as `written`; as failed,
    /// and nothing is made, where more follows from several of them than from one commit may.
    case accountData([AccountWrite], of: String)
    /// Adds a child under a key that the server makes.
    case push(Path, WriteValue)
    /// One request of REST (contract §7).
    indirect case exchange(Exchange)
    /// Stores writes to be made when the client disconnects (contract §6.2).
    case onDisconnect([TreeWrite])
    case cancelOnDisconnect(Path)
    /// The client's credential has expired: it is sent the notice, then its session ends with the rights it had (contract §8.1). While an
    /// earlier request is parked, the client is sent only the answers to its writes, and its session ends after those.
    case revoke(notice: [UInt8])
    /// What this client asks next waits for all that others have asked before as the user and that is still prepared beside the queue.
    /// Not answered.
    case behind(user: String)
    /// An answer that the session could write without the database; it only keeps its place in the order.
    case answer([UInt8])
    /// Comes back as `Delivery.marked` when everything before it is carried out and durable: how much of what a client has
    /// asked is still to be done is known by its marks.
    case mark(bytes: Int)
    /// The client's lane has too much waiting for it. Not answered.
    case congested
    /// Everything that was sent to the client has left. Not answered.
    case drained
}

/// The condition for a write: the value that must be stored (contract §4.6).
public struct Condition: Sendable {
    public var path: Path
    /// The hash of what is stored there, priority included; empty for nothing.
    public var hash: String

    public init(_ path: Path, hash: String) {
        self.path = path
        self.hash = hash
    }
}

extension Request {
    /// Whether the request only asks for content.
    var isRead: Bool {
        switch self {
        case .get, .observe, .count, .move: true
        case .explained(let request): request.isRead
        default: false
        }
    }

    /// Whether a client's request goes to the journal: it is carried out by the hub that writes. What only hubs themselves ask is none.
    public var isWrite: Bool {
        switch self {
        case .write, .push, .onDisconnect, .cancelOnDisconnect, .system: true
        case .exchange(let exchange): exchange.isWrite
        default: false
        }
    }

    /// Whether the answer tells from where the children of its query are looked for.
    var isExplained: Bool {
        switch self {
        case .explained: true
        case .exchange(let exchange): exchange.explains
        default: false
        }
    }
}

/// The answer to a request.
public enum Reply: Sendable {
    /// Done; nothing to report.
    case done
    /// - Parameter lacksIndex: the query's order is declared by no `.indexOn` (contract §3.4).
    case observing(sequence: UInt64, lacksIndex: Bool)
    /// The same for an observer that may come back.
    /// - epoch: of the database, with which it comes back.
    /// - isReset: what it was told before counts no more, as not all that followed is known.
    case observed(sequence: UInt64, lacksIndex: Bool, epoch: String, isReset: Bool)
    case value(Node)
    case counted(Int)
    /// What a query shows of a place (observe protocol): an object, and what says its order.
    indirect case selected(Node, ChildQuery)
    /// The answer to a request that asked from where its query starts (observe protocol).
    indirect case explained(Reply, QueryExplanation)
    /// Committed as this sequence number.
    case written(sequence: UInt64)
    case pushed(Key, sequence: UInt64)
    case identified(Identity)
    case exchanged(Exchanged)
    case failed(Failure)
}

/// Why a request was refused; nothing of it was carried out.
public struct Failure: Error, Sendable, Equatable {
    /// Statuses of the wire protocols (contract §2.4).
    public enum Code: String, Sendable {
        case permissionDenied = "permission_denied"
        case dataStale = "datastale"
        case invalidToken = "invalid_token"
        case expiredToken = "expired_token"
        case tooBig = "too_big"
        case unavailable
        /// The user writes too often.
        case overBudget = "over_budget"
        case failure
        /// The order of a query is declared by no `.indexOn` of the rules.
        case missingIndex = "missing_index"
        /// Observe protocol: no observer has the id, or one has it already.
        case unknownObserver = "unknown_sub"
        case duplicateObserver = "duplicate_id"
        /// More was asked for in a minute than the rules allow those who have no account.
        case tooMany = "too_many"
    }

    public var code: Code
    public var message: String
    /// What the violated rules say to the client; empty for all other failures.
    public var ruleMessages: [String]
    /// When the same may be asked again; nil where that is not known.
    public var retryAfterMs: Int64?

    public init(_ code: Code, _ message: String, ruleMessages: [String] = []) {
        self.code = code
        self.message = message
        self.ruleMessages = ruleMessages
    }

    public static let permissionDenied = Failure(.permissionDenied, "Permission denied")
    public static let dataStale = Failure(.dataStale, "Transaction hash does not match")
}
