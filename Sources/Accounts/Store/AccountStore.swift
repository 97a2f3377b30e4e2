import Foundation
import Glibc
import GRDB
import Journal

/// The database of accounts: a file in the data folder (`AccountStore.fileName(of:)`), or in memory. Confined to its service's queue; every
/// call blocks it for one or a few SQLite statements.
///
///     account         one row per user                   session        one row per signed-in device
///     provider        identities at other services       code           unused mailed codes (hashes)
///     signing_key     keys of ID tokens                  throttle       failed attempts
///     removal         data to remove for deleted accounts               audit    events, without secrets
///     departed        refresh tokens (hashes) of deleted accounts, to report that the user was deleted
///
/// Unsent mail is not stored, as it contains codes in clear.
///
/// Committed means on disk (WAL, `synchronous=FULL`), except for sign-ins: see `AccountDurability`. Other files of the target add the statements
/// of their part.
///
/// Calls after `close` fail with `AccountStoreFault.closed`: requests that waited elsewhere may resume after the hub stops, and GRDB's reads do
/// not survive a closed connection.
public final class AccountStore {
    let database: DatabaseQueue
    private(set) var isClosed = false
    /// On a hub of a cluster: the log that this store follows.
    var shared: SharedAccounts?
    /// The durability of the next commit, as set in SQLite.
    private var durability = AccountDurability.onDisk
    /// The number of transactions so far by durability, for tests.
    private(set) var transactions: [AccountDurability: Int] = [:]

    /// - Parameters:
    ///   - folder: nil keeps everything in memory.
    ///   - owner: the database whose own accounts these are; nil for the hub's.
    /// - Throws: if the file cannot be opened or is not an account store; see `AccountStoreFault.around`.
    public init(folder: String?, of owner: String? = nil) throws {
        let path = folder.map { $0 + "/" + Self.fileName(of: owner) }
        var configuration = Configuration()
        configuration.label = "vigla.accounts"
        configuration.foreignKeysEnabled = true
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA synchronous = \(AccountDurability.onDisk.pragma)")
            try db.execute(sql: "PRAGMA secure_delete = ON")
        }
        if let path {
            // The file contains hashes, sessions and private keys: no other user may ever read it.
            PrivateFile.restrictDatabase(path)
            database = try DatabaseQueue(path: path, configuration: configuration)
            try database.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA journal_mode = WAL") }
        } else {
            database = try DatabaseQueue(configuration: configuration)
        }
        if let path, try database.read({ try Self.migrator.hasBeenSuperseded($0) }) { throw AccountStoreFault.newerFormat(path: path) }
        try Self.migrator.migrate(database)
    }

    /// The file of the hub's accounts.
    public static let fileName = "accounts.sqlite"

    /// The file of the accounts of one database; nil for the hub's.
    public static func fileName(of database: String?) -> String { database.map { "accounts-\($0).sqlite" } ?? fileName }

    /// The files of all accounts in a data folder, sorted by name.
    public static func fileNames(in folder: String) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return names.filter { $0 == fileName || $0.hasPrefix("accounts-") && $0.hasSuffix(".sqlite") }.sorted()
    }

    /// Whether a folder has the accounts of a database, or a part of their files.
    public static func exists(in folder: String, of database: String) -> Bool {
        paths(in: folder, of: database).contains { access($0, F_OK) == 0 }
    }

    /// Deletes the accounts of a database. Blocks until that survives a power cut. No service may have them open.
    /// - Throws: `.cannotOpen` naming the file; some of the files may be gone then.
    public static func remove(from folder: String, of database: String) throws(AccountStoreFault) {
        for path in paths(in: folder, of: database) where unlink(path) != 0 && errno != ENOENT {
            throw .cannotOpen(path: path, String(cString: strerror(errno)))
        }
        let descriptor = Glibc.open(folder, O_RDONLY | O_DIRECTORY)
        guard descriptor >= 0 else { throw .cannotOpen(path: folder, String(cString: strerror(errno))) }
        defer { Glibc.close(descriptor) }
        guard fsync(descriptor) == 0 else { throw .cannotOpen(path: folder, String(cString: strerror(errno))) }
    }

    private static func paths(in folder: String, of database: String) -> [String] {
        ["", "-wal", "-shm", "-journal"].map { folder + "/" + fileName(of: database) + $0 }
    }

    /// Runs several statements atomically.
    /// - Parameter durability: the durability of the commit, if the statements change anything.
    func transaction<Result>(
        _ durability: AccountDurability = .onDisk, _ work: (AccountTransaction) throws -> Result
    ) throws -> Result {
        try checkOpen()
        if let shared {
            transactions[durability, default: 0] += 1
            return try transaction(in: shared, durability, work)
        }
        try set(durability)
        transactions[durability, default: 0] += 1
        return try database.write { db in try work(AccountTransaction(db)) }
    }

    func set(_ durability: AccountDurability) throws {
        guard durability != self.durability else { return }
        // SQLite accepts the pragma only between transactions.
        try database.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA synchronous = \(durability.pragma)") }
        self.durability = durability
    }

    /// Runs statements that change nothing.
    func read<Result>(_ work: (AccountTransaction) throws -> Result) throws -> Result {
        try checkOpen()
        return try database.read { db in try work(AccountTransaction(db)) }
    }

    /// Closes the file. Once is enough.
    public func close() throws {
        isClosed = true
        try database.close()
    }

    private func checkOpen() throws(AccountStoreFault) {
        if isClosed { throw .closed }
    }
}

