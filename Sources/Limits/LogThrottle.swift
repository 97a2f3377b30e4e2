import Dispatch
package import Logging
import Synchronization

/// Lines of the log that clients can cause as often as they like: the first ones of a minute in full, then one with the
/// number of the others.
///
///     unknown namespace  namespace=x peer=…        ten of these
///     unknown namespace  more=12345                once a minute, as long as there are any
///
/// One for each kind of line. From any thread. A line that is left out costs a lock and no text.
package final class LogThrottle: Sendable {
    /// Lines in full in each period.
    package static let linesInFull = 10
    /// From the first line in full to the one with the number.
    package static let periodMs: Int64 = 60_000

    private struct State {
        /// When the present period began; nil before the first line.
        var begun: Int64?
        var told = 0
        var left = 0
    }

    private let logger: Logger
    private let level: Logger.Level
    private let now: @Sendable () -> Int64
    private let after: @Sendable (_ ms: Int64, _ work: @escaping @Sendable () -> Void) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - now: a clock in ms that never steps.
    ///   - after: runs work so many ms later.
    package init(
        _ logger: Logger, _ level: Logger.Level, now: @escaping @Sendable () -> Int64,
        after: @escaping @Sendable (_ ms: Int64, _ work: @escaping @Sendable () -> Void) -> Void
    ) {
        self.logger = logger
        self.level = level
        self.now = now
        self.after = after
    }

    /// With Dispatch's clock and timers.
    package convenience init(_ logger: Logger, _ level: Logger.Level) {
        self.init(logger, level, now: { Int64(DispatchTime.now().uptimeNanoseconds / 1_000_000) }) { ms, work in
            DispatchQueue.global(qos: .utility).asyncAfter(deadline: .now() + .milliseconds(Int(ms)), execute: work)
        }
    }

    private enum Verdict { case tell, leave, leaveFirst(Logger.Message, waitMs: Int64) }

    /// Logs a line, or counts it.
    package func tell(_ message: Logger.Message, _ metadata: @autoclosure () -> Logger.Metadata) {
        guard level >= logger.logLevel else { return }
        let now = now()
        let verdict = state.withLock { state -> Verdict in
            // What was left out before is told by the timer.
            if state.left == 0, state.begun.map({ now - $0 >= Self.periodMs }) ?? true { (state.begun, state.told) = (now, 0) }
            if state.told < Self.linesInFull {
                state.told += 1
                return .tell
            }
            state.left += 1
            return state.left == 1 ? .leaveFirst(message, waitMs: max(0, (state.begun ?? now) + Self.periodMs - now)) : .leave
        }
        switch verdict {
        case .tell: logger.log(level: level, message, metadata: metadata())
        case .leave: break
        case .leaveFirst(let message, let wait): after(wait) { [weak self] in self?.sum(message) }
        }
    }

    /// The number of those that were left out, and another period.
    private func sum(_ message: Logger.Message) {
        let now = now()
        let left = state.withLock { state in
            defer { state = State(begun: now) }
            return state.left
        }
        if left > 0 { logger.log(level: level, message, metadata: ["more": "\(left)"]) }
    }
}
