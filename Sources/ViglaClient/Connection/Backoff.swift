/// The delay before the next attempt: it doubles from the first to the last delay, each shortened by up to a half at
/// random. So clients that a restart has disconnected together do not reconnect together.
struct Backoff: Sendable {
    private let firstMs: Int
    private let lastMs: Int
    private var delayMs: Int

    init(_ firstMs: Int, _ lastMs: Int) {
        self.firstMs = max(1, firstMs)
        self.lastMs = max(self.firstMs, lastMs)
        delayMs = self.firstMs
    }

    /// Resets the delay after the hub has answered: the next loss starts from the first delay.
    mutating func reset() { delayMs = firstMs }

    mutating func nextMs() -> Int {
        var generator = SystemRandomNumberGenerator()
        return nextMs(using: &generator)
    }

    mutating func nextMs(using generator: inout some RandomNumberGenerator) -> Int {
        let delay = delayMs
        delayMs = min(lastMs, delay * 2)
        return Int.random(in: (delay + 1) / 2...delay, using: &generator)
    }
}
