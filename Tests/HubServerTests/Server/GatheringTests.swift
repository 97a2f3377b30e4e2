import Dispatch
import DispatchNet
import Glibc
import HubEngine
@testable import HubServer
import Journal
import Synchronization
import TestHub
import Testing

/// Net loops commit and pause while many writes wait for the disk, so that requests are grouped.
@Suite(.timeLimit(.minutes(30))) struct GatheringTests {
    /// Two clients send a write at once, for this many rounds or until the loop has paused and committed as wanted.
    /// - Returns: how often the loop has paused, and committed both writes of a round together.
    private func paused(
        rounds: Int, op: String = "set", untilCommits wanted: Int = 0, _ configure: (inout ServerSettings) -> Void
    ) throws -> (pauses: Int, commits: Int) {
        let storage = CountingStorage()
        let server = try TestServer(storage: storage) { settings in
            settings.loops = 1
            // The loops' own gathering is off.
            settings.limits.net.gatherUs = 0
            settings.limits.engine.crowdCommits = 2
            settings.limits.engine.crowdSlowMs = 60_000
            configure(&settings)
        }
        defer { server.stop() }
        let loop = server.server.lanes[0].loop
        let sockets = try (0..<2).map { _ in
            let socket = try TestSocket(port: server.port)
            try socket.upgrade("/.observe?ns=test")
            return socket
        }
        for round in 1...rounds where loop.counters.gatherings == 0 || storage.commits < wanted {
            let (gate, held) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            loop.execute {
                held.signal()
                gate.wait()
            }
            held.wait()
            defer { gate.signal() }
            for (i, socket) in sockets.enumerated() {
                try socket.sendText(#"{"id":\#(round),"op":"\#(op)","path":"/p\#(i)"\#(op == "set" ? ",\"value\":\(round)" : "")}"#)
            }
            gate.signal()
            for socket in sockets { #expect(try socket.text().hasPrefix(#"{"id":\#(round),"ok""#)) }
        }
        return (loop.counters.gatherings, storage.commits)
    }

    @Test func writesThatWaitForTheDisk_haveTheLoopCommitAndPause() throws {
        let paused = try paused(rounds: 1_000, untilCommits: 1) { _ in }
        #expect(paused.pauses > 0 && paused.commits > 0)
    }

    @Test func fewWrites_aLimitOfZero_orReads_doNot() throws {
        #expect(try paused(rounds: 100) { $0.limits.engine.crowdCommits = 3 } == (0, 0))
        #expect(try paused(rounds: 100) { $0.limits.engine.crowdPauseUs = 0 } == (0, 0))
        #expect(try paused(rounds: 100, op: "get") { _ in } == (0, 0))
    }

    /// A storage whose journals count batches of several writes that were left to `commitHeld`.
    private final class CountingStorage: JournalStorage {
        private let memory = MemoryStorage()
        private let counted = Atomic(0)

        var commits: Int { counted.load(ordering: .relaxed) }
        var isDurable: Bool { false }
        var finding: String? { nil }
        var settingStore: any SettingStore { memory.settingStore }
        func open(_ namespace: String) -> OpenedJournal {
            OpenedJournal(Recovered(), Held { [weak self] in self?.counted.wrappingAdd(1, ordering: .relaxed) })
        }
        func prepareToClose() {}
        func close(isLate: Bool, _ done: @escaping @Sendable (JournalError?) -> Void) { memory.close(isLate: isLate, done) }
    }

    /// Stores nothing, and takes a moment for each batch: on a queue of its own, or in `commitHeld`.
    private final class Held: Journal {
        private typealias Batch = (commits: Int, completion: @Sendable (Result<Void, JournalError>) -> Void)
        private let inner = MemoryJournal(keeping: 0)
        private let queue = DispatchQueue(label: "test.journal")
        private let held = Mutex<[Batch]>([])
        private let onSeveral: @Sendable () -> Void

        init(onSeveral: @escaping @Sendable () -> Void) { self.onSeveral = onSeveral }

        var isImmediate: Bool { false }
        var stagedBytes: Int { inner.stagedBytes }
        func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            queue.async {
                usleep(100)
                completion(.success(()))
            }
        }
        func hold(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            held.withLock { $0.append((batch.commitCount, completion)) }
        }
        func commitHeld() {
            let batches = held.withLock { held in
                defer { held = [] }
                return held
            }
            for batch in batches {
                if batch.commits > 1 { onSeveral() }
                queue.sync { batch.completion(.success(())) }
            }
        }
        func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void) {
            inner.stage(operations, completion: completion)
        }
        func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
            inner.tail(from: position, receive)
        }
        func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            completion(.success(()))
        }
        func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void) {}
        func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            completion(.success(()))
        }
        func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) { inner.close(completion: completion) }
    }
}
