import Dispatch
import Glibc

/// The clocks of the system, and one timer of Dispatch.
public final class SystemTime: TimeSource, @unchecked Sendable {
    // Sendable: Dispatch's sources may be used from any thread.

    /// The timer does not count while the machine sleeps, and the steady clock does: what became due meanwhile is at most so late.
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

    /// ms since the epoch, for what has no scheduler: the commands.
    public static var wallMs: Int64 {
        let time = read(CLOCK_REALTIME)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// ns since the machine's start, with the time that it slept.
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
