import struct Foundation.Data
import GRDB
import Journal
import JSONTree

/// Tables, format version, and the state of the namespaces at start.
enum Schema {
    /// SQLite's `user_version`; a higher one is refused, a lower one is upgraded here.
    /// 2: batches and chunks may contain pending writes of sessions. 3: settings. 4: a snapshot is a list of chunks, which the next
    /// snapshot reuses when their places do not change; a large batch has several rows. 5: a large batch is stored in several transactions.
    /// 6: its parts belong to a stage, and may be stored before it is known which commit precedes them.
    /// 7: batches store where their commits begin, their id and their writer's epoch; namespaces store the newest epoch.
    /// 8: batches and chunks may contain times at which nodes were written. 9: and writes whose nodes have no time yet, and pending inbox rows.
    /// 10: batches may refer to the object or string of an earlier operation.
    static let format = 10
    /// SQLite's `application_id`: "VGLA".
    static let applicationID = 0x5647_4C41

    /// Creates the tables of a new file, checks the format of an old one.
    static func prepare(_ db: Database, path: String) throws {
        let tables = try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_master") ?? 0
        if try format(of: db) == 0, try application(of: db) == 0, tables == 0 {
            try db.inTransaction(.immediate) {
                try db.execute(sql: tablesSQL)
                return .commit
            }
            return
        }
        let found = try check(db, path: path)
        if found < format { try upgrade(db, from: found, path: path) }
    }

    static func format(of db: Database) throws -> Int { try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0 }
    private static func application(of db: Database) throws -> Int { try Int.fetchOne(db, sql: "PRAGMA application_id") ?? 0 }

    /// The format of a file that this version can read.
    /// - Throws: `.notAJournal`, `.newerFormat`, `.corrupt`.
    @discardableResult
    static func check(_ db: Database, path: String) throws -> Int {
        let found = try format(of: db)
        guard try application(of: db) == applicationID else { throw JournalError.notAJournal(path: path) }
        guard found <= format else { throw JournalError.newerFormat(path: path, found: found, known: format) }
        guard found >= 1 else { throw JournalError.corrupt(path: path, place: "number of the format") }
        return found
    }

    /// Runs all steps to the current format, or none.
    private static func upgrade(_ db: Database, from found: Int, path: String) throws {
        try db.inTransaction(.immediate) {
            if found < 3 { try db.execute(sql: settingSQL) }
            if found < 4 { try upgradeTo4(db, path: path) }
            if found < 5 { try db.execute(sql: "ALTER TABLE batch ADD COLUMN stage INTEGER NOT NULL DEFAULT 0; \(partSQL)") }
            if found < 6 { try db.execute(sql: "ALTER TABLE batch ADD COLUMN parts INTEGER NOT NULL DEFAULT 0") }
            if found < 7 {
                try db.execute(sql: """
                    ALTER TABLE batch ADD COLUMN batch_id INTEGER NOT NULL DEFAULT 0;
                    ALTER TABLE batch ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
                    ALTER TABLE namespace ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
                    """)
            }
            try db.execute(sql: "PRAGMA user_version = \(format)")
            return .commit
        }
    }

    /// Converts the snapshots chunk by chunk. Their places are not known, so the next snapshot rewrites all chunks.
    private static func upgradeTo4(_ db: Database, path: String) throws {
        try db.execute(sql: """
            ALTER TABLE batch ADD COLUMN part INTEGER NOT NULL DEFAULT 0;
            ALTER TABLE batch ADD COLUMN more INTEGER NOT NULL DEFAULT 0;
            DROP INDEX batch_order;
            DROP INDEX chunk_order;
            ALTER TABLE chunk RENAME TO chunk_of_3;
            \(batchOrderSQL)
            \(snapshotSQL)
            """)
        let insert = try db.makeStatement(sql: "INSERT INTO chunk (namespace, entries) VALUES (?, ?)")
        let snapshots = try Row.fetchAll(
            db, sql: "SELECT id, name, snapshot_sequence, snapshot_chunks FROM namespace WHERE snapshot_sequence > 0")
        for namespace in snapshots {
            let (id, sequence): (Int64, Int64) = (namespace[0], namespace[2])
            var manifest = SnapshotManifest()
            manifest.hasPlaces = false
            let rows = try Row.fetchCursor(
                db, sql: "SELECT number, checksum, entries FROM chunk_of_3 WHERE namespace = ? ORDER BY number", arguments: [id])
            func corrupt() -> JournalError {
                .corrupt(path: path, place: "snapshot part \(manifest.tree.count) of namespace \(namespace[1] as String)")
            }
            while let row = try rows.next() {
                let bytes = try row.withBytes(2) { Array($0) }
                var crc = CRC32()
                crc.add(UInt64(manifest.tree.count))
                crc.add(UInt64(sequence))
                bytes.withUnsafeBytes { crc.add($0) }
                guard Int.fromDatabaseValue(row[0]) == manifest.tree.count, Int64.fromDatabaseValue(row[1]) == Int64(crc.value)
                else { throw corrupt() }
                try insert.execute(arguments: [id, Data(bytes)])
                let checksum = bytes.withUnsafeBytes(StoredChunk.checksum)
                let chunk = StoredChunk(id: db.lastInsertedRowID, bytes: bytes.count, checksum: checksum)
                manifest.tree.append(.init(start: .root, chunk: chunk))
            }
            guard Int.fromDatabaseValue(namespace[3]) == manifest.tree.count else { throw corrupt() }
            _ = try manifest.store(of: id, sequence: sequence, db)
        }
        try db.execute(sql: """
            DROP TABLE chunk_of_3;
            ALTER TABLE namespace DROP COLUMN snapshot_sequence;
            ALTER TABLE namespace DROP COLUMN snapshot_chunks;
            """)
    }

