import Dispatch
import Glibc
import GRDB
public import Journal
public import Scheduling
import Synchronization

/// The data folder: one SQLite database (`vigla.sqlite`) with the journals and snapshots of all namespaces, locked by one
/// process at a time.
///
///     namespace   id, name, epoch
///     batch       namespace, sequence, previous, checksum, operations, part, more, stage, parts, batch_id, epoch
///                                                                                         the log after the snapshot
///     part        stage, number, checksum, operations                                 parts of large batches: see `Staging`
///     snapshot    namespace, sequence, checksum, manifest                             the list of its chunks
///     chunk       id, namespace, entries                                              parts of a tree
///     setting     namespace, name, checksum, value                                    rules, secrets, …: see `SettingStore`
///
/// All changes run on the store's journal queue; recovery and followers read on a separate connection. `open`,
/// `recover` and `close` block their caller: they are for start and shutdown, and must not be called from the journal queue.
public final class JournalStore: @unchecked Sendable {
    // Sendable: the variables are touched on `queue` only; the rest is immutable.

    /// The journal queue.
    let queue: DispatchQueue
    let path: String
    let settings: Settings
    /// Times the pauses of a snapshot.
    let scheduler: Scheduler
    let database: DatabaseQueue
    /// For recovery and for followers, concurrently with commits.
    let reader: DatabaseQueue
    /// Copies SQLite's log into the database, concurrently with commits.
    let checkpointer: DatabaseQueue
    /// Queue on which large batches are encoded.
    let encoding = DispatchQueue(label: "vigla.journal.encoding", qos: .utility)
    /// Queue on which snapshots are encoded.
    let snapshots = DispatchQueue(label: "vigla.snapshots", qos: .utility)
    /// Nil before the first commit, and when the connection is about to be closed. Released before the lock.
    var commitStatements: CommitStatements?
    private let lock: FolderLock
    var registry: Registry
    /// Bytes written to the write-ahead log since it was last copied into the database: its pages without their headers.
    var logBytes = 0
    /// Bytes by which the log grew before that, since it was last restarted.
    var grownBytes = 0
    var isCheckpointing = false
    var inlineBudget = InlineCommitBudget()
    /// Whether the process is about to end: snapshots and removals in progress are abandoned, and only small snapshots begin.
    var isEnding = false
    /// Number of namespaces with a snapshot in progress.
    var snapshotsUnderWay = 0
    /// Snapshot states by namespace.
    var states: [String: SnapshotState] = [:]
    var tails: [String: [Follower]] = [:]
    /// Items taken from `waiting` that a later transaction stores.
    var pendingItems = PendingItems()
    /// Namespaces whose next batch is large and being stored; the items behind it wait in the backlog.
    var staging: Set<String> = []
    /// Entered once for each of these namespaces.
    let staged = DispatchGroup()
    /// Stages that are being stored, or may still become part of a batch.
    var openStages: Set<Int64> = []
    var nextStage: Int64
    /// Totals written, for background work that must keep up with them.
    var written = WrittenBytes()
    /// Bytes of chunks that snapshots have stored since the start.
    var chunkBytes = 0
    var removal = Removal()
    /// Commits of all namespaces together.
    var commits: UInt64
    /// Tracks how far SQLite's log is acknowledged.
    let log: LogAcknowledgement
    /// The damage of SQLite's log found at the start, and how it was handled.
    public let finding: String?
    let waiting = Mutex(Waiting())

    public struct Settings: Sendable {
        public var durability: Durability = .full
        /// A snapshot is due when this many bytes of operations were journalled since the last one, or a quarter of its size if
        /// that is more.
        public var snapshotAfterBytes = 64 << 20
        /// A snapshot is due when this many batches were journalled since the last one.
        public var snapshotAfterBatches = 200_000
        /// Estimated maximum of one transaction in bytes, so that the commits of one namespace do not wait long for another's. Larger
        /// batches are stored in slices. A single string is not split.
        public var sliceBytes = 1 << 20
        /// Bytes at which a write is stored before its commit, while other commits can still pass it. Default
        /// 256 KiB: a smaller write delays the commits behind it by less than two extra transactions would cost.
        public var stagedBytes = 256 << 10
        /// µs at which a commit counts as slow for the appending thread: of one write, and of several, whose clients all wait for it.
        /// Default 500 and 2,000.
        public var inlineCommitUs = 500
        public var inlineCommitSeveralUs = 2_000
        /// Estimated bytes of several writes together that this thread may commit. Default 64 KiB.
        public var inlineCommitBytes = 64 << 10
        /// The share of that thread's time that slow commits may take: one part in this many. Default 20. When they have taken more, commits run on
        /// the
        /// journal queue only, for this many times the overdrawn time, 10 s at most.
        public var inlineCommitShare = 20
        /// µs of slow commits that may occur in a burst before that. Default 10,000. The last of them may take longer: a running commit
        /// cannot be interrupted.
        public var inlineCommitBurstUs = 10_000
        /// Maximum bytes of a snapshot that is written when the process ends, so that it does not delay the end.
        public var lastSnapshotBytes = 16 << 20
        /// Whether to open with the intact part when acknowledged commits cannot be read from the write-ahead log.
        public var acceptsLoss = false
        var chunks = ChunkSizes()
        var batches = BatchParts()

