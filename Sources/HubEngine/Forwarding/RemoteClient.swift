import DequeModule
import Journal

/// A client of another hub, as the database that writes sees it: while requests of it are carried out, and while it leaves something
/// behind. Confined to the database queue.
final class RemoteClient: Client, @unchecked Sendable {
    // Sendable: confined to the database queue.

    /// A request that is not answered.
    struct Asked {
        /// Nil for one that was not forwarded: it only sets who the client is.
        let number: UInt64?
        /// Whether it makes a commit unless it is refused: then the log answers it.
        let commits: Bool
        let bytes: Int
    }

    let hub: UInt64
    /// The name of its session.
    let name: String
    /// In the order in which they are answered.
    var waiting: Deque<Asked> = []
    /// Who it is as of the last of them.
    var claimed: Identity?

    init(_ name: String, of hub: UInt64, lane: Int, identity: Identity = .anonymous) {
        (self.name, self.hub) = (name, hub)
        super.init(lane: lane, dialect: .system, identity: identity)
        sessionID = name
        remote = RemoteMarks()
    }

    /// Nothing is left to be done for it.
    var isIdle: Bool { waiting.isEmpty && parked == nil && line == nil && (pendingID == nil || hasEnded) }
}

/// Which of its requests a client of another hub has under way: one at a time.
final class RemoteMarks: @unchecked Sendable {
    // Sendable: confined to the database queue.
    private var marks: [Int64: RemoteMark] = [:]
    private(set) var current: RemoteMark?

    func note(_ mark: RemoteMark, as token: Int64) { marks[token] = mark }
    func forget(_ token: Int64) { marks[token] = nil }

    /// The request is carried out from now on.
    func begin(_ token: Int64) { current = marks[token] }
}

/// Names a forwarded request on its way to a commit. An object: most commits have none.
final class RemoteMark: Sendable {
    let mark: PeerMark
    /// The commit by which its hub joined.
    let joined: UInt64

    init(_ mark: PeerMark, joined: UInt64) { (self.mark, self.joined) = (mark, joined) }
}
