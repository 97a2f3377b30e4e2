import GRDB
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

/// Operations that are stored ahead of their batch.
@Suite(.timeLimit(.minutes(30))) struct StageTests {
    /// A batch of these operations only, all of them staged.
    private static func staged(_ sequence: UInt64, _ operations: [JournalOperation], _ stage: JournalStage) -> JournalBatch {
        JournalBatch(sequence: sequence, after: sequence - 1, operations: operations, staged: [.init(0..<operations.count, stage)])
    }

    /// Bytes of rows of batches and parts that are in the folder.
    private func storedBytes(_ table: String, _ store: JournalStore) throws -> Int {
        try store.connections.reader.writeWithoutTransaction {
            try Int.fetchOne($0, sql: "SELECT coalesce(sum(length(operations)), 0) FROM \(table)") ?? 0
        }
    }

    @Test func batchOfAStage_writesAsLittleAsASmallOne_andIsRecoveredWhole() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        try await journal.store(.small(1))
        let operations: [JournalOperation] = [.set("before", 1), .set("wide", .wide(300)), .priority("wide", 5)]
        let stage = try await journal.stage(operations)
        #expect(stage.bytes > 290_000 && stage.parts > 16)
        #expect(try store.recover("main").root == ["n": 1])
        let parts = try storedBytes("part", store)
        // Counts everything written between the commit and the next one.
        let completions = Completions()
        await withCheckedContinuation { continuation in
            store.holding {
                journal.append(Self.staged(2, operations, stage), completion: completions.record(2))
                journal.append(.small(3)) { result in
                    completions.record(3)(result)
                    continuation.resume()
                }
                // In one transaction: nothing was deferred.
                #expect(store.committer.deferredItems.isEmpty)
            }
        }
        #expect(completions.labels == [2, 3] && completions.results.allSatisfy { (try? $0.get()) != nil })
        #expect(try storedBytes("part", store) == parts)
        #expect(try storedBytes("batch", store) < 100)
        var root: Node = ["n": 1]
        for operation in operations + JournalBatch.small(3).operations { root.apply(operation) }
        let recovered = try store.recover("main")
        #expect(recovered.root == root && recovered.sequence == 3 && recovered.replayed == 3)
        try store.expectKept(root, upTo: 3, in: folder)
    }

    @Test func commitsOfItsNamespace_goOnWhileAStageIsStored() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        let completions = Completions()
        let operations: [JournalOperation] = [.set("wide", .wide(300))]
        let stage: JournalStage = try await withCheckedThrowingContinuation { continuation in
            journal.stage(operations) { result in
                completions.record(0)(result.map { _ in })
                continuation.resume(with: result)
            }
            @Sendable func next(_ sequence: UInt64) {
                journal.append(.small(sequence)) { result in
                    completions.record(Int(sequence))(result)
                    if !completions.labels.contains(0) { next(sequence + 1) }
                }
            }
            next(1)
        }
        let before = try #require(completions.labels.firstIndex(of: 0))
        #expect(before >= 5, "\(completions.labels)")
        try await journal.idle()
        let last = try #require(completions.labels.filter { $0 > 0 }.last)
        try await journal.store(Self.staged(UInt64(last + 1), operations, stage))
        #expect(try store.recover("main").root == ["n": .int(Int64(last)), "wide": .wide(300)])
        try store.close()
    }

    @Test func stageBetweenOtherOperations_keepsTheirOrder_alsoWhenTheyAreMany() async throws {
        for kilobytes in [1, 60] {
            let folder = try TemporaryFolder()
            let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
            let journal = store.journal(for: "main")
            let heard = Mutex<[JournalBatch]>([])
            let first: [JournalOperation] = [.set("a", .wide(40)), .set("a/k1", "one")]
            let second: [JournalOperation] = [.set("b", .wide(30)), .set("a/k2", .null)]
            let between: [JournalOperation] = [.set("a/k1", "two"), .set("b", .wide(kilobytes, seed: 5))]
            let operations = [.set("a", 7), .set("c", .wide(kilobytes))] + first + between + second
                + [.set("b/k3", "last"), .set("d", .wide(kilobytes))]
            let staged: [JournalBatch.StagedRange] = [
                .init(2..<4, try await journal.stage(first)), .init(6..<8, try await journal.stage(second)),
            ]
            let batch = JournalBatch(sequence: 4, after: 0, operations: operations, staged: staged)
            try await journal.store(batch)
            try await journal.store(.small(5))
            var root = Node.null
            for operation in operations + JournalBatch.small(5).operations { root.apply(operation) }
            #expect(try store.recover("main").root == root)
            journal.tail(from: 0) { event in if case .batch(let batch) = event { heard.withLock { $0.append(batch) } } }
            #expect(await becomes { heard.withLock { $0.map(\.sequence) } == [4, 5] })
            var told = Node.null
            for operation in heard.withLock({ $0 }).flatMap(\.operations) { told.apply(operation) }
            #expect(told == root)
            try store.close()
        }
    }

    @Test func stageThatIsLetGoOf_isRemoved_andThoseThatAreHeldOrUnderWayAreNot() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        let operations: [JournalOperation] = [.set("wide", .wide(100))]
        let held = try await journal.stage(operations)
        var dropped: JournalStage? = try await journal.stage(operations)
        #expect(dropped.map(\.parts) == held.parts)
        #expect(try store.count("part") == 2 * held.parts)
        dropped = nil
        #expect(try await becomes { try store.count("part") == held.parts })
        // One stage is released in the middle of another.
        let other = Mutex<JournalStage?>(nil)
        dropped = try await journal.stage(operations)
        store.holding {
            journal.stage([.set("other", .wide(300))]) { result in other.withLock { $0 = try? result.get() } }
            dropped = nil
        }
        #expect(await becomes { other.withLock { $0 != nil } })
        let parts = try #require(other.withLock { $0?.parts })
        #expect(try await becomes { try store.count("part") == held.parts + parts })
        try await journal.store(Self.staged(1, operations, held))
        try await journal.store(Self.staged(2, [.set("other", .wide(300))], try #require(other.withLock { $0.take() })))
        #expect(try store.recover("main").root == ["wide": .wide(100), "other": .wide(300)])
        try store.close()
    }

    /// As a kill leaves it: complete, but without a batch.
    @Test func stageWithoutABatch_isNothingAfterAStart_andRemoved() async throws {
        let folder = try TemporaryFolder()
        var store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        try await store.journal(for: "main").store(.small(1))
        let stage = try await store.journal(for: "main").stage([.set("wide", .wide(100))])
        try store.close()
        store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        #expect(try store.recover("main").root == ["n": 1])
        let next = try await store.journal(for: "main").stage([.set("other", .wide(50))])
        #expect(next.number > stage.number)
        try await store.journal(for: "main").store(Self.staged(2, [.set("other", .wide(50))], next))
        #expect(try await becomes { try store.count("part") == next.parts })
        #expect(try store.recover("main").root == ["n": 1, "other": .wide(50)])
        try store.close()
    }

    @Test func stageThatTheDiskRefuses_leavesNothing_andRefusesNothingElse() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        try await journal.store(.small(1))
        try store.database.execute("PRAGMA max_page_count = 60")
        await #expect { try await journal.stage([.set("wide", .wide(300))]) } throws: {
            if case JournalError.diskFull = $0 { true } else { false }
        }
        // Its space is available to others again.
        #expect(try await becomes { try store.count("part") == 0 })
        try await journal.store(.small(2))
        try await journal.store(.small(3))
        #expect(try store.recover("main").root == ["n": 3])
        try store.close()
    }

    @Test func stageOfAClosedStore_ends() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        let results = Completions()
        store.holding {
            for label in 0..<3 { journal.stage([.set("wide", .wide(300))]) { result in results.record(label)(result.map { _ in }) } }
        }
        try store.close()
        #expect(await becomes { results.labels.count == 3 })
        await #expect(throws: JournalError.closed) { try await journal.stage([.set("wide", .wide(300))]) }
    }

    /// Random batches and stages, concurrent and in any order, some of them released. After each start the tree equals the writer's.
    @Test(arguments: 0..<6) func model_ofStagesAndBatches(seed: UInt64) async throws {
        var random = SeededRandom(seed)
        let folder = try TemporaryFolder()
        var (root, sequence) = (Node.null, UInt64(0))
        for _ in 0..<4 {
            let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
            let journal = store.journal(for: "main")
            #expect(try store.recover("main").root == root)
            var stages: [(operations: [JournalOperation], stage: JournalStage)] = []
            for _ in 0..<Int.random(in: 5...15, using: &random) {
                switch Int.random(in: 0..<6, using: &random) {
                case 0, 1:
                    let key = ["a", "b", "c"].randomElement(using: &random) ?? "a"
                    let node = Node.wide(Int.random(in: 1...80, using: &random), seed: Int.random(in: 0...9, using: &random))
                    stages.append(([.set(Path([Key(key)]), node)], try await journal.stage([.set(Path([Key(key)]), node)])))
                case 2 where !stages.isEmpty: stages.remove(at: Int.random(in: 0..<stages.count, using: &random))
                case 3 where !stages.isEmpty, 4 where !stages.isEmpty:
                    let (operations, stage) = stages.remove(at: Int.random(in: 0..<stages.count, using: &random))
                    let others: [JournalOperation] = [.set("a/n", .int(Int64(sequence)))]
                    let batch = JournalBatch(
                        sequence: sequence + 2, after: sequence, operations: others + operations + others,
                        staged: [.init(1..<(1 + operations.count), stage)])
                    try await journal.store(batch)
                    for operation in batch.operations { root.apply(operation) }
                    sequence += 2
                default:
                    sequence += 1
                    try await journal.store(.small(sequence))
                    for operation in JournalBatch.small(sequence).operations { root.apply(operation) }
                }
            }
            if Bool.random(using: &random), sequence > 0 { try await journal.store(JournalSnapshot(root: root, sequence: sequence)) }
            try store.close()
        }
        let store = try JournalStore.open(folder: folder.path)
        let recovered = try store.recover("main")
        #expect(recovered.root == root && recovered.sequence == sequence)
        try store.close()
    }

    private static let changes = [
        "UPDATE batch SET parts = parts - 1 WHERE stage > 0",
        "UPDATE batch SET parts = parts + 1 WHERE stage > 0",
        "UPDATE batch SET parts = 0 WHERE stage > 0",
        "UPDATE batch SET parts = -1 WHERE stage > 0",
        "UPDATE batch SET stage = 0 WHERE stage > 0",
        "UPDATE batch SET stage = 3 - stage WHERE stage > 0",
        "UPDATE part SET stage = stage + 1 WHERE stage = 2",
        "UPDATE part SET stage = stage + 10; UPDATE part SET stage = 13 - stage",
        """
        UPDATE part SET number = -1 WHERE number = 1; UPDATE part SET number = 1 WHERE number = 0;
        UPDATE part SET number = 0 WHERE number = -1
        """,
        "DELETE FROM part WHERE stage = 1 AND number = 0",
    ]

    @Test(arguments: changes) func recovery_ofChangedStages_isRefused(change: String) async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, settings: .smallSlices)
        let journal = store.journal(for: "main")
        for sequence: UInt64 in 1...2 {
            let operations: [JournalOperation] = [.set("wide", .wide(50, seed: Int(sequence)))]
            try await journal.store(Self.staged(sequence, operations, try await journal.stage(operations)))
        }
        try store.close()
        try folder.change(change)
        try folder.expectRefused()
    }
}

extension SQLiteJournal {
    func stage(_ operations: [JournalOperation]) async throws -> JournalStage {
        try await withCheckedThrowingContinuation { continuation in stage(operations) { continuation.resume(with: $0) } }
    }

    /// Waits until all appended work is done.
    func idle() async throws {
        try await withCheckedContinuation { continuation in
            truncate(upTo: 0) { continuation.resume(returning: $0) }
        }.get()
    }
}
