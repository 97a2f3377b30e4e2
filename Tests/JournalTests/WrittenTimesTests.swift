import JSONTree
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Write times of nodes, stored next to the tree.
@Suite(.timeLimit(.minutes(30))) struct WrittenTimesTests {
    private func entries(_ times: WrittenTimes) -> [String] {
        var all: [String] = []
        times.forEach { all.append("\($0) \($1)") }
        return all
    }

    @Test func times_areOfPlacesAboveAndBelowEachOther() {
        var times = WrittenTimes()
        (times["a"], times["a/b/c"], times["b"], times[.root]) = (1, 2, 3, 4)
        #expect(times.count == 4 && times["a"] == 1 && times["a/b"] == nil && times["a/b/c"] == 2 && times[.root] == 4)
        let before = times
        (times["a"], times["b"], times["c"]) = (nil, 5, nil)
        #expect(entries(times) == ["/ 4", "/a/b/c 2", "/b 5"] && times.count == 3)
        #expect(before["a"] == 1 && before["b"] == 3 && before.count == 4, "a copy stays")
        (times[.root], times["a/b/c"], times["b"]) = (nil, nil, nil)
        #expect(times == WrittenTimes())
    }

    /// A large write sets the time of nodes above, at and below its places, not of their siblings. It replaces earlier times until the node is
    /// written again.
    @Test func openWrite_isTheTimeOfWhatItTouches() {
        var (times, places) = (WrittenTimes(), WrittenPlaces())
        for path in ["w/x/deep", "w/y", "w/x", "v/z/1"] as [Path] { places.insert(path) }
        #expect(places.tree == ["w": ["x": true, "y": true], "v": ["z": ["1": true]]])
        (times["w/x"], times["w/y"], times["w/q"]) = (50, 200, 60)
        times.apply(.open(7, OpenWrite(ms: 100, places: places)))
        times.apply(.open(9, OpenWrite(ms: 90, places: WrittenPlaces("w/q"))))
        let told = (["w/x", "w/y", "w/q", "w/x/below", "v/z", "v/z/2", "v/y", "u"] as [Path]).map { times.time(of: $0) }
        #expect(told == [100, 100, 90, 100, 100, nil, nil, nil])
        times["w/y"] = 40
        #expect(times.time(of: "w/y") == 40, "written since, by a clock that was set back")
        #expect(times["w/x"] == 50 && times.count == 3 && !times.isEmpty)
        var again = WrittenTimes()
        for operation in times.operations { again.apply(operation) }
        #expect(again == times && again.time(of: "w/y") == 40 && again.time(of: "w/x") == 100)
        // One that was removed since, and one after two writes.
        var more = times
        more["w/q"] = nil
        more.apply(.open(11, OpenWrite(ms: 80, places: WrittenPlaces("w"))))
        more["w/x"] = 70
        again = WrittenTimes()
        for operation in more.operations { again.apply(operation) }
        #expect(again == more && (["w/q", "w/x", "w/y", "v/z"] as [Path]).map { again.time(of: $0) } == [80, 70, 80, 100])
        for number in [7, 9] as [UInt64] { times.apply(.open(number, nil)) }
        #expect(times.time(of: "w/x") == 50 && times.open.isEmpty)
        let all = WrittenPlaces(.root)
        #expect(all.overlaps("any/where") && all.overlaps(.root) && !WrittenPlaces().overlaps(.root))
    }

    /// Through the log, and through a snapshot of several parts.
    @Test func times_areRecovered() async throws {
        let folder = try TemporaryFolder()
        var times = WrittenTimes()
        var operations: [JournalOperation] = [.set("n", 1)]
        for i in 0..<3_000 { operations.append(.written(Path([Key("place"), Key("k\(i)"), Key("x")]), Int64(1_700_000_000_000 + i))) }
        operations += [.written("place/k7/x", nil), .written("place/k8/x", 5), .written("none", nil), .written(.root, -3)]
        let deep = Path((0..<Path.maxDepth).map { Key("d\($0)") })
        operations += [.open(3, OpenWrite(ms: 17, places: WrittenPlaces(deep))), .open(4, OpenWrite(ms: 18, places: WrittenPlaces(.root)))]
        operations += [.open(5, OpenWrite(ms: 19, places: WrittenPlaces("a"))), .open(4, nil), .open(6, nil)]
        for operation in operations { times.apply(operation) }
        #expect(times.count == 3_000 && times.open.keys.sorted() == [3, 5])
        do {
            let store = try JournalStore.open(folder: folder.path)
            try await store.journal(for: "main").store(JournalBatch(sequence: 1, after: 0, operations: operations))
            try store.close()
        }
        do {
            let store = try JournalStore.open(folder: folder.path)
            let recovered = try store.recover("main")
            #expect(recovered.written == times && recovered.replayed == 1 && recovered.root == ["n": 1])
            var settings = JournalStore.Settings()
            settings.chunks.full = 4_000
            try store.close()
            let other = try JournalStore.open(folder: folder.path, settings: settings)
            var beside = StateBesideTree()
            beside.written = times
            try await other.journal(for: "main").finish(JournalSnapshot(root: ["n": 1], sequence: 1, beside: beside))
            try other.close()
        }
        let store = try JournalStore.open(folder: folder.path)
        let recovered = try store.recover("main")
        #expect(recovered.written == times && recovered.replayed == 0 && recovered.root == ["n": 1])
        #expect(try store.count("chunk") > 10)
        try store.close()
    }

    @Test(arguments: [#"[["w","a"]]"#, #"[["w","a","x"]]"#, #"[["w","a",1.5]]"#, #"[["w","a",{"b":1}]]"#, #"[["w","a",1,2]]"#, #"[["w"]]"#,
        #"[["t"]]"#, #"[["t","a"]]"#, #"[["t",1,2]]"#, #"[["t",-1]]"#, #"[["t",1,2,true,3]]"#])
    func brokenEntry_isRefused(_ text: String) {
        #expect(throws: EntryFault.self) { try Array(text.utf8).withUnsafeBytes { try [JournalOperation](entries: $0) } }
    }
}
