import Dispatch
import GRDB
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Chunks and their places, without a store.
@Suite(.timeLimit(.minutes(30))) struct ChunkTests {
    /// Writes the sections of a layout.
    /// - Returns: the resulting snapshot's layout.
    private func snapshot(_ root: Node, _ layout: ChunkLayout, _ stored: inout [Int64: [UInt8]], _ sizes: ChunkSizes) -> ChunkLayout {
        let run = SnapshotRun(
            "main", JournalSnapshot(root: root, sequence: 1), layout: layout, sizes: sizes, pace: SnapshotPace(WrittenBytes())) { _ in }
        // Chunks are stored one by one or several together.
        while run.encodeNext(most: Int.random(in: 0...3) * sizes.full) {
            run.store { chunk in
                let id = Int64(stored.count)
                stored[id] = chunk
                return id
            }
            run.keepStored()
        }
        return ChunkLayout(run.manifest.tree)
    }

    private func joined(_ layout: ChunkLayout, _ stored: [Int64: [UInt8]]) throws -> Node {
        var state = DurableState()
        for part in layout.parts {
            for operation in try (stored[part.chunk.id] ?? []).withUnsafeBytes({ try [JournalOperation](entries: $0) }) {
                state.apply(operation)
            }
        }
        return state.root
    }

    @Test(
        arguments: [.null, 1, "x", true, Node.int(1).with(priority: "p"), ["a": 1], (["a": ["b": 2]] as Node).with(priority: 1.5)] as [Node]
    )
    func chunks_ofASmallTree_areOneAndReadBack(root: Node) throws {
        var stored: [Int64: [UInt8]] = [:]
        let layout = snapshot(root, ChunkLayout(), &stored, ChunkSizes())
        #expect(layout.parts.count == (root.isNull ? 0 : 1))
        #expect(try joined(layout, stored) == root)
    }

    @Test func chunks_ofALargeTree_areCutAndKeepEveryPriority() throws {
        // Wide and deep, with priorities on split objects and a string that needs escapes throughout.
        let record = (["text": .string(String(repeating: "é\u{1}", count: 200)), "n": 1] as Node).with(priority: 3)
        let wide = Node.object((0..<2000).map { (Key("k\($0)"), record) }, priority: "wide")
        let root: Node = ["a": 1, "deep": ["b": (["c": wide, "d": "after"] as Node).with(priority: 2), "z": 0], "m": wide, "zz": "last"]
        var stored: [Int64: [UInt8]] = [:]
        let layout = snapshot(root, ChunkLayout(), &stored, ChunkSizes())
        #expect(layout.parts.count > 8)
        #expect(stored.values.allSatisfy { $0.count < 2 * ChunkSizes().full })
        #expect(try joined(layout, stored) == root)
    }

    @Test func chunks_aroundALongString_letItStandAlone() throws {
        let long = Node.string(String(repeating: "x", count: 3 << 20))
        let root: Node = ["a": ["before": 1, "long": long.with(priority: 4), "then": 2], "b": long, "c": 3]
        var stored: [Int64: [UInt8]] = [:]
        let layout = snapshot(root, ChunkLayout(), &stored, ChunkSizes())
        #expect(stored.values.filter { $0.count > 3 << 20 && $0.count < 3 << 20 + 200 }.count == 2)
        #expect(try joined(layout, stored) == root)
        #expect(try joined(snapshot(long, ChunkLayout(), &stored, ChunkSizes()), stored) == long)
    }

    @Test func chunks_whoseWholePlaceIsUnchanged_stayAsTheyAre() throws {
        let people = Node.object((0..<5000).map { (Key("p\(10_000 + $0)"), ["name": "somebody", "n": .int(Int64($0))] as Node) })
        var root: Node = ["people": people, "z": 1]
        var stored: [Int64: [UInt8]] = [:]
        let sizes = ChunkSizes(full: 4096, member: 512)
        var layout = snapshot(root, ChunkLayout(), &stored, sizes)
        let (before, count) = (layout.parts, stored.count)
        #expect(count > 30)
        // No change, no write; one changed record, one chunk written.
        layout = snapshot(root, layout, &stored, sizes)
        #expect(stored.count == count && layout.parts == before)
        root.set(["name": "else"], at: "people/p12345")
        layout.record(.set("people/p12345", ["name": "else"]))
        layout = snapshot(root, layout, &stored, sizes)
        #expect(stored.count == count + 1 && zip(layout.parts, before).filter { $0 != $1 }.count == 1)
        #expect(try joined(layout, stored) == root)
    }

    /// Compared with a tree in memory: random operations, occasional snapshots, small chunks and deep cuts.
    @Test(arguments: 1...40) func snapshots_ofRandomChanges_areTheTree(seed: Int) throws {
        var writer = Writer(MemoryJournal(), seed: UInt64(seed))
        writer.widest = seed % 3 == 0 ? 40 : 4
        var stored: [Int64: [UInt8]] = [:]
        var random = SeededRandom(UInt64(seed))
        let sizes = ChunkSizes(full: seed % 2 == 0 ? 60 : 200, member: seed % 5 == 0 ? 150 : 30)
        var layout = ChunkLayout()
        for _ in 0..<60 {
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                for operation in writer.batch().operations { layout.record(operation) }
            }
            // Further operations arrive during the snapshot; they are recorded in the old layout.
            let root = writer.root
            let old = layout
            layout.settle()
            for _ in 0..<Int.random(in: 0...2, using: &random) {
                for operation in writer.batch().operations { layout.record(operation) }
            }
            var made = snapshot(root, old, &stored, sizes)
            #expect(try joined(made, stored) == root)
            if Int.random(in: 0..<5, using: &random) == 0 {
                // The snapshot fails at the last moment: the old layout continues, with all recorded operations.
                layout.restore(old)
                continue
            }
            made.recordChanges(of: layout)
            layout = made
        }
        layout = snapshot(writer.root, layout, &stored, sizes)
        #expect(try joined(layout, stored) == writer.root)
    }

    @Test func manifest_readsBack() throws {
        let chunk = StoredChunk(id: .max, bytes: 7, checksum: .max)
        var manifest = SnapshotManifest()
        manifest.tree = [.init(start: .root, chunk: chunk), .init(start: "a/é \"q\"/9", chunk: StoredChunk(id: 2, bytes: 0, checksum: 0))]
        manifest.pending = [chunk]
        #expect(try manifest.encoded().withUnsafeBytes { try SnapshotManifest($0) } == manifest)
        manifest.hasPlaces = false
        manifest.tree = [.init(start: .root, chunk: chunk)]
        #expect(try manifest.encoded().withUnsafeBytes { try SnapshotManifest($0) } == manifest)
        for text in ["", "[]", "{\"tree\":[[1,2]]}", "{\"tree\":[[1,2,-1,\"\"]]}", "{\"tree\":[[1,2,3,\"a.b\"]]}", "{\"tree\":[1]}"] {
            #expect(throws: EntryFault.self) { try Array(text.utf8).withUnsafeBytes { _ = try SnapshotManifest($0) } }
        }
    }
}

