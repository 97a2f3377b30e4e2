/// A token bucket as one number: the time at which it will be full again (the generic cell rate algorithm). A full bucket needs no memory.
/// Times are from a monotonic clock, in the unit of the rate.
package struct TokenBucket: Sendable, Equatable {
    /// The capacity of a bucket, and its refill interval.
    package struct Rate: Sendable {
        /// Tokens of a full bucket; at least 1.
        package let burst: Int64
        /// Time per token; at least 1.
        package let interval: Int64

        /// - Parameter burst: less than 1 counts as 1; bounded so that no time overflows.
        package init(burst: Int64, interval: Int64) {
            self.interval = max(1, interval)
            self.burst = min(max(1, burst), Int64.max / 4 / self.interval)
        }
    }

    package var fullAt: Int64

    /// - Parameter fullAt: a time in the past makes a full bucket.
    package init(fullAt: Int64) { self.fullAt = fullAt }

    package func isFull(now: Int64) -> Bool { fullAt <= now }

    /// Time until this many tokens are available; 0 when they are.
    /// - Parameter tokens: at most a full bucket's.
    package func wait(_ rate: Rate, tokens: Int64 = 1, now: Int64) -> Int64 {
        max(0, max(fullAt, now) + rate.interval * tokens - now - rate.interval * rate.burst)
    }

    /// Consumes tokens, even from an empty bucket.
    package mutating func record(_ rate: Rate, tokens: Int64 = 1, now: Int64) { fullAt = max(fullAt, now) + rate.interval * tokens }

    /// Consumes a token if one is available.
    package mutating func admit(_ rate: Rate, now: Int64) -> Bool {
        guard wait(rate, now: now) == 0 else { return false }
        record(rate, now: now)
        return true
    }

    package mutating func giveBack(_ rate: Rate) { fullAt -= rate.interval }

    /// The same bucket for a clock that is ahead by `difference`.
    package func shifted(by difference: Int64) -> TokenBucket { TokenBucket(fullAt: fullAt + difference) }
}