    private static let batchOrderSQL = "CREATE UNIQUE INDEX batch_order ON batch(namespace, sequence, part);"

    /// Rows of large batches: part of the log when a row in `batch` has their stage, otherwise left over.
    private static let partSQL = """
        CREATE TABLE part (
            id INTEGER PRIMARY KEY,
            stage INTEGER NOT NULL,
            number INTEGER NOT NULL,
            checksum INTEGER NOT NULL,
            operations BLOB NOT NULL
        );
        CREATE UNIQUE INDEX part_order ON part(stage, number);
        CREATE INDEX batch_stage ON batch(stage) WHERE stage > 0;
        """

    /// Ids of chunks are never reused, so that a removal never deletes a newer chunk.
    private static let snapshotSQL = """
        CREATE TABLE snapshot (
            namespace INTEGER PRIMARY KEY REFERENCES namespace(id),
            sequence INTEGER NOT NULL,
            checksum INTEGER NOT NULL,
            manifest BLOB NOT NULL
        );
        CREATE TABLE chunk (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            namespace INTEGER NOT NULL REFERENCES namespace(id),
            entries BLOB NOT NULL
        );
        CREATE INDEX chunk_owner ON chunk(namespace);
        """

    /// The namespace is the empty text for settings of the whole store: a namespace may have rules before it has content.
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
            epoch INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE batch (
            id INTEGER PRIMARY KEY,
            namespace INTEGER NOT NULL REFERENCES namespace(id),
            sequence INTEGER NOT NULL,
            previous INTEGER NOT NULL,
            checksum INTEGER NOT NULL,
            operations BLOB NOT NULL,
            part INTEGER NOT NULL DEFAULT 0,
            more INTEGER NOT NULL DEFAULT 0,
            stage INTEGER NOT NULL DEFAULT 0,
            parts INTEGER NOT NULL DEFAULT 0,
            batch_id INTEGER NOT NULL DEFAULT 0,
            epoch INTEGER NOT NULL DEFAULT 0
        );
        \(batchOrderSQL)
        \(partSQL)
        \(snapshotSQL)
        \(settingSQL)
        PRAGMA application_id = \(applicationID);
        PRAGMA user_version = \(format);
        """

    /// The stored name of a removed namespace until its rows are gone. Names of namespaces have no full stop.
    static func removedName(_ name: String, _ id: Int64) -> String { "\(name).removed.\(id)" }

    static func isRemoved(_ name: String) -> Bool { name.contains(".removed.") }

    /// The highest number of a large batch so far.
    static func lastStage(_ db: Database) throws -> Int64 {
        try Int64.fetchOne(
            db,
            sql: """
                SELECT max(coalesce((SELECT max(stage) FROM part), 0), coalesce((SELECT max(stage) FROM batch WHERE stage > 0), 0))
                """) ?? 0
    }

    /// All namespaces by their stored names, removed ones included.
    static func namespaces(_ db: Database, path: String) throws -> [String: Registry.Row] {
        // Names have no checksum, but each is stored twice: in the table and in its index.
        guard try String.fetchOne(db, sql: "PRAGMA integrity_check('namespace')") == "ok" else {
            throw JournalError.corrupt(path: path, place: "table of namespaces")
        }
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT namespace.id, name, coalesce(snapshot.sequence, 0),
                    max(coalesce(snapshot.sequence, 0), coalesce((SELECT max(sequence) FROM batch WHERE namespace = namespace.id), 0)),
                    namespace.epoch
                FROM namespace LEFT JOIN snapshot ON snapshot.namespace = namespace.id
                """)
        var registry: [String: Registry.Row] = [:]
        for row in rows {
            guard let id = Int64.fromDatabaseValue(row[0]), let name = String.fromDatabaseValue(row[1]),
                let snapshot = Int64.fromDatabaseValue(row[2]), snapshot >= 0, let last = Int64.fromDatabaseValue(row[3]), last >= 0,
                let epoch = Int64.fromDatabaseValue(row[4]).flatMap(UInt64.init(exactly:))
            else { throw JournalError.corrupt(path: path, place: "table of namespaces") }
            registry[name] = .init(id: id, last: UInt64(last), snapshotSequence: UInt64(snapshot), epoch: epoch)
        }
        return registry
    }
}
