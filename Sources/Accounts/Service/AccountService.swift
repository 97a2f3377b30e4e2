import Dispatch
import GRDB
public import Journal
import Limits
public import Logging
public import Mail
public import Scheduling
import Synchronization
public import Tokens

/// Users, their sessions and their tokens: everything between sign-up and sign-out, for the stock Auth SDKs, OAuth 2 clients
/// and administrators.
///
///     HTTP ─► answer(request) ─► endpoint ─► (password pool) ─► one transaction of the store ─► response
///                                                                        └─► whenChanged: sockets of that user are revoked
///
/// An actor on its own serial Dispatch queue, which also owns the store. While an operation waits, for the password pool or for keys of other
/// services, accounts may change. So each condition is checked again within the transaction that follows.
public actor AccountService {
    public nonisolated let settings: AccountSettings
    nonisolated let logger: Logger
    /// Throttles the log of faults that every request causes while the store fails.
    nonisolated let faults: LogThrottle
    let store: AccountStore
    /// Counts of successful and failed sign-ins.
    public nonisolated let signIns = SignInCounts()
    nonisolated let tokens: IdentityTokens
    /// Verifies ID tokens of other services.
    nonisolated let federated: FederatedIdentities
    /// Runs off this queue, on its own threads.
    nonisolated let passwords: PasswordHasher
    nonisolated let mail: AccountMail
    var throttle: Throttle
    /// Whether a write of changed counts is scheduled.
    var throttleWriteIsScheduled = false
    /// On a hub of a cluster: session uses that the other hubs do not know yet, and whether sending them is scheduled.
    var uses = SessionUses()
    var usesWriteIsScheduled = false
    var removals = PendingRemovals()
    /// Notifies about new records in the cluster's log; nil on a single hub.
    nonisolated let arrivals: AccountArrivals?
    var knownCodes: KnownCodes
    /// See `AccountSettings.hidesAccounts`: on a development hub it can change at run time.
    var hidesAccounts: Bool
    var isClosed = false
    nonisolated let clock: AccountClock
    /// Schedules sweeps and writes of counts.
    nonisolated let scheduler: Scheduler
    /// Whether a bearer credential is an administrator's.
    nonisolated let isAdministrator: @Sendable (String) -> Bool
    /// See `announce`.
    nonisolated let listener = Mutex<AccountListener?>(nil)
    private nonisolated let executor: QueueExecutor
    /// The queue that the actor runs on.
    nonisolated var queue: DispatchQueue { executor.queue }
    private nonisolated let tasks = QueueTaskExecutor(label: "vigla.accounts.tasks")

    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Opens the store; blocks.
    /// - Parameters:
    ///   - folder: the data folder; nil keeps everything in memory.
    ///   - isAdministrator: whether the token of an `Authorization: Bearer` field is an administrator's.
    ///   - fetcher: fetches the keys of other services; nil uses the network.
    ///   - scheduler: the clocks, and all scheduled work.
    ///   - log: the log of a cluster, whose hubs share the accounts.
    ///   - transport: receives mails instead of the configured mail server.
    /// - Throws: SQLite's error for a store that cannot be opened; `MessageTemplates.Faults` for mail templates.
    public init(
        _ settings: AccountSettings, folder: String?, isAdministrator: @escaping @Sendable (String) -> Bool = { _ in false },
        fetcher: (any KeyFetching)? = nil, logger: Logger, scheduler: Scheduler, log: (any SharedLog)? = nil,
        transport: (any MailTransport)? = nil
    ) throws {
        self.settings = settings
        hidesAccounts = settings.hidesAccounts
        knownCodes = KnownCodes(isKept: settings.isDev)
        self.logger = logger
        faults = LogThrottle(logger, .error, scheduler)
        let clock = AccountClock(scheduler)
        self.clock = clock
        self.scheduler = scheduler
        self.isAdministrator = isAdministrator
        let owner = settings.database
        executor = QueueExecutor(label: "vigla.accounts")
        store = try AccountStoreFault.around(folder, of: owner) { try AccountStore(folder: folder, of: owner) }
        let arrivals = log == nil ? nil : AccountArrivals()
        self.arrivals = arrivals
        try AccountStoreFault.around(folder, of: owner) { [store] in
            if let log { try store.join(log, logger: logger) { arrivals?.notify() } } else { try store.leave() }
        }
        mail = try AccountMail(settings, transport: transport, logger: logger, scheduler, clock)
        let fetcher = fetcher ?? CurlFetcher(settings.keyFetching, isDev: settings.isDev)
        tokens = try AccountStoreFault.around(folder, of: owner) { [store] in
            try IdentityTokens(store, settings, fetcher: fetcher, logger: logger, clock)
        }
        federated = FederatedIdentities(
            settings.identityProviders, isDev: settings.isDev, replayLimit: settings.rememberedNonces, fetcher: fetcher,
            settings: settings.keyFetching,
            logger: logger, now: clock.wall, steady: clock.steady)
        passwords = PasswordHasher(settings.passwords, scheduler)
        var limits = settings.throttle
        if settings.isDev { limits.isOn = false }
        throttle = Throttle(limits)
        throttle.restore(
            try AccountStoreFault.around(folder, of: owner) { [store] in try store.read { try $0.throttleRows() } }, now: clock.steady(),
            wall: clock.wall())
        sweepRegularly()
        followOtherHubs()
    }

    /// The wall clock, ms since the epoch. For intervals see `clock`.
    nonisolated func now() -> Int64 { clock.wall() }

    /// Starts work on the service, from any thread. Uses no thread of the cooperative pool, not even to start: those may all be busy with other
    /// work of the program.
    public nonisolated func perform(_ work: @escaping @Sendable (isolated AccountService) async -> Void) {
        Task(executorPreference: tasks) { await work(self) }
    }

    /// Writes pending counts and closes the store. Running requests fail when they reach the store; new ones are refused.
    public func close() throws {
        keepThrottle()
        keepUses()
        if !isClosed { correctTimes() }
        isClosed = true
        removals.endAll()
        try store.close()
    }
}

/// Runs an actor on a Dispatch queue.
final class QueueExecutor: SerialExecutor {
    let queue: DispatchQueue

    init(label: String) { queue = DispatchQueue(label: label) }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func checkIsolated() { dispatchPrecondition(condition: .onQueue(queue)) }
}

/// Runs work without an actor on a Dispatch queue.
private final class QueueTaskExecutor: TaskExecutor {
    private let queue: DispatchQueue

    init(label: String) { queue = DispatchQueue(label: label, attributes: .concurrent) }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}