/// Snapshots of a store.
@Suite(.timeLimit(.minutes(30))) struct SnapshotTests {
    private func smallChunks(bytes: Int = .max, batches: Int = .max) -> JournalStore.Settings {
        var settings = JournalStore.Settings(snapshotAfterBytes: bytes, snapshotAfterBatches: batches)
        settings.chunks = ChunkSizes(full: 2048, member: 512)
        return settings
    }

    private func chunkIDs(_ store: JournalStore) throws -> Set<Int64> {
        try store.database.writeWithoutTransaction { try Set(Int64.fetchAll($0, sql: "SELECT id FROM chunk")) }
    }

    /// Waits until the store has no background work left.
    private func settle(_ store: JournalStore, _ journal: SQLiteJournal) async throws {
        while true {
            let left = try await store.database.writeWithoutTransaction { db in
                let stored = try store.registry["main"].flatMap { try SnapshotManifest.stored(of: $0.id, db)?.manifest.chunks.count }
                    ?? 0
                let old = try Int.fetchOne(db, sql: "SELECT count(*) FROM batch WHERE sequence <= (SELECT sequence FROM snapshot)") ?? 0
                return try (Int.fetchOne(db, sql: "SELECT count(*) FROM chunk") ?? 0) - stored + old
            }
            if left == 0 { return }
            // Each commit waits behind the steps in progress.
            try await store.put(nil, "nothing")
        }
    }

    @Test func snapshot_whileCommitsGoOn_isTakenAndTheLogTrimmed() async throws {
        let folder = try TemporaryFolder()
        var store = try JournalStore.open(folder: folder.path, settings: smallChunks())
        var journal = store.journal(for: "main")
        var writer = Writer(journal, seed: 11)
        writer.widest = 30
        try await writer.write(batches: 300)
        for round in 0..<5 {
            let done = Completions()
            let snapshot = JournalSnapshot(root: writer.root, sequence: writer.sequence, pending: [])
            journal.store(snapshot, completion: done.record(round))
            while done.labels.isEmpty { try await writer.write(batches: 1) }
            #expect((try? done.results[0].get()) != nil)
        }
        try await settle(store, journal)
        let last = (root: writer.root, sequence: writer.sequence)
        let rows = try store.count("batch")
        try store.close()
        store = try JournalStore.open(folder: folder.path, settings: smallChunks())
        journal = store.journal(for: "main")
        let recovered = try store.recover("main")
        #expect(recovered.root == last.root && recovered.sequence == last.sequence && recovered.replayed == rows && rows < 300)
        try store.close()
    }

    @Test func snapshot_afterARestart_writesOnlyWhatChanged() async throws {
        let folder = try TemporaryFolder()
        var root: Node = ["people": .object((0..<500).map { (Key("p\(1000 + $0)"), ["n": .int(Int64($0)), "text": "something"] as Node) })]
        do {
            let store = try JournalStore.open(folder: folder.path, settings: smallChunks())
            let journal = store.journal(for: "main")
            try await journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, root)]))
            try await journal.finish(JournalSnapshot(root: root, sequence: 1))
            try store.close()
        }
        do {
            let store = try JournalStore.open(folder: folder.path, settings: smallChunks())
            let journal = store.journal(for: "main")
            try await journal.store(JournalBatch(sequence: 2, after: 1, operations: [.set("people/p1100/n", 7)]))
            try store.close()
        }
        let store = try JournalStore.open(folder: folder.path, settings: smallChunks())
        #expect(try store.recover("main").replayed == 1)
        let before = try chunkIDs(store)
        #expect(before.count > 5)
        root.set(7, at: "people/p1100/n")
        root.set(8, at: "people/p1400/n")
        let journal = store.journal(for: "main")
        try await journal.store(JournalBatch(sequence: 3, after: 2, operations: [.set("people/p1400/n", 8)]))
        try await journal.store(JournalSnapshot(root: root, sequence: 3))
        try await settle(store, journal)
        let after = try chunkIDs(store)
        #expect(after.count == before.count && after.subtracting(before).count == 2)
        let recovered = try store.recover("main")
        #expect(recovered.root == root && recovered.replayed == 0)
        try store.close()
    }

    /// While others write, two thirds of the disk time is theirs: after each chunk comes a pause of twice its duration, and of 50 ms at most.
    @Test(arguments: [(took: 10, pause: 20), (took: 24, pause: 48), (took: 2_000, pause: 50)] as [(took: Int64, pause: Int64)])
    func snapshot_pauses_whileOthersWrite(took: Int64, pause: Int64) async throws {
        let (folder, clock) = (try TemporaryFolder(), FakeClock())
        let isDone = Mutex(false)
        let root: Node = ["people": .object((0..<500).map { (Key("p\(1000 + $0)"), ["n": .int(Int64($0)), "text": "something"] as Node) })]
        let store = try JournalStore.open(folder: folder.path, settings: smallChunks(), scheduler: clock.scheduler)
        let journal = store.journal(for: "main")
        try await journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, root)]))
        store.snapshotter.encoding.suspend()
        journal.store(JournalSnapshot(root: root, sequence: 1)) { _ in isDone.withLock { $0 = true } }
        #expect(await becomes { store.queue.sync { store.snapshotter.isUnderWay } })
        // The first chunk takes that long, and another client writes meanwhile.
        store.holding {
            journal.append(JournalBatch(sequence: 2, after: 1, operations: [.set("x", 1)])) { _ in }
            store.snapshotter.encoding.resume()
            store.snapshotter.encoding.sync {}
            clock.advance(ms: took)
        }
        #expect(await becomes { clock.waiting == 1 })
        clock.advance(ms: pause - 1)
        #expect(clock.waiting == 1 && !isDone.withLock { $0 })
        clock.advance(ms: 1)
        // From here on the time stands still, and nothing is written.
        #expect(await becomes { isDone.withLock { $0 } })
        #expect(clock.waiting == 0)
        try store.close()
    }

    @Test func chunk_waits_whileTheLogIsCopied_andCommitsDoNot() async throws {
        let folder = try TemporaryFolder()
        let root: Node = ["people": .object((0..<500).map { (Key("p\(1000 + $0)"), ["n": .int(Int64($0)), "text": "something"] as Node) })]
        let store = try JournalStore.open(folder: folder.path, settings: smallChunks())
        let journal = store.journal(for: "main")
        try await journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, root)]))
        // The copy waits for this until the gate opens.
        let gate = DispatchSemaphore(value: 0)
        store.connections.checkpointer.asyncWriteWithoutTransaction { _ in gate.wait() }
        store.queue.sync { store.checkpointer.copy { _ in } }
        let isDone = Mutex(false)
        journal.store(JournalSnapshot(root: root, sequence: 1)) { _ in isDone.withLock { $0 = true } }
        #expect(await becomes {
            store.queue.sync { store.committer.deferredItems.contains { if case .step(.chunks) = $0.work { true } else { false } } }
        })
        for i in UInt64(2)...20 { try await journal.store(JournalBatch(sequence: i, after: i - 1, operations: [.set("n", .int(Int64(i)))])) }
        #expect(try store.count("chunk") == 0 && !isDone.withLock { $0 })
        gate.signal()
        #expect(await becomes { store.queue.sync { !store.checkpointer.isCopying } })
        try await store.put(nil, "nothing")
        #expect(await becomes { isDone.withLock { $0 } })
        #expect(store.queue.sync { !store.snapshotter.isUnderWay })
        try store.close()
    }

    @Test func changesOfManyBatches_areNotedBesideTheDecoding_asOneAfterTheOther() throws {
        for parts in [0, 1, 40] {
            let layout = ChunkLayout((0..<parts).map {
                .init(start: $0 == 0 ? .root : Path([Key("k\(1000 + $0 * 10)")]), chunk: StoredChunk(id: Int64($0), bytes: 1, checksum: 0))
            })
            var writer = Writer(MemoryJournal(), seed: UInt64(parts))
            writer.widest = 30
            var (whole, joined) = (layout, layout)
            for i in 0..<50 {
                var part = layout
                let operations = writer.batch().operations + [.set(Path([Key("k\(1000 + i * 13)")]), i % 3 == 0 ? .null : 1)]
                for operation in operations {
                    whole.record(operation)
                    part.record(operation)
                }
                joined.join(part)
                #expect(joined.isChanged == whole.isChanged)
            }
            // Where there are no chunks yet, changes are known once there are.
            let later = ChunkLayout((0..<7).map {
                .init(start: $0 == 0 ? .root : Path([Key("k\(1000 + $0 * 90)")]), chunk: StoredChunk(id: Int64($0), bytes: 1, checksum: 0))
            })
            var (fromWhole, fromJoined) = (later, later)
            fromWhole.recordChanges(of: whole)
            fromJoined.recordChanges(of: joined)
            #expect(fromWhole.isChanged == fromJoined.isChanged)
        }
    }

    @Test func snapshot_interrupted_leavesTheOldOneAndItsLeftoversAreRemoved() async throws {
        let (folder, copy) = (try TemporaryFolder(), try TemporaryFolder())
        let store = try JournalStore.open(folder: folder.path, settings: smallChunks())
        let journal = store.journal(for: "main")
        var writer = Writer(journal, seed: 12)
        writer.widest = 40
        try await writer.write(batches: 100)
        try await journal.store(JournalSnapshot(root: writer.root, sequence: writer.sequence))
        try await settle(store, journal)
        try await writer.write(batches: 20)
        // As a kill would leave it: chunks of an unfinished snapshot.
        try await store.database.writeWithoutTransaction {
            try $0.execute(sql: "INSERT INTO chunk (namespace, entries) VALUES (1, x'5b5d'), (1, x'5b5d')")
        }
        for name in ["vigla.sqlite", "vigla.sqlite-wal"] { try FileCopy.copy("\(folder.path)/\(name)", "\(copy.path)/\(name)") }
        try store.close()
        let again = try JournalStore.open(folder: copy.path, settings: smallChunks())
        let recovered = try again.recover("main")
        #expect(recovered.root == writer.root && recovered.sequence == writer.sequence && recovered.replayed == 20)
        try await settle(again, again.journal(for: "main"))
        try again.close()
    }

    @Test func snapshot_thatTheDiskRefuses_canBeMadeLaterWithEverything() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: smallChunks())
        let journal = store.journal(for: "main")
        var root: Node = ["people": .object((0..<500).map { (Key("p\(1000 + $0)"), ["n": .int(Int64($0)), "text": "something"] as Node) })]
        try await journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, root)]))
        try await journal.store(JournalSnapshot(root: root, sequence: 1))
        try await settle(store, journal)
        let change = Node.object((0..<500).map { (Key("q\(1000 + $0)"), ["n": .int(Int64($0)), "text": "something else"] as Node) })
        root.set(change, at: "people")
        try await journal.store(JournalBatch(sequence: 2, after: 1, operations: [.set("people", change)]))
        try await store.database.writeWithoutTransaction { db in
            let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
            try db.execute(sql: "PRAGMA max_page_count = \(pages + 3)")
        }
        await #expect { try await journal.store(JournalSnapshot(root: root, sequence: 2)) } throws: {
            if case JournalError.diskFull = $0 { true } else { false }
        }
        #expect(try store.recover("main").replayed == 1)
        try await store.database.writeWithoutTransaction { try $0.execute(sql: "PRAGMA max_page_count = 1073741823") }
        try await journal.store(JournalSnapshot(root: root, sequence: 2))
        try await settle(store, journal)
        let recovered = try store.recover("main")
        #expect(recovered.root == root && recovered.replayed == 0)
        try store.close()
    }

    @Test func snapshot_whileAnotherIsMade_followsIt() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: smallChunks())
        let journal = store.journal(for: "main")
        var writer = Writer(journal, seed: 13)
        writer.widest = 40
        let done = Completions()
        await withCheckedContinuation { continuation in
            for i in 0..<6 {
                for _ in 0..<10 { journal.append(writer.batch()) { _ in } }
                let record = done.record(i)
                journal.store(JournalSnapshot(root: writer.root, sequence: writer.sequence)) { result in
                    record(result)
                    if i == 5 { continuation.resume() }
                }
            }
        }
        #expect(done.labels == Array(0..<6) && done.results.allSatisfy { (try? $0.get()) != nil })
        try await settle(store, journal)
        let recovered = try store.recover("main")
        #expect(recovered.root == writer.root && recovered.replayed == 0)
        try store.close()
    }

    @Test func snapshots_thatTheEndOvertakes_areAllCompleted() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: smallChunks())
        let journal = store.journal(for: "main")
        var writer = Writer(journal, seed: 14)
        let (done, gate) = (Completions(), DispatchSemaphore(value: 0))
        // The first one is not encoded before the store is closed.
        store.snapshotter.encoding.async { gate.wait() }
        for i in 0..<3 {
            try await writer.write(batches: 10)
            journal.store(JournalSnapshot(root: writer.root, sequence: writer.sequence), completion: done.record(i))
        }
        try await writer.write(batches: 1)
        try store.close()
        #expect(done.labels.isEmpty)
        gate.signal()
        #expect(await becomes { done.labels.count == 3 })
        #expect(done.labels == [0, 1, 2])
        for result in done.results { #expect(throws: JournalError.closed) { try result.get() } }
    }

    @Test func snapshot_ofPendingSessions_isReadBack() async throws {
        let folder = try TemporaryFolder()
        let sessions = (0..<100).map { i in
            var writes = PendingWrites()
            writes.add(TreeWrite(Path([Key("s\(i)")]), WriteValue(["x": .int(Int64(i))])))
            return PendingSession(id: "session \(i)", auth: ["uid": "u"], isAdmin: i % 2 == 0, writes: writes)
        }
        let store = try JournalStore.open(folder: folder.path, settings: smallChunks())
        let journal = store.journal(for: "main")
        try await journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set("a", 1)]))
        try await journal.store(JournalSnapshot(root: ["a": 1], sequence: 1, pending: sessions))
        #expect(try store.recover("main").pending == sessions)
        #expect(try chunkIDs(store).count > 2)
        try store.close()
    }

    /// A snapshot is requested once at the limit, not below it, and again after as much again.
    @Test(arguments: [(1000, Int.max), (Int.max, 10)]) func snapshot_whenTheLogHasGrown_isAskedFor(bytes: Int, batches: Int) async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: smallChunks(bytes: bytes, batches: batches))
        let journal = store.journal(for: "main")
        let asked = Mutex(0)
        journal.whenSnapshotDue { asked.withLock { $0 += 1 } }
        // 100 stored bytes each.
        func batch(_ i: UInt64) -> JournalBatch {
            JournalBatch(
                sequence: i, after: i - 1,
                operations: [.set("n", .string(String(repeating: "x", count: 100 - #"[["s","n",""]]"#.utf8.count)))])
        }
        for i in UInt64(1)...9 { try await journal.store(batch(i)) }
        #expect(asked.withLock { $0 } == 0)
        for i in UInt64(10)...15 { try await journal.store(batch(i)) }
        #expect(asked.withLock { $0 } == 1)
        try await journal.store(JournalSnapshot(root: store.recover("main").root, sequence: 15))
        for i in UInt64(16)...24 { try await journal.store(batch(i)) }
        #expect(asked.withLock { $0 } == 1)
        try await journal.store(batch(25))
        #expect(asked.withLock { $0 } == 2)
        // A tree of another moment is not accepted; the snapshot is requested again.
        await #expect(throws: JournalError.conflict(expected: 24, last: 25)) {
            try await journal.store(JournalSnapshot(root: 1, sequence: 24))
        }
        try await journal.store(batch(26))
        #expect(asked.withLock { $0 } == 3)
        try store.close()
    }

    @Test func snapshot_dueAtTheStart_isAskedForAtOnce() async throws {
        let folder = try TemporaryFolder()
        do {
            let store = try JournalStore.open(folder: folder.path)
            var writer = Writer(store.journal(for: "main"), seed: 14)
            try await writer.write(batches: 12)
            try store.close()
        }
        let store = try JournalStore.open(folder: folder.path, settings: smallChunks(batches: 10))
        _ = try store.recover("main")
        let journal = store.journal(for: "main")
        await withCheckedContinuation { continuation in journal.whenSnapshotDue { continuation.resume() } }
        try store.close()
    }

    @Test func batch_tooLargeForOneRow_isStoredInPartsAndRecoveredWhole() async throws {
        let folder = try TemporaryFolder()
        var settings = JournalStore.Settings()
        settings.batches = BatchParts(fullBytes: 500, largeBytes: 2000)
        let store = try JournalStore.open(folder: folder.path, settings: settings)
        let journal = store.journal(for: "main")
        var root = Node.null
        var sequence: UInt64 = 0
        func commit(_ operations: [JournalOperation]) async throws {
            for operation in operations { root.apply(operation) }
            sequence += 1
            try await journal.store(JournalBatch(sequence: sequence, after: sequence - 1, operations: operations))
        }
        let wide = Node.object((0..<300).map { (Key("k\($0)"), ["n": .int(Int64($0)), "deep": ["x": "y"]] as Node) }, priority: "wide")
        // In an object that has only a priority: it must not disappear when its only child is replaced.
        try await commit([.set("a", (["b": 1] as Node).with(priority: 5))])
        try await commit([.set("a/b", wide), .priority("a/b", 9), .set("c", 1)])
        try await commit([.set("a/b", wide), .set("a/b/k7", .null)])
        try await commit([.set(.root, ["x": wide, "y": 2]), .set("z", wide)])
        try await commit((0..<100).map { .set(Path([Key("s\($0)")]), .string(String(repeating: "x", count: 50))) })
        #expect(try store.count("batch") > 50)
        let recovered = try store.recover("main")
        #expect(recovered.root == root && recovered.sequence == sequence && recovered.replayed == 5)
        // A follower that reads it gets the same tree.
        let tailed = Mutex((root: Node.null, last: UInt64(0)))
        let (last, end) = (sequence, root)
        await withCheckedContinuation { continuation in
            journal.tail(from: 0) { event in
                guard case .batch(let batch) = event else { return }
                tailed.withLock { tailed in
                    for operation in batch.operations { tailed.root.apply(operation) }
                    #expect(batch.expectedLast == tailed.last)
                    tailed.last = batch.sequence
                }
                if batch.sequence == last { continuation.resume() }
            }
        }
        #expect(tailed.withLock { $0.root } == end)
        try store.close()
    }
}
