import DequeModule
import JSONTree

/// The requests that a follower has forwarded to the writer for one client and not answered yet. Confined to the database queue.
///
final class ForwardedClient: @unchecked Sendable {
    // Sendable: confined to the database queue.
    /// Unique among all clients of this hub.
    let number: UInt64
    /// The session name under which the journal stores the client's onDisconnect writes.
    let session: String
    /// Numbers of the client's unanswered requests, answered in this order. Later requests that are not writes wait in
    /// `suspendedRequest`.
    var unanswered: Deque<UInt64> = []
    /// The first unanswered request, suspended until `unanswered` is empty. `head` is its number.
    var suspendedRequest: SuspendedRequest?
    var head: UInt64 = 0
    /// True if the client may have onDisconnect writes stored at the writer.
    var mayHaveDisconnectWrites = false

    init(number: UInt64, session: String) { (self.number, self.session) = (number, session) }
}
