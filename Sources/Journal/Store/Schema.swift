import GRDB

/// Tables, format version, and what is known of the namespaces at start.
enum Schema {
    /// In SQLite's `user_version`; a higher one is refused, a lower one is upgraded here.
    /// 2: batches and chunks may hold pending writes of sessions. 3: settings.
    static let format = 3
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
        if found < format { try upgrade(db, from: found) }
    }

    /// All steps to the current format, or none.
    private static func upgrade(_ db: Database, from found: Int) throws {
        try db.inTransaction(.immediate) {
            if found < 3 { try db.execute(sql: settingSQL) }
            try db.execute(sql: "PRAGMA user_version = \(format)")
            return .commit
        }
    }

    /// The namespace is the empty text for settings of the whole store: a namespace may have rules before it holds anything.
    private static let settingSQL = """
        CREATE TABLE setting (
            namespace TEXT NOT NULL,
            name TEXT NOT NULL,
            checksum INTEGER NOT NULL,
            value BLOB NOT NULL,
            PRIMARY KEY (namespace, name)
        ) WITHOUT ROWID;
        """

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
        \(settingSQL)
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
