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
import Outbound
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
    /// When the server was created, by both clocks.
    let startedAt: (wallMs: Int64, steadyNs: Int64)
    let network: ServerNetwork
    let origins: OriginPolicy
    let console: ConsoleFiles?
    /// The largest body that a request with this head may have, in bytes.
    let bodyBytes: @Sendable (HTTPTarget, HTTPFields) -> Int
    let authentication: Authentication
    /// Numbers of sessions, and bytes sent to users.
    let sessions: SessionCounts
    /// What clients may use for large messages.
    let memory: ServerMemory
    let records: RequestRecords
    let rulesInForce: RulesInForce
    /// Sends notifications and events.
    let deliveries: DeliveryGateway
    let catalog: DatabaseCatalog
    let hub: Hub
    /// Owns the journals and the settings.
    let storage: any JournalStorage

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
        self.logger = logger
        startedAt = (scheduler.wallMs, scheduler.steadyNs)
        do throws(NetError) { network = try ServerNetwork(settings, logger) } catch { throw .cannotListen(error) }
        origins = OriginPolicy(
            allowed: settings.allowedOrigins, isDev: settings.isDev,
            isOpenToNetwork: settings.host != "::1" && !OriginPolicy.isThisMachine(host: settings.host))
        console = settings.webFolder.map { ConsoleFiles(folder: $0) }
        sessions = SessionCounts(settings)
        memory = ServerMemory(settings.limits)
        logger.info("memory for clients", metadata: ["bytes": "\(settings.limits.memoryBytes)", "of_address": "\(memory.addressBytes)"])
        records = RequestRecords(settings, scheduler, logger)

        do { storage = try open() } catch { throw .cannotOpen("\(error)") }
        if let finding = storage.finding { logger.error("the data was damaged", metadata: ["finding": "\(finding)"]) }
        let origin = settings.origin(port: network.port)
        storage.announceAddress(origin)
        authentication = try Authentication(settings, storage, origin: origin, scheduler, logger)
        bodyBytes = Self.bodyLimit(settings.limits.http, settings.accounts, authentication)
        rulesInForce = RulesInForce(
            of: settings.databases, others: settings.isDev ? settings.databases[0] : nil, settings: storage.settingStore,
            isDurable: storage.isDurable, former: settings.limits.formerRules, scheduler: scheduler, logger: logger)
        let key = settings.outbound.subject == nil ? nil : try PushKey.load(storage.settingStore, wallMs: scheduler.wallMs, logger)
        deliveries = DeliveryGateway(
            settings.outbound, key: key, mail: settings.accounts?.mailTransport(scheduler, logger), scheduler: scheduler)
        catalog = try DatabaseCatalog(settings, storage)
        let opener = NamespaceOpener(
            settings, storage, rulesInForce, catalog, authentication, records, deliveries, memory.budget, network.lanes, scheduler, logger)
        hub = Hub { opener.open($0) }
        rulesInForce.followOthers(in: hub)
        // All databases are recovered before the port answers, so that a broken store shows at start. One that an administrator has created
        // does not keep the others closed: its requests get 503.
        for name in catalog.names where hub.openNow(name) == nil {
            let reason = opener.fault ?? "database \(name)"
            if catalog.isConfigured(name) { throw .cannotOpen(reason) }
            logger.error("a created database is not served", metadata: ["namespace": "\(name)", "reason": "\(reason)"])
        }
        for project in authentication.projects { applyAccountChanges(of: project) }
        prepare(self)
        warnOfExpiry()
        network.start(self)
    }

    /// The databases of the configuration and those that were created at run time, the default first. From any thread.
    public var databaseNames: [String] { catalog.names }

    /// Whether a database is open; false once it is removed. From any thread.
    func serves(_ database: Database) -> Bool { hub.database(database.name) === database }

    /// Stops the server within a bounded time, then calls back. Acknowledged writes are stored.
    ///
    ///     0                  connections are notified and closed, at most 3 s; snapshots and removals in progress are abandoned, and
    ///                        deliveries under way end
    ///     ├─ closed          databases carry out pending requests and the sessions' onDisconnect writes; small snapshots are written
    ///     ├─ done, or stopMs the storage closes: with all that was appended; on timeout, without large batches that are not stored yet
    ///     └─ closed          `done`
    public func stop(_ done: @escaping @Sendable () -> Void) {
        storage.prepareToClose()
        network.stopListening()
        deliveries.close()
        let close = CloseOnce { [self] isLate in
            if isLate { logger.warning("the stop ran out of time: unacknowledged writes are left out") }
            storage.close(isLate: isLate) { [logger] fault in
                if let fault { logger.error("the data could not be closed", metadata: ["reason": "\(fault)"]) }
                done()
            }
        }
        let deadline = scheduler.after(ms: Int64(settings.limits.stopMs), on: .global()) { close(isLate: true) }
        network.close { [self] in
            closeDatabases {
                deadline.cancel()
                close(isLate: false)
            }
        }
    }

    /// The sessions' ends were submitted while the loops closed; a snapshot behind them sees their writes.
    private func closeDatabases(_ done: @escaping @Sendable () -> Void) {
        let (databases, services) = (hub.all, authentication.projects.compactMap(\.accounts))
        let countdown = Countdown(databases.count + services.count, done)
        for accounts in services { accounts.end(logger) { countdown.arrive() } }
        for database in databases { database.close(logger) { countdown.arrive() } }
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
