/// How long to wait before the next attempt: doubling from the first to the last delay, each shortened by up to a half at
/// random, so that clients which a restart has cut off together do not come back together.
struct Backoff: Sendable {
    private let firstMs: Int
    private let lastMs: Int
    private var delayMs: Int

    init(_ firstMs: Int, _ lastMs: Int) {
        self.firstMs = max(1, firstMs)
        self.lastMs = max(self.firstMs, lastMs)
        delayMs = self.firstMs
    }

    /// The hub has answered something: the next loss starts from the first delay again.
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
