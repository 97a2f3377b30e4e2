/// Whether a message that has begun comes fast enough: like a body, it must bring so many bytes in each stretch of time,
/// whatever signs of life come beside it.
struct MessagePace {
    /// When the stretch began, in the lane's seconds; nil while nothing is open.
    private var since: Int?
    /// Which message is open, and what had come of it then.
    private var message: UInt32 = 0
    private var bytes = 0

    /// Nothing is open, or nothing is read from the peer.
    mutating func reset() { since = nil }

    /// - Parameters:
    ///   - message: another number for another message.
    ///   - bytes: what has come of it.
    ///   - demand: bytes that each stretch must bring.
    /// - Returns: whether the stretch is over without them.
    mutating func isTooSlow(_ message: UInt32, _ bytes: Int, seconds: Int, stretch: Int, demand: Int) -> Bool {
        guard let since, self.message == message, bytes - self.bytes < demand else {
            (self.since, self.message, self.bytes) = (seconds, message, bytes)
            return false
        }
        return seconds - since >= stretch
    }
}
