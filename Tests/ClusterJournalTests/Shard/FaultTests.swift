import CNats
import Foundation
import Glibc
import JSONTree
import Synchronization
import TestCluster
import Testing
import TestSupport

@testable import ClusterJournal
@testable import Journal
@testable import SQLiteJournal

/// Servers and hubs that are killed, stopped and reset. Each test has its own servers.
@Suite(.timeLimit(.minutes(30)), .serialized, .enabled(if: TestCluster.program != nil, "\(TestCluster.absent)")) struct FaultTests {
    private func batch(_ sequence: UInt64, epoch: UInt64 = 1) -> JournalBatch {
        JournalBatch(sequence: sequence, after: sequence - 1, operations: [.set("n", .int(Int64(sequence)))], id: sequence, epoch: epoch)
    }

    private func leader(_ hub: ClusterHub) async throws -> Int {
        let name = await hub.storage.shard(of: "main").log.look()
        return try #require(try name.get().leader.flatMap { Int($0.dropFirst()) })
    }

    /// Appends one after the other, several at a time, until this many are acknowledged.
    private func load(
        _ journal: any Journal, _ numbers: ClosedRange<UInt64>, window: Int = 8, _ at: @escaping @Sendable (UInt64) -> Void
    ) async {
        let places = AsyncStream<Void>.makeStream()
        for _ in 0..<window { places.continuation.yield() }
        var free = places.stream.makeAsyncIterator()
        let left = Mutex(numbers.count)
        for number in numbers {
            await free.next()
            journal.append(batch(number)) { result in
                if case .failure(let error) = result { Issue.record("\(number): \(error)") }
                at(number)
                left.withLock { $0 -= 1 }
                places.continuation.yield()
            }
        }
        #expect(await becomes { left.withLock { $0 } == 0 })
    }

    /// No acknowledged batch is lost or duplicated, and all hubs have the same content.
    @Test(arguments: [SIGKILL, SIGSTOP]) func leader_lostUnderLoad_losesNothing(signal: Int32) async throws {
        let cluster = try TestCluster()
        let hubs = try (0..<2).map { _ in try ClusterHub(cluster, "leader") }
        let journal = try hubs[0].storage.openToWrite("main", patienceMs: 30_000).journal
        let recorders = hubs.map { Recorder($0.storage.journal(of: "main")) }
        try await journal.store(batch(1))
        let leader = try await leader(hubs[0])
        await load(journal, 2...1500) { number in
            guard number == 500 else { return }
            signal == SIGKILL ? try? cluster.kill(leader) : cluster.signal(leader, signal)
        }
        if signal == SIGKILL { try cluster.start(leader) } else { cluster.signal(leader, SIGCONT) }
        await load(journal, 1501...1600) { _ in }
        for recorder in recorders {
            #expect(await becomes { recorder.last == 1600 })
            #expect(recorder.batches == (1...1600).map { batch($0) })
        }
        // A new hub gets the same. If a server that just came back reported an older end of the log, the rest follows right after its start.
        let late = try ClusterHub(cluster, "leader")
        let recovered = try late.storage.openToWrite("main", patienceMs: 30_000).recovered.sequence
        let rest = Recorder(late.storage.journal(of: "main"), from: recovered)
        #expect(await becomes { recovered == 1600 || rest.last == 1600 })
        #expect(rest.batches == (1...1600).dropFirst(Int(recovered)).map { batch($0) })
        for hub in hubs + [late] { await hub.close() }
    }

    /// A hub in a separate process, and its output.
    private final class WriterProcess {
        let process: ChildProcess
        private let lines = LineReader()
        private let input = Pipe()

        init(_ cluster: TestCluster, _ name: String, _ folder: TemporaryFolder, bytes: Int) throws {
            let output = Pipe()
            process = try ChildProcess(
                Command.folder.appendingPathComponent("cluster-writer").path,
                [folder.path, name, "main", "\(bytes)", cluster.urls.joined(separator: ",")],
                input: .handle(input.fileHandleForReading), output: .handle(output.fileHandleForWriting))
            try output.fileHandleForWriting.close()
            lines.read(output.fileHandleForReading)
        }

        var all: [String] { lines.all }
        var acknowledged: UInt64 { all.compactMap { $0.hasPrefix("ack ") ? UInt64($0.dropFirst(4)) : nil }.last ?? 0 }
        func signal(_ signal: Int32) { Glibc.kill(process.processIdentifier, signal) }

        func end() {
            signal(SIGKILL)
            process.waitUntilExit()
            try? input.fileHandleForWriting.close()
        }
    }

    private final class LineReader: Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }

        func read(_ handle: FileHandle) {
            Thread { [self] in
                var rest: [UInt8] = []
                while true {
                    let data = handle.availableData
                    if data.isEmpty { return }
                    rest += data
                    while let end = rest.firstIndex(of: 0x0A) {
                        lines.withLock { $0.append(String(decoding: rest[..<end], as: UTF8.self)) }
                        rest.removeSubrange(...end)
                    }
                }
            }.start()
        }
    }

    /// A writer was away while another took over: its later writes are discarded.
    @Test func writer_stoppedPastItsReplacement_isFenced() async throws {
        let cluster = try TestCluster()
        let folder = try TemporaryFolder()
        let writer = try WriterProcess(cluster, "fence", folder, bytes: 10)
        #expect(await becomes { writer.acknowledged >= 50 })
        writer.signal(SIGSTOP)
        let hub = try ClusterHub(cluster, "fence")
        let opened = try hub.storage.openToWrite("main", patienceMs: 30_000)
        #expect(opened.epoch == 2 && opened.recovered.sequence >= 50)
        let recorder = Recorder(opened.journal)
        var last = opened.recovered.sequence
        // The stopped writer's pending messages may still arrive before the first.
        for attempt in 0..<20 {
            do {
                try await opened.journal.store(JournalBatch(sequence: last + 1, after: last, operations: [], id: 7000 + last, epoch: 2))
                last += 1
            } catch JournalError.conflict(_, let newest) where attempt < 3 { last = newest }
        }
        writer.signal(SIGCONT)
        #expect(await becomes { writer.all.last?.hasPrefix("refused") == true && !writer.process.isRunning })
        #expect(writer.process.terminationStatus == 3)
        try await opened.journal.store(JournalBatch(sequence: last + 1, after: last, operations: [], epoch: 2))
        #expect(await becomes { recorder.last == last + 1 })
        let epochs = recorder.batches.map(\.epoch)
        #expect(epochs == epochs.sorted() && epochs.filter { $0 == 2 }.count >= 18)
        #expect(recorder.batches.contains { $0.sequence == writer.acknowledged && $0.epoch == 1 })
        writer.end()
        // It returns as a follower, with the content of the others.
        let again = try ClusterHub(cluster, "fence", folder: folder)
        #expect(try again.storage.openToWrite("main", patienceMs: 30_000).recovered.sequence == last + 1)
        await again.close()
        await hub.close()
    }

    /// Batches in several messages; the writer is killed at any point, and restarts from its folder.
    @Test func writer_killedWithinLargeBatches_leavesNoHalf() async throws {
        let cluster = try TestCluster()
        let (folder, bytes) = (try TemporaryFolder(), 2_500_000)
        let follower = try ClusterHub(cluster, "killed")
        let recorder = Recorder(try follower.storage.open("main").journal)
        var acknowledged: UInt64 = 0
        for round in UInt64(1)...4 {
            let writer = try WriterProcess(cluster, "killed", folder, bytes: bytes)
            #expect(await becomes { writer.acknowledged > acknowledged + 2 })
            #expect(writer.all.first == "ready \(round)")
            usleep(UInt32.random(in: 0..<30_000))
            writer.end()
            acknowledged = writer.acknowledged
            #expect(await becomes { recorder.last >= acknowledged })
        }
        let last = recorder.last
        #expect(recorder.batches.map(\.sequence) == Array(1...last))
        for batch in recorder.batches {
            guard batch.operations.count == 2, case .set("text", .string(let text)) = batch.operations[1], text.utf8Count == bytes else {
                Issue.record("batch \(batch.sequence) is not whole")
                continue
            }
        }
        let late = try ClusterHub(cluster, "killed")
        #expect(try late.storage.openToWrite("main", patienceMs: 30_000).recovered.sequence == recorder.last)
        await late.close()
        await follower.close()
    }

    /// A log was deleted and recreated by a hub that knows nothing: writes are refused, applied content stays.
    @Test func log_deletedAndMadeAnew_stopsWritesAndSetsNothingBack() async throws {
        let cluster = try TestCluster()
        let lines = LineLog()
        let hub = try ClusterHub(cluster, "deleted", logger: lines.logger) {
            ($0.checkIntervalMs, $0.appendMs, $0.regressionPatienceMs) = (200, 1_000, 500)
        }
        let journal = try hub.storage.openToWrite("main", patienceMs: 30_000).journal
        for i in UInt64(1)...5 { try await journal.store(batch(i)) }
        let (log, connection) = (hub.storage.shard(of: "main").log, try cluster.connect())
        #expect(await becomes { connection.isConnected })
        var code = jsErrCode(0)
        #expect(js_DeleteStream(connection.stream, log.name, nil, &code) == NATS_OK)
        func isRegressed(_ error: any Error) -> Bool { if case JournalError.regressed = error { true } else { false } }
        #expect(await eventually {
            do { try await journal.store(batch(6)) } catch { return isRegressed(error) }
            Issue.record("a log that is gone has taken a batch")
            return true
        })
        let other = try ClusterHub(cluster, "deleted")
        let started = try other.storage.openToWrite("main", patienceMs: 30_000)
        #expect(started.recovered.sequence == 0)
        for i in UInt64(1)...8 { try await started.journal.store(batch(i)) }
        await #expect { try await journal.store(batch(6)) } throws: { isRegressed($0) }
        #expect(lines.all.contains { $0.contains("is not the one that this hub has followed") })
        await hub.close(isLate: true)
        // Also after a restart, with its content unchanged.
        let again = try ClusterHub(cluster, "deleted", folder: hub.folder) { $0.appendMs = 1_000 }
        #expect(try again.store.recover("main").sequence == 5)
        #expect(await eventually {
            do { try await again.storage.journal(of: "main").store(batch(6)) } catch { return isRegressed(error) }
            return false
        })
        await again.close(isLate: true)
        await other.close()
    }
}
