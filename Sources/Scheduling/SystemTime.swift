import Dispatch
import Glibc

/// The system clocks and one Dispatch timer.
public final class SystemTime: TimeSource, @unchecked Sendable {
    // Sendable: Dispatch sources may be used from any thread.

    /// The timer stops while the machine sleeps, but the steady clock does not. So work that became due during sleep is late by at most
    /// this.
    private static let longestWaitNs: Int64 = 60_000_000_000

    private let timer: any DispatchSourceTimer

    public init() {
        timer = DispatchSource.makeTimerSource(queue: DispatchQueue(label: "vigla.scheduler"))
    }

    deinit { timer.cancel() }

    public func start(_ ring: @escaping @Sendable () -> Void) {
        timer.setEventHandler(handler: ring)
        timer.schedule(deadline: .distantFuture)
        timer.activate()
    }

    public func setAlarm(atNs: Int64) {
        let wait = min(max(0, atNs - steadyNs), Self.longestWaitNs)
        timer.schedule(deadline: .now() + .nanoseconds(Int(wait)), leeway: .milliseconds(1))
    }

    public var wallMs: Int64 { Self.wallMs }
    public var steadyNs: Int64 { Self.steadyNs }

    /// ms since the epoch, for code without a scheduler: the commands.
    public static var wallMs: Int64 {
        let time = read(CLOCK_REALTIME)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// ns since the machine's start, sleep included.
    public static var steadyNs: Int64 {
        let time = read(CLOCK_BOOTTIME)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    private static func read(_ clock: clockid_t) -> timespec {
        var time = timespec()
        clock_gettime(clock, &time)
        return time
    }
}
