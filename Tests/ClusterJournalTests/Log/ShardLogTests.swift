import Dispatch
import Synchronization
import TestCluster
import Testing
import TestSupport

@testable import ClusterJournal

extension ShardLog {
    func append(_ bytes: [UInt8], id: UInt64, after: UInt64) async -> AppendOutcome {
        await withCheckedContinuation { continuation in append(bytes, id: id, after: after) { continuation.resume(returning: $0) } }
    }

    func look(mayCreate: Bool = false, at sequence: UInt64 = 0) async -> Result<State, StateFault> {
        await withCheckedContinuation { continuation in look(mayCreate: mayCreate, at: sequence) { continuation.resume(returning: $0) } }
    }

    /// Creates the log; the servers may still be electing their leader.
    func make() async throws {
        #expect(await eventually { await self.look(mayCreate: true).map { $0.leader != nil } == .success(true) })
    }
}

/// Polls a condition that itself has to wait.
func eventually(_ condition: () async throws -> Bool) async rethrows -> Bool {
    for _ in 0..<400 {
        if try await condition() { return true }
        try? await Task.sleep(for: .milliseconds(50))
    }
    return try await condition()
}

/// The messages of a tail.
final class Received: Sendable {
    private let state = Mutex<[(sequence: UInt64, bytes: [UInt8])]>([])

    func receive(_ tail: LogTail, _ sequence: UInt64, _ bytes: [UInt8]) {
        state.withLock { $0.append((sequence, bytes)) }
        tail.done()
    }

    var sequences: [UInt64] { state.withLock { $0.map(\.sequence) } }
    var bytes: [[UInt8]] { state.withLock { $0.map(\.bytes) } }
}

