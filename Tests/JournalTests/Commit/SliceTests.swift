import Glibc
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Batches that are too large for one transaction.
@Suite(.timeLimit(.minutes(30))) struct SliceTests {
    private static let sliceBytes = JournalStore.Settings.smallSlices.sliceBytes

    private static func large(_ sequence: UInt64, after last: UInt64, kilobytes: Int = 300) -> JournalBatch {
        JournalBatch(
            sequence: sequence, after: last,
            operations: [.set("small", 1), .set("wide", .wide(kilobytes)), .set("end", .int(Int64(sequence)))])
    }

    /// Pages written by each transaction in SQLite's log.
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
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        try await journal.store(.small(1))
        try await journal.store(Self.large(2, after: 1))
        try await journal.store(.small(3))
        let pages = try pagesOfTransactions(folder)
        // 300 KB are about 16 slices. Each transaction has a slice, a row more, and the pages of tables and indexes around them.
        #expect(pages.count >= 17 && pages.allSatisfy { $0 * 4096 <= Self.sliceBytes + Self.sliceBytes / 4 + 12 * 4096 }, "\(pages)")
        var root = Node.null
        for batch in [JournalBatch.small(1), Self.large(2, after: 1), .small(3)] {
            for operation in batch.operations { root.apply(operation) }
        }
        for _ in 0..<2 {
            let recovered = try store.recover("main")
            #expect(recovered.root == root && recovered.sequence == 3 && recovered.replayed == 3)
        }
        try store.expectKept(root, upTo: 3, in: folder)
    }

    @Test func waitingBatches_thatAreMuchTogether_areStoredInBoundedTransactions() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let (a, b) = (store.journal(for: "a"), store.journal(for: "b"))
        let completions = Completions()
        await withCheckedContinuation { continuation in
            store.holding {
                for i in 1...40 {
                    let batch = JournalBatch(sequence: UInt64(i), after: UInt64(i - 1), operations: [.set("x", .wide(8))])
                    a.append(batch) { result in
                        completions.record(i)(result)
                        if i == 40 { continuation.resume() }
                    }
                }
                b.append(.small(1), completion: completions.record(100))
            }
        }
        let pages = try pagesOfTransactions(folder)
        #expect(pages.count >= 19 && pages.allSatisfy { $0 * 4096 <= Self.sliceBytes + 12 * 4096 }, "\(pages)")
        let labels = completions.labels
        #expect(labels.filter { $0 < 100 } == Array(1...40) && completions.results.allSatisfy { (try? $0.get()) != nil })
        // After forty earlier batches of another namespace, but in the second transaction at the latest.
        #expect(try #require(labels.firstIndex(of: 100)) <= 4, "\(labels)")
        try store.close()
    }

    @Test func smallCommit_ofAnotherNamespace_doesNotWaitForALargeOne() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let (a, b) = (store.journal(for: "a"), store.journal(for: "b"))
        let completions = Completions()
        await withCheckedContinuation { continuation in
            store.holding {
                a.append(Self.large(1, after: 0), completion: completions.record(1))
                a.append(JournalBatch(sequence: 2, after: 1, operations: [.set("late", 2)])) { result in
                    completions.record(2)(result)
                    continuation.resume()
                }
                b.append(.small(1)) { result in
                    completions.record(10)(result)
                    // In the middle of the slices, before the end marker of the large batch.
                    #expect(store.stages.isStoring("a"))
                    b.append(.small(2), completion: completions.record(11))
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
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        let completions = Completions()
        var root = Node.null
        for batch in [Self.large(1, after: 0), Self.large(2, after: 1), .small(3)] {
            for operation in batch.operations { root.apply(operation) }
        }
        let content = root
        await withCheckedContinuation { continuation in
            store.holding {
                journal.append(Self.large(1, after: 0), completion: completions.record(1))
                journal.append(Self.large(9, after: 5), completion: completions.record(2))
                journal.append(Self.large(2, after: 1), completion: completions.record(3))
                store.put([1], setting: "rules", of: "main", completion: completions.record(4))
                journal.append(.small(3), completion: completions.record(5))
                journal.store(JournalSnapshot(root: content, sequence: 3)) { result in
                    completions.record(6)(result)
                    continuation.resume()
                }
            }
        }
        #expect(completions.labels == Array(1...6))
        let failures = completions.results.map { result -> JournalError? in if case .failure(let error) = result { error } else { nil } }
        #expect(failures == [nil, .conflict(expected: 5, last: 1), nil, nil, nil, nil])
        // The snapshot contains them, so their parts are removed.
        #expect(try await becomes { try store.count("part") + store.count("batch") == 0 })
        let recovered = try store.recover("main")
        #expect(recovered.root == content && recovered.sequence == 3 && recovered.replayed == 0)
        try store.close()
    }

    @Test func store_closedWhileALargeBatchWaits_storesItFirst() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        let completions = Completions()
        store.holding {
            journal.append(Self.large(1, after: 0), completion: completions.record(1))
            journal.append(Self.large(2, after: 1), completion: completions.record(2))
            journal.append(.small(3), completion: completions.record(3))
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
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        try await journal.store(.small(1))
        // Room for some slices, not for all.
        try store.database.execute("PRAGMA max_page_count = 60")
        await #expect { try await journal.store(Self.large(2, after: 1)) } throws: {
            if case JournalError.diskFull = $0 { true } else { false }
        }
        await #expect(throws: JournalError.conflict(expected: 2, last: 1)) { try await journal.store(.small(3)) }
        #expect(try store.recover("main").root == ["n": 1])
        try store.database.execute("PRAGMA max_page_count = 1073741823")
        try await journal.store(.small(2))
        #expect(try await becomes { try store.count("part") == 0 })
        try await journal.store(Self.large(3, after: 2))
        let recovered = try store.recover("main")
        #expect(recovered.sequence == 3 && recovered.root.child("wide") == Node.wide(300))
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
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        try await store.journal(for: "main").store(.small(1))
        try await store.journal(for: "main").store(Self.large(2, after: 1))
        try store.close()
        #expect(try folder.change(change) > 0)
        try folder.expectRefused()
    }

    @Test func partsWithoutABatch_areIgnoredAndRemoved() async throws {
        let folder = try TemporaryFolder()
        var store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        try await store.journal(for: "main").store(Self.large(1, after: 0))
        let kept = try store.count("part")
        try store.close()
        // As a kill leaves them.
        try folder.change(
            "INSERT INTO part (stage, number, checksum, operations) SELECT stage + 1, number, checksum, operations FROM part")
        store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        #expect(try store.recover("main").sequence == 1 && store.count("part") == 2 * kept)
        try await store.journal(for: "main").store(Self.large(2, after: 1, kilobytes: 100))
        #expect(try await becomes { try store.count("(SELECT DISTINCT stage FROM part)") == 2 })
        let recovered = try store.recover("main")
        #expect(recovered.sequence == 2 && recovered.root.child("wide") == Node.wide(100))
        try store.close()
    }
}
