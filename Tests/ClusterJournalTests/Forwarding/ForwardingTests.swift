import Dispatch
import Foundation
import HubEngine
import JSONTree
import LiveQueries
import Logging
import Scheduling
import SecurityRules
import SQLiteJournal
import Synchronization
import TestCluster
import Testing
import TestSupport

@testable import ClusterJournal
@testable import Journal

/// Databases of several hubs over the servers: one hub is the writer, and clients write at all of them.
@Suite(.serialized, .timeLimit(.minutes(30)), .enabled(if: TestCluster.program != nil, "\(TestCluster.absent)"))
struct ForwardingOverNatsTests {
    private struct NoFormat: WireFormat {
        func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] { [] }
        func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8] { [] }
        func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] { [] }
        func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8] { [] }
    }

    /// A client that counts its answers.
    private final class CountingClient: Client, @unchecked Sendable {
        // Sendable: guarded by its mutex.
        private let state = Mutex<(replies: [Reply], waiting: (@Sendable (Reply) -> Void)?)>(([], nil))

        init() { super.init(lane: 0, dialect: .system, identity: .anonymous) }

        override func replied(_ reply: Reply) {
            state.withLock { state in
                state.replies.append(reply)
                return state.waiting
            }?(reply)
        }

        func whenReplied(_ body: @escaping @Sendable (Reply) -> Void) { state.withLock { $0.waiting = body } }
        var replies: [Reply] { state.withLock { $0.replies } }
    }

    private final class Hub: Sendable {
        let cluster: ClusterHub
        let database: Database

        init(_ servers: TestCluster, _ name: String) throws {
            cluster = try ClusterHub(servers, name)
            let opened = try cluster.storage.open("main")
            let recovered = opened.recovered
            database = Database(
                name: "main", rules: .allowAll, start: (recovered.root, recovered.sequence), beside: recovered.beside, pending: recovered.pending,
                journal: opened.journal, epoch: opened.epoch, follows: opened.writerRole != nil, writerRole: opened.writerRole,
                link: opened.link, lanes: 1, format: NoFormat(),
                outlet: { _, deliveries in
                    for case .reply(let client, let reply) in deliveries { client.replied(reply) }
                }, scheduler: .system())
        }

        var writes: Bool { cluster.storage.writers.writer(of: "main") == .here }

        var root: Node {
            let found = Mutex(Node.null)
            database.snapshot { root, _, _ in found.withLock { $0 = root } }
            database.queue.sync {}
            return found.withLock { $0 }
        }
    }

    /// Three hubs, the writer first.
    private func hubs() async throws -> [Hub] {
        let (servers, name) = (try TestCluster.shared.get(), "forward\(UInt32.random(in: 1 ... .max))")
        let hubs = try (0..<3).map { _ in try Hub(servers, name) }
        #expect(await becomes { hubs.filter(\.writes).count == 1 })
        return hubs.filter(\.writes) + hubs.filter { !$0.writes }
    }

    private func adding(_ place: Path) -> Request {
        var value = WriteValue(0)
        value.deferred = [WriteValue.Deferred(path: .root, target: .value, value: .increment(1))]
        return .write([TreeWrite(place, value)])
    }

    /// Keeps this many requests of a client in flight until all are answered.
    private func run(_ hub: Hub, _ count: Int, window: Int, _ request: @escaping @Sendable (Int) -> Request) -> [Double] {
        let client = CountingClient()
        let done = DispatchSemaphore(value: 0)
        let state = Mutex<(asked: Int, began: [Double], took: [Double])>((0, [], []))
        @Sendable func now() -> Double { Double(DispatchTime.now().uptimeNanoseconds) / 1e6 }
        @Sendable func ask() {
            let number: Int? = state.withLock { state in
                guard state.asked < count else { return nil }
                state.asked += 1
                state.began.append(now())
                return state.asked - 1
            }
            if let number { hub.database.submit(request(number), from: client, token: Int64(number)) }
        }
        client.whenReplied { _ in
            let isLast = state.withLock { state in
                state.took.append(now() - state.began[state.took.count])
                return state.took.count == count
            }
            if isLast { done.signal() } else { ask() }
        }
        for _ in 0..<window { ask() }
        #expect(done.wait(timeout: .now() + .seconds(60)) == .success)
        return state.withLock { $0.took }.sorted()
    }

    @Test func clientsOfAllHubs_addUpExactly_andAllHubsEndEqual() async throws {
        let hubs = try await hubs()
        let request = adding("sum")
        await withTaskGroup(of: Void.self) { group in
            for hub in hubs {
                for window in [1, 16] {
                    group.addTask {
                        await withCheckedContinuation { continuation in
                            DispatchQueue.global().async {
                                _ = run(hub, 100, window: window) { _ in request }
                                continuation.resume()
                            }
                        }
                    }
                }
            }
        }
        // A client reads its own write, at any hub.
        for hub in hubs {
            let client = CountingClient()
            hub.database.submit(.write([TreeWrite("own", WriteValue(.int(Int64(hub.cluster.folder.path.hashValue))))]), from: client)
            hub.database.submit(.get("own"), from: client)
            #expect(await becomes { client.replies.count == 2 })
            guard case .value(let read)? = client.replies.last else {
                Issue.record("\(client.replies)")
                continue
            }
            #expect(read == .int(Int64(hub.cluster.folder.path.hashValue)))
        }
        #expect(await becomes { hubs.allSatisfy { $0.root == hubs[0].root } })
        #expect(hubs[0].root.node(at: "sum") == 600)
        for hub in hubs { await hub.cluster.close() }
    }

    @Test func largeWrites_passThroughTheServers_inParts() async throws {
        let hubs = try await hubs()
        let text = String(repeating: "0123456789abcdef", count: 16_384)
        let large = Node.object((0..<20).map { (Key("k\($0)"), .string(text)) })
        let client = CountingClient()
        hubs[1].database.submit(.write([TreeWrite("large", WriteValue(large))]), from: client, size: 5 << 20)
        #expect(await becomes { client.replies.count == 1 })
        guard case .written? = client.replies.first else {
            Issue.record("\(client.replies)")
            return
        }
        #expect(hubs[0].root.node(at: "large") == large && hubs[1].root.node(at: "large") == large)
        for hub in hubs { await hub.cluster.close() }
    }

    /// Prints the speed of writes at a follower and at the writer.
    @Test(.enabled(if: ProcessInfo.processInfo.environment["VIGLA_FIGURES"] != nil, "it measures")) func figures() async throws {
        let hubs = try await hubs()
        for window in [1, 64] {
            for (name, hub) in [("writer", hubs[0]), ("follower", hubs[1])] {
                _ = run(hub, 20 * window, window: window) { .write([TreeWrite(Path([Key("k\($0 % 10)")]), WriteValue(.int(Int64($0))))]) }
                let count = window == 1 ? 600 : 6_000
                let began = DispatchTime.now().uptimeNanoseconds
                let took = run(hub, count, window: window) { .write([TreeWrite(Path([Key("k\($0 % 10)")]), WriteValue(.int(Int64($0))))]) }
                let seconds = Double(DispatchTime.now().uptimeNanoseconds - began) / 1e9
                let (half, most) = (took[took.count / 2], took[took.count * 99 / 100])
                print("window \(window) \(name): \(Int(Double(count) / seconds))/s p50 \(half) ms p99 \(most) ms")
            }
        }
        for hub in hubs { await hub.cluster.close() }
    }
}

/// Messages that arrive at hubs from the network.
@Suite struct PeerFrameTests {
    @Test func envelopes_comeAsTheyWereSent_andAnythingElseIsRefused() {
        let envelope = HubEnvelope(hub: .max, namespace: "späte", message: [1, 2, 3])
        #expect(HubEnvelope(decoding: envelope.encoded) == envelope)
        #expect(envelope.encoded.count == HubEnvelope.headerBytes("späte") + 3)
        var random = SystemRandomNumberGenerator()
        for _ in 0..<10_000 {
            var bytes = envelope.encoded
            bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            bytes.removeLast(Int.random(in: 0...bytes.count, using: &random))
            if let read = HubEnvelope(decoding: bytes) { #expect(read.encoded == bytes) }
        }
    }
}
