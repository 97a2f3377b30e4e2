import Cryptography
import Dispatch
public import Journal
public import Logging
public import Scheduling
public import SQLiteJournal

/// The journals of a hub in a cluster: logs on NATS JetStream that all hubs follow, and this hub's data folder, which stores
/// their content.
///
///     namespace ─► shard ─► log VIGLA_<cluster>_<shard>  ─► every hub's data folder ─► its databases
///
/// Rules, secrets and other settings have a separate log, and accounts another one. Every hub appends to both.
public final class ClusterStorage: JournalStorage {
    private let connection: NatsConnection
    private let local: LocalJournals
    private let shards: [Shard]
    private let hubs: Hubs
    private let settings: ClusterSettings
    /// Carries messages between the hubs.
    private let transport: HubTransport
    /// The writers of all namespaces.
    public let writers: Writers
    private let sharedSettings: SharedSettings
    private let accounts: SharedStream

    /// Starts to follow the logs; it waits in the background for servers that are not reachable yet. Blocks while the data folder is read.
    /// - Throws: `.foreign` for a data folder whose content did not come from a cluster's log; `.corrupt`, `.disk`.
    public init(
        _ settings: ClusterSettings, over connection: NatsConnection, in store: JournalStore, scheduler: Scheduler, logger: Logger
    ) throws(JournalError) {
        (self.settings, self.connection) = (settings, connection)
        let local = try LocalJournals(store, shards: settings.shards)
        self.local = local
        var random = SecureRandom()
        let hub = settings.hubs?.hub ?? random.next()
        shards = (0..<settings.shards).map { number in
            let log = ShardLog(connection, name: settings.logName(number), settings: settings.log)
            return Shard(log, local, number: number, hub: hub, settings, scheduler, logger)
        }
        let writers = Writers(hub: hub, settings)
        self.writers = writers
        transport = HubTransport(connection, settings.hubs ?? HubDirectory(writers), messageBytes: settings.messageBytes)
        hubs = Hubs(settings, over: connection, shards, writers, scheduler, logger)
        accounts = SharedStream(connection, name: settings.sharedLogName("accounts"), hub: hub, settings, scheduler, logger)
        let log = SharedStream(connection, name: settings.sharedLogName("settings"), hub: hub, settings, scheduler, logger)
        sharedSettings = SharedSettings(store, log, patienceMs: settings.openMs, logger)
        for shard in shards { shard.open() }
        hubs.start()
        do throws(NatsConnection.Fault) { try transport.open() } catch { throw .unavailable(reason: "\(error)") }
    }

    public var isDurable: Bool { true }
    public var finding: String? { local.store.finding }
    /// Follows its log from the first call on.
    public var settingStore: any SettingStore { sharedSettings }
    public var accountLog: (any SharedLog)? { accounts }

    /// Opens the data folder's content of a namespace. The journal's tail brings later batches, and the caller is notified when this hub's
    /// writer role changes.
    public func open(_ namespace: String) throws(JournalError) -> OpenedJournal {
        awaitOpenable(namespace)
        let writerRole = hubs.open(namespace, at: LocalJournals.shard(of: namespace, among: settings.shards))
        let recovered = try local.store.recover(namespace)
        return OpenedJournal(recovered, journal(of: namespace, writerRole), writerRole: writerRole, link: transport.link(of: namespace))
    }

    public func holds(_ namespace: String) -> Bool { local.store.holds(namespace) }
    public var cluster: ClusterReport? { hubs.report }
    public func announceAddress(_ address: String) { hubs.announceAddress(address) }

    /// Opens a namespace for a caller that writes it without an election. Blocks until the log's whole content has arrived.
    package func openToWrite(_ namespace: String, patienceMs: Int) throws(JournalError) -> OpenedJournal {
        awaitOpenable(namespace)
        let reached = DispatchSemaphore(value: 0)
        shard(of: namespace).whenCaughtUp { reached.signal() }
        guard reached.wait(timeout: .now() + .milliseconds(patienceMs)) == .success else {
            throw .unavailable(reason: "the log of \(namespace) was not received within \(patienceMs) ms")
        }
        return OpenedJournal(try local.store.recover(namespace), journal(of: namespace), link: transport.link(of: namespace))
    }

    /// Waits until the namespace can be opened: a snapshot may replace the folder's content only before that content is read.
    private func awaitOpenable(_ namespace: String) {
        let openable = DispatchSemaphore(value: 0)
        shard(of: namespace).whenOpenable { openable.signal() }
        openable.wait()
    }

    func journal(of namespace: String, _ writerRole: WriterRole? = nil) -> ClusterJournal {
        ClusterJournal(namespace, shard(of: namespace), local.journal(of: namespace), writerRole)
    }

    func shard(of namespace: String) -> Shard { shards[LocalJournals.shard(of: namespace, among: settings.shards)] }

    public func prepareToClose() { local.store.prepareToClose() }

    public func close(isLate: Bool, _ done: @escaping @Sendable (JournalError?) -> Void) {
        transport.close()
        let ended = DispatchGroup()
        for shard in shards {
            ended.enter()
            shard.close(isLate: isLate) { ended.leave() }
        }
        for log in [accounts, sharedSettings.log] {
            ended.enter()
            log.close { ended.leave() }
        }
        ended.notify(queue: .global()) { [self] in
            hubs.close { [self] in
                connection.close()
                local.store.close(isLate: isLate, done)
            }
        }
    }
}
