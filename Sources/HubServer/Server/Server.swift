import DispatchNet
import Glibc
import HubEngine
import JSONTree
public import Logging
import WireProtocols

/// A running hub: loops, listener, databases. Start it once, stop it once.
///
///     accept ─► HTTPConnection ─► (upgrade) ─► WebSocketCarrier ─► RealtimeSession | ObserveSession ─► Database
///                    ├─► polls ─► LongPollCarrier ─► RealtimeSession ─► Database
///                    └─► console files, health
public final class Server: Sendable {
    public let settings: ServerSettings
    let logger: Logger
    let hub: Hub
    let lanes: [Lane]
    let console: ConsoleFiles?
    let longPolls: LongPollSessions
    private let group: EventLoopGroup
    private let listener: Listener
    private let store: DataStore?

    /// Opens the store, binds the port and begins to serve.
    /// - Throws: `ServerError` for a port that cannot be bound or a store that cannot be opened.
    public init(_ settings: ServerSettings, logger: Logger) throws(ServerError) {
        self.settings = settings
        self.logger = logger
        let loopCount = settings.loops > 0 ? settings.loops : max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
        do {
            group = try EventLoopGroup(count: loopCount, settings: settings.limits.net)
            listener = try Listener.bind(host: settings.host, port: settings.port)
        } catch { throw .cannotListen("\(error)") }
        let lanes = group.loops.map { Lane(loop: $0, limits: settings.limits) }
        self.lanes = lanes
        longPolls = LongPollSessions(limit: settings.limits.longPoll.sessions)
        console = settings.webFolder.map(ConsoleFiles.init)

        let store = try settings.dataFolder.map { folder throws(ServerError) in
            try DataStore(folder: folder, durability: settings.durability, logger: logger)
        }
        self.store = store
        let outlet: Outlet = { lane, deliveries in lanes[lane].deliver(deliveries) }
        hub = Hub { name in
            guard settings.isDev || name == settings.namespace, Namespace.isValid(name) else { return nil }
            do {
                let stored = try store?.open(name)
                return Database(
                    name: name, rules: settings.rules, start: stored.map { ($0.root, $0.sequence) } ?? (.null, 0),
                    log: stored?.log ?? NoCommitLog(), lanes: loopCount, limits: settings.limits.engine,
                    format: HubFormat(), outlet: outlet, clock: { Clock.nowMs() })
            } catch {
                logger.error("namespace could not be opened", metadata: ["namespace": "\(name)", "reason": "\(error)"])
                return nil
            }
        }
        // The default namespace is recovered before the port answers, so that a broken store shows at start.
        guard hub.database(settings.namespace) != nil else { throw .cannotOpen("namespace \(settings.namespace)") }
        for lane in lanes { lane.startTicking() }
        listener.start(on: group) { [self] connection in HTTPConnection(connection, server: self) }
    }

    /// The port that is listened on.
    public var port: UInt16 { listener.port }

    /// Closes connections, fires what was left for disconnects, writes a snapshot, then calls back.
    public func stop(_ done: @escaping @Sendable () -> Void) {
        listener.stop()
        // Sessions without a connection end first, so that the loops still carry the last answers to their polls.
        longPolls.endAll(lanes) { [self] in closeConnections(done) }
    }

    private func closeConnections(_ done: @escaping @Sendable () -> Void) {
        group.shutdown { [self] in
            // The sessions' ends were submitted while the loops closed; a snapshot behind them sees their writes.
            let databases = hub.all
            let countdown = Countdown(databases.count) { [self] in
                if let store { store.close(done) } else { done() }
            }
            for database in databases {
                database.snapshot { root, sequence in
                    if let journal = database.log as? CommitJournal {
                        journal.close(root, sequence) { countdown.arrive() }
                    } else {
                        countdown.arrive()
                    }
                }
            }
        }
    }
}

/// Why a server did not start; the text says what to do.
public enum ServerError: Error, CustomStringConvertible {
    case cannotListen(String)
    case cannotOpen(String)

    public var description: String {
        switch self {
        case .cannotListen(let reason): "The port could not be opened: \(reason)"
        case .cannotOpen(let reason): "The data could not be opened: \(reason)"
        }
    }
}
