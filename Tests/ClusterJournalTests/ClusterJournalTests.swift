import JSONTree
import Scheduling
import Synchronization
import TestCluster
import Testing
import TestSupport

@testable import ClusterJournal
@testable import Journal
@testable import SQLiteJournal

/// Several hubs on one log.
@Suite(.timeLimit(.minutes(30)), .enabled(if: TestCluster.program != nil, "\(TestCluster.absent)")) struct ClusterJournalTests {
    private let cluster: TestCluster

    init() throws { cluster = try TestCluster.shared.get() }

    private func batch(_ sequence: UInt64, id: UInt64? = nil, epoch: UInt64 = 1, _ value: Node = true) -> JournalBatch {
        JournalBatch(sequence: sequence, after: sequence - 1, operations: [.set("n", value)], id: id ?? sequence, epoch: epoch)
    }

    @Test func batch_ofOneHub_isHeardOnAll_withItsCommitsIdAndEpoch() async throws {
        let hubs = try (0..<3).map { _ in try ClusterHub(cluster, "several") }
        let recorders = try hubs.map { Recorder(try $0.storage.open("main").journal) }
        let writer = try hubs[0].storage.open("main")
        var batches: [JournalBatch] = []
        for i in 0..<20 {
            var batch = JournalBatch(after: batches.last?.sequence ?? 0)
            batch.append([.set(Path(["k", Key("\(i)")]), ["text": .string(Text("é \(i)"))])], pending: [.forget(session: "s\(i)")])
            batch.append([])
            (batch.id, batch.epoch) = (UInt64.max - UInt64(i), writer.epoch)
            batches.append(batch)
            try await writer.journal.store(batch)
        }
        for recorder in recorders {
            #expect(await becomes { recorder.last == 40 })
            #expect(recorder.batches == batches)
        }
        for hub in hubs { await hub.close() }
        // Each has all of it in its own folder.
        for hub in hubs {
            let store = try JournalStore.open(folder: hub.folder.path, scheduler: .system())
            let recovered = try store.recover("main")
            #expect(recovered.sequence == 40 && recovered.root.node(at: "k").children.count == 20 && recovered.epoch == 1)
            try store.close()
        }
    }

    @Test func hubs_thatWriteTheSameNamespace_areDecidedBetweenByTheLog() async throws {
        let (one, two) = (try ClusterHub(cluster, "between"), try ClusterHub(cluster, "between"))
        let (first, second) = (try one.storage.open("main"), try two.storage.open("main"))
        let recorders = [Recorder(first.journal), Recorder(second.journal)]
        // Both believe that they are the first.
        async let a: Void = first.journal.store(batch(1, id: 10))
        async let b: Void = second.journal.store(batch(1, id: 20))
        let outcomes = (try? await a, try? await b)
        #expect((outcomes.0 == nil) != (outcomes.1 == nil))
        let (loser, winner) = outcomes.0 == nil ? (first, second) : (second, first)
        #expect(await becomes { recorders.allSatisfy { $0.last == 1 } })
        await #expect(throws: JournalError.conflict(expected: 0, last: 1)) { try await loser.journal.store(batch(1, id: 30)) }
        // A hub with a newer epoch takes over; later writes of the other one are discarded.
        try await loser.journal.store(batch(2, epoch: 2))
        await #expect(throws: JournalError.superseded(epoch: 1, newest: 2)) { try await winner.journal.store(batch(3, epoch: 1)) }
        try await loser.journal.store(batch(3, epoch: 2))
        #expect(await becomes { recorders.allSatisfy { $0.last == 3 } })
        #expect(recorders[0].batches == recorders[1].batches)
        for hub in [one, two] { await hub.close() }
    }

    /// Their batches go to one log, so each hub's appends conflict with the other's.
    @Test func hubs_thatWriteNamespacesOfOneShard_bothSucceed() async throws {
        let hubs = try (0..<2).map { _ in try ClusterHub(cluster, "beside") }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (i, hub) in hubs.enumerated() {
                let journal = try hub.storage.open("ns\(i)").journal
                group.addTask { for n in UInt64(1)...60 { try await journal.store(batch(n)) } }
            }
            try await group.waitForAll()
        }
        for hub in hubs {
            for i in 0..<2 {
                let recorder = Recorder(hub.storage.journal(of: "ns\(i)"))
                #expect(await becomes { recorder.last == 60 })
                #expect(recorder.batches == (1...60).map { batch($0) })
            }
        }
        for hub in hubs { await hub.close() }
    }

    @Test func batch_thatIsLargerThanAMessage_isHeardWhole() async throws {
        let hubs = try (0..<2).map { _ in try ClusterHub(cluster, "large") { $0.messageBytes = 20_000 } }
        let recorder = Recorder(try hubs[1].storage.open("main").journal)
        let journal = try hubs[0].storage.open("main").journal
        let large = Node.string(Text(String(repeating: "0123456789", count: 30_000)))
        // Some wait together, so that a record holds several, and one of them is large.
        let won = await withTaskGroup(of: Bool.self) { group in
            for i in UInt64(1)...6 { group.addTask { (try? await journal.store(batch(1, id: i))) != nil } }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(won == 1)
        for i in UInt64(2)...5 { try await journal.store(batch(i, i == 3 ? large : true)) }
        #expect(await becomes { recorder.last == 5 })
        #expect(recorder.batches.dropFirst() == (2...5).map { batch($0, $0 == 3 ? large : true) }[...])
        #expect(hubs[1].storage.shard(of: "main").newest.sequence > 15)
        for hub in hubs { await hub.close() }
    }

    /// The parts of a writer that has ended, before another writer's record.
    @Test func parts_withoutTheirEnd_areAppliedNowhere() async throws {
        let hubs = try (0..<2).map { _ in try ClusterHub(cluster, "ended") }
        let journal = try hubs[0].storage.open("main").journal
        let recorders = hubs.map { Recorder($0.storage.journal(of: "main")) }
        try await journal.store(batch(1))
        let log = hubs[1].storage.shard(of: "main").log
        let id = try #require(try await log.look(at: 1).get().id)
        for part in UInt64(0)..<2 {
            let message = LogMessage(id: 900 + part, previous: part == 0 ? id : 900, hub: 5, part: Int(part), parts: 3, body: [1, 2, 3])
            #expect(await log.append(message.encoded, id: message.id, after: 1 + part) == .stored(sequence: 2 + part))
        }
        try await journal.store(batch(2))
        // A message that no hub has written.
        #expect(await log.append([7, 7, 7], id: 999, after: 4) == .stored(sequence: 5))
        try await journal.store(batch(3))
        for recorder in recorders {
            #expect(await becomes { recorder.last == 3 })
            #expect(recorder.batches == (1...3).map { batch($0) })
        }
        for hub in hubs { await hub.close() }
    }

    @Test func hub_thatComesBack_receivesTheRestOnly() async throws {
        let (one, two) = (try ClusterHub(cluster, "rest"), try ClusterHub(cluster, "rest"))
        let journal = try one.storage.open("main").journal
        let heard = Recorder(journal)
        for i in UInt64(1)...30 { try await journal.store(batch(i)) }
        _ = try two.storage.openToWrite("main", patienceMs: 20_000)
        await two.close()
        for i in UInt64(31)...50 { try await journal.store(batch(i)) }
        let again = try ClusterHub(cluster, "rest", folder: two.folder)
        let place = again.storage.shard(of: "main").applying.complete
        #expect(place.sequence == 30)
        let opened = try again.storage.openToWrite("main", patienceMs: 20_000)
        #expect(opened.recovered.sequence == 50 && opened.epoch == 2)
        try await opened.journal.store(batch(51, epoch: 2))
        // Until it has batch 51, the first hub's batch is refused because it does not follow.
        #expect(await becomes { heard.last == 51 })
        await #expect(throws: JournalError.superseded(epoch: 1, newest: 2)) { try await journal.store(batch(52, epoch: 1)) }
        await one.close()
        await again.close()
    }

    @Test func folder_withContentOfItsOwn_isRefused() async throws {
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, scheduler: .system())
        try await store.journal(for: "main").store(batch(1))
        try store.close()
        #expect(throws: JournalError.foreign(namespace: "main")) { try ClusterHub(cluster, "foreign", folder: folder) }
    }

    /// Under continuous load, a follower's tree equals that of the last batch only for a moment.
    @Test func follower_makesSnapshots_whileBatchesCome() async throws {
        let (one, two) = (try ClusterHub(cluster, "snapshots"), try ClusterHub(cluster, "snapshots", snapshotAfterBatches: 20))
        let (writer, follower) = (try one.storage.openToWrite("main", patienceMs: 20_000), try two.storage.open("main"))
        let state = Mutex((root: follower.recovered.root, sequence: follower.recovered.sequence, stored: 0))
        follower.journal.tail(from: follower.recovered.sequence) { event in
            guard case .batch(let batch) = event else { return }
            state.withLock { state in
                for operation in batch.operations { state.root.apply(operation) }
                state.sequence = batch.sequence
            }
        }
        let journal = follower.journal
        journal.whenSnapshotDue {
            let (root, sequence, _) = state.withLock { $0 }
            journal.store(JournalSnapshot(root: root, sequence: sequence)) { result in
                guard case .success = result else {
                    Issue.record("no snapshot: \(result)")
                    return
                }
                state.withLock { $0.stored += 1 }
            }
        }
        var last: UInt64 = 0
        while state.withLock({ $0.stored }) < 3, last < 2000 {
            last += 1
            try await writer.journal.store(batch(last))
        }
        #expect(state.withLock { $0.stored } >= 3)
        #expect(await becomes { state.withLock { $0.sequence } == last })
        for hub in [one, two] { await hub.close() }
    }

    @Test func append_withoutServers_isRefusedInTime_andTakenWhenTheyAreThere() async throws {
        let own = try TestCluster()
        for i in 0..<3 { try own.kill(i) }
        let hub = try ClusterHub(own, "absent") { $0.appendMs = 500 }
        #expect { try hub.storage.openToWrite("main", patienceMs: 50) } throws: { if case JournalError.unavailable = $0 { true } else { false } }
        let journal = hub.storage.journal(of: "main")
        await #expect { try await journal.store(batch(1)) } throws: { if case JournalError.unavailable = $0 { true } else { false } }
        for i in 0..<3 { try own.start(i) }
        #expect(await eventually { (try? await journal.store(batch(1))) != nil })
        let recorder = Recorder(journal)
        #expect(await becomes { recorder.last == 1 })
        await hub.close()
    }
}
