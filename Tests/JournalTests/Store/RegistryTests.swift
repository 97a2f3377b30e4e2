import GRDB
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// A transaction's changes of the namespace registry stay, or are rolled back with it.
@Suite(.timeLimit(.minutes(30))) struct RegistryTests {
    @Test func transactions_areKept_orTakenBack() {
        var random = SeededRandom(1)
        let registry = Registry([:])
        var model: [String: UInt64] = [:]
        for i in 1...2_000 {
            var next = model
            for _ in 0..<Int.random(in: 0...4, using: &random) {
                let name = "n\(Int.random(in: 0..<8, using: &random))"
                var row = registry[name] ?? Registry.Row(id: 1, last: 0, snapshotSequence: 0, epoch: 0)
                row.last += UInt64(i)
                registry.set(row, for: name)
                next[name, default: 0] += UInt64(i)
                #expect(registry[name]?.last == next[name])
            }
            if Bool.random(using: &random) {
                registry.keep()
                model = next
            } else {
                registry.restore()
            }
            #expect(registry.rows.mapValues(\.last) == model)
        }
    }

    /// One item's row cannot be written: its whole transaction is refused, and later work continues from the state before.
    @Test func transactionThatFails_leavesNothingOfItsItems() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let (main, other) = (store.journal(for: "main"), store.journal(for: "other"))
        try await main.store(.small(1))
        func refuse(_ sql: String) async throws { try await store.database.writeWithoutTransaction { try $0.execute(sql: sql) } }
        try await refuse("CREATE TEMP TRIGGER refusal BEFORE INSERT ON batch WHEN new.sequence = 3 BEGIN SELECT RAISE(ABORT, 'no'); END")
        let failures = Mutex(0)
        await withCheckedContinuation { continuation in
            store.holding {
                let record: @Sendable (Result<Void, JournalError>) -> Void = { result in
                    if case .failure = result { failures.withLock { $0 += 1 } }
                }
                other.append(.small(1), completion: record)
                main.append(.small(2), completion: record)
                main.append(.small(3)) { result in
                    record(result)
                    continuation.resume()
                }
            }
        }
        #expect(failures.withLock { $0 } == 3)
        #expect(store.marks().mapValues(\.last) == ["main": 1])
        try await refuse("DROP TRIGGER refusal")
        for i in UInt64(2)...3 { try await main.store(.small(i)) }
        try await other.store(.small(1))
        #expect(store.marks().mapValues(\.last) == ["main": 3, "other": 1])
        #expect(try store.recover("other").root == ["n": 1])
        try store.close()
        let again = try JournalStore.open(folder: folder.path)
        #expect(again.marks().mapValues(\.last) == ["main": 3, "other": 1])
        try again.close()
    }
}
