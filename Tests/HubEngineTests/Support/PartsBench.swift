import Dispatch
import LiveQueries
@testable import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport

/// The parts of an engine, connected as in a database but without a role, for tests of single parts. Used on its queue only.
@dynamicMemberLookup
final class Bench: @unchecked Sendable {
    // Sendable: `deliveries` is used on the queue; the tests hop there.
    let queue = DatabaseQueue(label: "test.parts")
    let time = FakeClock(ms: 1_700_000_000_000)
    let work = TestWork()
    let log = FlakyLog()
    let context: EngineContext
    private let parts: EngineParts
    /// Deliveries so far, by lane. The pipeline may deliver more after the end of the test.
    private let deliveries: ReceivedBox<[[Delivery]]>

    init(
        root: Node = .null, rules: RuleSet = .allowAll, limits: EngineLimits = EngineLimits(), lanes: Int = 2,
        format: any WireFormat = LineFormat(), budget: MemoryBudget = MemoryBudget(1 << 30), refusals: (any RefusalListener)? = nil
    ) {
        let deliveries = ReceivedBox<[[Delivery]]>(Array(repeating: [], count: lanes))
        self.deliveries = deliveries
        context = EngineContext(
            queue: queue, limits: limits, lanes: lanes, background: work.background, budget: budget,
            scheduler: time.scheduler)
        parts = EngineParts(
            context, format, rules: rules, start: .init(root: root), journal: log, keepsHistory: true, epoch: 0, follows: false,
            writer: { nil }, link: nil, refusals: refusals
        ) { lane, all in deliveries.value[lane] += all }
    }

    /// A part: `bench.commits`.
    subscript<Part>(dynamicMember part: KeyPath<EngineParts, Part>) -> Part { parts[keyPath: part] }

    /// Runs on the queue, as all parts expect.
    func run<Result>(_ body: () throws -> Result) rethrows -> Result { try queue.sync(body) }

    // MARK: Output

    /// The lines that clients were sent since the last call, in order of the lanes.
    func lines() -> [String] {
        defer { deliveries.value = deliveries.value.map { _ in [] } }
        return deliveries.value.joined().flatMap { delivery in Self.receivers(delivery).map { _ in Self.text(delivery) } }
    }

    /// The lines that one client was sent since the last call of `lines`.
    func lines(to client: Client) -> [String] {
        deliveries.value.joined().flatMap { delivery in Self.receivers(delivery).filter { $0 === client }.map { _ in Self.text(delivery) } }
    }

    private static func receivers(_ delivery: Delivery) -> [Client] {
        switch delivery {
        case .many(let clients, _), .later(let clients, _): clients
        case .one(let client, _), .close(let client), .probe(let client), .reply(let client, _), .marked(let client, _): [client]
        }
    }

    private static func text(_ delivery: Delivery) -> String {
        switch delivery {
        case .one(_, let bytes), .many(_, let bytes): String(decoding: bytes, as: UTF8.self)
        case .later(_, let deferred):
            deferred.outcome.map { $0.isTooLarge ? "too large" : String(decoding: $0.bytes, as: UTF8.self) } ?? "later"
        case .close: "close"
        case .probe: "probe"
        case .reply(_, let reply): "\(reply)"
        case .marked(_, let bytes): "marked \(bytes)"
        }
    }

    // MARK: Batches

    /// Ends the batch and lets the log accept it.
    func finish() -> [String] {
        run { parts.durability.finishBatch() }
        log.completeAll()
        run {}
        return lines()
    }

    /// Ends the batch, lets the log accept it, and lets background work finish.
    /// - Returns: the lines sent to each client, without probes.
    func sentLines(_ clients: [Client]) -> [[String]] {
        endBatch()
        log.completeAll()
        run {}
        settle()
        defer { _ = lines() }
        return clients.map { client in lines(to: client).filter { $0 != "probe" } }
    }

    /// Ends the batch; it waits for the log.
    func endBatch() { run { parts.durability.finishBatch() } }

    /// Waits for the background work and the work that it causes on the queue.
    func settle() {
        var before: Int
        repeat {
            before = work.count
            for _ in 0..<4 {
                run {}
                work.finish()
            }
            run {}
        } while work.count != before
    }

