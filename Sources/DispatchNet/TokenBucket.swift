/// A token bucket as one number: the time at which it will be full again (the generic cell rate algorithm). One that is full needs
/// no memory. Times are of a clock that never steps, in the unit of the rate.
package struct TokenBucket: Sendable, Equatable {
    /// How much a bucket holds, and how fast it fills.
    package struct Rate: Sendable {
        /// How many at once after a quiet time; at least 1.
        package let burst: Int64
        /// Until a bucket that was emptied has one more; at least 1.
        package let interval: Int64

        /// - Parameter burst: less than 1 counts as 1; bounded so that no time overflows.
        package init(burst: Int64, interval: Int64) {
            self.interval = max(1, interval)
            self.burst = min(max(1, burst), Int64.max / 4 / self.interval)
        }
    }

    package var fullAt: Int64

    /// - Parameter fullAt: a time that is past makes a full bucket.
    package init(fullAt: Int64) { self.fullAt = fullAt }

    package func isFull(now: Int64) -> Bool { fullAt <= now }

    /// How long until one is left; 0: there is one now.
    package func wait(_ rate: Rate, now: Int64) -> Int64 {
        max(0, max(fullAt, now) + rate.interval - now - rate.interval * rate.burst)
    }

    /// Counts one, whether there is one or not.
    package mutating func record(_ rate: Rate, now: Int64) { fullAt = max(fullAt, now) + rate.interval }

    /// Counts one if there is one.
    package mutating func admit(_ rate: Rate, now: Int64) -> Bool {
        guard wait(rate, now: now) == 0 else { return false }
        record(rate, now: now)
        return true
    }

    package mutating func giveBack(_ rate: Rate) { fullAt -= rate.interval }

    /// The same by a clock that shows so much more.
    package func shifted(by difference: Int64) -> TokenBucket { TokenBucket(fullAt: fullAt + difference) }
}
