import ArgumentParser
import CLinux
import Dispatch
import Glibc
import HubEngine
import JSONTree
import Scheduling
import SecurityRules
import Synchronization

/// What the database queue does for one write, without sockets: how it grows with the place, with the clients, and what a
/// stored leaf takes.
struct Engine: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Engine time of a write beside 10³…10⁶ children with live queries, and memory per stored leaf.")

    @Option(help: "Numbers of children, separated by commas.") var children = "1000,10000,100000,1000000"
    @Option(help: "Writes of each kind.") var writes = 20_000
    @Option(help: "Clients that share one query.") var clients = 1_000

    private var counts: [Int] { children.split(separator: ",").map { Int($0) ?? 0 } }

    func validate() throws {
        guard counts.allSatisfy({ $0 > 0 }), !counts.isEmpty else { throw ValidationError("--children: numbers") }
        guard writes > 0, clients > 0 else { throw ValidationError("numbers must be above 0") }
    }

    func run() throws {
        print("children  bytes/leaf  append µs  change µs  overwrite µs   (one observer of limitToLast(50) by child \"at\", kept by its "
            + "index)")
        for count in counts { try place(of: count) }
        try sharing()
    }

    /// One place of `count` records of five fields, with its queries.
    private func place(of count: Int) throws {
        let before = HeapMeter.allocated
        let root: Node = ["m": .object((0..<count).lazy.map { (Self.key($0), Self.record($0)) })]
        let perLeaf = Double(HeapMeter.allocated - before) / Double(count * 5)
        let hub = try BenchHub(root: root)
        hub.observe("m", TreeQuery(index: .child("at"), limit: 50, viewFrom: .last), tags: [1])
        var random = SystemRandomNumberGenerator()
        let append = hub.microsPerWrite(writes) { i in
            TreeWrite(Path([Key("m"), Self.key(count + i)]), WriteValue(Self.record(count + i)))
        }
        let change = hub.microsPerWrite(writes) { _ in
            let at = Int.random(in: 0..<count, using: &random)
            return TreeWrite(
                Path([Key("m"), Self.key(at), Key("at")]), WriteValue(.int(Int64.random(in: 0..<1_000_000_000, using: &random))))
        }
        let overwrite = hub.microsPerWrite(writes) { i in
            let at = Int.random(in: 0..<count, using: &random)
            return TreeWrite(Path([Key("m"), Self.key(at)]), WriteValue(Self.record(i)))
        }
        print(
            "\(String(count).padded(8))  \(perLeaf.fixed(0).padded(10))  \(append.fixed(2).padded(9))  \(change.fixed(2).padded(9))  "
                + "\(overwrite.fixed(2).padded(12))")
    }

    /// Many clients with the same query: how often a change is worked out, and what it costs more than for one.
    private func sharing() throws {
        let root: Node = ["m": .object((0..<10_000).lazy.map { (Self.key($0), Self.record($0)) })]
        for (title, count, tags) in [
            ("1 client", 1, 1), ("\(clients) clients, one tag", clients, 1), ("\(clients) clients, a tag each", clients, clients),
        ] {
            let hub = try BenchHub(root: root)
            hub.observe("m", TreeQuery(index: .child("at"), limit: 50, viewFrom: .last), tags: (0..<count).map { Int64($0 % tags + 1) })
            let changes = hub.format.changes
            let micros = hub.microsPerWrite(1_000) { i in
                TreeWrite(Path([Key("m"), Self.key(10_000 + i)]), WriteValue(Self.record(2_000_000 + i)))
            }
            print("\(title): \(micros.fixed(2)) µs per write, its window worked out \(Double(hub.format.changes - changes) / 1_000) times")
        }
    }

    /// A push id's length, ascending.
    private static func key(_ i: Int) -> Key { Key("-Nx\(10_000_000_000_000_000 + i)") }

    private static func record(_ i: Int) -> Node {
        ["author": .string("user-\(i % 5000)"), "at": .int(1_700_000_000_000 + Int64(i)), "lat": .double(
            37.9 + Double(i % 1000) / 10_007), "on": .bool(i % 2 == 0),
            "text": .string("message \(i)")]
    }
}

