import Glibc
import GRDB

/// Where accounts are kept: `accounts.sqlite` in the data folder, or in memory. Confined to its service's queue; every call
/// blocks it for one SQLite statement or a few.
///
///     account         one row a user                     session        one row a device that is signed in
///     provider        identities of other services       code           mailed codes that were not used yet (hashes)
///     signing_key     keys of ID tokens                  throttle       failed attempts
///     removal         data to be removed for a deleted account           audit    who did what, without secrets
///     departed        refresh tokens (hashes) of deleted accounts: their devices are told that the user is gone
///
/// Mail that was not sent yet is not among them: it holds codes in clear.
///
/// Committed means on disk (WAL, `synchronous=FULL`). Other files of the target add the statements of their part.
///
/// What is asked after `close` is refused with `AccountStoreFault.closed`: requests that waited elsewhere come back after the end
/// of a hub, and GRDB's reads do not survive a connection that was closed.
public final class AccountStore {
    let database: DatabaseQueue
    private var isClosed = false

    /// - Parameter folder: nil keeps everything in memory.
    /// - Throws: what SQLite says of a file that cannot be opened or is not an account store; see `AccountStoreFault.around`.
    public init(folder: String?) throws {
        var configuration = Configuration()
        configuration.label = "vigla.accounts"
        configuration.foreignKeysEnabled = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA synchronous = FULL")
            try db.execute(sql: "PRAGMA secure_delete = ON")
        }
        if let folder {
            let path = folder + "/" + Self.fileName
            // Hashes, sessions and private keys: no other user may read them, from the first byte on.
            makePrivateFile(path)
            database = try DatabaseQueue(path: path, configuration: configuration)
            try database.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA journal_mode = WAL") }
        } else {
            database = try DatabaseQueue(configuration: configuration)
        }
        if let folder, try database.read({ try Self.migrator.hasBeenSuperseded($0) }) {
            throw AccountStoreFault.newerFormat(path: folder + "/" + Self.fileName)
        }
        try Self.migrator.migrate(database)
    }

    public static let fileName = "accounts.sqlite"

    /// Several statements as one: all or none.
    func transaction<Result>(_ work: (AccountTransaction) throws -> Result) throws -> Result {
        try checkOpen()
        return try database.write { db in try work(AccountTransaction(db)) }
    }

    /// Statements that change nothing.
    func read<Result>(_ work: (AccountTransaction) throws -> Result) throws -> Result {
        try checkOpen()
        return try database.read { db in try work(AccountTransaction(db)) }
    }

    /// Frees the file. Once is enough.
    public func close() throws {
        isClosed = true
        try database.close()
    }

    private func checkOpen() throws(AccountStoreFault) {
        if isClosed { throw .closed }
    }
}

/// Makes a file for its owner alone, or takes it from the others. Faults show when SQLite opens it.
private func makePrivateFile(_ path: String) {
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return }
    fchmod(descriptor, 0o600)
    close(descriptor)
}

/// Statements within one transaction of the store. Each part of the target extends it.
struct AccountTransaction {
    let db: Database

    init(_ db: Database) { self.db = db }
}
