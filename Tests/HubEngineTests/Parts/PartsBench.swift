import Dispatch
@testable import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import TestSupport

/// What a part of the engine is given, for tests that build it without a database. Used on its queue alone.
final class Bench: @unchecked Sendable {
    // Sendable: `deliveries` is used on the queue; the tests hop there.
    let queue = DispatchQueue(label: "test.parts")
    let time = FakeClock(ms: 1_700_000_000_000)
    let work = TestWork()
    let log = FlakyLog()
    let context: EngineContext
    let content: Content
    let batch = Batch(keepsHistory: true)
    let outbox: Outbox
    let places = PlaceTrie()
    /// What has left, by lane.
    private(set) var deliveries: [[Delivery]]

    init(root: Node = .null, rules: RuleSet = .allowAll, limits: EngineLimits = EngineLimits(), lanes: Int = 2) {
        deliveries = Array(repeating: [], count: lanes)
        context = EngineContext(
            queue: queue, limits: limits, format: LineFormat(), lanes: lanes, background: work.background, budget: MemoryBudget(1 << 30),
            scheduler: time.scheduler)
        content = Content(root: root, sequence: 0, rules: rules)
        outbox = Outbox(lanes: lanes)
    }

    /// Runs on the queue, as all parts expect.
    func run<Result>(_ body: () throws -> Result) rethrows -> Result { try queue.sync(execute: body) }

    lazy var durability = DurabilityLine(context, content, batch, outbox, log: log) { [unowned self] lane, all in deliveries[lane] += all }
    lazy var guardian = LogGuard(context, content, durability, log: log)
    lazy var indexes = IndexKeeper(context, content, places, durability)
    lazy var registry = ObserverRegistry(context, content, places, indexes, batch, durability)
    lazy var slowReaders = SlowReaders(context, places, batch, outbox, durability)
    lazy var refusals = RefusalReports(context, content, nil)
    lazy var foresight = PermissionForesight(context, content, places)
    lazy var permissions = ReadPermissions(context, content, places, registry, foresight, outbox, refusals)
    lazy var encodings = EncodingLine(context.background, context.budget)
    lazy var publisher = Publisher(context, content, places, indexes, batch, outbox, slowReaders, encodings)
    lazy var commits = CommitLine(context, content, batch, guardian, foresight, permissions, publisher, refusals)
    lazy var disconnects = DisconnectWrites(context, content, batch, durability, guardian, foresight, commits)
    lazy var sessions = Sessions(
        batch, outbox, slowReaders, registry, disconnects, removalsAtOnce: context.limits.removalsAtOnce)
    lazy var parking = Parking(context, batch, durability, indexes, commits, sessions, slowReaders)

    /// What clients were sent since the last call, in order of the lanes; each message is one line.
    func lines() -> [String] {
        defer { deliveries = deliveries.map { _ in [] } }
        return deliveries.joined().flatMap { delivery -> [String] in
            switch delivery {
            case .one(_, let bytes): [String(decoding: bytes, as: UTF8.self)]
            case .many(let clients, let bytes): clients.map { _ in String(decoding: bytes, as: UTF8.self) }
            case .later(let clients, _): clients.map { _ in "later" }
            case .close: ["close"]
            case .probe: ["probe"]
            case .reply(_, let reply): ["\(reply)"]
            case .marked(_, let bytes): ["marked \(bytes)"]
            }
        }
    }

    /// Ends the batch and lets the log take it.
    func finish() -> [String] {
        run { durability.finishBatch() }
        log.completeAll()
        run {}
        return lines()
    }
}

extension TreeWrite {
    init(_ place: String, _ value: Node) { self.init(Path(place.split(separator: "/").map { Key(String($0)) }), WriteValue(value)) }
}

extension Observation {
    init(_ place: String, _ query: TreeQuery? = nil, style: ObserverStyle = .patches(tag: nil)) {
        self.init(path: Path(place.split(separator: "/").map { Key(String($0)) }), query: query, style: style)
    }
}