    /// Lets a client observe a place, without a request. A missing order is built in the background first.
    func observe(_ observation: Observation, by client: Client) {
        let isAwaited = run {
            guard let query = observation.query?.plain else {
                parts.registry.insert(observation, of: client, showing: nil)
                return false
            }
            if insert(observation, query, client) { return false }
            let node = parts.content.root.node(at: observation.path)
            return parts.indexes.awaitIndex(query.orderedBy, at: observation.path, over: node) { [weak self] _ in
                _ = self?.insert(observation, query, client)
            } == nil
        }
        if isAwaited { settle() }
    }

    /// Returns whether the order existed.
    private func insert(_ observation: Observation, _ query: TreeQuery, _ client: Client) -> Bool {
        let node = parts.content.root.node(at: observation.path)
        guard let order = parts.indexes.order(node, at: observation.path, by: query.orderedBy, mustKeep: true) else { return false }
        parts.registry.insert(observation, of: client, showing: (try? order.get()).map { QueryWindow(query, over: $0) })
        if let index = parts.places.existingPlace(at: observation.path)?.existingIndex(query.orderedBy) { parts.indexes.settle(index) }
        return true
    }
}

/// A value that a closure of a part changes, on the queue.
final class ReceivedBox<Value>: @unchecked Sendable {
    // Sendable: used on the bench's queue, or while that is idle.
    var value: Value
    init(_ value: Value) { self.value = value }
}

/// Records all refusals.
final class RefusalLog: RefusalListener {
    private let lines = Mutex<[String]>([])

    func wantsRefusal(now: Int64) -> Bool { true }
    func refused(_ request: RuledRequest, _ question: RuleQuestion) {
        let places: [Path]
        switch question.operation {
        case .read(let path, _), .count(let path, _): places = [path]
        case .write(let paths): places = paths
        }
        lines.withLock { $0.append("\(request.rawValue) \(places.map(\.description).joined(separator: " "))") }
    }

    var all: [String] { lines.withLock { $0 } }
}

extension SubmittedRequest {
    init(_ request: Request, of client: Client, token: Int64 = 0, size: Int = 0) {
        self.init(client: client, request: request, token: token, size: size, hold: nil)
    }
}

extension TreeWrite {
    init(_ place: String, _ value: Node) { self.init(Path(place.split(separator: "/").map { Key(String($0)) }), WriteValue(value)) }
}

extension [TreeWrite] {
    /// In the order in which a merge applies them: it keeps a node's priority, also when all its children are replaced (contract check 87).
    var applied: [TreeWrite] { filter { !$0.isRemoval } + filter(\.isRemoval) }
}

extension TreeWrite {
    fileprivate var isRemoval: Bool { part == .node && value.node.isNull && value.deferred.isEmpty }
}

extension Observation {
    init(_ place: String, _ query: TreeQuery? = nil, style: ObserverStyle = .patches(tag: nil)) {
        self.init(path: Path(place.split(separator: "/").map { Key(String($0)) }), query: query, style: style)
    }
}

extension Batch {
    /// The commits of the running batch so far.
    var commits: [Commit] { journalled.commits }
}

extension Commit {
    /// The changes to the disconnect writes of sessions.
    var pending: [PendingChange] {
        operations.compactMap { operation in
            if case .pending(let change) = operation { change } else { nil }
        }
    }
}

extension LogGuard {
    func refused(_ refusal: CommitRefusal) { refused(JournalError(refusal, JournalBatch(after: 0), 0)) }
}

extension CommitPipeline {
    /// Commits a prepared write immediately.
    func commit(_ write: PreparedWrite, by origin: WriteOrigin) throws(Failure) -> UInt64? {
        try commit(write, by: origin, stage: nil, mayWait: false)
    }
}

extension Observation {
    init(path: Path, query: TreeQuery?, style: ObserverStyle) {
        self.init(path: path, query: query.map { Query($0) }, style: style)
    }
}

extension View {
    var window: TreeQuery? { query?.plain }
}

extension Query {
    init(
        index: TreeQuery.Index? = nil, start: TreeQuery.Bound? = nil, end: TreeQuery.Bound? = nil, limit: Int? = nil,
        viewFrom: TreeQuery.Side? = nil
    ) {
        self = Query(TreeQuery(index: index, start: start, end: end, limit: limit, viewFrom: viewFrom))
    }
}
