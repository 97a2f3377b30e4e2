import Dispatch
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// The shutdown: which data is still stored, and which is abandoned so that no caller waits for it.
@Suite(.timeLimit(.minutes(30))) struct EndingTests {
    /// About forty chunks, a few per step.
    private static let root: Node = [
        "people": .object((0..<1000).map { (Key("p\(1000 + $0)"), ["n": .int(Int64($0)), "text": "something"] as Node) })
    ]
    private static func settings(lastSnapshotBytes: Int = 16 << 20) -> JournalStore.Settings {
        var settings = JournalStore.Settings.smallSlices
        settings.sliceBytes = 4 << 10
        settings.chunks = ChunkSizes(full: 1024, member: 512)
        settings.lastSnapshotBytes = lastSnapshotBytes
        return settings
    }

    @Test func snapshotUnderWay_endsWithItsStep_andTheNextStartReplays() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        let journal = store.journal(for: "main")
        try await journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, Self.root)]))
        store.snapshotter.encoding.suspend()
        let results = Completions()
        let snapshot = JournalSnapshot(root: Self.root, sequence: 1)
        journal.store(snapshot, completion: results.record(1))
        #expect(await becomes { store.queue.sync { store.snapshotter.isUnderWay } })
        journal.store(snapshot, completion: results.record(2))
        store.prepareToClose()
        store.snapshotter.encoding.resume()
        #expect(await becomes { results.labels.count == 2 })
        #expect(results.results.allSatisfy { $0.failure == .closed })
        let chunks = try store.count("chunk")
        #expect((1...8).contains(chunks), "\(chunks) of some forty")
        await #expect(throws: JournalError.closed) { try await journal.store(snapshot) }
        // Batches appended until the shutdown are stored.
        try await journal.store(JournalBatch(sequence: 2, after: 1, operations: [.set("last", 1)]))
        try store.close()
        let again = try JournalStore.open(folder: folder.path, settings: Self.settings())
        let recovered = try again.recover("main")
        #expect(recovered.root.child("people") == Self.root.child("people") && recovered.root.child("last") == 1 && recovered.replayed == 2)
        #expect(try await becomes { try again.count("chunk") == 0 })
        try again.close()
    }

    /// By the bytes of the log, and by those of the changed chunks.
    @Test func lastSnapshot_isStored_ifItIsSmall_andElseLeftOut() async throws {
        for isFirst in [true, false] {
            // Measures the bytes first, then sets limits on both sides.
            var bytes: Int?
            for excess in [nil, 1, 0] {
                let folder = try TemporaryFolder()
                let limit = bytes.flatMap { bytes in excess.map { bytes - $0 } }
                let store = try JournalStore.open(folder: folder.path, settings: Self.settings(lastSnapshotBytes: limit ?? 0))
                let journal = store.journal(for: "main")
                var root = Self.root
                try await journal.store(JournalBatch(sequence: 1, after: 0, operations: [.set(.root, root)]))
                if !isFirst {
                    try await journal.store(JournalSnapshot(root: root, sequence: 1))
                    root.set(7, at: "people/p1500/n")
                    try await journal.store(JournalBatch(sequence: 2, after: 1, operations: [.set("people/p1500/n", 7)]))
                }
                if bytes == nil {
                    bytes = store.queue.sync { store.snapshotter.unsavedBytes(of: "main") }
                    #expect(try isFirst == (#require(bytes) > 10_000), "a chunk and a few bytes more")
                }
                store.prepareToClose()
                let snapshot = JournalSnapshot(root: root, sequence: isFirst ? 1 : 2)
                let isStored = limit != nil && excess == 0
                if isStored { try await journal.store(snapshot) } else {
                    await #expect(throws: JournalError.closed) { try await journal.store(snapshot) }
                }
                try store.close()
                let again = try JournalStore.open(folder: folder.path, settings: Self.settings())
                let recovered = try again.recover("main")
                #expect(recovered.root == root && recovered.replayed == (isStored ? 0 : 1), "\(isFirst), \(limit ?? 0)")
                try again.close()
            }
        }
    }

    @Test func removal_doesNotBegin_andTheNextStartMakesUpForIt() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: Self.settings())
        let journal = store.journal(for: "main")
        for i: UInt64 in 1...300 { try await journal.store(.small(i)) }
        let isStored = Completions()
        journal.store(JournalSnapshot(root: ["n": 300], sequence: 300)) { [weak store] result in
            store?.prepareToClose()
            isStored.record(1)(result)
        }
        #expect(await becomes { !isStored.labels.isEmpty })
        try store.close()
        let again = try JournalStore.open(folder: folder.path, settings: Self.settings())
        #expect(try again.count("batch") == 300)
        #expect(try again.recover("main").replayed == 0)
        #expect(try await becomes { try again.count("batch") == 0 })
        try again.close()
    }

    @Test(arguments: [true, false]) func largeBatch_isGivenUp_ifTheEndIsLate_andElseStored(isLate: Bool) async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        try await journal.store(.small(1))
        let results = Completions()
        store.stages.encoding.suspend()
        journal.append(
            JournalBatch(sequence: 2, after: 1, operations: [.set("wide", .wide(300)), .set("n", 2)]), completion: results.record(2))
        journal.append(.small(3), completion: results.record(3))
        #expect(await becomes { store.queue.sync { store.stages.isStoring("main") } })
        let closed = Mutex<JournalError??>(nil)
        store.close(isLate: isLate) { error in closed.withLock { $0 = .some(error) } }
        #expect(await becomes { store.journalQueue.isClosed })
        store.stages.encoding.resume()
        #expect(await becomes { closed.withLock { $0 != nil } })
        #expect(closed.withLock { $0 } == .some(nil))
        #expect(results.labels == [2, 3])
        #expect(results.results.map(\.failure) == (isLate ? [.closed, .closed] : [nil, nil]))
        let again = try JournalStore.open(folder: folder.path)
        let recovered = try again.recover("main")
        #expect(recovered.sequence == (isLate ? 1 : 3) && recovered.root.child("n") == (isLate ? 1 : 3) && recovered.root.child("wide").exists != isLate)
        try again.close()
    }
}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
