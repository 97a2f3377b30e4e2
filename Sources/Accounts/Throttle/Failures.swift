import Scheduling

/// Failed passwords of one account.
///
///     1 2 3 4 5  free   6th after 1 s, 7th after 2 s, 4 s … 15 min   none for a window: reset to the free ones
///     100 in a row, however slowly: locked for a day
struct Failures: Equatable {
    /// Failures since the last window without any; determines the wait.
    var recent: Int64 = 0
    /// Failures since the last correct password or reset, or since the end of a lock.
    var consecutive: Int64 = 0
    /// The time until which passwords are refused unchecked, in ms of a monotonic clock.
    var blockedUntil: Int64 = 0
    /// The time of the last failure, by the same clock.
    var last: Int64 = 0

    func wait(now: Int64) -> Int64 { max(0, blockedUntil - now) }

    /// When the state can be dropped: the window has passed, and the consecutive count is far below its limit.
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

    /// The same state, for a clock that is ahead by `ms`.
    func shifted(by ms: Int64) -> Failures {
        var failures = self
        failures.blockedUntil += ms
        failures.last += ms
        return failures
    }

    /// Merges counts from another hub: the larger values hold.
    mutating func merge(_ other: Failures) {
        recent = max(recent, other.recent)
        consecutive = max(consecutive, other.consecutive)
        blockedUntil = max(blockedUntil, other.blockedUntil)
        last = max(last, other.last)
    }

    /// Removes a failure that was just added and turned out not to be one.
    mutating func withdraw() {
        recent = max(0, recent - 1)
        consecutive = max(0, consecutive - 1)
        blockedUntil = min(blockedUntil, last)
    }
}

// Stored states: consecutive big-endian 64-bit numbers.

extension TokenBucket {
    var bytes: [UInt8] { bigEndian([max(0, fullAt)]) }

    init?(_ bytes: [UInt8]) {
        guard bytes.count == 8 else { return nil }
        let fullAt = Int64(bitPattern: bigEndian(bytes[...]))
        guard plausible ~= fullAt else { return nil }
        self.init(fullAt: fullAt)
    }
}

extension Failures {
    var bytes: [UInt8] { bigEndian([recent, consecutive, max(0, blockedUntil), max(0, last)]) }

    init?(_ bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        let numbers = stride(from: 0, to: 32, by: 8).map { Int64(bitPattern: bigEndian(bytes[$0..<$0 + 8])) }
        guard numbers.allSatisfy({ plausible ~= $0 }) else { return nil }
        (recent, consecutive, blockedUntil, last) = (numbers[0], numbers[1], numbers[2], numbers[3])
    }
}

/// Bounds of stored counts and times, so that a damaged row cannot cause an overflow.
private let plausible: ClosedRange<Int64> = 0...(1 << 53)

private func bigEndian(_ numbers: [Int64]) -> [UInt8] {
    numbers.flatMap { number in (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) } }
}

func bigEndian(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
