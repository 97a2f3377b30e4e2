import Accounts
public import DispatchNet
import Glibc
import HTTPTypes
import HubEngine
import Journal
import JSONTree
import Limits
public import Logging
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
    /// Requests for namespaces that are not here.
    let unknownNamespaces: LogThrottle
    let hub: Hub
    let lanes: [Lane]
    let console: ConsoleFiles?
    let longPolls: LongPollSessions
    let origins: OriginPolicy
    let admission: Admission
    let sessions = SessionCounts()
    /// What the process may hold for its clients.
    let memory: ServerMemory
    /// Where large messages, bodies and answers are worked on.
    let largeWork: LargeWork
    let smallSettings = SmallSettings()
    /// Credentials of administrators.
    public let secrets: Secrets
    /// Nil when there are none.
    let accounts: AccountService?
    /// Requests to the accounts that are under way.
    let accountRequests: AccountRequests
    /// Has signed tokens checked; nil when they are nobody's to check.
    let tokenChecks: TokenChecks?
    /// The largest body of a request with a head.
    let bodyBytes: @Sendable (HTTPTarget, HTTPFields) -> Int
    private let group: EventLoopGroup
    private let listener: Listener
    /// Speaks TLS beside the plain one.
    private let secureListener: Listener?
    private let store: DataStore?
    /// Where settings are kept: in the data folder, or with `--memory` for as long as the process lives.
    let settingStore: any SettingStore
    let rulesInForce: RulesInForce
    /// Nil unless refusals are to be logged.
    let refusalLog: RefusalLog?
    /// Descriptors that connections leave to the store, the listeners and the loops.
    private static let descriptorsKept = 64

    /// Opens the store, binds the port and begins to serve.
    /// - Throws: `ServerError` for a port that cannot be bound or a store that cannot be opened.
    public init(_ settings: ServerSettings, logger: Logger) throws(ServerError) {
        self.settings = settings
        // Tests of the SDKs ask from one address, and much at once.
        accountRequests = AccountRequests(
            most: settings.limits.accountRequests, ofNetwork: settings.isDev ? .max : settings.limits.accountRequestsOfNetwork)
        self.logger = logger
        unknownNamespaces = LogThrottle(logger, .notice)
        memory = ServerMemory(settings.limits)
        largeWork = LargeWork(settings.limits)
        let loopCount = settings.loops > 0 ? settings.loops : max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        do throws(NetError) {
            group = try EventLoopGroup(count: loopCount, settings: settings.limits.net(ofLoops: loopCount))
            listener = try Listener.bind(host: settings.host, port: settings.port)
            secureListener = if let port = settings.tls?.port { try Listener.bind(host: settings.host, port: port) } else { nil }
        } catch { throw .cannotListen(error) }
        let lanes = group.loops.map { Lane(loop: $0, limits: settings.limits) }
        self.lanes = lanes
        longPolls = LongPollSessions(
            limits: settings.limits.longPoll, countsLoopback: settings.limits.admission.countsLoopback)
        origins = OriginPolicy(allowed: settings.allowedOrigins, isDev: settings.isDev)
        var admissionLimits = settings.limits.admission
        let descriptors = Descriptors.raiseLimit()
        admissionLimits.connections = min(admissionLimits.connections, max(1, descriptors - Self.descriptorsKept))
        admission = Admission(admissionLimits)
        logger.info("connections", metadata: ["most": "\(admissionLimits.connections)", "descriptors": "\(descriptors)"])
        logger.info("memory for clients", metadata: ["bytes": "\(settings.limits.memoryBytes)", "of_address": "\(memory.addressBytes)"])
        console = settings.webFolder.map(ConsoleFiles.init)

        let store = try settings.dataFolder.map { folder throws(ServerError) in
            try DataStore(folder: folder, durability: settings.durability, acceptsLoss: settings.acceptsLoss, logger: logger)
        }
        self.store = store
        settingStore = store?.settings ?? MemorySettings()
        do { secrets = try Secrets(settingStore) } catch { throw .cannotOpen("\(error)") }
        let isAdministrator = { @Sendable [secrets, isDev = settings.isDev] (credential: String) in
            secrets.admit(credential) || isDev && credential == "owner"
        }
        bodyBytes = Self.bodyLimit(settings.limits.http, settings.accounts, isAdministrator: isAdministrator)
        let origin = Self.origin(settings, port: listener.port)
        do {
            accounts = try settings.accounts.map { given in
                var given = given
                given.publicURL = given.publicURL ?? origin
                return try AccountService(given, folder: settings.dataFolder, isAdministrator: isAdministrator, logger: logger, now: { Clock.nowMs() })
            }
        } catch { throw .cannotOpen("\(error)") }
        let verifier = settings.tokens ?? accounts.map { AccountTokens(accounts: $0, leewaySeconds: settings.limits.tokenLeewaySeconds) }
        tokenChecks = verifier.map { TokenChecks($0, settings.limits) }
        let rulesInForce = RulesInForce(
            settings.rules, file: settings.rulesFile, settings: settingStore, isDurable: store != nil, logger: logger)
        self.rulesInForce = rulesInForce
        let refusalLog = settings.limits.loggedRefusals > 0 ? RefusalLog(perSecond: settings.limits.loggedRefusals, logger: logger) : nil
        self.refusalLog = refusalLog
        let opening = OpeningFault()
        // Asked for again and again while it cannot be opened.
        let unopened = LogThrottle(logger, .error)
        let outlet: Outlet = { lane, deliveries in lanes[lane].deliver(deliveries) }
        hub = Hub { [memory] name in
            guard settings.isDev || name == settings.namespace, Namespace.isValid(name) else { return nil }
            do {
                let stored = try store?.open(name)
                let database = Database(
                    name: name, rules: try rulesInForce.open(name), start: stored.map { ($0.recovered.root, $0.recovered.sequence) } ?? (.null, 0),
                    pending: stored?.recovered.pending ?? [], log: stored?.log ?? NoCommitLog(), lanes: loopCount, limits: settings.limits.engine,
                    budget: memory.budget, format: HubFormat(), refusals: refusalLog?.listener(name), outlet: outlet, clock: { Clock.nowMs() })
                stored?.log.makeSnapshots(of: database)
                return database
            } catch {
                unopened.tell("namespace could not be opened", ["namespace": "\(name)", "reason": "\(error)"])
                opening.note("\(error)")
                return nil
            }
        }
        // The default namespace is recovered before the port answers, so that a broken store shows at start.
        guard hub.openNow(settings.namespace) != nil else { throw .cannotOpen(opening.text ?? "namespace \(settings.namespace)") }
        if let accounts, let database = hub.database(settings.namespace) { watch(accounts, database) }
        for lane in lanes { lane.startTicking() }
        warnOfExpiry()
        let tls = settings.tls?.identity
        listener.start(on: group, tls: secureListener == nil ? tls : nil, admission: admission) { [self] in HTTPConnection($0, server: self) }
        secureListener?.start(on: group, tls: tls, admission: admission) { [self] in HTTPConnection($0, server: self) }
    }

    /// The port that is listened on. It speaks TLS if there is a certificate and no ``securePort``.
    public var port: UInt16 { listener.port }
    /// The port that speaks TLS beside the plain one.
    public var securePort: UInt16? { secureListener?.port }

    /// Where programs on this machine find the hub.
    private static func origin(_ settings: ServerSettings, port: UInt16) -> String {
        let host = ["0.0.0.0", "::"].contains(settings.host) ? "localhost" : settings.host.contains(":") ? "[\(settings.host)]" : settings.host
        let isSecure = settings.tls.map { $0.port == nil } ?? false
        return "\(isSecure ? "https" : "http")://\(host):\(port)"
    }

    /// Closes connections, fires what was left for disconnects, writes a snapshot, then calls back.
    public func stop(_ done: @escaping @Sendable () -> Void) {
        listener.stop()
        secureListener?.stop()
        // Sessions without a connection end first, so that the loops still carry the last answers to their polls.
        longPolls.endAll(lanes) { [self] in closeConnections(done) }
    }

    private func closeConnections(_ done: @escaping @Sendable () -> Void) {
        for lane in lanes { lane.announceStop() }
        group.shutdown { [self] in
            // The sessions' ends were submitted while the loops closed; a snapshot behind them sees their writes.
            let databases = hub.all
            let countdown = Countdown(databases.count + (accounts == nil ? 0 : 1)) { [self] in
                if let store { store.close(done) } else { done() }
            }
            if let accounts { close(accounts) { countdown.arrive() } }
            for database in databases {
                database.snapshot(behindRequests: true) { root, sequence, pending in
                    if let journal = database.log as? CommitJournal {
                        journal.close(JournalSnapshot(root: root, sequence: sequence, pending: pending)) { countdown.arrive() }
                    } else {
                        countdown.arrive()
                    }
                }
            }
        }
    }
}

/// Why the namespace that a server begins with could not be opened.
private final class OpeningFault: Sendable {
    private let noted = Mutex<String?>(nil)

    func note(_ text: String) { noted.withLock { $0 = text } }
    var text: String? { noted.withLock { $0 } }
}

/// Why a server did not start; the text says what to do.
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
