import Dispatch
import Glibc
import GRDB
import JSONTree
import Synchronization
import Testing
import TestSupport

@testable import Journal
@testable import SQLiteJournal

@Suite(.timeLimit(.minutes(30))) struct InlineCommitTests {
    private let folder: TemporaryFolder
    private let clock = FakeClock()
    private let store: JournalStore
    private let journal: SQLiteJournal
    private let disk: SlowDisk

    init() async throws {
        folder = try TemporaryFolder()
        var settings = JournalStore.Settings()
        (settings.inlineCommitUs, settings.inlineCommitSeveralUs, settings.inlineCommitShare, settings.inlineCommitBurstUs) = (2_000, 5_000, 100, 0)
        store = try JournalStore.open(folder: folder.path, settings: settings, scheduler: clock.scheduler)
        journal = store.journal(for: "main")
        disk = SlowDisk(clock)
        store.database.add(transactionObserver: disk, extent: .databaseLifetime)
    }

    /// Waits until the journal queue is idle: a completion is called before the end of its work there.
    private func settle() async throws {
        while store.journalQueue.isBusy { try await store.database.writeWithoutTransaction { _ in } }
    }

    /// Holds a batch and commits it while the queue is idle.
    /// - Returns: whether the completion was called inside the call, on this thread and the journal queue.
    private func isDirect(_ sequence: UInt64) async throws -> Bool { try await isDirect(.small(sequence)) }

    private func isDirect(_ batch: JournalBatch) async throws -> Bool {
        try await settle()
        let thread = Mutex<pthread_t?>(nil)
        let queue = store.queue
        let done = DispatchSemaphore(value: 0)
        journal.hold(batch) { result in
            dispatchPrecondition(condition: .onQueue(queue))
            if case .failure(let error) = result { Issue.record(error) }
            thread.withLock { $0 = pthread_self() }
            done.signal()
        }
        #expect(thread.withLock { $0 } == nil, "it is held")
        journal.commitHeld()
        let isDirect = thread.withLock { $0 } == pthread_self()
        await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                done.wait()
                continuation.resume()
            }
        }
        return isDirect
    }

    @Test func heldBatch_thatIsAlone_isCommittedByTheThreadThatAppends_onceTheDiskIsKnown() async throws {
        #expect(try await !isDirect(1), "nothing is known of the disk yet")
        for i: UInt64 in 2...20 { #expect(try await isDirect(i)) }
        journal.commitHeld()
        try store.expectKept(["n": 20], upTo: 20, in: folder)
    }

    @Test func heldBatch_besideAnother_isCommittedOnTheQueue_inOrder() async throws {
        try await journal.store(.small(1))
        let completions = Completions()
        let other = store.journal(for: "other")
        await withCheckedContinuation { continuation in
            let (thread, last) = (UInt(pthread_self()), completions.record(3))
            journal.hold(.small(2), completion: completions.record(1))
            other.append(.small(1), completion: completions.record(2))
            journal.hold(.small(3)) { result in
                if pthread_self() == pthread_t(thread) { Issue.record("on the thread that appends") }
                last(result)
                continuation.resume()
            }
            journal.commitHeld()
        }
        #expect(completions.labels == [1, 2, 3])
        #expect(try store.recover("other").root == ["n": 1])
        #expect(try store.recover("main").root == ["n": 3])
        try store.close()
    }

    @Test func heldBatch_ofSeveralCommits_isCommittedByTheThreadThatAppends_unlessItIsLarge() async throws {
        try await journal.store(.small(1))
        func several(_ sequence: UInt64, bytes: Int) -> JournalBatch {
            let operations = ["a", "b"].map { JournalOperation.set(Path([Key($0)]), .string(String(repeating: $0, count: bytes))) }
            return JournalBatch(sequence: sequence, after: sequence - 2, operations: operations, starts: [1])
        }
        #expect(try await isDirect(several(3, bytes: 30 << 10)))
        #expect(try await !isDirect(several(5, bytes: 33 << 10)))
        #expect(try await isDirect(several(7, bytes: 10)))
        // One commit is direct, whatever its size, unless it is staged.
        let large = Node.string(String(repeating: "b", count: 100 << 10))
        #expect(try await isDirect(JournalBatch(sequence: 8, after: 7, operations: [.set("a", large)])))
        try store.close()
        #expect(try JournalStore.open(folder: folder.path, scheduler: clock.scheduler).recover("main").sequence == 8)
    }

    @Test func commitHeld_whileTheQueueHasWork_doesNotWaitForIt() async throws {
        try await journal.store(.small(1))
        let gate = DispatchSemaphore(value: 0)
        store.journalQueue.run { _ in gate.wait() }
        await withCheckedContinuation { continuation in
            journal.hold(.small(2)) { _ in continuation.resume() }
            journal.commitHeld()
            gate.signal()
        }
        #expect(try await isDirect(3))
        try store.close()
    }

    @Test func commit_thatTakesLong_givesTheThreadARest_ofAHundredTimesAsLong() async throws {
        try await journal.store(.small(1))
        // At the limit.
        disk.ms.store(2, ordering: .relaxed)
        #expect(try await isDirect(2))
        disk.ms.store(0, ordering: .relaxed)
        #expect(try await isDirect(3))
        // Beyond it.
        disk.ms.store(3, ordering: .relaxed)
        #expect(try await isDirect(4))
        disk.ms.store(0, ordering: .relaxed)
        #expect(try await !isDirect(5))
        clock.advance(ms: 299)
        #expect(try await !isDirect(6))
        clock.advance(ms: 1)
        #expect(try await isDirect(7))
        // A slow commit on the queue counts as well, and no pause is longer than ten seconds.
        disk.ms.store(30_000, ordering: .relaxed)
        try await journal.store(.small(8))
        disk.ms.store(0, ordering: .relaxed)
        clock.advance(ms: 9_999)
        #expect(try await !isDirect(9))
        clock.advance(ms: 1)
        #expect(try await isDirect(10))
        try store.close()
    }

    @Test func defaults_areThoseOfTheDocuments() {
        let settings = JournalStore.Settings()
        #expect((settings.inlineCommitUs, settings.inlineCommitSeveralUs, settings.inlineCommitBytes) == (500, 2_000, 64 << 10))
        #expect((settings.inlineCommitShare, settings.inlineCommitBurstUs) == (20, 10_000))
    }

    @Test func commitsThatTakeLong_nowAndThen_giveTheThreadNoRest() {
        let settings = JournalStore.Settings()
        var (budget, now) = (InlineCommitBudget(settings), Int64(1_000_000_000))
        func commit(us: Int64, budget: inout InlineCommitBudget) {
            budget.committed(from: now, to: now + us * 1_000, isSeveral: false)
            now += us * 1_000
        }
        #expect(!budget.isQuick(at: now), "nothing is known of the disk yet")
        // 10 ms of slow commits at once.
        for _ in 0..<10 { commit(us: 1_000, budget: &budget) }
        #expect(budget.isQuick(at: now))
        commit(us: 1_000, budget: &budget)
        #expect(!budget.isQuick(at: now))
        // The time beyond the budget returns within 20 times its length; each millisecond meanwhile refills a twentieth of one.
        now += 10_000_000 - 1_000_000
        #expect(!budget.isQuick(at: now))
        now += 1_000_000
        #expect(budget.isQuick(at: now))
        // One in a hundred for a long time.
        for i in 0..<100_000 {
            commit(us: i % 100 == 0 ? 700 : 200, budget: &budget)
            if i > 1_000 { #expect(budget.isQuick(at: now)) }
        }
    }

    @Test func commitOfSeveralWrites_mayTakeLonger_beforeItIsSlow() {
        var settings = JournalStore.Settings()
        settings.inlineCommitBurstUs = 0
        func isQuick(behind us: Int64, isSeveral: Bool) -> Bool {
            var budget = InlineCommitBudget(settings)
            budget.committed(from: 0, to: us * 1_000, isSeveral: isSeveral)
            return budget.isQuick(at: us * 1_000)
        }
        #expect(isQuick(behind: 500, isSeveral: false) && !isQuick(behind: 501, isSeveral: false))
        #expect(isQuick(behind: 2_000, isSeveral: true) && !isQuick(behind: 2_001, isSeveral: true))
    }

    @Test func commitsOfSeveralWrites_areToldFromSingleOnes() async throws {
        try await journal.store(.small(1))
        func several(_ sequence: UInt64) -> JournalBatch {
            JournalBatch(sequence: sequence, after: sequence - 2, operations: [.set("a", 1), .set("b", 2)], starts: [1])
        }
        disk.ms.store(4, ordering: .relaxed)
        #expect(try await isDirect(several(3)))
        #expect(try await isDirect(several(5)))
        disk.ms.store(6, ordering: .relaxed)
        #expect(try await isDirect(several(7)))
        #expect(try await !isDirect(8))
        clock.advance(ms: 10_000)
        disk.ms.store(4, ordering: .relaxed)
        #expect(try await isDirect(9))
        #expect(try await !isDirect(10))
        try store.close()
    }

    /// Threads make every direct commit that they are allowed.
    @Test(arguments: 1...20 as ClosedRange<UInt64>) func slowCommits_ofThreads_takeATwentiethOfTheTime(_ seed: UInt64) {
        let settings = JournalStore.Settings()
        var random = SeededRandom(seed)
        var budget = InlineCommitBudget(settings)
        let begin: Int64 = 5_000_000_000
        var (now, slow, longest) = (begin, Int64(0), Int64(0))
        let slowest = Int64.random(in: 600...9_000, using: &random)
        for _ in 0..<3_000 {
            let isOften = Int.random(in: 0..<2, using: &random) == 0
            let us = isOften ? Int64.random(in: 0...slowest, using: &random) : Int64.random(in: 50...500, using: &random)
            let isDirect = budget.isQuick(at: now)
            budget.committed(from: now, to: now + us * 1_000, isSeveral: false)
            now += us * 1_000
            if isDirect, us > 500 { (slow, longest) = (slow + us * 1_000, max(longest, us * 1_000)) }
            #expect(slow <= (now - begin) / 20 + 10_000_000 + longest)
            now += Int64.random(in: 0...200_000, using: &random)
        }
        #expect(slow > 0)
    }

    @Test func restAfterACommitThatHangs_isNotMadeShorter_byOneThatIsLessSlow() {
        let settings = JournalStore.Settings()
        var budget = InlineCommitBudget(settings)
        budget.committed(from: 0, to: 400_000_000, isSeveral: false)
        budget.committed(from: 400_000_000, to: 401_000_000, isSeveral: false)
        #expect(!budget.isQuick(at: 401_000_000 + 7_000_000_000))
        #expect(budget.isQuick(at: 401_000_000 + 8_000_000_000))
    }

    @Test func commit_whileTheStoreItselfKeepsTheDiskBusy_isMadeOnTheQueue() async throws {
        try await journal.store(.small(1))
        // The copy of the log waits for this until the gate opens.
        let gate = DispatchSemaphore(value: 0)
        store.connections.checkpointer.asyncWriteWithoutTransaction { _ in gate.wait() }
        store.queue.sync { store.checkpointer.copy { _ in } }
        disk.ms.store(3, ordering: .relaxed)
        #expect(try await !isDirect(2))
        disk.ms.store(0, ordering: .relaxed)
        gate.signal()
        #expect(await becomes { store.queue.sync { !store.checkpointer.isCopying } })
        store.snapshotter.encoding.suspend()
        journal.store(JournalSnapshot(root: ["n": 2], sequence: 2)) { _ in }
        #expect(await becomes { store.queue.sync { store.snapshotter.isUnderWay } })
        #expect(try await !isDirect(3))
        store.snapshotter.encoding.resume()
        #expect(await becomes { store.queue.sync { !store.snapshotter.isUnderWay } })
        #expect(try await isDirect(4), "what it kept from being quick says nothing of the disk")
        try store.close()
    }

    @Test func heldBatch_thatIsRefused_completesInsideTheCall() async throws {
        try await journal.store(.small(1))
        try await settle()
        let refusal = Mutex<JournalError?>(nil)
        journal.hold(.small(7)) { result in
            if case .failure(let error) = result { refusal.withLock { $0 = error } }
        }
        journal.commitHeld()
        guard case .conflict(expected: 6, last: 1)? = refusal.withLock({ $0 }) else {
            Issue.record("\(String(describing: refusal.withLock { $0 }))")
            return
        }
        #expect(try await isDirect(2))
        try store.close()
    }

    @Test func heldBatch_isStored_whenTheStoreIsClosedBeforeItsCommit() async throws {
        try await journal.store(.small(1))
        let completions = Completions()
        journal.hold(.small(2), completion: completions.record(2))
        try store.close()
        #expect(completions.labels == [2])
        journal.commitHeld()
        let again = try JournalStore.open(folder: folder.path)
        #expect(try again.recover("main").root == ["n": 2])
        try again.close()
        let error = await withCheckedContinuation { continuation in
            journal.hold(.small(3)) { continuation.resume(returning: $0) }
            journal.commitHeld()
        }
        #expect(throws: JournalError.closed) { try error.get() }
    }

    /// Threads hold, append and commit at random; each namespace has its own writer.
    @Test func heldAndOtherBatches_ofManyThreads_areAllStored() async throws {
        let store = self.store
        let counts = await withTaskGroup(of: UInt64.self) { group in
            for writer in 0..<6 {
                group.addTask {
                    let journal = store.journal(for: "w\(writer)")
                    var random = SeededRandom(UInt64(writer))
                    for i: UInt64 in 1...300 {
                        let isHeld = Int.random(in: 0..<3, using: &random) > 0
                        typealias Outcome = CheckedContinuation<Result<Void, JournalError>, Never>
                        let result = await withCheckedContinuation { (continuation: Outcome) in
                            if isHeld {
                                journal.hold(.small(i)) { continuation.resume(returning: $0) }
                                journal.commitHeld()
                            } else {
                                journal.append(.small(i)) { continuation.resume(returning: $0) }
                            }
                        }
                        if case .failure(let error) = result { Issue.record(error) }
                    }
                    return 300
                }
            }
            return await group.reduce(0, +)
        }
        #expect(counts == 1800)
        for writer in 0..<6 { #expect(try store.recover("w\(writer)").root == ["n": 300]) }
        try await settle()
        try store.close()
    }
}

/// Makes each commit take this many ms of a clock.
private final class SlowDisk: TransactionObserver, Sendable {
    let ms = Atomic<Int64>(0)
    private let clock: FakeClock

    init(_ clock: FakeClock) { self.clock = clock }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    // Called by SQLite's hook, as in CommitCounter.
    func databaseWillCommit() {
        let ms = ms.load(ordering: .relaxed)
        if ms > 0 { clock.advance(ms: ms) }
    }
    func databaseDidCommit(_ db: Database) {}
    func databaseDidRollback(_ db: Database) {}
}
