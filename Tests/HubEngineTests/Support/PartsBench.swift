import Dispatch
import LiveQueries
@testable import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport

/// The dependencies of a part of the engine, for tests that build it without a database. Used on its queue only.
final class Bench: @unchecked Sendable {
    // Sendable: `deliveries` is used on the queue; the tests hop there.
    let queue = DatabaseQueue(label: "test.parts")
    let time = FakeClock(ms: 1_700_000_000_000)
    let work = TestWork()
    let log = FlakyLog()
    let context: EngineContext
    let content: Content
    let batch = Batch(keepsHistory: true)
    let outbox: Outbox
    let places = PlaceTrie()
    private let format: any WireFormat
    private let listener: (any RefusalListener)?
    /// Deliveries so far, by lane. The pipeline may deliver more after the end of the test.
    private let deliveries: ReceivedBox<[[Delivery]]>

    init(
        root: Node = .null, rules: RuleSet = .allowAll, limits: EngineLimits = EngineLimits(), lanes: Int = 2,
        format: any WireFormat = LineFormat(), budget: MemoryBudget = MemoryBudget(1 << 30), refusals: (any RefusalListener)? = nil
    ) {
        deliveries = ReceivedBox(Array(repeating: [], count: lanes))
        context = EngineContext(
            queue: queue, limits: limits, lanes: lanes, background: work.background, budget: budget,
            scheduler: time.scheduler)
        content = Content(.init(root: root), rules: rules)
        listener = refusals
        self.format = format
        outbox = Outbox(lanes: lanes)
    }

    /// Runs on the queue, as all parts expect.
    func run<Result>(_ body: () throws -> Result) rethrows -> Result { try queue.sync(body) }

    lazy var durability = DurabilityQueue(context, content, batch, outbox, journal: log) { [deliveries] lane, all in
        deliveries.value[lane] += all
    }
    lazy var guardian = LogGuard(context, content, durability, journal: log)
    lazy var pipeline = BatchPipeline(content: content, batch: batch, durability: durability, log: guardian)
    lazy var indexes = IndexStore(context, content, places, durability)
    lazy var registry = ObserverRegistry(context, content, places, indexes, batch, durability)
    lazy var slowReaders = SlowReaders(context, places, batch, outbox, durability)
    lazy var refusals = RefusalReports(context, content, listener)
    lazy var precheck = PermissionPrecheck(context, content, places)
    lazy var permissions = ReadPermissions(context, format, content, places, registry, precheck, outbox, refusals)
    lazy var encodings = EncodeQueue(context.background, context.budget)
    lazy var pacing = Pacing(context, batch, durability)
    lazy var sender = ChangeSender(context, format, outbox, slowReaders, encodings, pacing)
    lazy var single = SingleWriteFanOut(context, format, content, places, batch, outbox)
    lazy var publisher = Publisher(context, content, places, indexes, queries, batch, sender, single)
    lazy var ring = CommitRing(context, content)
    lazy var updates = ObserverUpdates(batch, indexes, queries, permissions, publisher, ring)
    lazy var copies = CopyIndexStore(context, content, DerivedData(context))
    lazy var consequences = ConsequenceStage(context, content, refusals, copies)
    lazy var commits = CommitPipeline(context, content, batch, guardian, precheck, permissions, publisher, refusals, consequences, ring)
    lazy var disconnects = DisconnectWrites(context, content, batch, durability, guardian, precheck, commits)
    lazy var sessions = Sessions(
        batch, outbox, slowReaders, registry, disconnects, removalsAtOnce: context.limits.removalsAtOnce)
    lazy var suspendedRequests = SuspendedRequests(context, batch, durability, indexes, commits, sessions, slowReaders)

    lazy var early = EarlyAnswers(content, batch, durability, guardian, places, permissions)
    lazy var answers = Answers(context, format, outbox, early, slowReaders, encodings)
    lazy var output = ClientOutput(outbox: outbox, answers: answers, early: early, slowReaders: slowReaders, encodings: encodings)
    lazy var queries = LiveQueryUpdater(context, content, places, indexes, batch, durability)
    lazy var live = LiveReads(context, content, indexes, queries, suspendedRequests)
    lazy var reads = ReadRequests(context, content, places, indexes, permissions, suspendedRequests, answers, live)
    lazy var initial = InitialContent(context, format, pipeline, registry, output: output)
    lazy var observers = ObserveRequests(
        context, indexes, registry, permissions, reads, live, answers, initial,
        Resumption(context, content, places, CommitRing(context, content)),
        CentreMoves(content, places, registry, permissions, live, publisher, answers))
    lazy var writes = WriteRequests(
        context, pipeline, log, commits, disconnects, indexes, permissions, precheck, suspendedRequests, answers, refusals)
    lazy var sessionRequests = SessionRequests(context, sessions, permissions, precheck, suspendedRequests, disconnects, output)
    lazy var handler = RequestHandler(context, batch, output, suspendedRequests, updates, reads, observers, writes, sessionRequests)
    lazy var loop = RequestLoop(context, pipeline, outbox, indexes, disconnects, handler)
    lazy var rollback = Rollback(context, pipeline, updates, commits, sessions, suspendedRequests, handler)

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
        run { durability.finishBatch() }
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
    func endBatch() { run { durability.finishBatch() } }

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
                registry.insert(observation, of: client, showing: nil)
                return false
            }
            if insert(observation, query, client) { return false }
            let node = content.root.node(at: observation.path)
            return indexes.awaitIndex(query.orderedBy, at: observation.path, over: node) { [weak self] _ in
                _ = self?.insert(observation, query, client)
            } == nil
        }
        if isAwaited { settle() }
    }

    /// Returns whether the order existed.
    private func insert(_ observation: Observation, _ query: TreeQuery, _ client: Client) -> Bool {
        let node = content.root.node(at: observation.path)
        guard let order = indexes.order(node, at: observation.path, by: query.orderedBy, mustKeep: true) else { return false }
        registry.insert(observation, of: client, showing: (try? order.get()).map { QueryWindow(query, over: $0) })
        if let index = places.existingPlace(at: observation.path)?.existingIndex(query.orderedBy) { indexes.settle(index) }
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
