import JSONTree
import Testing

@testable import Journal

@Suite struct SnapshotTests {
    private func chunks(_ root: Node) throws -> [[UInt8]] {
        var chunks: [[UInt8]] = []
        try ChunkWriter.write(root) { chunks.append($0) }
        return chunks
    }

    private func joined(_ chunks: [[UInt8]]) throws -> Node {
        var state = DurableState()
        for chunk in chunks { try chunk.withUnsafeBytes { try state.apply(entries: $0) } }
        return state.root
    }

    @Test(arguments: [.null, 1, "x", true, Node.int(1).with(priority: "p"), ["a": 1], (["a": ["b": 2]] as Node).with(priority: 1.5)] as [Node])
    func chunks_ofASmallTree_areOneAndReadBack(root: Node) throws {
        let chunks = try chunks(root)
        #expect(chunks.count == (root.isNull ? 0 : 1))
        #expect(try joined(chunks) == root)
    }

    @Test(arguments: 1...4) func chunks_ofRandomTrees_readBack(seed: Int) throws {
        var writer = Writer(MemoryJournal(), seed: UInt64(seed))
        for _ in 0..<100 {
            _ = writer.batch()
            #expect(try joined(chunks(writer.root)) == writer.root)
        }
    }

    @Test func chunks_ofALargeTree_areCutAndKeepEveryPriority() throws {
        // Wide and deep, with priorities on split objects and a string that needs escapes throughout.
        let record = (["text": .string(String(repeating: "é\u{1}", count: 200)), "n": 1] as Node).with(priority: 3)
        let wide = Node.object((0..<5000).map { (Key("k\($0)"), record) }, priority: "wide")
        let root: Node = ["a": 1, "deep": ["b": (["c": wide, "d": "after"] as Node).with(priority: 2), "z": 0], "m": wide, "zz": "last"]
        let chunks = try chunks(root)
        #expect(chunks.count > 4)
        #expect(chunks.allSatisfy { $0.count <= ChunkWriter.maxChunkBytes })
        #expect(try joined(chunks) == root)
    }

    @Test func chunks_aroundALongString_letItStandAlone() throws {
        let long = Node.string(String(repeating: "x", count: 3 << 20))
        let root: Node = ["a": ["before": 1, "long": long.with(priority: 4), "then": 2], "b": long, "c": 3]
        let chunks = try chunks(root)
        #expect(chunks.filter { $0.count > ChunkWriter.maxChunkBytes }.count == 2)
        #expect(try joined(chunks) == root)
        #expect(try joined(self.chunks(long)) == long)
    }

    private func person(_ i: Int) -> Node {
        let (name, latitude) = (Node.string("person number \(i)"), Node.number(Double(i) / 7))
        return ["name": name, "lat": latitude, "on": .bool(i % 2 == 0), "at": .int(1_700_000_000_000 + Int64(i)), "tag": "x"]
    }

    @Test func snapshot_of100000Nodes_isRecoveredFromChunks() async throws {
        let folder = try TemporaryFolder()
        let people = Node.object((0..<20_000).map { (Key("-N\(1_000_000 + $0)"), person($0)) })
        let root: Node = ["people": people, "count": 20_000]
        do {
            let store = try JournalStore.open(folder: folder.path)
            let journal = store.journal(for: "main")
            try await journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, root)]))
            try await journal.finish(JournalSnapshot(root: root, sequence: 1))
            try store.close()
        }
        let store = try JournalStore.open(folder: folder.path)
        #expect((store.registry["main"]?.snapshotChunks ?? 0) > 1)
        var recovered = try store.recover("main")
        #expect(recovered.root == root && recovered.sequence == 1 && recovered.replayed == 0)
        // A second snapshot replaces the first one.
        recovered.root.set(.null, at: "people")
        let journal = store.journal(for: "main")
        try await journal.store(JournalBatch(sequence: 2, after: 1, operations: [.set("people", .null)]))
        try await journal.finish(JournalSnapshot(root: recovered.root, sequence: 2))
        let again = try store.recover("main")
        #expect(again.root == ["count": 20_000] && again.replayed == 0 && again.sequence == 2)
        try store.close()
    }
}
