import Dispatch
import GRDB
import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Obsolete data leaves the folder as fast as new data arrives.
@Suite(.timeLimit(.minutes(30))) struct RemovalTests {
    /// Bytes of the parts, batches and chunks in the folder.
    private static func storedBytes(_ store: JournalStore) throws -> Int {
        try store.connections.reader.writeWithoutTransaction { db in
            try Int.fetchOne(
                db,
                sql: """
                    SELECT coalesce((SELECT sum(length(operations)) FROM part), 0)
                        + coalesce((SELECT sum(length(operations)) FROM batch), 0)
                        + coalesce((SELECT sum(length(entries)) FROM chunk), 0)
                    """) ?? 0
        }
    }

    /// Children of 250 KB: a row each, four in a slice.
    private static func rows(_ count: Int) -> Node {
        let text = Node.string(String(repeating: "x", count: 250_000))
        return .object((0..<count).map { (Key("k\($0)"), text) })
    }

    @Test func stagesThatAreLetGoOf_besideOthersThatAreStored_doNotCollect() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        let (lanes, rounds, rows) = (4, 10, 12)
        let operations: [JournalOperation] = [.set("rows", Self.rows(rows))]
        let most = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<lanes {
                group.addTask {
                    var most = 0
                    for _ in 0..<rounds {
                        let stage = try await journal.stage(operations)
                        most = max(most, try Self.storedBytes(store))
                        #expect(stage.parts >= rows)
                    }
                    return most
                }
            }
            return try await group.reduce(0) { max($0, $1) }
        }
        // 120 MB were stored, of which at most 12 MB were needed at a time.
        let underWay = lanes * rows * 250_000
        #expect(most <= 2 * underWay, "\(most)")
        #expect(try await becomes { try store.count("part") == 0 })
        try store.close()
    }

    @Test func removalThatTheDiskRefuses_isTriedAgainWithTheNextCommit() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        try await journal.store(.small(1))
        var stage: JournalStage? = try await journal.stage([.set("wide", .wide(100))])
        let parts = try #require(stage?.parts)
        try store.database.execute("PRAGMA query_only = ON")
        stage = nil
        #expect(await becomes { store.queue.sync { store.remover.hasFailed } })
        try store.database.execute("PRAGMA query_only = OFF")
        #expect(try store.count("part") == parts)
        try await journal.store(.small(2))
        #expect(try await becomes { try store.count("part") == 0 })
        try store.close()
    }
}
