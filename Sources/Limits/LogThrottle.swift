import Dispatch
package import Logging
package import Scheduling
import Synchronization

/// Throttles log lines that clients can cause without limit: logs the first lines of a minute in full, then the number of suppressed lines.
///
///     unknown namespace  namespace=x peer=…        ten of these
///     unknown namespace  more=12345                once a minute, as long as there are any
///
/// Use one instance per kind of line. From any thread. A suppressed line costs a lock and builds no text.
package final class LogThrottle: Sendable {
    /// Lines logged in full per period.
    package static let linesInFull = 10
    /// ms from the first full line to the line with the number.
    package static let periodMs: Int64 = 60_000

    private struct State {
        /// When the current period began; nil before the first line.
        var begun: Int64?
        var logged = 0
        var suppressed = 0
    }

    private let logger: Logger
    private let level: Logger.Level
    private let scheduler: Scheduler
    private let state = Mutex(State())

    package init(_ logger: Logger, _ level: Logger.Level, _ scheduler: Scheduler) {
        self.logger = logger
        self.level = level
        self.scheduler = scheduler
    }

    private enum Verdict { case log, suppress, suppressFirst(Logger.Message, waitMs: Int64) }

    /// Logs a line, or counts it as suppressed.
    package func log(_ message: Logger.Message, _ metadata: @autoclosure () -> Logger.Metadata) {
        guard level >= logger.logLevel else { return }
        let now = scheduler.steadyMs
        let verdict = state.withLock { state -> Verdict in
            // Suppressed lines of the last period are reported by its timer first.
            if state.suppressed == 0, state.begun.map({ now - $0 >= Self.periodMs }) ?? true { (state.begun, state.logged) = (now, 0) }
            if state.logged < Self.linesInFull {
                state.logged += 1
                return .log
            }
            state.suppressed += 1
            return state.suppressed == 1 ? .suppressFirst(message, waitMs: max(0, (state.begun ?? now) + Self.periodMs - now)) : .suppress
        }
        switch verdict {
        case .log: logger.log(level: level, message, metadata: metadata())
        case .suppress: break
        case .suppressFirst(let message, let wait):
            scheduler.after(ms: wait, on: .global(qos: .utility)) { [weak self] in self?.logSuppressed(message) }
        }
    }

    /// Logs the number of suppressed lines and begins a new period.
    private func logSuppressed(_ message: Logger.Message) {
        let now = scheduler.steadyMs
        let suppressed = state.withLock { state in
            defer { state = State(begun: now) }
            return state.suppressed
        }
        if suppressed > 0 { logger.log(level: level, message, metadata: ["more": "\(suppressed)"]) }
    }
}
