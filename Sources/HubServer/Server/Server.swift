import Accounts
import Dispatch
public import DispatchNet
import Glibc
import HTTPTypes
import HubEngine
public import Journal
import JSONTree
import Limits
public import Logging
public import Scheduling
import Synchronization
import WireProtocols

/// A running hub: loops, listener, databases. Start it once, stop it once.
///
///     accept ─► HTTPConnection ─► (upgrade) ─► WebSocketCarrier ─► RealtimeSession | ObserveSession ─► Database
///                    ├─► polls ─► LongPollCarrier ─► RealtimeSession ─► Database
///                    └─► console files, health
public final class Server: Sendable {
    public let settings: ServerSettings
    let logger: Logger
    /// The clocks, and timers other than those of the loops.
    let scheduler: Scheduler
    /// Throttles the log of requests for unknown namespaces.
    let unknownNamespaces: LogThrottle
    /// Throttles the log of pages that the observe protocol refused.
    let refusedOrigins: LogThrottle
    let hub: Hub
    let lanes: [LoopSessions]
    let console: ConsoleFiles?
    let longPolls: LongPollSessions
    let origins: OriginPolicy
    let admission: Admission
    let sessions = SessionCounts()
    let requestLog: RequestLog
    /// When the server was created, by both clocks.
    let startedAt: (wallMs: Int64, steadyNs: Int64)
    /// Bytes sent to each user; nil when they are not counted.
    let userBytes: UserBytes?
    /// The memory budget for clients.
    let memory: ServerMemory
    /// Worker threads for large messages, bodies and responses.
    let largeWork: LargeWork
    let smallSettings = SmallSettings()
    /// Database secrets, the credentials of administrators.
    public let secrets: Secrets
    /// Nil when accounts are not configured.
    let accounts: AccountService?
    /// Counts pending account requests.
    let accountRequests: AccountRequests
    /// Verifies signed tokens. Nil without a verifier: then they count as anonymous.
    let tokenChecks: TokenChecks?
    /// The largest body that a request with this head may have, in bytes.
    let bodyBytes: @Sendable (HTTPTarget, HTTPFields) -> Int
    private let group: EventLoopGroup
    private let listener: Listener
    /// The TLS listener on a second port; nil without one.
    private let secureListener: Listener?
    /// Owns the journals and the settings.
    let storage: any JournalStorage
    let rulesInForce: RulesInForce
    /// Logs refusals by the rules; nil with `loggedRefusals` 0.
    let refusalLog: RefusalLog?
    /// The latest refusals, for administrators.
    let recentRefusals: RecentRefusals
    /// Descriptors reserved for the store, the listeners and the loops.
    private static let descriptorsKept = 64

