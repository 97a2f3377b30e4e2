import Dispatch
import GRDB
public import Journal
public import Scheduling

extension JournalStore {
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
            let database = try DatabaseQueue(path: LogVFS.location(of: path), configuration: configuration(queue))
            let (registry, lastStage) = try database.writeWithoutTransaction { db in
                try apply(settings.durability, db)
                log.follow(db, from: admission.end, admission.isRepaired ? nil : admission.mark.found)
                try Schema.prepare(db, path: path)
                if admission.isRepaired { _ = try StoreCheck.check(db, path: path) }
                return (try Schema.namespaces(db, path: path), try Schema.lastStage(db))
            }
            let missing = try admission.commitsMissing(registry, acceptingLoss: settings.acceptsLoss)
            let found = Found(registry: registry, nextStage: lastStage + 1, finding: missing ?? admission.finding)
            let store = JournalStore(queue, try Connections(path: path, database, log, lock), found, settings, scheduler)
            if missing != nil || admission.isRepaired { log.forget() }
            // A kill has left rows of removed namespaces.
            if registry.keys.contains(where: Schema.isRemoved) { store.snapshotter.removeDropped() }
            return store
        } catch { throw JournalError(error, opening: path) }
    }

    /// The state that was found in the folder when it was opened.
    struct Found {
        let registry: [String: Registry.Row]
        let nextStage: Int64
        let finding: String?
    }

    /// Waits for a lock: another process, such as a backup, may be opening or closing the folder, which takes a moment.
    static var patient: Configuration {
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        return configuration
    }

    private static func configuration(_ queue: DispatchQueue) -> Configuration {
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
        // Copying the log into the database takes milliseconds, so it runs in the background: see `Checkpointer`.
        try db.execute(sql: "PRAGMA wal_autocheckpoint = 0")
        // Overwrites removed data, so that positions and names do not remain on free pages. Debian's SQLite does it by default, others do not.
        try db.execute(sql: "PRAGMA secure_delete = ON")
    }
}
