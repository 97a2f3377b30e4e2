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
///     HTTP ─► answer(request) ─► endpoint ─► (password pool) ─► one transaction of the store ─► answer
///                                                                        └─► whenChanged: sockets of that user are revoked
///
/// An actor on a serial Dispatch queue of its own, which also owns the store. Operations read from top to bottom; where they
/// wait (for the password pool, for keys of other services) the world may change, so what must hold is checked within the
/// transaction that follows.
public actor AccountService {
    public nonisolated let settings: AccountSettings
    nonisolated let logger: Logger
    /// Throttles the log of faults that every request has while the store fails.
    nonisolated let faults: LogThrottle
    let store: AccountStore
    /// How many signed in, or failed to.
    public nonisolated let signIns = SignInCounts()
    nonisolated let tokens: IdentityTokens
    /// Verifies ID tokens of other services.
    nonisolated let federated: FederatedIdentities
    /// Off this queue, on threads of its own.
    nonisolated let passwords: PasswordHasher
    nonisolated let mail: AccountMail
    var throttle: Throttle
    /// Whether a write of changed counts is scheduled.
    var keepsThrottleSoon = false
    /// Of a hub of a cluster: uses of sessions that the others do not know yet, and whether they are to be told.
    var uses = SessionUses()
    var keepsUsesSoon = false
    var removals = PendingRemovals()
    /// When the log of the cluster has brought something; nil on a hub of its own.
    nonisolated let arrivals: AccountArrivals?
    var knownCodes: KnownCodes
    /// See `AccountSettings.hidesAccounts`: a development hub's may be changed.
    var hidesAccounts: Bool
    var isClosed = false
    nonisolated let clock: AccountClock
    /// When the store is swept and counts are written.
    nonisolated let scheduler: Scheduler
    /// Whether a bearer credential is an administrator's.
    nonisolated let isAdministrator: @Sendable (String) -> Bool
    /// See `announce`.
    nonisolated let listener = Mutex<AccountListener?>(nil)
    private nonisolated let executor: QueueExecutor
    /// Where the actor runs.
    nonisolated var queue: DispatchQueue { executor.queue }
    private nonisolated let tasks = QueueTaskExecutor(label: "vigla.accounts.tasks")

    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Opens the store; blocks.
    /// - Parameters:
    ///   - folder: the data folder; nil keeps everything in memory.
    ///   - isAdministrator: says of the token of an `Authorization: Bearer` field whether it is an administrator's.
    ///   - fetcher: brings the keys of other services; nil fetches them over the network.
    ///   - scheduler: the clocks, and all that happens by time.
    ///   - log: the log of a cluster, whose hubs have the same accounts.
    ///   - transport: takes mails instead of the configured mail server.
    /// - Throws: what SQLite says of a store that cannot be opened; `MessageTemplates.Faults` of mail templates.
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
        executor = QueueExecutor(label: "vigla.accounts")
        store = try AccountStoreFault.around(folder) { try AccountStore(folder: folder) }
        let arrivals = log == nil ? nil : AccountArrivals()
        self.arrivals = arrivals
        try AccountStoreFault.around(folder) { [store] in
            if let log { try store.join(log, logger: logger) { arrivals?.tell() } } else { try store.leave() }
        }
        mail = try AccountMail(settings, transport: transport, logger: logger, scheduler, clock)
        let fetcher = fetcher ?? CurlFetcher(settings.keyFetching, isDev: settings.isDev)
        tokens = try AccountStoreFault.around(folder) { [store] in
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
            try AccountStoreFault.around(folder) { [store] in try store.read { try $0.throttleRows() } }, now: clock.steady(),
            wall: clock.wall())
        sweepRegularly()
        followOthers()
    }

    /// The wall clock, ms since the epoch. For intervals see `clock`.
    nonisolated func now() -> Int64 { clock.wall() }

    /// Begins work on the service, from any thread. It uses no thread of the cooperative pool, not even to begin: those may all be busy
    /// with other work of the program.
    public nonisolated func perform(_ work: @escaping @Sendable (isolated AccountService) async -> Void) {
        Task(executorPreference: tasks) { await work(self) }
    }

    /// Writes pending counts, and closes the store. Requests under way fail when they reach the store,
    /// and new ones are refused.
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