        public init(
            durability: Durability = .full, snapshotAfterBytes: Int = 64 << 20, snapshotAfterBatches: Int = 200_000,
            acceptsLoss: Bool = false
        ) {
            self.durability = durability
            self.acceptsLoss = acceptsLoss
            self.snapshotAfterBytes = snapshotAfterBytes
            self.snapshotAfterBatches = snapshotAfterBatches
        }
    }

    static let fileName = "vigla.sqlite"
    /// The files of a data folder that a store keeps open; some exist only while a store is open.
    public static let fileNames = [fileName, fileName + "-wal", fileName + "-shm", FolderLock.fileName, LogMark.fileName]

    /// Opens the folder and creates missing files. Blocks.
    /// - Throws: `.cannotOpen`, `.inUse`, `.notAJournal`, `.newerFormat`, `.corrupt`, `.diskFull`, `.disk`.
    public static func open(folder: String, settings: Settings = Settings(), scheduler: Scheduler) throws(JournalError) -> JournalStore {
        let lock = try FolderLock(folder: folder)
        let queue = DispatchQueue(label: "vigla.journal")
        let path = folder + "/" + fileName
        do {
            // Check before SQLite reads its log: it would take the first damaged frame for the end.
            let admission = try LogCheck.admit(path, acceptingLoss: settings.acceptsLoss)
            let log = LogAcknowledgement(path, durability: settings.durability, mark: admission.mark)
            PrivateFile.restrictDatabase(path)
            let database = try DatabaseQueue(path: LogVFS.location(of: path), configuration: configuration(settings, queue))
            let (registry, lastStage) = try database.writeWithoutTransaction { db in
                try apply(settings.durability, db)
                log.follow(db, from: admission.end, admission.isRepaired ? nil : admission.mark.found)
                try Schema.prepare(db, path: path)
                if admission.isRepaired { _ = try StoreCheck.check(db, path: path) }
                return (try Schema.namespaces(db, path: path), try Schema.lastStage(db))
            }
            let missing = try admission.commitsMissing(registry, acceptingLoss: settings.acceptsLoss)
            var side = patient
            side.label = "vigla.journal.reader"
            side.readonly = true
            let reader = try DatabaseQueue(path: path, configuration: side)
            side.label = "vigla.journal.checkpointer"
            side.readonly = false
            let checkpointer = try DatabaseQueue(path: path, configuration: side)
            let store = JournalStore(
                path, lock, settings, queue, scheduler,
                Connections(database: database, reader: reader, checkpointer: checkpointer),
                Found(registry: registry, nextStage: lastStage + 1, log: log, finding: missing ?? admission.finding))
            if missing != nil || admission.isRepaired { log.forget() }
            return store
        } catch { throw JournalError(error, opening: path) }
    }

    /// The connections to the one SQLite database.
    private struct Connections {
        let database: DatabaseQueue
        let reader: DatabaseQueue
        let checkpointer: DatabaseQueue
    }

    /// The state that was found in the folder when it was opened.
    private struct Found {
        let registry: [String: Registry.Row]
        let nextStage: Int64
        let log: LogAcknowledgement
        let finding: String?
    }

    private init(
        _ path: String, _ lock: FolderLock, _ settings: Settings, _ queue: DispatchQueue, _ scheduler: Scheduler,
        _ connections: Connections, _ found: Found
    ) {
        self.path = path
        self.lock = lock
        self.settings = settings
        self.queue = queue
        self.scheduler = scheduler
        (database, reader, checkpointer) = (connections.database, connections.reader, connections.checkpointer)
        (registry, nextStage) = (Registry(found.registry), found.nextStage)
        (log, finding) = (found.log, found.finding)
        commits = found.registry.values.reduce(0) { $0 &+ $1.last }
    }

