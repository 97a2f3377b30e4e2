import Dispatch
import GRDB
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

@Suite(.timeLimit(.minutes(30))) struct CommitTests {
    /// A database that may not grow looks to SQLite like a full disk.
    private func limitPages(of store: JournalStore, to limit: Int? = nil) throws {
        try store.database.writeWithoutTransaction { db in
            let pages = try limit ?? Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            try db.execute(sql: "PRAGMA max_page_count = \(pages)")
        }
    }

    @Test func completions_ofWaitingAppends_comeInOrderOnTheJournalQueue() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        let completions = Completions()
        let queue = store.queue
        await withCheckedContinuation { continuation in
            store.holding {
                for i in 1...200 {
                    let record = completions.record(i)
                    journal.append(.small(UInt64(i))) { result in
                        dispatchPrecondition(condition: .onQueue(queue))
                        record(result)
                        if i == 200 { continuation.resume() }
                    }
                }
            }
        }
        #expect(completions.labels == Array(1...200))
        #expect(completions.results.allSatisfy { (try? $0.get()) != nil })
        #expect(try store.recover("main").root == ["n": 200])
        try store.close()
    }

    @Test func waitingAppends_ofAllNamespaces_shareOneCommit() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let commits = CommitCounter()
        store.database.add(transactionObserver: commits, extent: .databaseLifetime)
        let journals = [store.journal(for: "a"), store.journal(for: "b")]
        await withCheckedContinuation { continuation in
            store.holding {
                for i in 1...100 {
                    for (n, journal) in journals.enumerated() {
                        journal.append(.small(UInt64(i))) { _ in if i == 100, n == 1 { continuation.resume() } }
                    }
                }
            }
        }
        #expect(commits.count == 1)
        try await journals[0].store(.small(101))
        #expect(commits.count == 2)
        try store.close()
    }

    /// Copies of one write have the same node, which is stored once in each row.
    @Test func sameNode_atManyPlaces_isStoredOnce() async throws {
        let text = Node.string(Text(String(repeating: "x", count: 2_000)))
        for copied in [text, ["text": text, "n": 1], 7] as [Node] {
            let folder = try TemporaryFolder()
            let store = try JournalStore.open(folder: folder.path)
            var root = Node.null
            var batch = JournalBatch(after: 0)
            for commit in 0..<2 {
                var operations: [JournalOperation] = [.set("other", .int(Int64(commit)))]
                for i in 0..<500 {
                    operations.append(.set(Path([Key("f\(i)"), Key("c\(commit)")]), copied))
                    if i % 100 == 0 { operations.append(.set(Path([Key("count")]), .int(Int64(i)))) }
                }
                operations.append(.set("last", ["text": text]))
                batch.append(operations)
                for operation in operations { root.apply(operation) }
            }
            try await store.journal(for: "main").store(batch)
            let stored = try await store.connections.reader.writeWithoutTransaction {
                try Int.fetchOne($0, sql: "SELECT sum(length(operations)) FROM batch") ?? 0
            }
            #expect(stored < 30_000, "\(copied)")
            let heard = await withCheckedContinuation { continuation in
                store.journal(for: "main").tail(from: 0) { if case .batch(let batch) = $0 { continuation.resume(returning: batch) } }
            }
            #expect(heard == batch)
            try store.expectKept(root, upTo: 2, in: folder)
        }
    }

    @Test func batch_thatDoesNotFollow_isRefusedAloneAndTakesItsFollowersAlong() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        let completions = Completions()
        await withCheckedContinuation { continuation in
            store.holding {
                journal.append(.small(1), completion: completions.record(0))
                journal.append(.small(3), completion: completions.record(1))
                journal.append(.small(4), completion: completions.record(2))
                journal.append(JournalBatch(sequence: 1, after: 1, operations: []), completion: completions.record(3))
                journal.append(JournalBatch(sequence: .max, after: 1, operations: []), completion: completions.record(4))
                journal.append(.small(2)) { result in
                    completions.record(5)(result)
                    continuation.resume()
                }
            }
        }
        let failures = completions.results.map { result -> JournalError? in if case .failure(let error) = result { error } else { nil } }
        #expect(failures == [
            nil, .conflict(expected: 2, last: 1), .conflict(expected: 3, last: 1), .conflict(expected: 1, last: 1),
            .conflict(expected: 1, last: 1), nil,
        ])
        #expect(try store.recover("main").sequence == 2)
        try store.close()
    }

    @Test func commit_thatTheDiskRefuses_isReportedAndLaterOnesGoOn() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        try await journal.store(.small(1))
        try limitPages(of: store)
        let large = JournalBatch(sequence: 2, after: 1, operations: [.set("big", .string(String(repeating: "x", count: 1 << 20)))])
        await #expect { try await journal.store(large) } throws: { if case JournalError.diskFull = $0 { true } else { false } }
        await #expect(throws: JournalError.conflict(expected: 2, last: 1)) { try await journal.store(.small(3)) }
        #expect(try store.recover("main").root == ["n": 1])
        try limitPages(of: store, to: 1_073_741_823)
        try await journal.store(large)
        #expect(try store.recover("main").sequence == 2)
        try store.close()
    }

    @Test func snapshotThatTheDiskRefuses_behindABatch_takesNoBatchWithIt() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        let root: Node = ["n": 1, "big": .string(String(repeating: "x", count: 1 << 20))]
        try await journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, root)]))
        try limitPages(of: store)
        let completions = Completions()
        await withCheckedContinuation { continuation in
            store.holding {
                journal.append(JournalBatch(sequence: 2, after: 1, operations: []), completion: completions.record(0))
                journal.store(JournalSnapshot(root: root, sequence: 2)) { result in
                    completions.record(1)(result)
                    continuation.resume()
                }
            }
        }
        #expect((try? completions.results[0].get()) != nil)
        #expect { try completions.results[1].get() } throws: { if case JournalError.diskFull = $0 { true } else { false } }
        let recovered = try store.recover("main")
        #expect(recovered.root == root && recovered.sequence == 2)
        try store.close()
    }

    @Test func journal_afterClose_refuses() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let (main, other) = (store.journal(for: "main"), store.journal(for: "other"))
        try await main.store(.small(1))
        await #expect(throws: JournalError.conflict(expected: 9, last: 1)) { try await main.finish(JournalSnapshot(root: 1, sequence: 9)) }
        await #expect(throws: JournalError.closed) { try await main.store(.small(2)) }
        await #expect(throws: JournalError.closed) { try await main.finish() }
        try await other.store(.small(1))
        try store.close()
        try store.close()
        await #expect(throws: JournalError.closed) { try await other.store(.small(2)) }
        #expect(throws: JournalError.closed) { try store.recover("main") }
    }

    @Test func store_closedWhileAppendsWait_storesThemFirst() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        let completions = Completions()
        store.holding { for i in 1...50 { journal.append(.small(UInt64(i)), completion: completions.record(i)) } }
        try store.close()
        #expect(completions.labels == Array(1...50) && completions.results.allSatisfy { (try? $0.get()) != nil })
        let again = try JournalStore.open(folder: folder.path)
        #expect(try again.recover("main").sequence == 50)
        try again.close()
    }
}

/// Counts committed transactions.
final class CommitCounter: TransactionObserver, Sendable {
    private let commits = Mutex(0)
    var count: Int { commits.withLock { $0 } }
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    // From SQLite's hook: GRDB does not see the statement that commits.
    func databaseWillCommit() { commits.withLock { $0 += 1 } }
    func databaseDidCommit(_ db: Database) {}
    func databaseDidRollback(_ db: Database) {}
}
