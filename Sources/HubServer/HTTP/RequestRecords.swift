import HubEngine
import JSONTree
import Limits
import Logging
import Scheduling

/// What the operator can learn about requests: each one while that is turned on, and those that the hub refused for their origin, their
/// namespace or by the rules. From any thread.
final class RequestRecords: Sendable {
    /// Logs all requests while turned on.
    let log: RequestLog
    /// Logs refusals by the rules; nil with `loggedRefusals` 0.
    let refusalLog: RefusalLog?
    /// The latest refusals, for administrators.
    let recentRefusals: RecentRefusals
    private let unknownNamespaces: LogThrottle
    private let refusedOrigins: LogThrottle
    private let scheduler: Scheduler

    init(_ settings: ServerSettings, _ scheduler: Scheduler, _ logger: Logger) {
        let limits = settings.limits
        self.scheduler = scheduler
        log = RequestLog(isOn: settings.logsRequests, scheduler, logger: logger)
        refusalLog = limits.loggedRefusals > 0 ? RefusalLog(perSecond: limits.loggedRefusals, scheduler, logger: logger) : nil
        recentRefusals = RecentRefusals(most: limits.keptRefusals, perSecond: limits.keptRefusalsPerSecond)
        unknownNamespaces = LogThrottle(logger, .notice, scheduler)
        refusedOrigins = LogThrottle(logger, .notice, scheduler)
    }

    func unknownNamespace(_ metadata: @autoclosure () -> Logger.Metadata) { unknownNamespaces.log("unknown namespace", metadata()) }
    func refusedOrigin(_ metadata: @autoclosure () -> Logger.Metadata) { refusedOrigins.log("origin refused", metadata()) }

    /// The listener of a namespace's refusals by the rules.
    func refusals(of namespace: String) -> any RefusalListener {
        recentRefusals.listener(namespace, beside: refusalLog?.listener(namespace))
    }

    /// Records a write that the rules refused before its content was read.
    func refusedUnread(_ path: Path, by identity: Identity, in namespace: String) {
        refusalLog?.refusedUnread(path, namespace)
        recentRefusals.refusedUnread(path, identity.auth, namespace, now: scheduler.wallMs)
    }
}
