package import DequeModule
import JSONTree

/// The requests that a follower has forwarded to the writer for one client and not answered yet. Confined to the database queue.
package final class ForwardedClient: @unchecked Sendable {
    // Sendable: confined to the database queue.
    /// Unique among all clients of this hub.
    package let number: UInt64
    /// The session name under which the journal stores the client's onDisconnect writes.
    package let session: String
    /// Numbers of the client's unanswered requests, answered in this order. Later requests that are not writes wait in
    /// `suspendedRequest`.
    package var unanswered: Deque<UInt64> = []
    /// The first unanswered request, suspended until `unanswered` is empty. `head` is its number.
    package var suspendedRequest: SuspendedRequest?
    package var head: UInt64 = 0
    /// True if the client may have onDisconnect writes stored at the writer.
    package var mayHaveDisconnectWrites = false

    package init(number: UInt64, session: String) { (self.number, self.session) = (number, session) }
}
