import Dispatch
import GRDB
public import Logging

/// Users, their sessions and their tokens: everything between sign-up and sign-out, for the stock Auth SDKs, OAuth 2 clients
/// and administrators.
///
///     HTTP ─► answer(request) ─► endpoint ─► (password pool) ─► one transaction of the store ─► answer
///                                                                        └─► whenChanged: sockets of that user are looked at again
///
/// An actor on a serial Dispatch queue of its own, which also owns the store. Operations read from top to bottom; where they
/// wait (for the password pool, for keys of other services) the world may change, so what must hold is checked within the
/// transaction that follows.
public actor AccountService {
    public nonisolated let settings: AccountSettings
    nonisolated let logger: Logger
    let store: AccountStore
    /// Off this queue, on threads of its own.
    nonisolated let passwords: PasswordHasher
    /// Nil: no mail server is configured.
    nonisolated let post: Post?
    nonisolated let letters: Letters
    var throttle: Throttle
    /// Whether changed counts are going to be written.
    var keepsThrottleSoon = false
    /// ms since the epoch.
    nonisolated let now: @Sendable () -> Int64
    private nonisolated let executor: QueueExecutor

    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// Opens the store; blocks.
    /// - Parameters:
    ///   - folder: the data folder; nil keeps everything in memory.
    ///   - now: the wall clock in ms since the epoch.
    ///   - carrier: takes letters instead of the configured mail server.
    /// - Throws: what SQLite says of a store that cannot be opened; `Letters.Faults` of mail templates.
    public init(
        _ settings: AccountSettings, folder: String?, logger: Logger, now: @escaping @Sendable () -> Int64, carrier: (any LetterCarrier)? = nil
    ) throws {
        self.settings = settings
        self.logger = logger
        self.now = now
        executor = QueueExecutor(label: "vigla.accounts")
        store = try AccountStore(folder: folder)
        post = Self.post(settings, carrier: carrier, logger: logger, now: now)
        letters = try Letters(app: settings.mail.app, folder: settings.mail.templates)
        passwords = PasswordHasher(settings.passwords)
        var limits = settings.throttle
        if settings.isDev { limits.isOn = false }
        throttle = Throttle(limits)
        throttle.restore(try store.read { try $0.throttleRows() }, now: now())
    }

    /// Writes what is written now and then, and frees the store's file.
    public func close() throws {
        keepThrottle()
        try store.close()
    }
}

/// Runs an actor on a Dispatch queue.
final class QueueExecutor: SerialExecutor {
    private let queue: DispatchQueue

    init(label: String) { queue = DispatchQueue(label: label) }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func checkIsolated() { dispatchPrecondition(condition: .onQueue(queue)) }
}
