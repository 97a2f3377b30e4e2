import Dispatch
import HubServer
import Journal
import JSONTree
import Logging
import Scheduling
import SecurityRules
import Synchronization
import TestHub
import Testing
import TestSupport

/// The shutdown of a server: its order, and that its duration is bounded.
@Suite(.timeLimit(.minutes(30))) struct StopTests {
    /// A storage that records its calls, and can keep a snapshot waiting forever.
    private final class RecordingStorage: JournalStorage {
        let events = Mutex<[String]>([])
        let needsBackgroundSearch: Bool
        private let memory = MemoryStorage()

        init(needsBackgroundSearch: Bool) { self.needsBackgroundSearch = needsBackgroundSearch }

        var isDurable: Bool { false }
        var finding: String? { nil }
        var settingStore: any SettingStore { memory.settingStore }
        func record(_ event: String) { events.withLock { $0.append(event) } }
        func open(_ namespace: String) -> OpenedJournal {
            OpenedJournal(Recovered(), Slow(of: self, MemoryJournal(keeping: 0, isImmediate: true)))
        }
        func prepareToClose() { record("prepare") }
        func close(isLate: Bool, _ done: @escaping @Sendable (JournalError?) -> Void) {
            record(isLate ? "close late" : "close")
            memory.close(isLate: isLate, done)
        }
    }

    private final class Slow: Journal {
        private weak let storage: RecordingStorage?
        private let inner: MemoryJournal

        init(of storage: RecordingStorage, _ inner: MemoryJournal) { (self.storage, self.inner) = (storage, inner) }

        var isImmediate: Bool { true }
        var stagedBytes: Int { inner.stagedBytes }
        func append(_ batch: JournalBatch, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            inner.append(batch, completion: completion)
        }
        func stage(_ operations: [JournalOperation], completion: @escaping @Sendable (Result<JournalStage, JournalError>) -> Void) {
            inner.stage(operations, completion: completion)
        }
        func tail(from position: UInt64, _ receive: @escaping @Sendable (TailEvent) -> Void) -> JournalTail {
            inner.tail(from: position, receive)
        }
        func store(_ snapshot: JournalSnapshot, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            storage?.record("snapshot")
            if storage?.needsBackgroundSearch != true { completion(.success(())) }
        }
        func whenSnapshotDue(_ ask: @escaping @Sendable () -> Void) {}
        func truncate(upTo sequence: UInt64, completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) {
            inner.truncate(upTo: sequence, completion: completion)
        }
        func close(completion: @escaping @Sendable (Result<Void, JournalError>) -> Void) { inner.close(completion: completion) }
    }

    private func server(_ storage: RecordingStorage, _ clock: FakeClock, stopMs: Int) throws -> Server {
        var settings = ServerSettings()
        (settings.port, settings.loops, settings.isDev, settings.rules) = (0, 1, true, .allowAll)
        settings.limits.stopMs = stopMs
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return try Server(settings, scheduler: clock.scheduler, logger: logger) { () throws(JournalError) in storage }
    }

    @Test func stop_closesTheStorage_behindTheDatabases_withoutItsTimePassing() async throws {
        let (storage, clock) = (RecordingStorage(needsBackgroundSearch: false), FakeClock())
        let server = try server(storage, clock, stopMs: 5_000)
        await withCheckedContinuation { continuation in server.stop { continuation.resume() } }
        #expect(storage.events.withLock { $0 } == ["prepare", "snapshot", "close"])
        clock.advance(ms: 60_000)
        #expect(storage.events.withLock(\.count) == 3, "once")
    }

    @Test func stop_waitsSoLong_forWhatDoesNotEnd() async throws {
        let (storage, clock) = (RecordingStorage(needsBackgroundSearch: true), FakeClock())
        let server = try server(storage, clock, stopMs: 5_000)
        let isDone = Mutex(false)
        server.stop { isDone.withLock { $0 = true } }
        #expect(await becomes { storage.events.withLock { $0 } == ["prepare", "snapshot"] })
        clock.advance(ms: 4_999)
        #expect(storage.events.withLock(\.count) == 2)
        clock.advance(ms: 1)
        #expect(await becomes { isDone.withLock { $0 } })
        #expect(storage.events.withLock { $0 } == ["prepare", "snapshot", "close late"])
    }
}
