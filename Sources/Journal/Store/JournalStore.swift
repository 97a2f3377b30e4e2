import Dispatch
import GRDB
import Synchronization

/// The data folder: one SQLite database (`vigla.sqlite`) with the journals and snapshots of all namespaces, held by one
/// process at a time.
///
///     namespace   id, name, snapshot_sequence, snapshot_chunks
///     batch       namespace, sequence, previous, checksum, operations      one row per batch, after the snapshot
///     chunk       namespace, number, checksum, entries                     the snapshot, in order
///     setting     namespace, name, checksum, value                         rules, hashed secrets, …; see `SettingStore`
///
/// Everything runs on the store's journal queue. `open`, `recover` and `close` block their caller and belong to start and
/// end; they must not be called from the journal queue.
public final class JournalStore: @unchecked Sendable {
    // Sendable: `registry` and `logBytes` are touched on `queue` only; the rest is immutable.

    /// The journal queue.
    let queue: DispatchQueue
    let path: String
    let settings: Settings
    let database: DatabaseQueue
    private let lock: FolderLock
    /// What is durable of each namespace, by name.
    var registry: [String: Registered]
    /// Bytes written to the write-ahead log since it was last copied into the database, roughly.
    var logBytes = 0
    let waiting = Mutex(Waiting())

    public struct Settings: Sendable {
        public var durability: Durability = .full
        /// `recover` writes a snapshot when it had to replay more batches than this.
        public var replayedBatchesBeforeSnapshot = 10_000

        public init(durability: Durability = .full, replayedBatchesBeforeSnapshot: Int = 10_000) {
            self.durability = durability
            self.replayedBatchesBeforeSnapshot = replayedBatchesBeforeSnapshot
        }
    }

    /// A namespace as the database has it.
    struct Registered {
        let id: Int64
        /// The last durable commit.
        var last: UInt64
        var snapshotSequence: UInt64
        var snapshotChunks: Int
    }

    /// Opens the folder and makes what is missing in it. Blocks.
    /// - Throws: `.cannotOpen`, `.inUse`, `.notAJournal`, `.newerFormat`, `.corrupt`, `.diskFull`, `.disk`.
    public static func open(folder: String, settings: Settings = Settings()) throws(JournalError) -> JournalStore {
        let lock = try FolderLock(folder: folder)
        let queue = DispatchQueue(label: "vigla.journal")
        let path = folder + "/vigla.sqlite"
        do {
            let database = try DatabaseQueue(path: path, configuration: configuration(settings, queue))
            let registry = try database.writeWithoutTransaction { db in
                try apply(settings.durability, db)
                try Schema.prepare(db, path: path)
                return try Schema.namespaces(db, path: path)
            }
            return JournalStore(queue, path, settings, database, lock, registry)
        } catch { throw JournalError(error, opening: path) }
    }

    private init(_ queue: DispatchQueue, _ path: String, _ settings: Settings, _ database: DatabaseQueue, _ lock: FolderLock, _ registry: [String: Registered]) {
        self.queue = queue
        self.path = path
        self.settings = settings
        self.database = database
        self.lock = lock
        self.registry = registry
    }

    private static func configuration(_ settings: Settings, _ queue: DispatchQueue) -> Configuration {
        var configuration = Configuration()
        // GRDB runs the connection on a queue of its own on top of ours, so the journal queue is where it runs, too.
        configuration.targetQueue = queue
        configuration.journalMode = .wal
        configuration.label = "vigla.journal"
        return configuration
    }

    private static func apply(_ durability: Durability, _ db: Database) throws {
        // Not while the connection is prepared: switching to WAL mode comes after that and sets NORMAL.
        try db.execute(sql: "PRAGMA synchronous = \(durability.pragma)")
        guard try Int.fetchOne(db, sql: "PRAGMA synchronous") == durability.pragma, try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else {
            throw JournalError.disk(reason: "SQLite does not take the durability setting \(durability.rawValue)")
        }
        // Copying the log into the database takes milliseconds: done between commits, see `checkpointIfDue`.
        try db.execute(sql: "PRAGMA wal_autocheckpoint = 0")
    }

    /// The names of all namespaces that hold or held something, in no order. Blocks.
    public func namespaces() -> [String] { queue.sync { Array(registry.keys) } }

    /// The journal of one namespace, which need not exist yet. Ask for it once; it goes on after the last stored batch.
    public func journal(for namespace: String) -> SQLiteJournal { SQLiteJournal(store: self, namespace: namespace) }

    /// Ends everything: what was appended before is stored first. Later appends fail with `.closed`; the folder is free for
    /// another process. Blocks.
    public func close() throws(JournalError) {
        let wasClosed = waiting.withLock { waiting in
            defer { waiting.isClosed = true }
            return waiting.isClosed
        }
        if wasClosed { return }
        do {
            // Behind all commits that are under way or waiting.
            try database.writeWithoutTransaction { db in
                commitWaiting(db)
                try db.checkpoint(.truncate)
            }
            try database.close()
            lock.release()
        } catch { throw JournalError(error, opening: path) }
    }
}