    /// Waits for a lock: another process, such as a backup, may be opening or closing the folder, which takes a moment.
    static var patient: Configuration {
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        return configuration
    }

    private static func configuration(_ settings: Settings, _ queue: DispatchQueue) -> Configuration {
        var configuration = patient
        // GRDB uses a queue of its own that targets the journal queue, so the connection runs on the journal queue.
        configuration.targetQueue = queue
        configuration.label = "vigla.journal"
        return configuration
    }

    private static func apply(_ durability: Durability, _ db: Database) throws {
        // Not GRDB's `journalMode`, which also commits an internal table to an empty log. The log's watch would not know those frames,
        // and after a failed commit would cut them off together with everything SQLite writes behind them from then on.
        try db.execute(sql: "PRAGMA journal_mode = WAL")
        try db.execute(sql: "PRAGMA synchronous = \(durability.pragma)")
        guard try Int.fetchOne(db, sql: "PRAGMA synchronous") == durability.pragma,
            try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal"
        else {
            throw JournalError.disk(reason: "SQLite does not take the durability setting \(durability.rawValue)")
        }
        // Copying the log into the database takes milliseconds, so it runs in the background: see `checkpointIfDue`.
        try db.execute(sql: "PRAGMA wal_autocheckpoint = 0")
        // Overwrites removed data, so that positions and names do not remain on free pages. Debian's SQLite does it by default, others do not.
        try db.execute(sql: "PRAGMA secure_delete = ON")
    }

    /// The names of all namespaces with present or past content, in no order. Blocks.
    public func namespaces() -> [String] { queue.sync { Array(registry.rows.keys) } }

    /// The last durable commit of each namespace and the newest epoch of its writers. Blocks.
    public func marks() -> [String: (last: UInt64, epoch: UInt64)] { queue.sync { registry.rows.mapValues { ($0.last, $0.epoch) } } }

    /// The journal of one namespace, which need not exist yet. Call it once per namespace; the journal continues after the last stored batch.
    public func journal(for namespace: String) -> SQLiteJournal { SQLiteJournal(store: self, namespace: namespace) }

    /// Closes the store: everything appended before is stored first. Later appends fail with `.closed`; the folder is free for
    /// another process. Blocks.
    /// - Parameter isLate: whether batches that are being stored in slices are abandoned.
    public func close(isLate: Bool = false) throws(JournalError) {
        let wasClosed = waiting.withLock { waiting in
            defer { (waiting.isClosed, waiting.isLate) = (true, waiting.isLate || isLate) }
            return waiting.isClosed
        }
        if wasClosed { return }
        defer { lock.release() }
        do {
            // Wait for all commits that are running or waiting, large ones included.
            while !database.writeWithoutTransaction({ db in commitAll(db) }) { staged.wait() }
            database.writeWithoutTransaction { _ in
                for tail in tails.values.joined() { tail.end(.closed) }
                tails = [:]
            }
            try reader.close()
            try checkpointer.close()
            // An error, such as a full disk or a backup that reads, is harmless: the log keeps everything.
            database.writeWithoutTransaction { db in
                commitStatements = nil
                log.willCopy()
                if let copied = try? db.checkpoint(.passive) { log.copied(copied.checkpointedFrameCount, of: log.salts) }
                _ = try? db.checkpoint(.truncate)
            }
            try database.close()
            log.end()
        } catch { throw JournalError(error, opening: path) }
    }
}

extension JournalStore: JournalStorage {
    public var isDurable: Bool { true }
    public var settingStore: any SettingStore { self }

    public func open(_ namespace: String) throws(JournalError) -> OpenedJournal {
        OpenedJournal(try recover(namespace), journal(for: namespace))
    }

    public func prepareToClose() {
        if waiting.withLock(\.isClosed) { return }
        afterCommits { [self] in isEnding = true }
    }

    public func close(isLate: Bool, _ done: @escaping @Sendable (JournalError?) -> Void) {
        // Not on the journal queue, because `close` waits for it.
        DispatchQueue.global().async { [self] in
            do throws(JournalError) {
                try close(isLate: isLate)
                done(nil)
            } catch { done(error) }
        }
    }
}

/// Where a commit is stored when it is acknowledged.
public enum Durability: String, Sendable, CaseIterable {
    /// On the disk: survives a power cut (SQLite `synchronous=FULL`).
    case full
    /// With the operating system: survives a crash of the process; a power cut may lose the last moments, never the order
    /// (SQLite `synchronous=NORMAL`).
    case normal

    /// The value of SQLite's `PRAGMA synchronous`.
    var pragma: Int { self == .full ? 2 : 1 }
}