/// Costs nothing to read, so that the engine alone is measured.
private struct StillTime: TimeSource {
    var wallMs: Int64 { 1_700_000_000_000 }
    var steadyNs: Int64 { 0 }
    func start(_ ring: @escaping @Sendable () -> Void) {}
    func setAlarm(atNs: Int64) {}
}

/// A database whose output goes nowhere.
private final class BenchHub {
    let database: Database
    let format = CountingFormat()
    private var held: [Client] = []
    private let writer = Client(lane: 0, dialect: .realtime)

    init(root: Node) throws {
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,".write":true,"m":{".indexOn":["at"]}}}"#)
        database = Database(
            name: "bench", rules: rules, start: (root, 0), lanes: 1, format: format, outlet: { _, _ in },
            scheduler: Scheduler(StillTime()))
    }

    /// Clients with these tags observe a query; returns when they have what it shows, which may take work beside the queue.
    func observe(_ path: Path, _ query: TreeQuery, tags: [Int64]) {
        let clients = tags.map { _ in Client(lane: 0, dialect: .realtime) }
        held += clients
        _ = carryOut(zip(tags, clients).map { (.observe(path, query: .window(query), style: .patches(tag: $0), hash: ""), $1) })
    }

    /// Hands over requests, some at a time as the net loops do, and waits until the last of them is answered and its batch has left.
    /// - Returns: ns of CPU time since all of them were handed over, of the queue and of what is done for them beside it.
    private func carryOut(_ requests: [(Request, Client)]) -> UInt64 {
        // The queue is held while they are handed over, so that only their handling is timed.
        let gate = DispatchSemaphore(value: 0)
        database.queue.async { gate.wait() }
        format.expectReplies(requests.count)
        for (request, client) in requests { database.submit(request, from: client) }
        let start = Self.cpuNanos()
        gate.signal()
        // What is done in one turn has been answered then, and there is no second thing to sleep for.
        database.queue.sync {}
        format.awaitReplies()
        database.queue.sync {}
        return Self.cpuNanos() - start
    }

    /// Of the process, which does nothing else meanwhile: other programs on the machine do not count.
    private static func cpuNanos() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// CPU time for each of the writes until it is answered, with what the engine does for it beside the queue.
    func microsPerWrite(_ count: Int, _ write: (Int) -> TreeWrite) -> Double {
        var nanos: UInt64 = 0
        for first in stride(from: 0, to: count, by: 64) {
            nanos += carryOut((first..<min(count, first + 64)).map { (.write([write($0)]), writer) })
        }
        return Double(nanos) / 1000 / Double(count)
    }
}

/// Writes pushes of about the size they have on the wire, and counts them and the replies.
private final class CountingFormat: WireFormat {
    private let count = Atomic<Int>(0)
    var changes: Int { count.load(ordering: .relaxed) }
    private let missingReplies = Atomic<Int>(0)
    private let replied = DispatchSemaphore(value: 0)

    func expectReplies(_ count: Int) { missingReplies.store(count, ordering: .relaxed) }
    func awaitReplies() { replied.wait() }

    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] {
        if missingReplies.subtract(1, ordering: .relaxed).newValue == 0 { replied.signal() }
        return [0]
    }

    func initial(_ value: Node, at path: Path, query: ChildQuery?, style: ObserverStyle, sequence: UInt64) -> [UInt8] { [0] }
    func ended(_ path: Path, query: ChildQuery?, style: ObserverStyle, _ failure: Failure) -> [UInt8] { [0] }

    /// What all styles of a change end with.
    private final class Rest: ChangeParts {
        let bytes: [UInt8]
        init(_ bytes: [UInt8]) { self.bytes = bytes }
    }

    func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] {
        let known = parts as? Rest ?? write(change)
        parts = known
        let rest = known.bytes
        guard case .patches(let tag?) = style else { return rest }
        // One copy behind the frame's header and the tag, as for the wire.
        var writer = JSONWriter(reservingCapacity: rest.count + 48)
        writer.raw("{\"t\":\"d\",\"d\":{\"a\":\"d\",\"b\":{\"t\":")
        writer.int(tag)
        writer.raw(rest)
        return writer.bytes
    }

    private func write(_ change: ViewChange) -> Rest {
        count.add(1, ordering: .relaxed)
        var writer = JSONWriter()
        for patch in change.patches {
            writer.path(patch.path.keys)
            writer.node(patch.value)
        }
        return Rest(writer.bytes)
    }
}
