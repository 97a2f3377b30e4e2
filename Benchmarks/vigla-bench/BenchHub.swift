import CLinux
import Dispatch
import Glibc
import HubEngine
import JSONTree
import LiveQueries
import Scheduling
import SecurityRules
import Synchronization

/// A clock that costs nothing to read, so that only the engine is measured.
private struct FixedTime: TimeSource {
    var wallMs: Int64 { 1_700_000_000_000 }
    var steadyNs: Int64 { 0 }
    func start(_ ring: @escaping @Sendable () -> Void) {}
    func setAlarm(atNs: Int64) {}
}

/// A database whose output is discarded.
final class BenchHub {
    let database: Database
    let format = CountingFormat()
    private var held: [Client] = []
    private let writer = Client(lane: 0, dialect: .realtime)

    /// - Parameter declared: rules at the place `m`, in addition to reads and writes for everybody.
    convenience init(root: Node, declared: String = #"".indexOn":["at"]"#) throws {
        try self.init(root: root, rules: RuleSet(parsing: #"{"rules":{".read":true,".write":true,"m":{"# + declared + "}}}"))
    }

    init(root: Node, rules: RuleSet) throws {
        database = Database(
            name: "bench", rules: rules, start: (root, 0), lanes: 1, format: format, outlet: { _, _ in },
            scheduler: Scheduler(FixedTime()))
    }

    /// Observes a query with clients of these tags; returns when they have its result, which the engine may compute in the background.
    func observe(_ path: Path, _ query: TreeQuery, tags: [Int64]) {
        let clients = tags.map { _ in Client(lane: 0, dialect: .realtime) }
        held += clients
        _ = carryOut(zip(tags, clients).map { (.observe(path, query: Query(query), style: .patches(tag: $0), hash: ""), $1) })
    }

    /// Observes each of the queries at `m` with its own client; returns when they have the results.
    func observe(_ queries: [Query]) {
        let clients = queries.map { _ in Client(lane: 0, dialect: .observe) }
        held += clients
        let style = ObserverStyle.events(id: 1, kinds: .children)
        _ = carryOut(zip(queries, clients).map { (.observe("m", query: $0, style: style, hash: ""), $1) })
    }

    /// - Throws: the last refusal, because every measured request must be carried out.
    func expectNothingRefused() throws {
        if let refusal = format.refusal.withLock({ $0 }) { throw BenchError.unexpected(refusal) }
    }

    /// Submits requests, some at a time as the net loops do, and waits until the last of them is answered and its batch has left.
    /// - Returns: ns of CPU time since all were submitted, for the queue and for background work on their behalf.
    private func carryOut(_ requests: [(Request, Client)]) -> UInt64 {
        // The queue is blocked while they are submitted, so that only their handling is timed.
        let gate = DispatchSemaphore(value: 0)
        database.queue.async { gate.wait() }
        format.expectReplies(requests.count)
        for (request, client) in requests { database.submit(request, from: client) }
        let start = Self.cpuNanos()
        gate.signal()
        // Work of one turn is answered by then, so no second wait is needed.
        database.queue.sync {}
        format.awaitReplies()
        database.queue.sync {}
        return Self.cpuNanos() - start
    }

    /// CPU time of the process, which does nothing else meanwhile; other programs on the machine do not count.
    private static func cpuNanos() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// CPU time for each write until it is answered, including the engine's background work.
    func microsPerWrite(_ count: Int, _ write: (Int) -> TreeWrite) -> Double {
        var nanos: UInt64 = 0
        for first in stride(from: 0, to: count, by: 64) {
            nanos += carryOut((first..<min(count, first + 64)).map { (.write([write($0)]), writer) })
        }
        return Double(nanos) / 1000 / Double(count)
    }

    /// CPU time for one write of a client until it is answered, including the engine's background work.
    func micros(_ write: TreeWrite, by client: Client) -> Double { Double(carryOut([(.write([write]), client)])) / 1000 }
}

/// Writes pushes of about their size on the wire, and counts them and the replies.
final class CountingFormat: WireFormat {
    private let count = Atomic<Int>(0)
    var changes: Int { count.load(ordering: .relaxed) }
    private let missingReplies = Atomic<Int>(0)
    private let replied = DispatchSemaphore(value: 0)

    func expectReplies(_ count: Int) { missingReplies.store(count, ordering: .relaxed) }
    func awaitReplies() { replied.wait() }

    /// The last refused request, which is a fault of the measurement.
    let refusal = Mutex<String?>(nil)

    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] {
        if case .failed(let failure) = reply { refusal.withLock { $0 = "\(failure)" } }
        if missingReplies.subtract(1, ordering: .relaxed).newValue == 0 { replied.signal() }
        return [0]
    }

    func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8] { [0] }
    func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8] { [0] }

    /// The part of a change that all styles share.
    private final class SharedTail: ChangeParts {
        let bytes: [UInt8]
        init(_ bytes: [UInt8]) { self.bytes = bytes }
    }

    func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] {
        let known = parts as? SharedTail ?? write(change)
        parts = known
        let rest = known.bytes
        guard case .patches(let tag?) = style else { return rest }
        // One copy behind the frame's header and the tag, as on the wire.
        var writer = JSONWriter(reservingCapacity: rest.count + 48)
        writer.raw("{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"t\":")
        writer.int(tag)
        writer.raw(rest)
        return writer.bytes
    }

    private func write(_ change: ViewChange) -> SharedTail {
        count.add(1, ordering: .relaxed)
        var writer = JSONWriter()
        for patch in change.patches {
            writer.path(patch.path.keys)
            writer.node(patch.value)
        }
        return SharedTail(writer.bytes)
    }
}