/// The durability of a commit. The order of commits always holds: if one is on disk, so are all before it.
enum AccountDurability: Sendable {
    /// On disk: survives a power cut. For everything that a user or an administrator changes.
    case onDisk
    /// In the operating system: survives the end of the process, but a power cut may lose the last half minute. For changes that the device or its
    /// user can simply repeat: sign-ins, uses of a session, and counts of attempts. So sign-ins, even by the hundred, do not compete for disk
    /// syncs with the writes of data.
    case withSystem

    /// The value of SQLite's `PRAGMA synchronous`.
    var pragma: String { self == .onDisk ? "FULL" : "NORMAL" }
}

/// Statements within one transaction of the store. Each part of the target extends it.
struct AccountTransaction {
    let db: Database
    /// Records the statements for the log of a cluster; nil on a single hub.
    let recorder: AccountRecorder?

    init(_ db: Database, _ recorder: AccountRecorder? = nil) { (self.db, self.recorder) = (db, recorder) }

    /// Runs a statement that changes rows. Its effect must be the same on every hub: it depends only on the rows and the arguments, not on a clock or
    /// on randomness. Statements are prepared once, as the service uses the same few.
    func execute(_ sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws {
        try db.cachedStatement(sql: sql).execute(arguments: StatementArguments(arguments))
        recorder?.record.statements.append(.init(sql: sql, arguments: arguments.map { $0?.databaseValue ?? .null }))
    }
}

/// Why the account store cannot be used; the text says what to do.
public enum AccountStoreFault: Error, CustomStringConvertible {
    /// The file cannot be read or written.
    case cannotOpen(path: String, String)
    /// The file is not an account store.
    case notAStore(path: String)
    /// A later version of the program has upgraded it.
    case newerFormat(path: String)
    /// An error of SQLite, or a damaged row.
    case damaged(path: String, String)
    /// The hub has stopped.
    case closed
    /// The log of the cluster refuses a record or cannot be read.
    case unavailable(String)
    /// The cluster has accounts other than those in the folder.
    case foreign(count: Int)
    /// A newer version has changed the cluster's accounts.
    case newerRecord

    public var description: String {
        switch self {
        case .cannotOpen(let path, let reason):
            "Cannot use \(path): \(reason). Check that the folder exists, belongs to this user and is writable."
        case .notAStore(let path): "\(path) is not a Vigla data file. Choose another folder with --data, or move that file away."
        case .newerFormat(let path): "\(path) was changed by a newer version. Use the version that wrote it, or a newer one."
        case .damaged(let path, let place):
            "\(path) is damaged (\(place)) and nothing was changed. Keep a copy of the folder, then restore a backup "
                + "(vigla backup --restore), or start with another folder (--data)."
        case .closed: "The accounts are closed: the hub is stopping."
        case .unavailable(let reason): "The cluster's accounts cannot be changed now: \(reason)"
        case .foreign(let count):
            "The data folder has \(count) accounts of its own, and the cluster has others. Start with a folder without \(AccountStore.fileName), "
                + "and import the accounts by one of the cluster's hubs (docs/cluster.md)."
        case .newerRecord: "The cluster's accounts were changed by a newer version. Upgrade this hub; it follows them from then on."
        }
    }

