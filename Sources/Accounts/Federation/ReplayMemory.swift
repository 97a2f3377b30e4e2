/// Tokens with a nonce that were used, until they would be refused for their age. A pure value with the clock handed in.
struct ReplayMemory {
    /// By hash of the token: when it ends, seconds since the epoch.
    private var used: [[UInt8]: Int64] = [:]
    private let limit: Int

    /// - Parameter limit: most tokens; those that end first are forgotten to make room.
    init(limit: Int) { self.limit = max(1, limit) }

    var count: Int { used.count }

    /// - Returns: false when it was used before.
    mutating func use(_ key: [UInt8], until end: Int64, now: Int64) -> Bool {
        if let known = used[key], now < known { return false }
        if used.count >= limit {
            used = used.filter { now < $0.value }
            // Half at once, so that not every further one sorts them all.
            if used.count >= limit {
                used = Dictionary(uniqueKeysWithValues: used.sorted { $0.value > $1.value }.prefix(limit / 2).map { ($0.key, $0.value) })
            }
        }
        used[key] = end
        return true
    }

    mutating func release(_ key: [UInt8]) { used[key] = nil }
}