    /// Binds the port, opens the storage and begins to serve.
    /// - Parameters:
    ///   - scheduler: the process's.
    ///   - prepare: work to do before the first request is answered; may block.
    ///   - open: opens the storage of the journals; called once, when the port is known to be free. `stop` closes it.
    /// - Throws: `ServerError` for a port that cannot be bound or a storage that cannot be opened.
    public init(
        _ settings: ServerSettings, scheduler: Scheduler, logger: Logger, beforeServing prepare: (Server) -> Void = { _ in },
        storage open: () throws(JournalError) -> any JournalStorage
    ) throws(ServerError) {
        self.settings = settings
        self.scheduler = scheduler
        // The SDKs' own tests send many requests at once from one address.
        accountRequests = AccountRequests(
            most: settings.limits.accountRequests, ofNetwork: settings.isDev ? .max : settings.limits.accountRequestsOfNetwork)
        self.logger = logger
        startedAt = (scheduler.wallMs, scheduler.steadyNs)
        requestLog = RequestLog(isOn: settings.logsRequests, scheduler, logger: logger)
        unknownNamespaces = LogThrottle(logger, .notice, scheduler)
        refusedOrigins = LogThrottle(logger, .notice, scheduler)
        userBytes = settings.countsUserBytes ? UserBytes(remembered: settings.limits.countedUsers) : nil
        memory = ServerMemory(settings.limits)
        largeWork = LargeWork(settings.limits)
        let loopCount = settings.loops > 0 ? settings.loops : max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        do throws(NetError) {
            group = try EventLoopGroup(count: loopCount, settings: settings.limits.transport(isFilling: settings.loops == 0))
            listener = try Listener.bind(host: settings.host, port: settings.port)
            secureListener = if let port = settings.tls?.port { try Listener.bind(host: settings.host, port: port) } else { nil }
        } catch { throw .cannotListen(error) }
        let lanes = group.loops.map { LoopSessions(loop: $0, limits: settings.limits) }
        self.lanes = lanes
        longPolls = LongPollSessions(
            limits: settings.limits.longPoll, countsLoopback: settings.limits.admission.countsLoopback)
        origins = OriginPolicy(
            allowed: settings.allowedOrigins, isDev: settings.isDev,
            isOpenToNetwork: settings.host != "::1" && !OriginPolicy.isThisMachine(host: settings.host))
        var admissionLimits = settings.limits.admission
        let descriptors = Descriptors.raiseLimit()
        admissionLimits.connections = min(admissionLimits.connections, max(1, descriptors - Self.descriptorsKept))
        admission = Admission(admissionLimits)
        logger.info("connections", metadata: ["most": "\(admissionLimits.connections)", "descriptors": "\(descriptors)"])
        logger.info("memory for clients", metadata: ["bytes": "\(settings.limits.memoryBytes)", "of_address": "\(memory.addressBytes)"])
        console = settings.webFolder.map { ConsoleFiles(folder: $0) }

        let storage: any JournalStorage
        do { storage = try open() } catch { throw .cannotOpen("\(error)") }
        self.storage = storage
        if let finding = storage.finding { logger.error("the data was damaged", metadata: ["finding": "\(finding)"]) }
        do { secrets = try Secrets(storage.settingStore) } catch { throw .cannotOpen("\(error)") }
        let isAdministrator = { @Sendable [secrets, isDev = settings.isDev] (credential: String) in
            secrets.admit(credential) || isDev && credential == "owner"
        }
        bodyBytes = Self.bodyLimit(settings.limits.http, settings.accounts, isAdministrator: isAdministrator)
        let origin = settings.origin(port: listener.port)
        storage.announceAddress(origin)
        do {
            accounts = try settings.accounts.map { given in
                var given = given
                given.publicURL = given.publicURL ?? origin
                return try AccountService(
                    given, folder: settings.dataFolder, isAdministrator: isAdministrator, logger: logger, scheduler: scheduler,
                    log: storage.accountLog)
            }
        } catch { throw .cannotOpen("\(error)") }
        let verifier = settings.tokens ?? accounts.map { AccountTokens(accounts: $0, leewaySeconds: settings.limits.tokenLeewaySeconds) }
        tokenChecks = verifier.map { TokenChecks($0, settings.limits, scheduler) }
        let rulesInForce = RulesInForce(
            settings.rules, file: settings.rulesFile, settings: storage.settingStore, isDurable: storage.isDurable,
            former: settings.limits.formerRules, scheduler: scheduler, logger: logger)
        self.rulesInForce = rulesInForce
        let refusalLog =
            settings.limits.loggedRefusals > 0 ? RefusalLog(perSecond: settings.limits.loggedRefusals, scheduler, logger: logger) : nil
        self.refusalLog = refusalLog
        let recentRefusals = RecentRefusals(most: settings.limits.keptRefusals, perSecond: settings.limits.keptRefusalsPerSecond)
        self.recentRefusals = recentRefusals
        let opening = OpeningFault()
        // Clients retry while a namespace cannot be opened.
        let unopened = LogThrottle(logger, .error, scheduler)
        let outlet: Outlet = { lane, deliveries in lanes[lane].deliver(deliveries) }
        hub = Hub { [memory] name in
            guard settings.isDev || name == settings.namespace, Namespace.isValid(name) else { return nil }
            do {
                let opened = try storage.open(name)
                let recovered = opened.recovered
                if recovered.sequence > 0 {
                    logger.info("recovered", metadata: [
                        "namespace": "\(name)", "commits": "\(recovered.sequence)", "replayed": "\(recovered.replayed)",
                        "disconnects": "\(recovered.pending.count)"])
                }
                let database = Database(
                    name: name, rules: try rulesInForce.open(name), start: (recovered.root, recovered.sequence),
                    written: recovered.written, pendingRows: recovered.pendingRows, pending: recovered.pending, journal: opened.journal,
                    epoch: opened.epoch, follows: opened.writerRole != nil, writerRole: opened.writerRole, peers: recovered.peers,
                    link: opened.link, lanes: loopCount,
                    limits: settings.limits.engine, budget: memory.budget, format: HubFormat(),
                    refusals: recentRefusals.listener(name, beside: refusalLog?.listener(name)), outlet: outlet,
                    onJournal: { $0.log(name, logger) }, scheduler: scheduler)
                database.makeSnapshots(logger)
                return database
            } catch {
                unopened.log("namespace could not be opened", ["namespace": "\(name)", "reason": "\(error)"])
                opening.record("\(error)")
                return nil
            }
        }
        rulesInForce.followOthers(in: hub)
        // The default namespace is recovered before the port answers, so that a broken store shows at start.
        guard hub.openNow(settings.namespace) != nil else { throw .cannotOpen(opening.text ?? "namespace \(settings.namespace)") }
        if let accounts, let database = hub.database(settings.namespace) { applyAccountChanges(accounts, database) }
        prepare(self)
        for lane in lanes { lane.startTicking() }
        warnOfExpiry()
        let tls = settings.tls?.identity
        listener.start(on: group, tls: secureListener == nil ? tls : nil, admission: admission) { [self] in
            HTTPConnection($0, server: self)
        }
        secureListener?.start(on: group, tls: tls, admission: admission) { [self] in HTTPConnection($0, server: self) }
    }

