import GRDB

/// Tables, format version, and what is known of the namespaces at start.
enum Schema {
    /// In SQLite's `user_version`; a higher one is refused, a lower one is to be upgraded here.
    /// 2: batches and chunks may hold pending writes of sessions.
    static let format = 2
    /// In SQLite's `application_id`: "VGLA".
    static let applicationID = 0x5647_4C41

    /// Makes the tables of a new file, checks the format of an old one.
    static func prepare(_ db: Database, path: String) throws {
        let found = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
        let application = try Int.fetchOne(db, sql: "PRAGMA application_id") ?? 0
        let tables = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master") ?? 0
        if found == 0, application == 0, tables == 0 {
            try db.inTransaction(.immediate) {
                try db.execute(sql: tablesSQL)
                return .commit
            }
            return
        }
        guard application == applicationID else { throw JournalError.notAJournal(path: path) }
        guard found <= format else { throw JournalError.newerFormat(path: path, found: found, known: format) }
        if found < format { try db.execute(sql: "PRAGMA user_version = \(format)") }
    }

    private static let tablesSQL = """
        CREATE TABLE namespace (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL UNIQUE,
            snapshot_sequence INTEGER NOT NULL DEFAULT 0,
            snapshot_chunks INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE batch (
            id INTEGER PRIMARY KEY,
            namespace INTEGER NOT NULL REFERENCES namespace(id),
            sequence INTEGER NOT NULL,
            previous INTEGER NOT NULL,
            checksum INTEGER NOT NULL,
            operations BLOB NOT NULL
        );
        CREATE UNIQUE INDEX batch_order ON batch(namespace, sequence);
        CREATE TABLE chunk (
            id INTEGER PRIMARY KEY,
            namespace INTEGER NOT NULL REFERENCES namespace(id),
            number INTEGER NOT NULL,
            checksum INTEGER NOT NULL,
            entries BLOB NOT NULL
        );
        CREATE UNIQUE INDEX chunk_order ON chunk(namespace, number);
        PRAGMA application_id = \(applicationID);
        PRAGMA user_version = \(format);
        """

    static func namespaces(_ db: Database, path: String) throws -> [String: JournalStore.Registered] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT id, name, snapshot_sequence, snapshot_chunks,
                    max(snapshot_sequence, coalesce((SELECT max(sequence) FROM batch WHERE namespace = namespace.id), 0))
                FROM namespace
                """)
        var registry: [String: JournalStore.Registered] = [:]
        for row in rows {
            guard let id = Int64.fromDatabaseValue(row[0]), let name = String.fromDatabaseValue(row[1]),
                let snapshot = Int64.fromDatabaseValue(row[2]), snapshot >= 0, let chunks = Int.fromDatabaseValue(row[3]),
                let last = Int64.fromDatabaseValue(row[4]), last >= 0
            else { throw JournalError.corrupt(path: path, place: "table of namespaces") }
            registry[name] = .init(id: id, last: UInt64(last), snapshotSequence: UInt64(snapshot), snapshotChunks: chunks)
        }
        return registry
    }
}
