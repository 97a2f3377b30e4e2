import Journal
import JSONTree
@testable import SQLiteJournal
import Testing
import TestSupport

@Suite struct PendingDeliveriesTests {
    /// Through the log, and through a snapshot of several parts.
    @Test func deliveries_areRecovered() async throws {
        let folder = try TemporaryFolder()
        let items: [(Key, Node)] = (0..<300).map {
            (Key("8-\($0)"), ["row": "inbox/ana/\u{1F600}", "title": .string(Text("\"\($0)\"")), "due": .int(Int64($0))])
        }
        var expected = PendingDeliveries()
        for (id, item) in items where id != "8-7" { expected.apply(id, id == "8-9" ? ["failed": "gone"] : item) }
        var operations = [JournalOperation.set("n", 1)] + items.map { .delivery($0, $1) }
        operations += [.delivery("8-7", .null), .delivery("8-9", ["failed": "gone"]), .delivery("none", .null)]
        func check(_ recovered: Recovered, replayed: Int) {
            #expect(all(recovered.deliveries) == all(expected) && recovered.deliveries.count == 299 && recovered.deliveries["8-7"] == nil)
            #expect(recovered.replayed == replayed && recovered.root == ["n": 1])
        }
        do {
            let store = try JournalStore.open(folder: folder.path)
            try await store.journal(for: "main").store(JournalBatch(sequence: 1, after: 0, operations: operations))
            try store.close()
        }
        do {
            let store = try JournalStore.open(folder: folder.path)
            let recovered = try store.recover("main")
            check(recovered, replayed: 1)
            try store.close()
            var settings = JournalStore.Settings()
            settings.chunks.full = 4_000
            let other = try JournalStore.open(folder: folder.path, settings: settings)
            try await other.journal(for: "main").finish(JournalSnapshot(root: ["n": 1], sequence: 1, beside: recovered.beside))
            try other.close()
        }
        let store = try JournalStore.open(folder: folder.path)
        check(try store.recover("main"), replayed: 0)
        #expect(try store.count("chunk") >= 3)
        try store.close()
    }

    private func all(_ deliveries: PendingDeliveries) -> [String] {
        var found: [String] = []
        deliveries.forEach { found.append("\($0.string) \($1.json)") }
        return found
    }
}
