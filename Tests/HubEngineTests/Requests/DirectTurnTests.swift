import Dispatch
import Glibc
@testable import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Requests that the calling thread runs itself, and when it does not.
@Suite(.timeLimit(.minutes(30))) struct DirectTurnTests {
    // MARK: The queue

    @Test func idleQueue_isTaken_andRunsOnTheCallingThread() {
        let queue = DatabaseQueue(label: "test")
        var ran = 0
        for _ in 0..<3 {
            let isTaken = queue.runIfIdle {
                queue.assertCurrent()
                ran += 1
                if queue.runIfIdle({}) { ran = -100 }
            }
            #expect(isTaken)
        }
        #expect(ran == 3, "each once, and none while it was taken")
    }

    @Test func queueWithWork_isNotTaken_untilAllOfItHasRun() {
        let queue = DatabaseQueue(label: "test")
        let (gate, begun) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        queue.async {
            begun.signal()
            gate.wait()
        }
        // Queued, then running: the caller waits for neither.
        var ran = 0
        #expect(!queue.runIfIdle({ ran += 1 }))
        begun.wait()
        queue.async {}
        #expect(!queue.runIfIdle({ ran += 1 }))
        gate.signal()
        queue.sync {}
        #expect(ran == 0)
        #expect(queue.runIfIdle({ ran += 1 }))
        #expect(ran == 1)
    }

    @Test func work_thatComesWhileTheQueueIsTaken_runsBehind_inOrder() {
        let queue = DatabaseQueue(label: "test")
        let seen = Mutex<[Int]>([])
        let isTaken = queue.runIfIdle {
            for i in 1...3 { queue.async { seen.withLock { $0.append(i) } } }
            seen.withLock { $0.append(0) }
        }
        #expect(isTaken)
        queue.async { seen.withLock { $0.append(4) } }
        queue.sync { seen.withLock { $0.append(5) } }
        #expect(seen.withLock { $0 } == [0, 1, 2, 3, 4, 5])
    }

    @Test func manyThreads_takeTurns_andLoseNothing() {
        let queue = DatabaseQueue(label: "test")
        // No lock: the queue is the exclusion.
        nonisolated(unsafe) var sum = 0
        let direct = Atomic(0)
        let queued = Atomic(0)
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            for i in 0..<5_000 {
                if i % 3 > 0, queue.runIfIdle({ sum += 1 }) {
                    direct.add(1, ordering: .relaxed)
                } else {
                    queue.async { sum += 1 }
                    queued.add(1, ordering: .relaxed)
                }
            }
        }
        #expect(queue.sync { sum } == 20_000)
        #expect(direct.load(ordering: .relaxed) + queued.load(ordering: .relaxed) == 20_000)
    }

    // MARK: Requests

    @Test func fewRequests_areAnsweredBeforeStartReturns_inOneBatch() {
        let hub = EngineHarness(root: ["a": 1])
        let client = Client.make()
        for i in 0..<3 { _ = hub.database.enqueue(.get("a"), from: client, token: Int64(i)) }
        #expect(hub.linesSoFar(client) == [], "nothing is carried out yet")
        hub.database.start(mayRunHere: true)
        #expect(hub.linesSoFar(client) == ["value 0 1", "value 1 1", "value 2 1"])
        hub.database.start(mayRunHere: true)
        #expect(hub.linesSoFar(client) == [], "each once")
    }

    @Test func requests_toADatabaseThatIsBusy_areCarriedOutOnItsQueue_inOrder() {
        let hub = EngineHarness()
        let client = Client.make()
        let gate = DispatchGate(hub.database)
        hub.database.submit(.put("a", 1), from: client, token: 0)
        _ = hub.database.enqueue(.put("a", 2), from: client, token: 1)
        // The caller does not wait for the block that holds the queue.
        hub.database.start(mayRunHere: true)
        #expect(hub.linesSoFar(client) == [])
        gate.open()
        #expect(hub.take(client) == ["ok 0", "ok 1"])
    }

    @Test(arguments: [(10, true), (11, false)]) func moreThanALittleWork_isCarriedOutOnTheQueue(count: Int, isDirect: Bool) {
        var limits = EngineLimits()
        limits.directWork = 10
        let hub = EngineHarness(limits: limits)
        let client = Client.make()
        for i in 0..<count { _ = hub.database.enqueue(.get("a"), from: client, token: Int64(i)) }
        let thread = Mutex<pthread_t?>(nil)
        hub.onDelivery.withLock { $0.body = { thread.withLock { $0 = pthread_self() } } }
        hub.database.start(mayRunHere: true)
        #expect(hub.take(client).count == count)
        #expect((thread.withLock { $0 } == pthread_self()) == isDirect)
    }

    /// Runs a closure in the middle of a request, namely one that the rules refuse.
    private final class RefusalHook: RefusalListener {
        private let body = Mutex<(@Sendable () -> Void)?>(nil)

        func begin(_ body: @escaping @Sendable () -> Void) { self.body.withLock { $0 = body } }
        func wantsRefusal(now: Int64) -> Bool {
            body.withLock { $0.take() }?()
            return false
        }
        func refused(_ request: RuledRequest, _ question: RuleQuestion) {}
    }

    @Test(arguments: [(9, true), (11, false)])
    func whatOthersSubmitMeanwhile_isPartOfTheBatch_ifItIsLittle(count: Int, isPart: Bool) throws {
        var limits = EngineLimits()
        limits.directWork = 10
        let meanwhile = RefusalHook()
        let hub = EngineHarness(
            rules: try RuleSet(parsing: #"{"rules":{".read":true}}"#), root: ["a": 1], limits: limits, refusals: meanwhile)
        let (client, other) = (Client.make(), Client.make())
        meanwhile.begin { [database = hub.database] in
            let done = DispatchSemaphore(value: 0)
            DispatchQueue.global().async {
                for i in 0..<count { _ = database.enqueue(.get("a"), from: other, token: Int64(i)) }
                // The start returns without waiting for the batch.
                database.start(mayRunHere: true)
                done.signal()
            }
            done.wait()
        }
        let here = pthread_self()
        let threads = Mutex<[Bool]>([])
        hub.onDelivery.withLock { $0.body = { threads.withLock { $0.append(pthread_self() == here) } } }
        _ = hub.database.enqueue(.put("b", 1), from: client)
        hub.database.start(mayRunHere: true)
        if isPart { #expect(threads.withLock { $0 } == [true], "before the call returns") }
        #expect(hub.take(client).count == 1 && hub.take(other).count == count)
        #expect(threads.withLock { $0.first } == true && threads.withLock { !$0.dropFirst().contains(true) })
    }

    @Test func whatWasLittle_andBecomesMuch_isCarriedOnByTheQueue() {
        var limits = EngineLimits()
        limits.directWork = 10
        let hub = EngineHarness(root: ["big": .string(String(repeating: "x", count: 20_000))], limits: limits)
        let client = Client.make()
        // Each answer costs twenty units of work to encode: the first one ends the calling thread's part.
        for i in 0..<5 { _ = hub.database.enqueue(.get("big"), from: client, token: Int64(i)) }
        let gate = Mutex<DispatchGate?>(nil)
        hub.onDelivery.withLock { $0.body = { gate.withLock { if $0 == nil { $0 = DispatchGate(hub.database) } } } }
        hub.database.start(mayRunHere: true)
        #expect(hub.linesSoFar(client).map { $0.prefix(8) } == ["value 0 "])
        hub.onDelivery.withLock { $0.body = nil }
        gate.withLock { $0?.open() }
        #expect(hub.take(client).map { $0.prefix(8) } == (1..<5).map { "value \($0) " })
    }

    @Test func afterASlowRequest_theThreadHasARest() {
        let hub = EngineHarness(root: ["a": 1])
        let client = Client.make()
        func isDirect() -> Bool {
            let thread = Mutex<pthread_t?>(nil)
            hub.onDelivery.withLock { $0.body = { thread.withLock { $0 = pthread_self() } } }
            _ = hub.database.enqueue(.get("a"), from: client)
            hub.database.start(mayRunHere: true)
            _ = hub.take(client)
            return thread.withLock { $0 } == pthread_self()
        }
        #expect(isDirect())
        // A request that takes 2 ms.
        hub.onDelivery.withLock { $0.body = { hub.time.advance(ms: 2) } }
        _ = hub.database.enqueue(.get("a"), from: client)
        hub.database.start(mayRunHere: true)
        _ = hub.take(client)
        #expect(!isDirect())
        hub.time.advance(ms: 99)
        #expect(!isDirect())
        hub.time.advance(ms: 1)
        #expect(isDirect())
    }

    // MARK: Commits

    /// A journal that records which calls brought its batches.
    private final class HeldLog: Journal {
        private struct State {
            var held: [(JournalBatch, @Sendable (Result<Void, JournalError>) -> Void)] = []
            var calls: [String] = []
        }
        private let state = Mutex(State())
        private let memory = MemoryJournal()
        var isImmediate: Bool { false }
        var stagedBytes: Int { .max }
        var calls: [String] { state.withLock { $0.calls } }

        func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            state.withLock { $0.calls.append("append \(batch.commitCount)") }
            memory.append(batch, completion: completion)
        }

        func hold(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            state.withLock {
                $0.calls.append("hold \(batch.commitCount)")
                $0.held.append((batch, completion))
            }
        }

        func commitHeld() {
            let held = state.withLock { state in
                state.calls.append("commit")
                defer { state.held = [] }
                return state.held
            }
            for (batch, completion) in held { memory.append(batch, completion: completion) }
        }

        func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void) {
            memory.stage(operations, completion: completion)
        }
        func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
            memory.tail(from: position, receive)
        }
        func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            memory.store(snapshot, completion: completion)
        }
        func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void) {}
        func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            memory.truncate(upTo: sequence, completion: completion)
        }
        func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) { memory.close(completion: completion) }
    }

    @Test func write_ofAThreadThatMayWaitForTheDisk_isAnsweredBeforeStartReturns() {
        let log = HeldLog()
        let hub = EngineHarness(log: log)
        let client = Client.make()
        for i in 0..<2 {
            _ = hub.database.enqueue(.put("a", .int(Int64(i))), from: client, token: Int64(i))
            hub.database.start(mayRunHere: true, mayCommitHere: true)
            #expect(hub.linesSoFar(client) == ["ok \(i)"])
        }
        #expect(log.calls == ["hold 1", "commit", "hold 1", "commit"])
        _ = hub.database.enqueue(.put("a", 7), from: client, token: 7)
        hub.database.start(mayRunHere: true)
        #expect(hub.take(client) == ["ok 7"])
        hub.database.submit(.put("a", 8), from: client, token: 8)
        #expect(hub.take(client) == ["ok 8"])
        #expect(log.calls.suffix(2) == ["append 1", "append 1"])
    }

    @Test func write_toADatabaseThatIsBusy_isNotHeld() {
        let log = HeldLog()
        let hub = EngineHarness(log: log)
        let client = Client.make()
        let gate = DispatchGate(hub.database)
        _ = hub.database.enqueue(.put("a", 1), from: client, token: 1)
        hub.database.start(mayRunHere: true, mayCommitHere: true)
        gate.open()
        #expect(hub.take(client) == ["ok 1"])
        #expect(log.calls == ["append 1"])
    }
}
