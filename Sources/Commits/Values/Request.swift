public import JSONTree
public import LiveQueries
public import SecurityRules

/// A request of a client to its database. Requests of one client are handled and answered in the order of submission. Cases with much
/// content are indirect: requests are passed by value, and most are small reads and writes.
public enum Request: Sendable {
    /// First request of a session; `replacing` names the client's previous session, which ends now (contract §1.2 `ls`).
    case begin(sessionID: String, replacing: String?)
    /// The connection has closed: its observers are removed and its onDisconnect writes applied. Not answered.
    case end
    case identify(Identity)
    /// From now on the client is anonymous.
    case signOut
    /// - Parameters:
    ///   - query: selects children; nil for the whole path.
    ///   - hash: of the content that the client has; equal content is not sent again (contract §2.5 rule 3).
    ///   - since: the position up to which the client has received events (observe protocol).
    indirect case observe(Path, query: Query? = nil, style: ObserverStyle, hash: String, since: Position? = nil)
    case unobserve(Path, style: ObserverStyle)
    /// Ends the observer with this subscription id, at any path (observe protocol).
    case unobserveID(Int64)
    /// Gives an observer another centre of its circle, or another region. The difference is sent to the observer after the answer (observe
    /// protocol).
    indirect case move(Int64, to: QueryMove)
    case get(Path, query: Query? = nil)
    /// The number of children of a path, or of those that a query selects.
    case count(Path, query: Query? = nil)
    /// One of the three before; its answer also explains the access path of the query (observe protocol).
    indirect case explained(Request)
    /// All or nothing.
    /// - update: the path of an update, whose keys the writes are; nil for a set.
    case write([TreeWrite], condition: Condition? = nil, update: Path? = nil)
    /// Writes of the hub itself, all or nothing, exempt from the rules. Answered as `written`.
    case system([TreeWrite], SystemCause)
    /// The writes of an account deletion that are still due, by the hub itself, as one commit. Answered as `written`. If several of them
    /// have more consequences than one commit may have, it fails and nothing is written.
    case accountData([AccountWrite], of: String)
    /// Adds a child under a key that the hub generates.
    case push(Path, WriteValue)
    /// One request of REST (contract §7).
    indirect case exchange(Exchange)
    /// Stores writes that are applied when the client disconnects (contract §6.2).
    case onDisconnect([TreeWrite])
    case cancelOnDisconnect(Path)
    /// The client's credential has expired. It is sent the notice, then its session ends with the rights it had (contract §8.1). While an
    /// earlier request is suspended, the client is sent only answers to its writes, and its session ends after those.
    case revoke(notice: [UInt8])
    /// This client's next requests wait for all earlier requests of the same user that are still prepared in the background. Not answered.
    case behind(user: String)
    /// An answer that the session could write without the database; queued to keep its place in the order.
    case answer([UInt8])
    /// Comes back as `Delivery.marked` when everything before it is carried out and durable. The session uses marks to know how much of a
    /// client's work is unfinished.
    case mark(bytes: Int)
    /// Too much output waits on the client's net loop. Not answered.
    case congested
    /// Everything sent to the client has left. Not answered.
    case drained
}

/// The condition of a write: the value that must be stored at a path (contract §4.6).
public struct Condition: Sendable {
    public var path: Path
    /// The hash of the stored node, priority included; empty for an absent node.
    public var hash: String

    public init(_ path: Path, hash: String) {
        self.path = path
        self.hash = hash
    }
}

extension Request {
    /// Whether the request only reads.
    package var isRead: Bool {
        switch self {
        case .get, .observe, .count, .move: true
        case .explained(let request): request.isRead
        default: false
        }
    }

    /// Whether a client's request goes to the journal, so that the writer must carry it out. Requests that only hubs make do not count.
    public var isWrite: Bool {
        switch self {
        case .write, .push, .onDisconnect, .cancelOnDisconnect, .system: true
        case .exchange(let exchange): exchange.isWrite
        default: false
        }
    }

    /// Whether the answer explains the access path of its query.
    package var isExplained: Bool {
        switch self {
        case .explained: true
        case .exchange(let exchange): exchange.explains
        default: false
        }
    }
}
