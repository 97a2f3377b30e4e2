import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Pending inbox rows of commits, stored next to the tree.
@Suite(.timeLimit(.minutes(30))) struct PendingInboxRowsTests {
    private func changes(_ pendingRows: PendingInboxRows) -> [PendingInboxChange] {
        var all: [PendingInboxChange] = []
        pendingRows.forEach { all.append($0) }
        return all
    }

    private func pendingRows(_ changes: [PendingInboxChange], in tree: Node = 1) -> PendingInboxRows {
        var pendingRows = PendingInboxRows()
        for change in changes { pendingRows.apply(change, in: tree) }
        return pendingRows
    }

    private static let begin = PendingInboxChange.begin(1, source: "news/n", most: 9, ["to": "x"])

    @Test func steps_leadFromOwedToDone() throws {
        var pendingRows = pendingRows([Self.begin], in: ["old": 1])
        #expect(pendingRows[1]?.base == ["old": 1] && pendingRows[1]?.left == 9 && pendingRows.nextID == 2 && pendingRows[1]?.isListed == false)
        pendingRows.apply(.list(1, ["a", "b"], isLast: false), in: ["new": 1])
        #expect(pendingRows[1]?.base == ["old": 1] && pendingRows[1]?.lastListed == "b" && pendingRows[1]?.left == 9)
        let before = pendingRows
        pendingRows.apply(.list(1, ["c"], isLast: true), in: .null)
        #expect(pendingRows[1]?.isListed == true && pendingRows[1]?.left == 3 && pendingRows[1]?.next(9) == ["a", "b", "c"])
        pendingRows.apply(.list(1, ["d"], isLast: true), in: .null)
        #expect(pendingRows[1]?.listed == 3, "the list is complete")
        pendingRows.apply(.advance(1, 1), in: .null)
        #expect(pendingRows[1]?.next(1) == ["b"] && pendingRows[1]?.next(5) == ["b", "c"])
        pendingRows.apply(.without(1, "c"), in: .null)
        pendingRows.apply(.advance(1, 1), in: .null)
        #expect(pendingRows[1]?.next(5) == ["c"] && pendingRows[1]?.without == ["c"])
        pendingRows.apply(.advance(1, 1), in: .null)
        #expect(pendingRows.isEmpty && pendingRows.nextID == 2 && before[1]?.listed == 2)
        pendingRows.apply(.advance(7, 1), in: .null)
        pendingRows.apply(.list(7, [], isLast: true), in: .null)
        #expect(pendingRows.isEmpty)
        #expect(self.pendingRows([Self.begin, .list(1, [], isLast: true)]).isEmpty, "nobody is reached")
        #expect(self.pendingRows([Self.begin, .end(1)]).isEmpty)
    }

    /// Through the log, and through a snapshot of several parts.
    @Test func pendingRows_isRecovered() async throws {
        let folder = try TemporaryFolder()
        let all = (0..<3_000).map { Key("user \($0)") }
        let steps: [PendingInboxChange] = [
            Self.begin, .list(1, Array(all.prefix(1_000)), isLast: false), .list(1, Array(all.dropFirst(1_000)), isLast: true),
            .advance(1, 1_500), .begin(5, source: "a/b", most: 2, ["value": ["x": "\"quoted\""]]), .without(1, "user 7"),
            .list(5, ["\u{1F600}", "é"], isLast: true), .begin(6, source: "gone", most: 0, .null), .end(6),
        ]
        let expected = pendingRows(steps)
        #expect(expected.items.map(\.left) == [1_500, 2])
        do {
            let store = try JournalStore.open(folder: folder.path)
            let operations = [JournalOperation.set("n", 1)] + steps.map { .pendingRows($0) }
            try await store.journal(for: "main").store(JournalBatch(sequence: 1, after: 0, operations: operations))
            try store.close()
        }
        do {
            let store = try JournalStore.open(folder: folder.path)
            let recovered = try store.recover("main")
            #expect(changes(recovered.pendingRows) == changes(expected) && recovered.replayed == 1 && recovered.root == ["n": 1])
            var settings = JournalStore.Settings()
            settings.chunks.full = 4_000
            try store.close()
            let other = try JournalStore.open(folder: folder.path, settings: settings)
            try await other.journal(for: "main").finish(JournalSnapshot(root: ["n": 1], sequence: 1, beside: recovered.beside))
            try other.close()
        }
        let store = try JournalStore.open(folder: folder.path)
        let recovered = try store.recover("main")
        #expect(changes(recovered.pendingRows) == changes(expected) && recovered.replayed == 0 && recovered.root == ["n": 1])
        #expect(recovered.pendingRows.items.allSatisfy(\.isListed) && recovered.pendingRows.nextID == 6)
        #expect(recovered.pendingRows[1]?.next(2) == expected[1]?.next(2))
        #expect(try store.count("chunk") >= 3)
        try store.close()
    }

    /// Rows not listed yet depend on the tree of their commit, which the log restores.
    @Test func base_isTheTreeOfItsCommit() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path)
        let journal = store.journal(for: "main")
        try await journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set("n", 1)]))
        var batch = JournalBatch(after: 1)
        batch.append([.set("n", 2)], also: [.set("m", 2), .pendingRows(Self.begin)])
        batch.append([.set("n", 3)])
        try await journal.store(batch)
        try store.close()
        let again = try JournalStore.open(folder: folder.path)
        let recovered = try again.recover("main")
        #expect(recovered.root == ["n": 3, "m": 2] && recovered.pendingRows[1]?.base == ["n": 2, "m": 2])
        try again.close()
    }

    @Test(arguments: [
        #"[["q",1,"a",1]]"#, #"[["q","a","b",1,{}]]"#, #"[["q",1,"a",-1,{}]]"#, #"[["l",1,["a"]]]"#, #"[["l",1,[5],true]]"#, #"[["d",1]]"#,
        #"[["d",1,-1]]"#, #"[["d",1,1.5]]"#, #"[["x",1]]"#, #"[["e"]]"#, #"[["e",1,2]]"#, #"[["q",1,"a",1,{},5]]"#,
    ]) func brokenEntry_isRefused(_ text: String) {
        #expect(throws: EntryFault.self) { try Array(text.utf8).withUnsafeBytes { try [JournalOperation](entries: $0) } }
    }
}
