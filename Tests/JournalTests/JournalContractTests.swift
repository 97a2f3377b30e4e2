import Dispatch
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

#if VIGLA_CLUSTER
import ClusterJournal
import TestCluster
#endif

/// The contract of every journal. A further implementation is one more case of `Kind`.
@Suite(.timeLimit(.minutes(30))) struct JournalContractTests {
    enum Kind: CaseIterable {
        case memory, sqlite
        #if VIGLA_CLUSTER
        case cluster
        #endif

        static var allCases: [Kind] {
            #if VIGLA_CLUSTER
            // Needs servers; without them ClusterJournalTests reports the missing program.
            if TestCluster.program != nil { return [.memory, .sqlite, .cluster] }
            #endif
            return [.memory, .sqlite]
        }
    }

    /// A journal and everything needed to open it again.
    private final class Bench {
        let kind: Kind
        let folder: TemporaryFolder
        private var store: JournalStore?
        #if VIGLA_CLUSTER
        private var hub: ClusterHub?
        private let name = "contract\(UInt64.random(in: 1 ... .max))"
        #endif
        private(set) var journal: any Journal

        init(_ kind: Kind) throws {
            self.kind = kind
            folder = try TemporaryFolder()
            switch kind {
            case .memory: journal = MemoryJournal()
            case .sqlite:
                let store = try JournalStore.open(folder: folder.path)
                self.store = store
                journal = store.journal(for: "main")
            #if VIGLA_CLUSTER
            case .cluster:
                let hub = try ClusterHub(TestCluster.shared.get(), name, folder: folder)
                self.hub = hub
                journal = try hub.storage.open("main").journal
            #endif
            }
        }

        /// Makes it possible to truncate everything so far.
        func prepareTruncation(_ snapshot: JournalSnapshot) async throws {
            try await journal.store(snapshot)
        }

        /// Restarts the journal.
        /// - Returns: false if it cannot be restarted.
        func restart() throws -> Bool {
            #if VIGLA_CLUSTER
            if let old = hub {
                old.closeNow()
                let hub = try ClusterHub(TestCluster.shared.get(), name, folder: folder)
                self.hub = hub
                journal = try hub.storage.open("main").journal
                return true
            }
            #endif
            guard let old = store else { return false }
            try old.close()
            let store = try JournalStore.open(folder: folder.path)
            self.store = store
            journal = store.journal(for: "main")
            return true
        }

        func end() throws {
            #if VIGLA_CLUSTER
            hub?.closeNow()
            #endif
            try store?.close()
        }
    }

    /// A follower that records its events.
    private final class BatchRecorder: Sendable {
        private struct State {
            var batches: [JournalBatch] = []
            var end: JournalError?
            var waiting: (until: UInt64?, continuation: CheckedContinuation<Void, Never>)?
        }

        private let state = Mutex(State())

        func record(_ event: TailEvent) {
            let continuation = state.withLock { state -> CheckedContinuation<Void, Never>? in
                switch event {
                case .batch(let batch): state.batches.append(batch)
                case .end(let error): state.end = error
                }
                guard let waiting = state.waiting, state.end != nil || waiting.until.map(
                    { $0 == state.batches.last?.sequence }) ?? false else { return nil }
                state.waiting = nil
                return waiting.continuation
            }
            continuation?.resume()
        }

        /// Waits for a batch, or with nil for the end.
        func wait(until sequence: UInt64?) async {
            await withCheckedContinuation { continuation in
                let isThere = state.withLock { state in
                    if state.end != nil || sequence != nil && state.batches.last?.sequence == sequence { return true }
                    state.waiting = (sequence, continuation)
                    return false
                }
                if isThere { continuation.resume() }
            }
        }

        var batches: [JournalBatch] { state.withLock { $0.batches } }
        var end: JournalError? { state.withLock { $0.end } }
    }

    private func batch(_ sequence: UInt64, after last: UInt64? = nil) -> JournalBatch {
        JournalBatch(sequence: sequence, after: last ?? sequence - 1, operations: [.set("n", .int(Int64(clamping: sequence)))])
    }

    private func ended(_ journal: any Journal, from position: UInt64) async -> JournalError? {
        let recorder = BatchRecorder()
        journal.tail(from: position) { recorder.record($0) }
        await recorder.wait(until: nil)
        return recorder.end
    }

    @Test(arguments: Kind.allCases) func appends_complete_inTheirOrder(kind: Kind) async throws {
        let bench = try Bench(kind)
        let completions = Completions()
        await withCheckedContinuation { continuation in
            for i in 1...200 {
                let record = completions.record(i)
                bench.journal.append(batch(UInt64(i))) { result in
                    record(result)
                    if i == 200 { continuation.resume() }
                }
            }
        }
        #expect(completions.labels == Array(1...200) && completions.results.allSatisfy { (try? $0.get()) != nil })
        try bench.end()
    }

    @Test(arguments: Kind.allCases) func batch_thatDoesNotFollow_isRefusedWithEverythingOnTop(kind: Kind) async throws {
        let bench = try Bench(kind)
        let completions = Completions()
        await withCheckedContinuation { continuation in
            bench.journal.append(batch(1), completion: completions.record(0))
            bench.journal.append(batch(3), completion: completions.record(1))
            bench.journal.append(batch(4), completion: completions.record(2))
            bench.journal.append(batch(1, after: 1), completion: completions.record(3))
            bench.journal.append(batch(.max, after: 1), completion: completions.record(4))
            let record = completions.record(5)
            bench.journal.append(batch(7, after: 1)) { result in
                record(result)
                continuation.resume()
            }
        }
        let failures = completions.results.map { result -> JournalError? in if case .failure(let error) = result { error } else { nil } }
        #expect(failures == [
            nil, .conflict(expected: 2, last: 1), .conflict(expected: 3, last: 1), .conflict(expected: 1, last: 1),
            .conflict(expected: 1, last: 1), nil,
        ])
        let recorder = BatchRecorder()
        bench.journal.tail(from: 0) { recorder.record($0) }
        await recorder.wait(until: 7)
        #expect(recorder.batches == [batch(1), batch(7, after: 1)])
        try bench.end()
    }

    @Test(arguments: Kind.allCases) func tail_fromAnyPoint_isCompleteAndInOrder(kind: Kind) async throws {
        let bench = try Bench(kind)
        var writer = Writer(bench.journal, seed: 3)
        var batches: [JournalBatch] = []
        for _ in 0..<40 {
            batches.append(writer.batch())
            try await bench.journal.store(batches[batches.count - 1])
        }
        let followers = [0, 1, 17, 39, 40].map { skipped in
            let recorder = BatchRecorder()
            bench.journal.tail(from: skipped == 0 ? 0 : batches[skipped - 1].sequence) { recorder.record($0) }
            return (skipped: skipped, recorder: recorder)
        }
        for _ in 0..<40 {
            batches.append(writer.batch())
            try await bench.journal.store(batches[batches.count - 1])
        }
        for follower in followers {
            await follower.recorder.wait(until: writer.sequence)
            #expect(follower.recorder.batches == Array(batches[follower.skipped...]) && follower.recorder.end == nil)
        }
        try bench.end()
    }

    @Test(arguments: Kind.allCases) func tail_thatBeginsWhileBatchesCome_missesNone(kind: Kind) async throws {
        let bench = try Bench(kind)
        let followers = (0..<20).map { _ in BatchRecorder() }
        await withCheckedContinuation { continuation in
            for i in UInt64(1)...400 {
                bench.journal.append(batch(i)) { _ in if i == 400 { continuation.resume() } }
                if i % 20 == 0 { bench.journal.tail(from: 0) { followers[Int(i / 20) - 1].record($0) } }
            }
        }
        for recorder in followers {
            await recorder.wait(until: 400)
            #expect(recorder.batches.map(\.sequence) == Array(1...400))
        }
        try bench.end()
    }

    @Test(arguments: Kind.allCases) func tail_cancelled_hearsNothingMore(kind: Kind) async throws {
        let bench = try Bench(kind)
        let (recorder, other) = (BatchRecorder(), BatchRecorder())
        let tail = bench.journal.tail(from: 0) { recorder.record($0) }
        bench.journal.tail(from: 0) { other.record($0) }
        try await bench.journal.store(batch(1))
        await recorder.wait(until: 1)
        tail.cancel()
        try await bench.journal.store(batch(2))
        await other.wait(until: 2)
        #expect(recorder.batches == [batch(1)] && recorder.end == nil)
        try bench.end()
    }

    @Test(arguments: Kind.allCases) func tail_fromWhereNoBatchEnds_isRefused(kind: Kind) async throws {
        let bench = try Bench(kind)
        try await bench.journal.store(batch(5, after: 0))
        try await bench.journal.store(batch(9, after: 5))
        for position in [2, 7, 10] as [UInt64] {
            #expect(await ended(bench.journal, from: position) == .conflict(expected: position, last: 9))
        }
        try bench.end()
    }

    @Test(arguments: Kind.allCases) func truncated_batches_areGoneAndTheOthersThere(kind: Kind) async throws {
        let bench = try Bench(kind)
        for i in UInt64(1)...10 { try await bench.journal.store(batch(i)) }
        try await bench.prepareTruncation(JournalSnapshot(root: ["n": 10], sequence: 10))
        for i in UInt64(11)...15 { try await bench.journal.store(batch(i)) }
        try await withCheckedContinuation { continuation in bench.journal.truncate(upTo: 10) { continuation.resume(returning: $0) } }.get()
        for position in [0, 9] as [UInt64] { #expect(await ended(bench.journal, from: position) == .truncated(upTo: 10)) }
        let recorder = BatchRecorder()
        bench.journal.tail(from: 10) { recorder.record($0) }
        try await bench.journal.store(batch(16))
        await recorder.wait(until: 16)
        #expect(recorder.batches.map(\.sequence) == Array(11...16))
        try bench.end()
    }

    @Test(arguments: Kind.allCases) func journal_closed_refusesAndEndsItsTails(kind: Kind) async throws {
        let bench = try Bench(kind)
        let recorder = BatchRecorder()
        bench.journal.tail(from: 0) { recorder.record($0) }
        try await bench.journal.store(batch(1))
        let completions = Completions()
        let journal = bench.journal
        await withCheckedContinuation { continuation in
            journal.append(batch(2), completion: completions.record(0))
            let record = completions.record(1)
            journal.close { result in
                record(result)
                continuation.resume()
            }
        }
        #expect(completions.results.allSatisfy { (try? $0.get()) != nil } && completions.labels == [0, 1])
        await recorder.wait(until: nil)
        #expect(recorder.batches == [batch(1), batch(2)] && recorder.end == .closed)
        await #expect(throws: JournalError.closed) { try await journal.store(batch(3)) }
        await #expect(throws: JournalError.closed) { try await journal.finish() }
        await #expect(throws: JournalError.closed) {
            try await withCheckedContinuation { continuation in journal.truncate(upTo: 1) { continuation.resume(returning: $0) } }.get()
        }
        #expect(await ended(journal, from: 0) == .closed)
        try bench.end()
    }

    @Test(arguments: Kind.allCases) func journal_restarted_goesOnWhereItWas(kind: Kind) async throws {
        let bench = try Bench(kind)
        for i in UInt64(1)...5 { try await bench.journal.store(batch(i)) }
        guard try bench.restart() else { return }
        await #expect(throws: JournalError.conflict(expected: 4, last: 5)) { try await bench.journal.store(batch(6, after: 4)) }
        try await bench.journal.store(batch(6))
        let recorder = BatchRecorder()
        bench.journal.tail(from: 2) { recorder.record($0) }
        await recorder.wait(until: 6)
        #expect(recorder.batches == (3...6).map { batch($0) })
        try bench.end()
    }

    // MARK: Ids, epochs, commits

    /// A batch of three commits: one without operations, and one with disconnect writes.
    private func several(after last: UInt64, id: UInt64 = 0, epoch: UInt64 = 0) -> JournalBatch {
        var batch = JournalBatch(after: last)
        batch.append([.set("a", 1), .priority("a", 5)], pending: [.forget(session: "s")])
        batch.append([])
        batch.append([.set("b", "two")])
        (batch.id, batch.epoch) = (id, epoch)
        return batch
    }

    @Test func commits_ofABatch_haveTheirNumbersAndOperations() {
        let batch = several(after: 4)
        #expect(batch.sequence == 7 && batch.commitCount == 3 && batch.starts == [3, 3])
        #expect(batch.commits.map(\.sequence) == [5, 6, 7])
        #expect(batch.commits.map { Array($0.operations) } == [
            [.set("a", 1), .priority("a", 5), .pending(.forget(session: "s"))], [], [.set("b", "two")],
        ])
        #expect(JournalBatch(after: 4).commits.isEmpty)
        #expect(JournalBatch(sequence: 9, after: 4, operations: []).commits.map(\.sequence) == [9])
    }

    /// Also batches that were read back.
    @Test(arguments: Kind.allCases) func batch_isHeardAsItWasAppended_withItsCommitsIdAndEpoch(kind: Kind) async throws {
        let bench = try Bench(kind)
        var batches: [JournalBatch] = [
            several(after: 0, id: 7, epoch: 2), several(after: 3, id: UInt64.max, epoch: 2), several(after: 6, epoch: 3),
        ]
        // The first commit is empty.
        var batch = JournalBatch(after: 9)
        batch.append([])
        batch.append([.set("c", 3)])
        batches.append(batch)
        batches[3].epoch = 200
        for batch in batches { try await bench.journal.store(batch) }
        _ = try bench.restart()
        let recorder = BatchRecorder()
        bench.journal.tail(from: 0) { recorder.record($0) }
        await recorder.wait(until: 11)
        #expect(recorder.batches == batches)
        try bench.end()
    }

    /// Staged operations are stored separately from others; commits start at every boundary.
    @Test(arguments: Kind.allCases) func stagedBatch_isHeardWithItsCommits(kind: Kind) async throws {
        let bench = try Bench(kind)
        let journal = bench.journal
        func stage(_ operations: [JournalOperation]) async throws -> JournalStage {
            try await withCheckedContinuation { continuation in journal.stage(operations) { continuation.resume(returning: $0) } }.get()
        }
        let (one, two): ([JournalOperation], [JournalOperation]) = ([.set("a", ["x": 1, "y": 2]), .set("b", 1)], [.set("c", ["z": 3])])
        var batches: [JournalBatch] = []
        for order in 0..<4 {
            var batch = JournalBatch(after: batches.last?.sequence ?? 0)
            if order == 3 { batch.append([]) }
            if order == 1 { batch.append([.set("small", 1)], pending: [.forget(session: "s")]) }
            batch.append(one, pending: order == 2 ? [.forget(session: "t")] : [], stage: try await stage(one))
            batch.append(two, stage: try await stage(two))
            if order > 0 { batch.append([.set("last", .int(Int64(order)))]) }
            batch.id = UInt64(order + 1)
            batches.append(batch)
            try await journal.store(batch)
        }
        _ = try bench.restart()
        let recorder = BatchRecorder()
        bench.journal.tail(from: 0) { recorder.record($0) }
        await recorder.wait(until: batches[3].sequence)
        for (found, batch) in zip(recorder.batches, batches) { #expect(found == batch) }
        #expect(recorder.batches.count == 4)
        try bench.end()
    }

    @Test(arguments: Kind.allCases) func batch_appendedAgain_isStoredOnce(kind: Kind) async throws {
        let bench = try Bench(kind)
        let recorder = BatchRecorder()
        bench.journal.tail(from: 0) { recorder.record($0) }
        let batches = [several(after: 0, id: 1), several(after: 3, id: 2)]
        for batch in batches { try await bench.journal.store(batch) }
        // The last one, and the one before.
        for batch in batches.reversed() { try await bench.journal.store(batch) }
        _ = try bench.restart()
        for batch in batches { try await bench.journal.store(batch) }
        // A different batch at the same place, and one without an id.
        await #expect(throws: JournalError.conflict(expected: 3, last: 6)) { try await bench.journal.store(several(after: 3, id: 3)) }
        await #expect(throws: JournalError.conflict(expected: 3, last: 6)) { try await bench.journal.store(several(after: 3)) }
        await #expect(throws: JournalError.conflict(expected: 1, last: 6)) {
            try await bench.journal.store(JournalBatch(sequence: 6, after: 1, operations: [], id: 2))
        }
        try await bench.journal.store(batch(7))
        let again = BatchRecorder()
        bench.journal.tail(from: 0) { again.record($0) }
        await again.wait(until: 7)
        #expect(again.batches == batches + [batch(7)])
        if kind == .memory { #expect(recorder.batches == batches + [batch(7)]) }
        try bench.end()
    }

    @Test(arguments: Kind.allCases) func writer_ofAnOlderEpoch_isRefused_alsoAfterARestart(kind: Kind) async throws {
        let bench = try Bench(kind)
        try await bench.journal.store(JournalBatch(sequence: 1, after: 0, operations: [], epoch: 3))
        _ = try bench.restart()
        await #expect(throws: JournalError.superseded(epoch: 2, newest: 3)) {
            try await bench.journal.store(JournalBatch(sequence: 2, after: 1, operations: [], epoch: 2))
        }
        try await bench.journal.store(JournalBatch(sequence: 2, after: 1, operations: [], epoch: 3))
        try await bench.journal.store(JournalBatch(sequence: 3, after: 2, operations: [], epoch: 4))
        try await bench.prepareTruncation(JournalSnapshot(root: .null, sequence: 3))
        try await withCheckedContinuation { continuation in bench.journal.truncate(upTo: 3) { continuation.resume(returning: $0) } }.get()
        _ = try bench.restart()
        await #expect(throws: JournalError.superseded(epoch: 3, newest: 4)) {
            try await bench.journal.store(JournalBatch(sequence: 4, after: 3, operations: [], epoch: 3))
        }
        try bench.end()
    }

    /// Opening a namespace takes it over from its previous writer.
    @Test(arguments: Kind.allCases) func openedJournal_hasAnEpochOfItsOwn_thatRefusesEarlierWriters(kind: Kind) async throws {
        let folder = try TemporaryFolder()
        func storage() throws -> any JournalStorage {
            switch kind {
            case .memory: MemoryStorage()
            case .sqlite: try JournalStore.open(folder: folder.path)
            #if VIGLA_CLUSTER
            case .cluster: try ClusterHub(TestCluster.shared.get(), "contract_storage", folder: folder).storage
            #endif
            }
        }
        let first = try storage()
        let earlier = try first.open("main")
        #expect(earlier.recovered.epoch == 0 && earlier.epoch == 1)
        try await earlier.journal.store(JournalBatch(sequence: 1, after: 0, operations: [], epoch: earlier.epoch))
        let isKept = first.isDurable
        if isKept { await withCheckedContinuation { continuation in first.close(isLate: false) { _ in continuation.resume() } } }
        let second = isKept ? try storage() : first
        // A memory journal is opened once; another writer of the same journal has the next epoch.
        let later = isKept ? try second.open("main") : OpenedJournal(Recovered(sequence: 1, epoch: earlier.epoch), earlier.journal)
        #expect(later.epoch == 2)
        try await later.journal.store(JournalBatch(sequence: 2, after: 1, operations: [], epoch: later.epoch))
        await #expect(throws: JournalError.superseded(epoch: 1, newest: 2)) {
            try await later.journal.store(JournalBatch(sequence: 3, after: 2, operations: [], epoch: earlier.epoch))
        }
        await withCheckedContinuation { continuation in second.close(isLate: false) { _ in continuation.resume() } }
    }

    @Test(arguments: Kind.allCases) func snapshot_thatIsNotOfTheLastBatch_isRefused(kind: Kind) async throws {
        let bench = try Bench(kind)
        try await bench.journal.store(batch(1))
        await #expect(throws: JournalError.conflict(expected: 2, last: 1)) {
            try await bench.journal.store(JournalSnapshot(root: ["n": 2], sequence: 2))
        }
        try await bench.journal.store(JournalSnapshot(root: ["n": 1], sequence: 1))
        try bench.end()
    }

    // MARK: In memory

    @Test func memoryStorage_callsBack_onAQueueOfItsOwn() async {
        let (queue, key) = (DispatchQueue(label: "test.caller"), DispatchSpecificKey<Bool>())
        queue.setSpecific(key: key, value: true)
        let isInside = await withCheckedContinuation { continuation in
            queue.async { MemoryStorage().close(isLate: false) { _ in continuation.resume(returning: DispatchQueue.getSpecific(key: key) == true) } }
        }
        #expect(!isInside)
    }

    @Test func memoryJournal_keepsNoMoreThanItShould_andTellsItsFollowersAll() async throws {
        for most in [0, 3] {
            let journal = MemoryJournal(keeping: most)
            let recorder = BatchRecorder()
            journal.tail(from: 0) { recorder.record($0) }
            for i in UInt64(1)...50 { try await journal.store(batch(i)) }
            #expect(recorder.batches.count == 50)
            let first = UInt64(50 - most)
            #expect(await ended(journal, from: first - 1) == .truncated(upTo: first))
            let late = BatchRecorder()
            journal.tail(from: first) { late.record($0) }
            try await journal.store(batch(51))
            #expect(late.batches.map(\.sequence) == Array(first + 1...51))
        }
    }
}
