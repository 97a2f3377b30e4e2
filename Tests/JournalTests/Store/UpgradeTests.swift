import GRDB
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Files of earlier versions, created with their own SQL.
@Suite(.timeLimit(.minutes(30))) struct UpgradeTests {
    /// Format 2: commits 1–2 in a snapshot of one chunk, 3 and 4 after it. Checksums as that version computed them.
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

    /// The additions of format 3, with the rules of a namespace.
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

    /// An upgrade that finds damage changes nothing.
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

    /// Format 5: commit 1, then 2 in three rows next to the log and one in it. Their checksums identify the commit that they follow.
    private static let format5 = """
        CREATE TABLE namespace (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE batch (
            id INTEGER PRIMARY KEY, namespace INTEGER NOT NULL REFERENCES namespace(id), sequence INTEGER NOT NULL,
            previous INTEGER NOT NULL, checksum INTEGER NOT NULL, operations BLOB NOT NULL, part INTEGER NOT NULL DEFAULT 0,
            more INTEGER NOT NULL DEFAULT 0, stage INTEGER NOT NULL DEFAULT 0);
        CREATE UNIQUE INDEX batch_order ON batch(namespace, sequence, part);
        CREATE TABLE part (
            id INTEGER PRIMARY KEY, stage INTEGER NOT NULL, number INTEGER NOT NULL, checksum INTEGER NOT NULL, operations BLOB NOT NULL);
        CREATE UNIQUE INDEX part_order ON part(stage, number);
        CREATE INDEX batch_stage ON batch(stage) WHERE stage > 0;
        CREATE TABLE snapshot (
            namespace INTEGER PRIMARY KEY REFERENCES namespace(id), sequence INTEGER NOT NULL, checksum INTEGER NOT NULL,
            manifest BLOB NOT NULL);
        CREATE TABLE chunk (
            id INTEGER PRIMARY KEY AUTOINCREMENT, namespace INTEGER NOT NULL REFERENCES namespace(id), entries BLOB NOT NULL);
        CREATE INDEX chunk_owner ON chunk(namespace);
        CREATE TABLE setting (
            namespace TEXT NOT NULL, name TEXT NOT NULL, checksum INTEGER NOT NULL, value BLOB NOT NULL,
            PRIMARY KEY (namespace, name)) WITHOUT ROWID;
        PRAGMA application_id = 1447513153;
        PRAGMA user_version = 5;
        INSERT INTO namespace VALUES (1, 'main');
        """

    private static let rowsOf5 = [#"[["s","wide",true]]"#, #"[["a","wide",{"a":1,"b":2}]]"#, #"[["a","wide",{"c":3}],["s","end",2]]"#, "[]"]

    private func makeFormat5(_ folder: TemporaryFolder) throws {
        let database = try DatabaseQueue(path: folder.path + "/vigla.sqlite")
        try database.writeWithoutTransaction { db in
            try db.execute(sql: Self.format5)
            let first = #"[["s","n",1]]"#
            try db.execute(
                sql: "INSERT INTO batch (namespace, sequence, previous, checksum, operations) VALUES (1, 1, 0, ?, cast(? AS BLOB))",
                arguments: [crc([0, 1], first), first])
            for (i, text) in Self.rowsOf5.dropLast().enumerated() {
                try db.execute(
                    sql: "INSERT INTO part (stage, number, checksum, operations) VALUES (4, ?, ?, cast(? AS BLOB))",
                    arguments: [i, crc([1, 2, UInt64(i) << 1 | 1], text), text])
            }
            try db.execute(
                sql: """
                    INSERT INTO batch (namespace, sequence, previous, checksum, operations, part, stage)
                    VALUES (1, 2, 1, ?, cast('[]' AS BLOB), 3, 4)
                    """,
                arguments: [crc([1, 2, 3 << 1], "[]")])
        }
        try database.close()
    }

    @Test func file_ofFormat5_isUpgradedWithItsLargeBatches() async throws {
        let folder = try TemporaryFolder()
        try makeFormat5(folder)
        var root: Node = ["n": 1, "wide": ["a": 1, "b": 2, "c": 3], "end": 2]
        for round in 0..<2 {
            let store = try JournalStore.open(folder: folder.path)
            #expect(try await store.database.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA user_version") } == Schema.format)
            let recovered = try store.recover("main")
            #expect(recovered.root == root && recovered.sequence == UInt64(2 + round) && recovered.replayed == 2 + round)
            // Rows of the new kind follow the old ones.
            let operations: [JournalOperation] = [.set("wide/d", .int(Int64(round)))]
            let stage = try await store.journal(for: "main").stage(operations)
            #expect(stage.number > 4)
            try await store.journal(for: "main").store(JournalBatch(
                sequence: UInt64(3 + round), after: UInt64(2 + round), operations: operations, staged: [.init(0..<1, stage)]))
            for operation in operations { root.apply(operation) }
            try store.close()
        }
        let copy = try TemporaryFolder()
        #expect(try FolderCopy.make(from: folder.path, to: copy.path + "/data").commits == ["main": 4])
    }

    /// Format 6: a batch of several rows that belong to a stage, and a small one. Neither records its commits.
    private func makeFormat6(_ folder: TemporaryFolder) throws {
        try makeFormat5(folder)
        let database = try DatabaseQueue(path: folder.path + "/vigla.sqlite")
        try database.writeWithoutTransaction { db in
            try db.execute(sql: "ALTER TABLE batch ADD COLUMN parts INTEGER NOT NULL DEFAULT 0; PRAGMA user_version = 6;")
            let (part, small) = (#"[["s","staged",6]]"#, #"[["s","n",3],["i","s1",{"uid":"ana"},false],["o","s1","n","gone",1,[]]]"#)
            try db.execute(
                sql: "INSERT INTO part (stage, number, checksum, operations) VALUES (9, 0, ?, cast(? AS BLOB))",
                arguments: [crc([9, 0], part), part])
            try db.execute(
                sql: """
                    INSERT INTO batch (namespace, sequence, previous, checksum, operations, part, stage, parts)
                    VALUES (1, 3, 2, ?, cast('[]' AS BLOB), 0, 9, 1)
                    """, arguments: [crc([2, 3, 9, 1], "[]")])
            try db.execute(
                sql: "INSERT INTO batch (namespace, sequence, previous, checksum, operations) VALUES (1, 7, 3, ?, cast(? AS BLOB))",
                arguments: [crc([3, 7], small), small])
        }
        try database.close()
    }

    @Test func file_ofFormat6_isUpgraded_andItsBatchesAreHeardAsOneCommitEach() async throws {
        let folder = try TemporaryFolder()
        try makeFormat6(folder)
        for round in 0..<2 {
            let store = try JournalStore.open(folder: folder.path)
            #expect(try await store.database.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA user_version") } == Schema.format)
            let recovered = try store.recover("main")
            #expect(recovered.root == ["n": 3, "wide": ["a": 1, "b": 2, "c": 3], "end": 2, "staged": 6])
            #expect(recovered.sequence == UInt64(7 + 2 * round) && recovered.epoch == UInt64(round))
            #expect(recovered.pending.map(\.id) == ["s1"])
            let journal = store.journal(for: "main")
            var batch = JournalBatch(after: recovered.sequence)
            batch.append([.set("n", 4)])
            batch.append([.set("n", 3)])
            (batch.id, batch.epoch) = (UInt64(round + 1), UInt64(round + 1))
            try await journal.store(batch)
            let heard = Mutex<[JournalBatch]>([])
            await withCheckedContinuation { continuation in
                journal.tail(from: 2) { event in
                    guard case .batch(let batch) = event else { return }
                    heard.withLock { $0.append(batch) }
                    if batch.sequence == UInt64(9 + 2 * round) { continuation.resume() }
                }
            }
            let batches = heard.withLock { $0 }
            #expect(batches.map { $0.commits.map(\.sequence) } == [[3], [7], [8, 9]] + (round == 0 ? [] : [[10, 11]]))
            #expect(batches.map(\.id) == [0, 0, 1] + (round == 0 ? [] : [2]) && batches.last == batch)
            try store.close()
        }
        let copy = try TemporaryFolder()
        #expect(try FolderCopy.make(from: folder.path, to: copy.path + "/data").commits == ["main": 11])
    }

    @Test(arguments: [
        "UPDATE batch SET batch_id = 3 WHERE sequence = 9", "UPDATE batch SET epoch = 3 WHERE sequence = 9",
        "UPDATE batch SET batch_id = 0, epoch = 0 WHERE sequence = 9",
    ]) func idOrEpoch_thatIsNotWhatWasStored_isDamage(change: String) async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        try await store.journal(for: "main").store(JournalBatch(sequence: 9, after: 0, operations: [], id: 5, epoch: 6))
        try store.close()
        try folder.change(change)
        try folder.expectRefused()
    }

    @Test(arguments: [
        "UPDATE part SET number = 5 WHERE number = 1", "UPDATE part SET checksum = checksum + 1 WHERE number = 1",
        "DELETE FROM part WHERE number = 2",
        "UPDATE batch SET part = 2 WHERE stage > 0",
    ]) func file_ofFormat5_withADamagedLargeBatch_isRefused(change: String) throws {
        let folder = try TemporaryFolder()
        try makeFormat5(folder)
        try folder.change(change)
        try folder.expectRefused()
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
