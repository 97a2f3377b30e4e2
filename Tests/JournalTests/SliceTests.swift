import Glibc
import GRDB
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Batches that are too large for one transaction.
@Suite(.timeLimit(.minutes(30))) struct SliceTests {
    private static let sliceBytes = 16 << 10
    private static func settings() -> JournalStore.Settings {
        var settings = JournalStore.Settings()
        settings.sliceBytes = sliceBytes
        return settings
    }

    /// About `kilobytes` KB of JSON.
    private static func wide(_ kilobytes: Int) -> Node {
        .object((0..<kilobytes).map { (
            Key("k\($0)"), ["n": .int(Int64($0)), "text": .string(Text(String(repeating: "x", count: 980)))] as Node) }, priority: "wide")
    }

    private static func large(_ sequence: UInt64, after last: UInt64, kilobytes: Int = 300) -> JournalBatch {
        JournalBatch(
            sequence: sequence, after: last,
            operations: [.set("small", 1), .set("wide", wide(kilobytes)), .set("end", .int(Int64(sequence)))])
    }

    private static func small(_ sequence: UInt64) -> JournalBatch {
        JournalBatch(sequence: sequence, after: sequence - 1, operations: [.set("n", .int(Int64(sequence)))])
    }

    private func count(_ table: String, _ store: JournalStore) throws -> Int {
        try store.reader.writeWithoutTransaction { try Int.fetchOne($0, sql: "SELECT count(*) FROM \(table)") ?? 0 }
    }

    /// Rows that a statement changed.
    @discardableResult
    private func execute(_ sql: String, _ database: DatabaseQueue) throws -> Int {
        try database.writeWithoutTransaction { db in
            try db.execute(sql: sql)
            return db.changesCount
        }
    }

    /// Pages that each transaction in SQLite's log wrote.
    private func pagesOfTransactions(_ folder: TemporaryFolder) throws -> [Int] {
        let descriptor = Glibc.open(folder.path + "/vigla.sqlite-wal", O_RDONLY)
        defer { close(descriptor) }
        let head = try #require(LogFile.read(descriptor, LogFile.headerBytes, at: 0))
        let header = try #require(head.withUnsafeBytes { LogFile.Header($0) })
        var (pages, pending, offset) = ([Int](), 0, LogFile.headerBytes)
        while let bytes = LogFile.read(descriptor, LogFile.frameHeaderBytes, at: offset), bytes.count == LogFile.frameHeaderBytes {
            let frame = bytes.withUnsafeBytes { LogFile.Frame($0) }
            guard frame.salts == header.salts else { break }
            pending += 1
            if frame.isCommit { (pages, pending) = (pages + [pending], 0) }
            offset += header.frameBytes
        }
        return pages
    }

    @Test func largeBatch_isStoredInBoundedTransactions_andRecoveredWhole() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        let journal = store.journal(for: "main")
        try await journal.store(Self.small(1))
        try await journal.store(Self.large(2, after: 1))
        try await journal.store(Self.small(3))
        let pages = try pagesOfTransactions(folder)
        // 300 KB are some 16 slices; a slice, a row more, and the pages of tables and indexes around them.
        #expect(pages.count >= 17 && pages.allSatisfy { $0 * 4096 <= Self.sliceBytes + Self.sliceBytes / 4 + 12 * 4096 }, "\(pages)")
        var root = Node.null
        for batch in [Self.small(1), Self.large(2, after: 1), Self.small(3)] { for operation in batch.operations { root.apply(operation) } }
        for _ in 0..<2 {
            let recovered = try store.recover("main")
            #expect(recovered.root == root && recovered.sequence == 3 && recovered.replayed == 3)
        }
        try store.close()
        let again = try JournalStore.open(folder: folder.path)
        #expect(try again.recover("main").root == root)
        try again.close()
        let copy = try TemporaryFolder()
        #expect(try FolderCopy.make(from: folder.path, to: copy.path + "/data").commits == ["main": 3])
    }

    @Test func waitingBatches_thatAreMuchTogether_areStoredInBoundedTransactions() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        let (a, b) = (store.journal(for: "a"), store.journal(for: "b"))
        let completions = Completions()
        await withCheckedContinuation { continuation in
            store.holding {
                for i in 1...40 {
                    let batch = JournalBatch(sequence: UInt64(i), after: UInt64(i - 1), operations: [.set("x", Self.wide(8))])
                    a.append(batch) { result in
                        completions.record(i)(result)
                        if i == 40 { continuation.resume() }
                    }
                }
                b.append(Self.small(1), completion: completions.record(100))
            }
        }
        let pages = try pagesOfTransactions(folder)
        #expect(pages.count >= 19 && pages.allSatisfy { $0 * 4096 <= Self.sliceBytes + 12 * 4096 }, "\(pages)")
        let labels = completions.labels
        #expect(labels.filter { $0 < 100 } == Array(1...40) && completions.results.allSatisfy { (try? $0.get()) != nil })
        // Behind forty of another namespace that came before it, and yet with the second transaction at the latest.
        #expect(try #require(labels.firstIndex(of: 100)) <= 4, "\(labels)")
        try store.close()
    }

    @Test func smallCommit_ofAnotherNamespace_doesNotWaitForALargeOne() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        let (a, b) = (store.journal(for: "a"), store.journal(for: "b"))
        let completions = Completions()
        await withCheckedContinuation { continuation in
            store.holding {
                a.append(Self.large(1, after: 0), completion: completions.record(1))
                a.append(JournalBatch(sequence: 2, after: 1, operations: [.set("late", 2)])) { result in
                    completions.record(2)(result)
                    continuation.resume()
                }
                b.append(Self.small(1)) { result in
                    completions.record(10)(result)
                    // In the middle of the slices, with the seal of the large one still to come.
                    #expect(store.staging.contains("a"))
                    b.append(Self.small(2), completion: completions.record(11))
                }
            }
        }
        let labels = completions.labels
        #expect(labels.first == 10 && labels.filter { $0 < 10 } == [1, 2], "\(labels)")
        #expect(try #require(labels.firstIndex(of: 11)) < #require(labels.firstIndex(of: 1)), "\(labels)")
        #expect(completions.results.allSatisfy { (try? $0.get()) != nil })
        #expect(try store.recover("a").root.child("late") == 2)
        try store.close()
    }

    @Test func whatFollowsALargeBatch_keepsItsOrder() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        let journal = store.journal(for: "main")
        let completions = Completions()
        var root = Node.null
        for batch in [Self.large(1, after: 0), Self.large(2, after: 1), Self.small(3)] {
            for operation in batch.operations { root.apply(operation) }
        }
        let content = root
        await withCheckedContinuation { continuation in
            store.holding {
                journal.append(Self.large(1, after: 0), completion: completions.record(1))
                journal.append(Self.large(9, after: 5), completion: completions.record(2))
                journal.append(Self.large(2, after: 1), completion: completions.record(3))
                store.put([1], setting: "rules", of: "main", completion: completions.record(4))
                journal.append(Self.small(3), completion: completions.record(5))
                journal.store(JournalSnapshot(root: content, sequence: 3)) { result in
                    completions.record(6)(result)
                    continuation.resume()
                }
            }
        }
        #expect(completions.labels == Array(1...6))
        let failures = completions.results.map { result -> JournalError? in if case .failure(let error) = result { error } else { nil } }
        #expect(failures == [nil, .conflict(expected: 5, last: 1), nil, nil, nil, nil])
        // The snapshot holds them: their parts go.
        #expect(try await becomes { try count("part", store) + count("batch", store) == 0 })
        let recovered = try store.recover("main")
        #expect(recovered.root == content && recovered.sequence == 3 && recovered.replayed == 0)
        try store.close()
    }

    @Test func store_closedWhileALargeBatchWaits_storesItFirst() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        let journal = store.journal(for: "main")
        let completions = Completions()
        store.holding {
            journal.append(Self.large(1, after: 0), completion: completions.record(1))
            journal.append(Self.large(2, after: 1), completion: completions.record(2))
            journal.append(Self.small(3), completion: completions.record(3))
            journal.close(completion: completions.record(4))
        }
        try store.close()
        #expect(completions.labels == [1, 2, 3, 4] && completions.results.allSatisfy { (try? $0.get()) != nil })
        let again = try JournalStore.open(folder: folder.path)
        #expect(try again.recover("main").sequence == 3)
        try again.close()
    }

    @Test func largeBatch_thatTheDiskRefuses_leavesNothing() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        let journal = store.journal(for: "main")
        try await journal.store(Self.small(1))
        // Room for some slices, not for all.
        try execute("PRAGMA max_page_count = 60", store.database)
        await #expect { try await journal.store(Self.large(2, after: 1)) } throws: {
            if case JournalError.diskFull = $0 { true } else { false }
        }
        await #expect(throws: JournalError.conflict(expected: 2, last: 1)) { try await journal.store(Self.small(3)) }
        #expect(try store.recover("main").root == ["n": 1])
        try execute("PRAGMA max_page_count = 1073741823", store.database)
        try await journal.store(Self.small(2))
        #expect(try await becomes { try count("part", store) == 0 })
        try await journal.store(Self.large(3, after: 2))
        let recovered = try store.recover("main")
        #expect(recovered.sequence == 3 && recovered.root.child("wide") == Self.wide(300))
        try store.close()
    }

    private static let changes = [
        "DELETE FROM part WHERE number = 3",
        "DELETE FROM part WHERE number = (SELECT max(number) FROM part)",
        "DELETE FROM part",
        "UPDATE part SET operations = cast(replace(cast(operations AS TEXT), '\"n\"', '\"m\"') AS BLOB) WHERE number = 5",
        "UPDATE part SET checksum = checksum + 1 WHERE number = 5",
        "UPDATE part SET number = -1 WHERE number = 0",
        "UPDATE part SET number = 999 WHERE number = (SELECT max(number) FROM part)",
        "INSERT INTO part (stage, number, checksum, operations) SELECT stage, number + 1, checksum, operations FROM part ORDER BY number "
            + "DESC LIMIT 1",
        "UPDATE batch SET stage = stage + 1 WHERE stage > 0",
        "UPDATE batch SET stage = 0 WHERE stage > 0",
        "UPDATE batch SET part = part - 1 WHERE stage > 0",
        "UPDATE batch SET more = 1 WHERE stage > 0",
    ]

    @Test(arguments: changes) func recovery_ofALargeBatchWithAChangedPart_isRefused(change: String) async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        try await store.journal(for: "main").store(Self.small(1))
        try await store.journal(for: "main").store(Self.large(2, after: 1))
        try store.close()
        let other = try DatabaseQueue(path: folder.path + "/vigla.sqlite")
        #expect(try execute(change, other) > 0)
        try other.close()
        let again = try JournalStore.open(folder: folder.path)
        #expect { try again.recover("main") } throws: { isCorrupt($0) && "\($0)".contains("namespace main") }
        try again.close()
    }

    @Test func partsWithoutABatch_areIgnoredAndRemoved() async throws {
        let folder = try TemporaryFolder()
        var store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        try await store.journal(for: "main").store(Self.large(1, after: 0))
        let kept = try count("part", store)
        try store.close()
        // As a kill leaves them.
        let other = try DatabaseQueue(path: folder.path + "/vigla.sqlite")
        try execute(
            "INSERT INTO part (stage, number, checksum, operations) SELECT stage + 1, number, checksum, operations FROM part", other)
        try other.close()
        store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        #expect(try store.recover("main").sequence == 1 && count("part", store) == 2 * kept)
        try await store.journal(for: "main").store(Self.large(2, after: 1, kilobytes: 100))
        #expect(try await becomes { try count("(SELECT DISTINCT stage FROM part)", store) == 2 })
        let recovered = try store.recover("main")
        #expect(recovered.sequence == 2 && recovered.root.child("wide") == Self.wide(100))
        try store.close()
    }
}
