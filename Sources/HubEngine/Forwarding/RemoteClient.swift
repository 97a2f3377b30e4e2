import DequeModule
import Journal

/// A client of another hub, as the writer sees it. It exists while requests of it run, and while it has onDisconnect writes stored. Confined to the
/// database queue.
final class RemoteClient: Client, @unchecked Sendable {
    // Sendable: confined to the database queue.

    /// An unanswered request.
    struct PendingRequest {
        /// Nil for a request that was not forwarded: it only sets the client's identity.
        let number: UInt64?
        /// True if the request makes a commit unless it is refused. The log then answers it.
        let commits: Bool
        let bytes: Int
    }

    let hub: UInt64
    /// The name of the client's session.
    let name: String
    /// Unanswered requests, in the order in which they are answered.
    var waiting: Deque<PendingRequest> = []
    /// The client's identity after the last request in `waiting`.
    var claimed: Identity?

    init(_ name: String, of hub: UInt64, lane: Int, identity: Identity = .anonymous) {
        (self.name, self.hub) = (name, hub)
        super.init(lane: lane, dialect: .system, identity: identity)
        sessionID = name
        remote = RemoteMarks()
    }

    /// True if no request, deferred work or onDisconnect write of the client is left.
    var isIdle: Bool { waiting.isEmpty && suspendedRequest == nil && requestQueue == nil && (pendingID == nil || hasEnded) }
}
