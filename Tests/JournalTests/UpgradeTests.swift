import GRDB
import JSONTree
import Testing
import TestSupport

@testable import Journal

/// Files as earlier versions left them, made from their own SQL.
@Suite(.timeLimit(.minutes(30))) struct UpgradeTests {
    /// Format 2: commits 1–2 in a snapshot of one chunk, 3 and 4 behind it. Checksums as that version computed them.
    private static let format2 = """
        CREATE TABLE namespace (
            id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
            snapshot_sequence INTEGER NOT NULL DEFAULT 0, snapshot_chunks INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE batch (
            id INTEGER PRIMARY KEY, namespace INTEGER NOT NULL REFERENCES namespace(id), sequence INTEGER NOT NULL,
            previous INTEGER NOT NULL, checksum INTEGER NOT NULL, operations BLOB NOT NULL);
        CREATE UNIQUE INDEX batch_order ON batch(namespace, sequence);
        CREATE TABLE chunk (
            id INTEGER PRIMARY KEY, namespace INTEGER NOT NULL REFERENCES namespace(id), number INTEGER NOT NULL,
            checksum INTEGER NOT NULL, entries BLOB NOT NULL);
        CREATE UNIQUE INDEX chunk_order ON chunk(namespace, number);
        PRAGMA application_id = 1447513153;
        PRAGMA user_version = 2;
        INSERT INTO namespace VALUES (1, 'main', 2, 1);
        """

    private static let chunk =
        #"[["a","",{"n":2,"people":{"ana":{"age":30}}}],["i","s1",{"uid":"ana"},false],["o","s1","n","gone",{"x":1},[]]]"#
    private static let batches = [#"[["s","n",3]]"#, #"[["s","people/ana/age",null],["f","s1"],["p","n",1.5]]"#]

    private func crc(_ numbers: [UInt64], _ text: String) -> Int64 {
        var crc: UInt32 = 0xFFFF_FFFF
        for byte in numbers.flatMap({ n in (0..<8).map { UInt8(truncatingIfNeeded: n >> (8 * $0)) } }) + Array(text.utf8) {
            crc ^= UInt32(byte)
            for _ in 0..<8 { crc = crc & 1 == 1 ? crc >> 1 ^ 0xEDB8_8320 : crc >> 1 }
        }
        return Int64(~crc)
    }

    /// What format 3 added, with the rules of a namespace.
    private func addSettings(_ db: Database) throws {
        try db.execute(sql: """
            CREATE TABLE setting (
                namespace TEXT NOT NULL, name TEXT NOT NULL, checksum INTEGER NOT NULL, value BLOB NOT NULL,
                PRIMARY KEY (namespace, name)) WITHOUT ROWID;
            PRAGMA user_version = 3;
            """)
        let bytes = [4, 0, 0, 0, 0, 0, 0, 0] + Array("main".utf8) + [5, 0, 0, 0, 0, 0, 0, 0] + Array("rules".utf8) + [0x7B, 0x7D]
        try db.execute(
            sql: "INSERT INTO setting VALUES ('main', 'rules', ?, x'7b7d')", arguments: [crc([], String(decoding: bytes, as: UTF8.self))])
    }

    private func makeFormat2(_ folder: TemporaryFolder, then change: (Database) throws -> Void = { _ in }) throws {
        let database = try DatabaseQueue(path: folder.path + "/vigla.sqlite")
        try database.writeWithoutTransaction { db in
            try db.execute(sql: Self.format2)
            try db.execute(
                sql: "INSERT INTO chunk (namespace, number, checksum, entries) VALUES (1, 0, ?, cast(? AS BLOB))",
                arguments: [crc([0, 2], Self.chunk), Self.chunk])
            for (i, text) in Self.batches.enumerated() {
                let (previous, sequence) = (UInt64(i + 2), UInt64(i + 3))
                try db.execute(
                    sql: "INSERT INTO batch (namespace, sequence, previous, checksum, operations) VALUES (1, ?, ?, ?, cast(? AS BLOB))",
                    arguments: [Int64(sequence), Int64(previous), crc([previous, sequence], text), text])
            }
        }
        try database.writeWithoutTransaction(change)
        try database.close()
    }

    @Test func file_ofFormat3_isUpgradedWithItsSettings() throws {
        let folder = try TemporaryFolder()
        try makeFormat2(folder, then: addSettings)
        let store = try JournalStore.open(folder: folder.path)
        #expect(try store.settings(of: "main") == ["rules": Array("{}".utf8)])
        let recovered = try store.recover("main")
        #expect(recovered.root == ["n": Node.int(3).with(priority: 1.5)] && recovered.sequence == 4 && recovered.replayed == 2)
        try store.close()
    }

    /// An upgrade that meets damage changes nothing.
    @Test func file_ofFormat2_damaged_isRefusedAndStaysWhatItWas() throws {
        let folder = try TemporaryFolder()
        try makeFormat2(folder) { try $0.execute(sql: "UPDATE chunk SET checksum = checksum + 1") }
        #expect { try JournalStore.open(folder: folder.path) } throws: {
            isCorrupt($0) && "\($0)".contains("snapshot part 0 of namespace main")
        }
        let again = try DatabaseQueue(path: folder.path + "/vigla.sqlite")
        #expect(try again.read { try Int.fetchOne($0, sql: "PRAGMA user_version") } == 2)
        #expect(try again.read { try Int.fetchOne(
            $0, sql: "SELECT count(*) FROM sqlite_master WHERE name IN ('setting', 'snapshot', 'chunk_of_3')") } == 0)
        try again.close()
    }

    @Test func file_ofFormat2_isUpgradedAndKeepsEverything() async throws {
        let folder = try TemporaryFolder()
        try makeFormat2(folder)
        for round in 0..<2 {
            let store = try JournalStore.open(folder: folder.path)
            #expect(try await store.database.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA user_version") } == Schema.format)
            let recovered = try store.recover("main")
            #expect(recovered.root == ["n": Node.int(3 + Int64(round)).with(priority: round == 0 ? 1.5 : .null)])
            #expect(recovered.sequence == UInt64(4 + round) && recovered.replayed == 2 + round && recovered.pending.isEmpty)
            #expect(try store.settings(of: "main") == (round == 0 ? [:] : ["rules": [1]]))
            try await store.put([1], "rules", of: "main")
            try await store.journal(for: "main").store(
                JournalBatch(sequence: UInt64(5 + round), after: UInt64(4 + round), operations: [.set("n", 4)]))
            try store.close()
        }
    }

    @Test func file_ofANewerFormat_isRefusedUnchangedWithWhatToDo() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/vigla.sqlite"
        try makeFormat2(folder)
        let database = try DatabaseQueue(path: path)
        try database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA user_version = \(Schema.format + 1)") }
        try database.close()
        #expect { try JournalStore.open(folder: folder.path) } throws: {
            let text = "\($0)"
            return text.contains("format \(Schema.format + 1)") && text.contains("up to \(Schema.format)") && text.contains(
                "Use the version that wrote it")
        }
        let again = try DatabaseQueue(path: path)
        #expect(try again.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sqlite_master WHERE name = 'setting'") } == 0)
        try again.close()
    }
}
