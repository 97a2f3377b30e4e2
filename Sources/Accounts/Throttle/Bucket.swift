/// A token bucket as one number: the time at which it will be full again (the generic cell rate algorithm). A bucket that is
/// full needs no memory.
struct Bucket: Equatable {
    /// ms of a clock that never steps.
    var fullAt: Int64

    /// ms until one more is left; 0: there is one now.
    func wait(_ rate: ThrottleSettings.Rate, now: Int64) -> Int64 {
        max(0, max(fullAt, now) + rate.intervalMs - now - rate.intervalMs * rate.count)
    }

    mutating func take(_ rate: ThrottleSettings.Rate, now: Int64) { fullAt = max(fullAt, now) + rate.intervalMs }

    /// The same by a clock that shows so many ms more.
    func shifted(by ms: Int64) -> Bucket { Bucket(fullAt: fullAt + ms) }

    mutating func giveBack(_ rate: ThrottleSettings.Rate) { fullAt -= rate.intervalMs }
}
