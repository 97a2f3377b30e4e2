/// Checks the rate of an incomplete message: it must bring a number of bytes in each interval, however many pings arrive meanwhile.
struct MessagePace {
    /// When the interval began, in the lane's seconds; nil while no message is open.
    private var since: Int?
    /// The open message, and its bytes when the interval began.
    private var message: UInt32 = 0
    private var bytes = 0

    /// Stops the check: no message is open, or reading from the peer is stopped.
    mutating func reset() { since = nil }

    /// - Parameters:
    ///   - message: number of the open message; each message has its own.
    ///   - bytes: bytes received of it.
    ///   - stretch: length of the interval in seconds.
    ///   - demand: bytes that each interval must bring.
    /// - Returns: whether the interval ended without them.
    mutating func isTooSlow(_ message: UInt32, _ bytes: Int, seconds: Int, stretch: Int, demand: Int) -> Bool {
        guard let since, self.message == message, bytes - self.bytes < demand else {
            (self.since, self.message, self.bytes) = (seconds, message, bytes)
            return false
        }
        return seconds - since >= stretch
    }
}