    /// The port of the listener. It speaks TLS if there is a certificate and no ``securePort``.
    public var port: UInt16 { listener.port }
    /// Connections that are open now.
    public var connections: Int { admission.connections }
    /// The port of the second listener, which speaks TLS; nil without one.
    public var securePort: UInt16? { secureListener?.port }

    /// Stops the server within a bounded time, then calls back. Acknowledged writes are stored.
    ///
    ///     0                  connections are notified and closed, at most 3 s; snapshots and removals in progress are abandoned
    ///     ├─ closed          databases carry out pending requests and the sessions' onDisconnect writes; small snapshots are written
    ///     ├─ done, or stopMs the storage closes: with all that was appended; on timeout, without large batches that are not stored yet
    ///     └─ closed          `done`
    public func stop(_ done: @escaping @Sendable () -> Void) {
        storage.prepareToClose()
        listener.stop()
        secureListener?.stop()
        let close = CloseOnce { [self] isLate in
            if isLate { logger.warning("the stop ran out of time: unacknowledged writes are left out") }
            storage.close(isLate: isLate) { [logger] fault in
                if let fault { logger.error("the data could not be closed", metadata: ["reason": "\(fault)"]) }
                done()
            }
        }
        let deadline = scheduler.after(ms: Int64(settings.limits.stopMs), on: .global()) { close(isLate: true) }
        // Long-polling sessions end first, so that the loops still send the last responses to their polls.
        longPolls.endAll(lanes) { [self] in
            closeConnections {
                deadline.cancel()
                close(isLate: false)
            }
        }
    }

    private func closeConnections(_ done: @escaping @Sendable () -> Void) {
        for lane in lanes { lane.announceStop() }
        group.shutdown { [self] in
            // The sessions' ends were submitted while the loops closed; a snapshot behind them sees their writes.
            let databases = hub.all
            let countdown = Countdown(databases.count + (accounts == nil ? 0 : 1), done)
            if let accounts { close(accounts) { countdown.arrive() } }
            for database in databases { database.close(logger) { countdown.arrive() } }
        }
    }
}

/// Closes the storage once: when all work is done, or on timeout.
private final class CloseOnce: Sendable {
    private let isClosed = Atomic(false)
    private let close: @Sendable (_ isLate: Bool) -> Void

    init(_ close: @escaping @Sendable (_ isLate: Bool) -> Void) { self.close = close }

    func callAsFunction(isLate: Bool) {
        if !isClosed.exchange(true, ordering: .relaxed) { close(isLate) }
    }
}

/// Why the default namespace could not be opened at the start.
private final class OpeningFault: Sendable {
    private let recorded = Mutex<String?>(nil)

    func record(_ text: String) { recorded.withLock { $0 = text } }
    var text: String? { recorded.withLock { $0 } }
}

/// Why a server did not start; the text says how to fix it.
public enum ServerError: Error, CustomStringConvertible {
    case cannotListen(NetError)
    case cannotOpen(String)

    public var description: String {
        switch self {
        case .cannotListen(let error): "The port could not be opened: \(error).\(Self.advice(error))"
        case .cannotOpen(let reason): "The data could not be opened: \(reason)"
        }
    }

    private static func advice(_ error: NetError) -> String {
        switch error {
        case .bindFailed(_, EADDRINUSE): " Another program has this port: stop that one, or choose another port."
        case .bindFailed(_, EACCES): " Ports below 1024 need the capability CAP_NET_BIND_SERVICE."
        case .bindFailed(_, EADDRNOTAVAIL), .unresolved: " --host takes an address of this machine: 127.0.0.1, 0.0.0.0 for all, …"
        default: ""
        }
    }
}
