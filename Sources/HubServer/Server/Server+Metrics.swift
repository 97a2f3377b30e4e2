import Dispatch
import DispatchNet
import HTTPTypes
import HubEngine
import Logging
import SecurityRules
import Synchronization
import WireProtocols

/// Numbers of open sessions, and bytes sent to users, for metrics. From any thread.
final class SessionCounts: Sendable {
    let realtime = Atomic<Int>(0)
    let observe = Atomic<Int>(0)
    /// Event streams.
    let streams = Atomic<Int>(0)
    /// Bytes sent to each user; nil when they are not counted.
    let users: UserBytes?

    init(_ settings: ServerSettings) {
        users = settings.countsUserBytes ? UserBytes(remembered: settings.limits.countedUsers) : nil
    }

    func add(_ dialect: Dialect, _ difference: Int) {
        switch dialect {
        case .realtime: realtime.add(difference, ordering: .relaxed)
        case .observe: observe.add(difference, ordering: .relaxed)
        case .rest: streams.add(difference, ordering: .relaxed)
        // The hub's own requests have no session.
        case .system: break
        }
    }
}

/// `/.metrics`: the state of the server, as Prometheus text (exposition format 0.0.4; docs/operations.md).
extension Server {
    /// Whether the peer may read metrics. Administrators may from anywhere, unless metrics are off.
    func mayReadMetrics(_ request: HTTPInboundRequest, _ connection: Connection) -> Bool {
        switch settings.metrics {
        case .off: return false
        case .all: return true
        case .loopback:
            if let secret = Self.bearer(request.fields), secrets.admit(secret) { return true }
            return connection.remoteAddress.isLoopback && Self.isLocalRequest(request)
        }
    }

    /// Queue off the net loops: counting descriptors is O(n), and file sizes need system calls.
    private static let measuring = DispatchQueue(label: "vigla.metrics", qos: .utility)

    /// With `?by=user` administrators also get the counters of users.
    func sendMetrics(_ request: HTTPInboundRequest, _ connection: Connection, _ answer: PendingResponse) {
        let isHead = request.method == .head
        guard request.target.value("by") == "user" else { return sendMetrics(answer, byUser: false, isHead: isHead) }
        let address = { [self] in countedAddress(of: request, connection) }
        identify(RESTRequest.credential(request), to: nil, override: nil, lanes[answer.loopIndex], of: address) { [self] result in
            switch result {
            case .success(let identity) where identity.isAdmin: sendMetrics(answer, byUser: true, isHead: isHead)
            case .success: answer.refuse(RESTRefusal(.unauthorized, "Permission denied"), isHead: isHead)
            case .failure(let failure): answer.refuse(RESTRefusal(failure), isHead: isHead)
            }
        }
    }

    private func sendMetrics(_ answer: PendingResponse, byUser: Bool, isHead: Bool) {
        Self.measuring.async { [self] in
            answer.send(.ok, Self.metricsFields, Array(metricsText(byUser: byUser).utf8), isHead: isHead)
        }
    }

    private static let metricsFields: HTTPFields = [
        .contentType: "text/plain; version=0.0.4; charset=utf-8", .cacheControl: "no-cache",
    ]

    /// Whether a loopback request comes from a program on this machine. A proxy adds forwarding fields or keeps the client's `Host`; a web
    /// page under DNS rebinding sends its own name as `Host`.
    private static func isLocalRequest(_ request: HTTPInboundRequest) -> Bool {
        let isPassedOn = request.fields.contains { field in
            let name = field.name.canonicalName
            return name.hasPrefix("x-forwarded-") || ["forwarded", "via", "x-real-ip"].contains(name)
        }
        return !isPassedOn && (request.host.map { OriginPolicy.isThisMachine(host: $0) } ?? true)
    }

