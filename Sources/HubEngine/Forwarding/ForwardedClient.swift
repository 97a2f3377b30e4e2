import DequeModule
import JSONTree

/// What a client has under way at the hub that writes. Confined to the database queue.
///
///     line: 17 ✓, 18 …, 21 …          answered in this order; what the client asks behind them and is no write waits in `parked`
final class ForwardedClient: @unchecked Sendable {
    // Sendable: confined to the database queue.
    /// Among all clients of the hub.
    let number: UInt64
    /// The name under which the log knows what it leaves behind.
    let session: String
    /// Its requests that are not answered.
    var line: Deque<UInt64> = []
    /// The first of them when the line was begun, and its number.
    var parked: Parked?
    var head: UInt64 = 0
    /// It may have left something behind at the hub that writes.
    var leavesBehind = false

    init(number: UInt64, session: String) { (self.number, self.session) = (number, session) }
}