@Suite(.timeLimit(.minutes(30)), .enabled(if: TestCluster.program != nil, "\(TestCluster.absent)")) struct ShardLogTests {
    private let cluster: TestCluster

    init() throws { cluster = try TestCluster.shared.get() }

    private func log(
        _ name: String, _ connection: NatsConnection? = nil, _ settings: ShardLog.Settings = .init()
    ) async throws -> ShardLog {
        let log = ShardLog(try connection ?? cluster.connect(), name: name, settings: settings)
        try await log.make()
        return log
    }

    /// The servers announce their version; one that is too old is logged once, however often it is checked.
    @Test func serverThatIsTooOld_isOfNoUse() async throws {
        let lines = LineLog()
        let connection = try NatsConnection(NatsConnection.Settings(servers: cluster.urls), logger: lines.logger)
        #expect(await becomes { connection.isConnected })
        let made = try await log("old", connection)
        var settings = ShardLog.Settings()
        settings.oldestServer = try #require(NatsVersion("99.1.0"))
        let refusing = ShardLog(connection, name: "old", settings: settings)
        for _ in 0..<2 {
            guard case .failure(.unreachable(let reason)) = await refusing.look() else {
                Issue.record("an old server is used")
                return
            }
            #expect(reason.contains("a hub needs 99.1.0 or later"), "\(reason)")
        }
        #expect(lines.all.filter { $0.contains("of no use") }.count == 1, "\(lines.all)")
        if case .failure(let fault) = await made.look() { Issue.record("\(fault)") }
    }

    @Test func append_behindTheNamedMessage_isStored_alsoTheFirst() async throws {
        let log = try await log("append")
        #expect(await log.append([1], id: 1, after: 1) == .conflict(last: 0))
        #expect(await log.append([1], id: 1, after: 0) == .stored(sequence: 1))
        #expect(await log.append([2], id: 2, after: 0) == .conflict(last: 1))
        #expect(await log.append([2], id: 2, after: 1) == .stored(sequence: 2))
        #expect(await log.append([3], id: 3, after: 0) == .conflict(last: 2))
    }

    @Test func append_ofTheSameMessage_isStoredOnce() async throws {
        let log = try await log("twice")
        #expect(await log.append([1], id: 0xABC, after: 0) == .stored(sequence: 1))
        #expect(await log.append([1], id: 0xABC, after: 0) == .duplicate(sequence: 1))
        #expect(await log.append([2], id: 2, after: 1) == .stored(sequence: 2))
        #expect(await log.append([1], id: 0xABC, after: 0) == .duplicate(sequence: 1))
        #expect(try await log.look().get().last == 2)
    }

    @Test func message_atTheLimit_isStored_aboveIt_isRefused() async throws {
        var settings = ShardLog.Settings()
        settings.messageBytes = 10_000
        let log = try await log("limit", nil, settings)
        // The servers count the headers, too.
        #expect(await log.append(Array(repeating: 1, count: 9_800), id: 1, after: 0) == .stored(sequence: 1))
        guard case .unavailable = await log.append(Array(repeating: 1, count: 10_001), id: 2, after: 1) else {
            Issue.record("a message above the limit was taken")
            return
        }
    }

    @Test func tail_fromAnyPlace_isCompleteAndInOrder() async throws {
        let log = try await log("tail")
        for i in UInt64(1)...40 { #expect(await log.append([UInt8(i)], id: i, after: i - 1) == .stored(sequence: i)) }
        let starts = [1, 2, 17, 40, 41] as [UInt64]
        let received = starts.map { _ in Received() }
        let tails = zip(starts, received).map { start, received in
            log.tail(from: start) { received.receive($0, $1, $2) } missing: { _, _ in Issue.record("nothing is missing") }
        }
        for i in UInt64(41)...60 { #expect(await log.append([UInt8(i)], id: i, after: i - 1) == .stored(sequence: i)) }
        for (start, received) in zip(starts, received) {
            #expect(await becomes { received.sequences.last == 60 })
            #expect(received.sequences == Array(start...60) && received.bytes == (start...60).map { [UInt8($0)] })
        }
        // From scratch after the last received message, as after a gap.
        for tail in tails { tail.restart() }
        #expect(await log.append([61], id: 61, after: 60) == .stored(sequence: 61))
        for (start, received) in zip(starts, received) {
            #expect(await becomes { received.sequences.last == 61 })
            #expect(received.sequences == Array(start...61))
        }
        for tail in tails { tail.stop() }
    }

    /// No more arrive than the window holds until some are done.
    @Test func tail_ofASlowReader_waitsAndMissesNothing() async throws {
        let log = try await log("slow")
        for i in UInt64(1)...200 { #expect(await log.append([UInt8(i)], id: i, after: i - 1) == .stored(sequence: i)) }
        let sequences = Mutex<[UInt64]>([])
        let tail = log.tail(from: 1) { _, sequence, _ in sequences.withLock { $0.append(sequence) } } missing: { _, _ in
            Issue.record("nothing is missing")
        }
        #expect(await becomes { sequences.withLock { $0.count } == log.settings.window })
        for done in 1...136 {
            tail.done()
            #expect(await becomes { sequences.withLock { $0.count } == log.settings.window + done })
        }
        #expect(sequences.withLock { $0 } == Array(1...200))
        tail.stop()
    }

    @Test func look_returnsTheMessageID_andTheGap() async throws {
        let log = try await log("look")
        let message = LogMessage(id: 77, previous: 0, hub: 1, part: 0, parts: 1, body: [1, 2])
        #expect(await log.append(message.encoded, id: 77, after: 0) == .stored(sequence: 1))
        #expect(await log.append([9, 9], id: 78, after: 1) == .stored(sequence: 2))
        #expect(try await log.look(at: 1).get().id == 77)
        #expect(try await log.look(at: 2).get().id == 0)
        #expect(try await log.look(at: 3).get().id == nil)
        let other = ShardLog(try cluster.connect(), name: "nothing_here")
        #expect(await eventually { await other.look() == .failure(.missing) })
    }

    /// Six writers compete for each place; no place has two.
    @Test func append_byManyAtOnce_hasOneWinner() async throws {
        let rounds = UInt64(300)
        var logs: [ShardLog] = []
        for i in 0..<6 { logs.append(try await log("race", try cluster.connect([i % 3, (i + 1) % 3]))) }
        var winners: [Int] = []
        for round in 0..<rounds {
            let outcomes = await withTaskGroup(of: (Int, AppendOutcome).self) { group in
                for (i, log) in logs.enumerated() {
                    group.addTask { (i, await log.append([UInt8(i)], id: round * 10 + UInt64(i) + 1, after: round)) }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let stored = outcomes.filter { $0.1 == .stored(sequence: round + 1) }
            let refused = outcomes.filter { $0.1 == .conflict(last: round + 1) }
            guard stored.count == 1, refused.count == 5 else {
                Issue.record("round \(round): \(outcomes)")
                return
            }
            winners.append(stored[0].0)
        }
        let received = Received()
        let tail = logs[0].tail(from: 1) { received.receive($0, $1, $2) } missing: { _, _ in Issue.record("nothing is missing") }
        #expect(await becomes { received.sequences.last == rounds })
        #expect(received.bytes == winners.map { [UInt8($0)] })
        tail.stop()
    }
}
