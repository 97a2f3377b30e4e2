import Journal
import JSONTree
@testable import SQLiteJournal
import Testing
import TestSupport

@Suite struct WatchHitsTests {
    private static func muted(_ watch: Path, _ item: Path, _ until: Int64?, number: Int = 0) -> WatchChange {
        .muted(watch: watch, number: number, item: item, until: until)
    }

    private func hits(_ changes: [WatchChange]) -> WatchHits {
        var hits = WatchHits()
        for change in changes { hits.apply(change) }
        return hits
    }

    private func all(_ hits: WatchHits) -> [String] {
        var found: [String] = []
        hits.forEach { found.append("\($0.watch.relativeText)#\($0.number) \($0.item.relativeText) \($0.until)") }
        return found
    }

    private static let some = [
        muted("w/a", "items/i", 5), muted("w/a", "items/i", .max, number: 1), muted("w/a", "own/a/i", 7), muted("w/b", "items/i", 8),
        muted("w/b/c", "items/j", 9),
    ]

    @Test func hits_areKept_replaced_andRemoved() {
        let hits = hits(Self.some + [Self.muted("w/b", "items/i", 80), Self.muted("w/a", "own/a/i", nil), Self.muted("x", "y", nil)])
        #expect(hits.count == 4 && !hits.isEmpty)
        #expect(hits.mutedUntil(watch: "w/a", number: 1, item: "items/i") == .max)
        #expect(hits.mutedUntil(watch: "w/b", number: 0, item: "items/i") == 80)
        #expect(hits.mutedUntil(watch: "w/a", number: 0, item: "own/a/i") == nil)
        #expect(hits.mutedUntil(watch: "w/a", number: 2, item: "items/i") == nil)
        #expect(Set(all(self.hits(hits.changes))) == Set(all(hits)))
        #expect(hits.expired(at: 79, atMost: 10).map(\.until).sorted() == [5, 9] && hits.expired(at: 80, atMost: 2).count == 2)
    }

    /// What a tree does not have any more, by the path that was written.
    @Test(arguments: [
        ("w/a", "w/a", 2), ("w/a/r", "w/a", 2), ("items", "items/i", 2), ("items/i/lat", "items/i", 2), ("w", "w/b/c", 4),
        ("", "own/a/i", 4),
    ] as [(Path, Path, Int)]) func gone_isForgotten(_ written: Path, _ removed: Path, _ left: Int) throws {
        var tree = try Node(json: #"{"w":{"a":1,"b":{"c":1,"d":1}},"items":{"i":1,"j":1},"own":{"a":{"i":1}}}"#)
        var hits = hits(Self.some)
        #expect(hits.gone(at: written, in: tree) == [])
        tree.set(.null, at: removed)
        let gone = hits.gone(at: written, in: tree)
        #expect(!gone.isEmpty && gone.allSatisfy { $0.contains(removed) || removed.contains($0) })
        for path in gone { hits.apply(.forget(path)) }
        #expect(hits.count == left && hits.gone(at: .root, in: tree) == [])
        hits.apply(.forget(.root))
        #expect(hits.isEmpty && all(hits) == [])
    }

    /// Through the log, and through a snapshot of several parts.
    @Test func hits_areRecovered() async throws {
        let folder = try TemporaryFolder()
        let deep = Path((0..<32).map { Key("k\($0)") })
        var changes = (0..<300).map { Self.muted(Path(relative: "w/u\($0)"), Path(relative: "items/\u{1F600}\"\($0)"), Int64($0)) }
        changes += [Self.muted(deep, deep, .max, number: 7), .forget("w/u7"), .forget("nothing")]
        changes.append(Self.muted("w/u8", "items/\u{1F600}\"8", nil))
        let expected = hits(changes)
        func check(_ recovered: Recovered, replayed: Int) {
            #expect(all(recovered.watchHits) == all(expected) && recovered.watchHits.count == 299)
            #expect(recovered.watchHits.mutedUntil(watch: deep, number: 7, item: deep) == .max)
            #expect(recovered.replayed == replayed && recovered.root == ["n": 1])
        }
        do {
            let store = try JournalStore.open(folder: folder.path)
            let operations = [JournalOperation.set("n", 1)] + changes.map { .watch($0) }
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

    @Test(arguments: [
        #"[["h","a",0,"b"]]"#, #"[["h","a",-1,"b",5]]"#, #"[["h","a",0,"b","x"]]"#, #"[["h","a"]]"#, #"[["k"]]"#, #"[["k","a",5]]"#,
    ]) func damagedEntries_areRefused(_ text: String) {
        #expect(throws: EntryFault.self) { try Array(text.utf8).withUnsafeBytes { try [JournalOperation](entries: $0) } }
    }
}
