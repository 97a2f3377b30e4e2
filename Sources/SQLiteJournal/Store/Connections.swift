import GRDB
import Journal

/// The connections to the one SQLite database of a data folder, and what must outlive them. Released in this order.
final class Connections: Sendable {
    /// The file of the database.
    let path: String
    /// Commits, on the journal queue.
    let database: DatabaseQueue
    /// For recovery and for followers, concurrently with commits.
    let reader: DatabaseQueue
    /// Copies SQLite's log into the database, concurrently with commits.
    let checkpointer: DatabaseQueue
    /// SQLite calls it within each commit.
    let log: LogAcknowledgement
    let lock: FolderLock

    /// Opens the connections beside the one that commits.
    init(path: String, _ database: DatabaseQueue, _ log: LogAcknowledgement, _ lock: FolderLock) throws {
        self.path = path
        self.database = database
        self.log = log
        self.lock = lock
        var side = JournalStore.patient
        side.label = "vigla.journal.reader"
        side.readonly = true
        reader = try DatabaseQueue(path: path, configuration: side)
        side.label = "vigla.journal.checkpointer"
        side.readonly = false
        checkpointer = try DatabaseQueue(path: path, configuration: side)
    }
}

extension Database {
    /// Runs a read in one transaction, so that it sees the state of one moment. On a connection that only reads.
    func inReadTransaction<Result>(_ body: () throws -> Result) throws -> Result {
        // Not GRDB's own `read`, which fails after a connection was closed.
        var result: Result?
        try inTransaction(.deferred) {
            result = try body()
            return .commit
        }
        guard let result else { throw JournalError.closed }
        return result
    }
}