    /// From any thread but a net loop's. O(open descriptors).
    /// - Parameter byUser: includes the counters by user, which contain user names.
    func metricsText(byUser: Bool = false) -> String {
        var page = MetricsPage()
        addProcess(to: &page)
        addCluster(to: &page)
        let loops = lanes.map { (name: "\($0.loop.index)", inbox: $0.loop.inboxDepth, counters: $0.loop.counters) }
        addConnections(loops.map(\.counters), to: &page)
        addClients(to: &page)
        page.gauge("vigla_loop_inbox", "Work handed to a net loop and not begun.", label: "loop", loops.map { ($0.name, $0.inbox) })
        page.thousandths(
            "vigla_loop_busy_seconds_total", "Time that a net loop was at work.", "counter", label: "loop",
            loops.map { ($0.name, Int($0.counters.busyNs / 1_000_000)) })
        page.counter(
            "vigla_loop_pauses_total", "Times that a net loop waited for requests to come together.", label: "loop",
            loops.map { ($0.name, $0.counters.gatherings) })
        let databases = hub.all.sorted { $0.name < $1.name }.map(DatabaseReading.init)
        page.addRequests(databases)
        page.addConsequences(databases)
        page.addRefusals(databases)
        page.addLargeWrites(databases)
        page.addObservers(databases)
        page.addIndexes(databases)
        page.gauge("vigla_deliveries_sending", "Deliveries that are being sent, or wait for their turn.", deliveries.counts.active)
        page.counter(
            "vigla_delivery_attempts_total", "Attempts to send notifications and events.", labels: "kind", "outcome",
            deliveries.counts.attempts)
        addDetails(to: &page)
        if byUser, let users = sessions.users {
            page.counter(
                "vigla_user_sent_bytes_total", "Bytes that the system took for connections of users.", label: "user",
                users.reading.map { ($0.user, $0.bytes) })
        }
        return page.text
    }

    private func addConnections(_ counters: [LoopCounters], to page: inout MetricsPage) {
        func sum(_ value: (LoopCounters) -> Int) -> Int { counters.reduce(0) { $0 + value($1) } }
        page.gauge("vigla_connections", "Connections open now.", sum(\.connections))
        page.counter("vigla_connections_accepted_total", "Connections let in.", sum(\.opened))
        let refusals = network.admission.refusals
        page.counter(
            "vigla_connections_refused_total", "Connections closed as soon as they were accepted.", label: "reason",
            Refusal.allCases.map { ($0.rawValue, refusals[$0] ?? 0) })
        page.counter(
            "vigla_connections_closed_total", "Connections ended, by reason.", label: "reason",
            CloseReason.names.indices.dropFirst().map { code in (CloseReason.names[code], sum { $0.endsByCode[code] }) })
        page.gauge("vigla_handshakes_waiting", "Connections whose TLS handshake waits for its turn.", sum(\.handshakesWaiting))
        page.counter("vigla_received_bytes_total", "Bytes read from peers.", sum(\.bytesReceived))
        page.counter("vigla_sent_bytes_total", "Bytes that the system took for peers.", sum(\.bytesSent))
        page.gauge("vigla_backlog_bytes", "Bytes that wait for slow readers.", sum(\.backlogBytes))
        page.counter("vigla_congestions_total", "Times that a reader was over the soft limit.", sum(\.congestions))
    }

    /// Sessions, and what clients use of the process.
    private func addClients(to page: inout MetricsPage) {
        page.gauge(
            "vigla_sessions", "Sessions open now.", label: "protocol",
            [("realtime", sessions.realtime.load(ordering: .relaxed)), ("observe", sessions.observe.load(ordering: .relaxed)),
                ("stream", sessions.streams.load(ordering: .relaxed)),
            ])
        let budget = memory.budget
        page.gauge("vigla_memory_budget_bytes", "Limit of the bytes held for all clients, without the data.", budget.limit)
        page.gauge(
            "vigla_memory_held_bytes", "Bytes that are held for clients, by purpose.", label: "purpose",
            MemoryBudget.Purpose.allCases.map { ($0.label, budget.used(for: $0)) })
        page.counter(
            "vigla_memory_refusals_total", "Times that more was refused: to all, or to one address.", label: "share",
            [("process", budget.refusals), ("address", budget.shareRefusals)])
        let large = memory.largeWork.counts
        page.gauge("vigla_large_requests", "Large requests that are worked on, and that wait for their turn.", label: "state",
            [("running", large.running), ("waiting", large.waiting)])
        let checks = authentication.projects.compactMap { $0.tokenChecks?.counts }
        page.gauge(
            "vigla_token_checks", "Tokens that are checked, and that wait for it.", label: "state",
            [("running", checks.reduce(0) { $0 + $1.running }), ("waiting", checks.reduce(0) { $0 + $1.waiting })])
        page.gauge("vigla_long_polling_sessions", "Sessions that began by long polling.", network.longPolls.count)
    }

    func logEnd(_ connection: Connection, _ reason: CloseReason) {
        logger.debug("connection ended", metadata: ["peer": "\(connection.remoteAddress)", "reason": "\(reason)"])
    }
}

extension MemoryBudget.Purpose {
    /// Its label in metrics.
    fileprivate var label: String {
        switch self {
        case .incoming: "incoming"
        case .parsing: "parsing"
        case .answers: "answers"
        case .pinned: "pinned"
        }
    }
}
