import Foundation
import GRDB
import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// SQLite over its log with gathered writes: committed data is in the files immediately.
@Suite(.timeLimit(.minutes(30))) struct LogVFSTests {
    private static func open(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.journalMode = .wal
        let queue = try DatabaseQueue(path: LogVFS.location(of: path), configuration: configuration)
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
        return queue
    }

    @Test(arguments: [Durability.full, .normal])
    func eachCommit_isOneWriteToTheLog(_ durability: Durability) async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .init(durability: durability))
        let journal = store.journal(for: "main")
        let text = String(repeating: "x", count: 3_000)
        func writes() async throws -> Int {
            try await store.database.writeWithoutTransaction { db in try #require(LogVFS.writes(db.sqliteConnection)) }
        }
        for i in UInt64(1)...5 { try await journal.store(.small(i)) }
        for i in UInt64(6)...40 {
            let (before, frames) = (try await writes(), store.queue.sync { store.connections.log.pages })
            let operations = (0..<8).map { JournalOperation.set(Path([Key("k\($0)")]), .string("\(text)\($0)")) }
            try await journal.store(JournalBatch(sequence: i, after: i - 1, operations: operations))
            #expect(try await writes() == before + 1)
            #expect(store.queue.sync { store.connections.log.pages } > frames + 5, "of several pages")
        }
        try store.close()
    }

    /// Transactions of all kinds. During and after each one the files are copied as a kill would leave them, and the content of the copy is compared.
    @Test(arguments: [false, true], 1...6 as ClosedRange<UInt64>)
    func killAtAnyTime_leavesAllThatWasCommitted(spills: Bool, seed: UInt64) throws {
        let (folder, copy) = (try TemporaryFolder(), try TemporaryFolder())
        var random = SeededRandom(seed)
        let queue = try Self.open(folder.path + "/data.sqlite")
        var model: [Int64: String] = [:]
        func expect(_ model: [Int64: String], _ round: Int, _ when: String) throws {
            let path = "\(copy.path)/\(round)-\(when).sqlite"
            for suffix in ["", "-wal"] { try FileCopy.copy("\(folder.path)/data.sqlite\(suffix)", path + suffix) }
            let copied = try DatabaseQueue(path: path)
            let found = try copied.read { db in
                try Row.fetchAll(db, sql: "SELECT id, text FROM t").reduce(into: [Int64: String]()) { $0[$1[0]] = $1[1] }
            }
            #expect(found == model)
            #expect(try copied.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
            try copied.close()
        }
        try queue.writeWithoutTransaction { db in
            let isSynced = Bool.random(using: &random)
            try db.execute(sql: "PRAGMA synchronous = \(isSynced ? 2 : 1); CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
            // Few cached pages: the others are written to the log during the transaction, some of them twice.
            try db.execute(sql: spills ? "PRAGMA cache_size = 10; PRAGMA cache_spill = 5" : "PRAGMA cache_spill = OFF")
            var spilled = 0
            for round in 0..<40 {
                var next = model
                let before = try #require(LogVFS.writes(db.sqliteConnection))
                try db.execute(sql: "BEGIN IMMEDIATE")
                for _ in 0..<Int.random(in: 1...120, using: &random) {
                    let id = Int64.random(in: 1...400, using: &random)
                    if Int.random(in: 0..<4, using: &random) == 0 {
                        try db.execute(sql: "DELETE FROM t WHERE id = ?", arguments: [id])
                        next[id] = nil
                    } else {
                        let text = String(repeating: "\(round)-", count: Int.random(in: 1...700, using: &random))
                        try db.execute(sql: "INSERT OR REPLACE INTO t VALUES (?, ?)", arguments: [id, text])
                        next[id] = text
                    }
                }
                if try #require(LogVFS.writes(db.sqliteConnection)) > before { spilled += 1 }
                try expect(model, round, "within")
                if Int.random(in: 0..<5, using: &random) == 0 {
                    try db.execute(sql: "ROLLBACK")
                } else {
                    try db.execute(sql: "COMMIT")
                    model = next
                }
                try expect(model, round, "behind")
                if Int.random(in: 0..<6, using: &random) == 0 { try db.checkpoint(.passive) }
            }
            #expect(spills ? spilled > 10 : spilled == 0)
        }
        try queue.close()
    }

    /// Other connections read committed data that is only in the log.
    @Test func otherConnections_readEachCommit() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        for i in 1...50 {
            try await journal.store(.small(UInt64(i)))
            #expect(try store.count("batch") == i)
        }
        try store.close()
    }

    @Test(arguments: ["a b", "what?", "100%", "50%41", "#1", "é ü", "a&vfs=none", "a/../a"])
    func folder_ofAnyName_isTheOneThatIsOpened(_ name: String) async throws {
        let folder = try TemporaryFolder()
        try FileManager.default.createDirectory(atPath: folder.path + "/a", withIntermediateDirectories: true)
        let path = folder.path + "/" + name
        for i: UInt64 in 1...2 {
            let store = try JournalStore.open(folder: path)
            #expect(try store.recover("main").sequence == i - 1)
            try await store.journal(for: "main").store(.small(i))
            let file = try await store.database.writeWithoutTransaction { db in
                #expect(LogVFS.writes(db.sqliteConnection) != nil)
                return try String.fetchOne(db, sql: "SELECT file FROM pragma_database_list WHERE name = 'main'")
            }
            let opened = URL(fileURLWithPath: try #require(file)).resolvingSymlinksInPath().path
            #expect(opened == URL(fileURLWithPath: path + "/vigla.sqlite").resolvingSymlinksInPath().path)
            try store.close()
        }
    }

    @Test func location_isAURI_thatSQLiteReadsAsThePath() {
        #expect(LogVFS.location(of: "/data/vigla.sqlite") == "file:///data/vigla.sqlite?vfs=vigla-log")
        #expect(LogVFS.location(of: "//data/x y") == "file:////data/x%20y?vfs=vigla-log")
        #expect(LogVFS.location(of: "data/é?\n") == "file:data/%c3%a9%3f%0a?vfs=vigla-log")
    }
}
