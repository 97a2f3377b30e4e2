import HubEngine
import Journal
import Limits
import Logging
import Scheduling
import Synchronization

/// Opens namespaces: recovers each from the storage, and creates its database.
final class NamespaceOpener: Sendable {
    private let settings: ServerSettings
    private let storage: any JournalStorage
    private let rules: RulesInForce
    private let catalog: DatabaseCatalog
    private let authentication: Authentication
    private let records: RequestRecords
    private let deliveries: DeliveryGateway
    private let budget: MemoryBudget
    private let lanes: [LoopSessions]
    private let scheduler: Scheduler
    private let logger: Logger
    /// Clients retry while a namespace cannot be opened.
    private let unopened: LogThrottle
    private let lastFault = Mutex<String?>(nil)

    init(
        _ settings: ServerSettings, _ storage: any JournalStorage, _ rules: RulesInForce, _ catalog: DatabaseCatalog,
        _ authentication: Authentication, _ records: RequestRecords, _ deliveries: DeliveryGateway, _ budget: MemoryBudget,
        _ lanes: [LoopSessions], _ scheduler: Scheduler, _ logger: Logger
    ) {
        self.settings = settings
        self.storage = storage
        self.rules = rules
        self.catalog = catalog
        self.authentication = authentication
        self.records = records
        self.deliveries = deliveries
        self.budget = budget
        self.lanes = lanes
        self.scheduler = scheduler
        self.logger = logger
        unopened = LogThrottle(logger, .error, scheduler)
    }

    /// Why a namespace could not be opened last.
    var fault: String? { lastFault.withLock { $0 } }

    /// The database of a namespace; nil if the namespace is unknown or cannot be opened. Blocks.
    func open(_ name: String) -> Database? {
        guard catalog.mayOpen(name) else { return nil }
        do {
            try authentication.open(name, catalog.accounts(of: name))
            let opened = try storage.open(name)
            let recovered = opened.recovered
            if recovered.sequence > 0 {
                logger.info("recovered", metadata: [
                    "namespace": "\(name)", "commits": "\(recovered.sequence)", "replayed": "\(recovered.replayed)",
                    "disconnects": "\(recovered.pending.count)"])
            }
            let database = Database(
                name: name, rules: try rules.open(name), start: (recovered.root, recovered.sequence),
                beside: recovered.beside, pending: recovered.pending, journal: opened.journal, epoch: opened.epoch,
                follows: opened.writerRole != nil, writerRole: opened.writerRole, link: opened.link, lanes: lanes.count,
                limits: catalog.limits(of: name), budget: budget, format: HubFormat(), refusals: records.refusals(of: name),
                outlet: { [lanes] lane, deliveries in lanes[lane].deliver(deliveries) },
                sender: deliveries, onJournal: { [logger] in $0.log(name, logger) }, scheduler: scheduler)
            database.makeSnapshots(logger)
            return database
        } catch {
            unopened.log("namespace could not be opened", ["namespace": "\(name)", "reason": "\(error)"])
            lastFault.withLock { $0 = "\(error)" }
            return nil
        }
    }
}
