/// Wrong passwords of one account.
///
///     1 2 3 4 5  free   6th after 1 s, 7th after 2 s, 4 s … 15 min   quiet for the window: back to the free ones
///     100 in a row, however slowly: locked for a day
struct Failures: Equatable {
    /// Since the last window without any; sets the wait.
    var recent: Int64 = 0
    /// Since the last right password or reset, or the end of a lock.
    var consecutive: Int64 = 0
    /// Until when no password is looked at, ms of a clock that never steps.
    var blockedUntil: Int64 = 0
    /// When the last one was, by the same clock.
    var last: Int64 = 0

    func wait(now: Int64) -> Int64 { max(0, blockedUntil - now) }

    /// When there is nothing worth remembering: the window has passed, and what was in a row is less than its bound by far.
    func forgottenAt(_ settings: ThrottleSettings) -> Int64 {
        max(blockedUntil, last) + (consecutive > settings.freeFailures ? settings.lockMs : settings.windowMs)
    }

    mutating func add(_ settings: ThrottleSettings, now: Int64) {
        if now - max(blockedUntil, last) >= settings.windowMs { recent = 0 }
        if consecutive >= settings.mostFailures { consecutive = 0 }
        recent += 1
        consecutive += 1
        last = max(last, now)
        if consecutive >= settings.mostFailures {
            blockedUntil = now + settings.lockMs
        } else if recent >= settings.freeFailures {
            let doublings = recent - settings.freeFailures
            let delay = doublings < 40 ? settings.firstDelayMs << doublings : settings.longestDelayMs
            blockedUntil = now + min(delay, settings.longestDelayMs)
        }
    }

    /// The same by a clock that shows so many ms more.
    func shifted(by ms: Int64) -> Failures {
        var failures = self
        failures.blockedUntil += ms
        failures.last += ms
        return failures
    }

    /// Takes back one that turned out to be none, as it was added just before.
    mutating func withdraw() {
        recent = max(0, recent - 1)
        consecutive = max(0, consecutive - 1)
        blockedUntil = min(blockedUntil, last)
    }
}
