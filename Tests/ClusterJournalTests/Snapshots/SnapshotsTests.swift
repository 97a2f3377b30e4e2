import CNats
import Foundation
import JSONTree
import Scheduling
import Synchronization
import TestCluster
import Testing
import TestSupport

@testable import ClusterJournal
@testable import Journal
@testable import SQLiteJournal

/// Logs that are truncated, and hubs that need the removed part.
@Suite(.timeLimit(.minutes(30)), .enabled(if: TestCluster.program != nil, "\(TestCluster.absent)")) struct SnapshotsTests {
    private let cluster: TestCluster

    init() throws { cluster = try TestCluster.shared.get() }

    private func hub(_ name: String, folder: TemporaryFolder? = nil, logger: LineLog? = nil) throws -> ClusterHub {
        try ClusterHub(cluster, name, folder: folder, snapshotAfterBatches: 150, logger: logger?.logger ?? .silent) { settings in
            (settings.keptBytes, settings.checkIntervalMs, settings.snapshotRetryMs) = (40_000, 100, 200)
            (settings.messageBytes, settings.regressionPatienceMs, settings.appendMs) = (20_000, 500, 3_000)
        }
    }

    /// A batch with every kind of data that is stored next to the tree.
    private func batch(_ sequence: UInt64, epoch: UInt64 = 1) -> JournalBatch {
        let session = "s\(sequence % 7)"
        var operations: [JournalOperation] = [
            .set(Path(["k", Key("\(sequence % 50)")]), ["text": .string(Text(String(repeating: "é\(sequence)", count: 100)))]),
            .written(Path(["k", Key("\(sequence % 50)")]), Int64(sequence)),
            .pending(.identify(session: session, auth: ["uid": "ana"], isAdmin: false)),
            .pending(.keep(session: session, TreeWrite("gone", WriteValue(.int(Int64(sequence)))))),
        ]
        if sequence == 1 { operations.append(.peer(.join(hub: 5, at: 1))) }
        return JournalBatch(sequence: sequence, after: sequence - 1, operations: operations, id: sequence, epoch: epoch)
    }

    private func write(_ numbers: ClosedRange<UInt64>, to journal: any Journal) async throws {
        for number in numbers { try await journal.store(batch(number)) }
    }

    private func first(_ hub: ClusterHub) async -> UInt64 { (try? await hub.storage.shard(of: "main").log.look().get())?.first ?? 0 }

    /// Writes until the log no longer starts with its first message.
    private func writeUntilPurged(
        beyond place: UInt64 = 1, from sequence: UInt64, _ hub: ClusterHub, _ journal: any Journal
    ) async throws -> UInt64 {
        var last = sequence - 1
        while await first(hub) <= place, last < sequence + 20_000 {
            try await write((last + 1)...(last + 20), to: journal)
            last += 20
        }
        #expect(await first(hub) > place)
        return last
    }

    private func expectEqual(_ one: Recovered, _ two: Recovered) {
        #expect(one.root == two.root && one.sequence == two.sequence && one.epoch == two.epoch)
        #expect(one.pending == two.pending && !one.pending.isEmpty)
        #expect(one.written.operations == two.written.operations && !one.written.isEmpty)
        #expect(one.peers.changes == two.peers.changes && !one.peers.changes.isEmpty)
    }

    @Test func newHub_afterThePurge_hasAll_andGoesOnFromTheLog() async throws {
        let one = try hub("newcomer")
        let journal = try one.storage.openToWrite("main", patienceMs: 30_000).journal
        let last = try await writeUntilPurged(from: 1, one, journal)
        let late = try hub("newcomer")
        let opened = try late.storage.openToWrite("main", patienceMs: 30_000)
        expectEqual(opened.recovered, try one.store.recover("main"))
        #expect(opened.recovered.sequence == last)
        let recorder = Recorder(opened.journal, from: last)
        try await write((last + 1)...(last + 30), to: journal)
        #expect(await becomes { recorder.last == last + 30 })
        // It also starts alone, from its folder.
        await late.close()
        let again = try hub("newcomer", folder: late.folder)
        expectEqual(try again.storage.openToWrite("main", patienceMs: 30_000).recovered, try one.store.recover("main"))
        await again.close()
        await one.close()
    }

    @Test func hub_thatWasAwayBehindThePurge_takesASnapshotOver_inPlaceOfItsFolder() async throws {
        let (one, two) = (try hub("away"), try hub("away"))
        let journal = try one.storage.openToWrite("main", patienceMs: 30_000).journal
        try await write(1...40, to: journal)
        _ = try two.storage.openToWrite("main", patienceMs: 30_000)
        await two.close()
        let last = try await writeUntilPurged(beyond: 45, from: 41, one, journal)
        let again = try hub("away", folder: two.folder)
        let opened = try again.storage.openToWrite("main", patienceMs: 30_000)
        #expect(opened.recovered.sequence == last)
        expectEqual(opened.recovered, try one.store.recover("main"))
        try await opened.journal.store(batch(last + 1, epoch: 2))
        await again.close()
        await one.close()
    }

    /// Messages that a present hub has not received stay in the log.
    @Test func log_isNotShortened_behindAHubThatIsThere() async throws {
        let one = try hub("slow")
        let journal = try one.storage.openToWrite("main", patienceMs: 30_000).journal
        let connection = try cluster.connect()
        #expect(await becomes { connection.isConnected })
        // A hub that has applied 3 messages and no more.
        let slow = Heartbeat(hub: 7, startedMs: 0, address: "", shards: [Heartbeat.Shard(isReady: false, writes: false, applied: 3)])
        let isOver = Mutex(false)
        let beats = Thread {
            while !isOver.withLock({ $0 }) {
                connection.publish(slow.encoded, to: "vigla.hubs.slow")
                usleep(50_000)
            }
        }
        beats.start()
        #expect(await becomes { one.storage.cluster?.hubs.count == 2 })
        let shard = one.storage.shard(of: "main")
        var last: UInt64 = 0
        while shard.status.snapshot == 0, last < 20_000 {
            try await write((last + 1)...(last + 20), to: journal)
            last += 20
        }
        try await write((last + 1)...(last + 200), to: journal)
        #expect(shard.status.snapshot > 0)
        #expect(await first(one) <= 4)
        isOver.withLock { $0 = true }
        // It is gone.
        _ = try await writeUntilPurged(beyond: 4, from: last + 201, one, journal)
        await one.close()
    }

    @Test func snapshots_thatTwoWrite_orThatEndInTheMiddle_areReadWhole() async throws {
        let one = try hub("two")
        let journal = try one.storage.openToWrite("main", patienceMs: 30_000).journal
        try await write(1...120, to: journal)
        let shard = one.storage.shard(of: "main")
        let log = ShardLog(shard.log.connection, name: "VIGLA_two_9_snapshot", settings: shard.log.settings)
        func made() -> SnapshotStream { SnapshotStream(log, one.store, .silent) { $0 == "main" } }
        #expect(throws: SnapshotStream.Fault.self) { try made().read(upTo: 1, created: 0) }
        // From a writer that was killed.
        _ = try await log.look(mayCreate: true).get()
        let place = SnapshotPlace(created: shard.created, complete: shard.newest)
        let begin = SnapshotMessage(snapshot: 5, number: 0, kind: .begin, body: place.encoded[...])
        let half = SnapshotMessage(snapshot: 5, number: 1, kind: .data, body: [200, 0, 0, 0, 2, 91])
        #expect(await log.append(begin.encoded, id: 1, after: 0) == .stored(sequence: 1))
        #expect(await log.append(half.encoded, id: 2, after: 1) == .stored(sequence: 2))
        let streams = [made(), made()]
        await withTaskGroup(of: Void.self) { group in
            for stream in streams { group.addTask { for _ in 0..<5 { _ = try? stream.write() } } }
        }
        if try made().newest() == nil { _ = try made().write() }
        let newest = try #require(try made().newest())
        // The newest batch is stored with the log position that was complete when it was synced to the disk.
        #expect(newest.place.complete.sequence >= 119)
        let folder = try TemporaryFolder()
        let store = try JournalStore.open(folder: folder.path, scheduler: .system())
        let read = SnapshotStream(log, store, .silent) { _ in true }
        #expect(try read.read(upTo: 1, created: 0) == newest.place)
        expectEqual(try store.recover("main"), try one.store.recover("main"))
        #expect(try store.settings(of: "main")[StoredPosition.name] == one.store.settings(of: "main")[StoredPosition.name])
        // A snapshot that is too old, or of another log, is not accepted.
        #expect(throws: SnapshotStream.Fault.self) { try read.read(upTo: newest.place.complete.sequence + 1, created: 0) }
        #expect(throws: SnapshotStream.Fault.self) { try read.read(upTo: 1, created: 77) }
        try store.close()
        await one.close()
    }

    private func snapshot(_ store: JournalStore) async throws {
        let content = try store.recover("main")
        let snapshot = JournalSnapshot(
            root: content.root, sequence: content.sequence, pending: content.pending, beside: content.beside)
        try await withCheckedContinuation { continuation in
            store.journal(for: "main").store(snapshot) { continuation.resume(returning: $0) }
        }.get()
    }

    /// A hub is killed while it loads a snapshot: its folder keeps its content, and the next attempt succeeds.
    @Test func transfer_thatEndsInTheMiddle_leavesTheFolderAsItWas() async throws {
        let (source, folder) = (try TemporaryFolder(), try TemporaryFolder())
        let from = try JournalStore.open(folder: source.path, settings: .init(snapshotAfterBatches: 40), scheduler: .system())
        let journal = from.journal(for: "main")
        for number in UInt64(1)...60 { try await journal.store(batch(number)) }
        try await snapshot(from)
        for number in UInt64(61)...100 { try await journal.store(batch(number)) }
        var into = try JournalStore.open(folder: folder.path, scheduler: .system())
        for number in UInt64(1)...10 { try await into.journal(for: "main").store(batch(number)) }
        let old = try into.recover("main")
        func parts() throws -> [ExportedPart] {
            var parts: [ExportedPart] = []
            try from.export(of: { $0 == "main" }, with: "none", begin: { _ in }, give: { parts.append($0) })
            return parts
        }
        let all = try parts()
        #expect(all.count > 3)
        for count in [1, 2, all.count / 2, all.count] {
            let taking = NamespaceImport(into: into, setting: "none")
            for part in all.prefix(count) { try taking.add(part) }
            // Without a notice.
            try into.close()
            into = try JournalStore.open(folder: folder.path, scheduler: .system())
            expectEqual(try into.recover("main"), old)
        }
        let taking = NamespaceImport(into: into, setting: "none")
        for part in all { try taking.add(part) }
        try taking.commit()
        expectEqual(try into.recover("main"), try from.recover("main"))
        // It continues from there, also after a snapshot of its own.
        try await into.journal(for: "main").store(batch(101))
        try await journal.store(batch(101))
        try await snapshot(into)
        try into.close()
        into = try JournalStore.open(folder: folder.path, scheduler: .system())
        expectEqual(try into.recover("main"), try from.recover("main"))
        try into.close()
        try from.close()
    }

    /// A truncated log is not mistaken for one that was reset, and vice versa.
    @Test func log_thatIsShorterThanWhatWasApplied_isStillRefused_afterAPurge() async throws {
        let lines = LineLog()
        let one = try hub("regressed", logger: lines)
        let journal = try one.storage.openToWrite("main", patienceMs: 30_000).journal
        let last = try await writeUntilPurged(from: 1, one, journal)
        #expect(!lines.all.contains { $0.contains("is not the one that this hub has followed") })
        let connection = try cluster.connect()
        #expect(await becomes { connection.isConnected })
        var code = jsErrCode(0)
        #expect(js_DeleteStream(connection.stream, one.storage.shard(of: "main").log.name, nil, &code) == NATS_OK)
        func isRegressed(_ error: any Error) -> Bool { if case JournalError.regressed = error { true } else { false } }
        #expect(await eventually {
            do { try await journal.store(batch(last + 1)) } catch { return isRegressed(error) }
            return false
        })
        #expect(try one.store.recover("main").sequence == last)
        await one.close(isLate: true)
    }

    @Test func inspection_tellsAShortenedLogFromOneThatWasSetBack() {
        var inspection = LogVerifier(patienceMs: 0)
        func found(first: UInt64, last: UInt64, id: UInt64? = nil) -> Result<ShardLog.State, ShardLog.StateFault> {
            .success(ShardLog.State(created: 1, first: first, last: last, id: id))
        }
        let place = LogPlace(sequence: 10, id: 4)
        #expect(inspection.receive(found(first: 12, last: 20), created: 1, newest: place, nowMs: 0) == .isShortened(first: 12))
        #expect(inspection.receive(found(first: 11, last: 20), created: 1, newest: place, nowMs: 0) == .isSound)
        #expect(inspection.receive(found(first: 11, last: 10), created: 1, newest: place, nowMs: 0) == .isSound)
        for i in 0..<3 {
            let finding = inspection.receive(found(first: 8, last: 9), created: 1, newest: place, nowMs: 0)
            if i < 2 { #expect(finding == .isOpen) } else if case .isAnother = finding {} else { Issue.record("\(finding)") }
        }
    }
}