    /// Runs the steps of opening the store.
    /// - Throws: an `AccountStoreFault` for any error.
    static func around<Result>(_ folder: String?, of owner: String? = nil, _ work: () throws -> Result) throws -> Result {
        let path = folder.map { $0 + "/" + AccountStore.fileName(of: owner) } ?? "memory"
        do { return try work() } catch let fault as AccountStoreFault { throw fault } catch let error as DatabaseError {
            switch error.resultCode {
            case .SQLITE_NOTADB: throw notAStore(path: path)
            // A schema that differs from the expected one also counts as damage.
            case .SQLITE_CORRUPT, .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_FORMAT, .SQLITE_MISMATCH:
                throw damaged(path: path, error.message ?? "\(error.resultCode)")
            default: throw cannotOpen(path: path, error.message ?? "\(error.resultCode)")
            }
        } catch { throw damaged(path: path, "what it holds cannot be read") }
    }
}

extension Database {
    /// Bytes as a BLOB.
    static func blob(_ bytes: [UInt8]) -> Data { Data(bytes) }
}

extension Row {
    static func fetchOne(_ db: Database, cached sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> Row? {
        try fetchOne(db.cachedStatement(sql: sql), arguments: StatementArguments(arguments))
    }

    static func fetchAll(_ db: Database, cached sql: String, _ arguments: [(any DatabaseValueConvertible)?]) throws -> [Row] {
        try fetchAll(db.cachedStatement(sql: sql), arguments: StatementArguments(arguments))
    }
}

extension AccountStore {
    /// Times are integers: ms since the epoch, `_s` seconds.
    static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("1") { db in
            try db.execute(sql: """
                CREATE TABLE account (
                    id TEXT PRIMARY KEY, email TEXT UNIQUE, email_verified INTEGER NOT NULL DEFAULT 0, display_name TEXT, photo_url TEXT,
                    phone_number TEXT UNIQUE, alias TEXT UNIQUE, password_hash TEXT, password_updated_at INTEGER,
                    created_at INTEGER NOT NULL,
                    last_login_at INTEGER, last_refresh_at INTEGER, valid_since_s INTEGER NOT NULL, disabled INTEGER NOT NULL DEFAULT 0,
                    custom_claims TEXT, custom_auth INTEGER NOT NULL DEFAULT 0, email_link INTEGER NOT NULL DEFAULT 0, initial_email TEXT
                ) WITHOUT ROWID;
                CREATE TABLE provider (
                    provider TEXT NOT NULL, raw_id TEXT NOT NULL, uid TEXT NOT NULL REFERENCES account(id) ON DELETE CASCADE,
                    position INTEGER NOT NULL, email TEXT, display_name TEXT, photo_url TEXT, screen_name TEXT,
                    PRIMARY KEY (provider, raw_id), UNIQUE (uid, provider)
                ) WITHOUT ROWID;
                CREATE INDEX provider_email ON provider(email);
                CREATE TABLE session (
                    id TEXT PRIMARY KEY, uid TEXT NOT NULL REFERENCES account(id) ON DELETE CASCADE, token_hash BLOB NOT NULL UNIQUE,
                    provider TEXT NOT NULL, claims TEXT, auth_time_s INTEGER NOT NULL, created_at INTEGER NOT NULL,
                    last_used_at INTEGER NOT NULL, user_agent TEXT, peer TEXT, ended INTEGER NOT NULL DEFAULT 0
                ) WITHOUT ROWID;
                CREATE INDEX session_uid ON session(uid);
                CREATE TABLE departed (token_hash BLOB PRIMARY KEY, deleted_at INTEGER NOT NULL) WITHOUT ROWID;
                CREATE TABLE code (
                    hash BLOB PRIMARY KEY, type TEXT NOT NULL, uid TEXT REFERENCES account(id) ON DELETE CASCADE, email TEXT NOT NULL,
                    new_email TEXT, created_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, detail TEXT
                ) WITHOUT ROWID;
                CREATE INDEX code_email ON code(email, type);
                CREATE INDEX code_uid ON code(uid);
                CREATE TABLE signing_key (
                    kid TEXT PRIMARY KEY, algorithm TEXT NOT NULL, private_key BLOB NOT NULL, created_at INTEGER NOT NULL,
                    retired_at INTEGER
                ) WITHOUT ROWID;
                CREATE TABLE throttle (subject TEXT PRIMARY KEY, state BLOB NOT NULL, updated_at INTEGER NOT NULL) WITHOUT ROWID;
                CREATE TABLE removal (uid TEXT PRIMARY KEY, created_at INTEGER NOT NULL) WITHOUT ROWID;
                CREATE TRIGGER account_removal AFTER DELETE ON account BEGIN
                    INSERT OR REPLACE INTO removal (uid, created_at) VALUES (old.id, unixepoch() * 1000);
                END;
                CREATE TABLE audit (id INTEGER PRIMARY KEY, uid TEXT, time INTEGER NOT NULL, event TEXT NOT NULL, peer TEXT, detail TEXT);
                CREATE INDEX audit_uid ON audit(uid, id);
                """)
        }
        // `token_generation`: see `AccountTransaction.supersedeTokens`. The other columns: see `RefreshRotation`.
        migrator.registerMigration("2") { db in
            try db.execute(sql: """
                ALTER TABLE account ADD COLUMN token_generation INTEGER NOT NULL DEFAULT 0;
                ALTER TABLE session ADD COLUMN current_hash BLOB;
                ALTER TABLE session ADD COLUMN replaced_hashes BLOB;
                """)
        }
        return migrator
    }
}
