import Dispatch
import HubEngine
import Journal
import JSONTree
import LiveQueries
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// A database with recording clients; every message is recorded as a readable line.
final class EngineHarness: Sendable {
    let database: Database
    let time: FakeClock
    private let lines = Mutex<[ObjectIdentifier: [String]]>([:])
    private let frames = Mutex<Int>(0)
    private let largest = Mutex<Int>(0)
    /// Deliveries queued behind a value that is still being encoded, as a lane keeps them.
    private let held = Mutex<[ObjectIdentifier: [Held]]>([:])
    /// Work off the database queue.
    let work: TestWork
    /// Called before each delivery to a lane.
    let onDelivery = Mutex(OnDelivery())

    struct OnDelivery { var body: (@Sendable () -> Void)? }

    private enum Held {
        case later(DeferredBytes)
        case line(String)
    }

    init(
        rules: RuleSet = .allowAll, root: Node = .null, beside: StateBesideTree = StateBesideTree(),
        pending: [PendingSession] = [], sequence: UInt64 = 0,
        log: (any Journal)? = nil, epoch: UInt64 = 0, lanes: Int = 2, limits: EngineLimits = EngineLimits(),
        work: TestWork = TestWork(), background: BackgroundWork? = nil, budget: MemoryBudget = MemoryBudget(1 << 30),
        format: any WireFormat = LineFormat(), now: Int64 = 1_700_000_000_000, refusals: (any RefusalListener)? = nil,
        follows: Bool = false, writerRole: WriterRole? = nil, link: (any HubLink)? = nil,
        sender: (any DeliverySender)? = nil, onJournal: @escaping @Sendable (JournalEvent) -> Void = { _ in }
    ) {
        let sink = Sink()
        let time = FakeClock(ms: now)
        self.time = time
        self.work = work
        database = Database(
            name: "test", rules: rules, start: (root, sequence), beside: beside, pending: pending,
            journal: log, epoch: epoch,
            follows: follows, writerRole: writerRole, link: link, lanes: lanes, limits: limits,
            background: background ?? work.background, budget: budget, format: format,
            refusals: refusals,
            outlet: { sink.receive($0, $1) }, sender: sender, onJournal: onJournal, scheduler: time.scheduler)
        sink.harness = self
    }

    private final class Sink: @unchecked Sendable {
        // Sendable: set once before the first delivery, then only read on the database queue.
        weak var harness: EngineHarness?
        func receive(_ lane: Int, _ deliveries: [Delivery]) { harness?.record(deliveries, lane) }
    }

    private func record(_ deliveries: [Delivery], _ lane: Int) {
        onDelivery.withLock { $0.body }?()
        let bytes = deliveries.reduce(0) { sum, delivery in
            switch delivery {
            case .one(_, let bytes), .many(_, let bytes): sum + bytes.count
            case .close, .probe, .marked, .reply, .later: sum
            }
        }
        largest.withLock { $0 = max($0, bytes) }
        for delivery in deliveries {
            switch delivery {
            case .one(let client, let bytes):
                precondition(client.lane == lane)
                add(String(decoding: bytes, as: UTF8.self), client)
            case .many(let clients, let bytes):
                frames.withLock { $0 += 1 }
                for client in clients {
                    precondition(client.lane == lane)
                    add(String(decoding: bytes, as: UTF8.self), client)
                }
            case .later(let clients, let deferred):
                frames.withLock { $0 += clients.count > 1 ? 1 : 0 }
                for client in clients {
                    precondition(client.lane == lane)
                    held.withLock { $0[ObjectIdentifier(client), default: []].append(.later(deferred)) }
                }
                deferred.whenReady { [weak self] _, _ in for client in clients { self?.pump(client) } }
            case .close(let client): add("close", client)
            case .probe(let client): add("probe", client)
            case .reply(let client, let reply): add("\(reply)", client)
            case .marked(let client, let bytes): add("marked \(bytes)", client)
            }
        }
    }

    private func add(_ line: String, _ client: Client) {
        let id = ObjectIdentifier(client)
        held.withLock { held in
            if held[id]?.isEmpty == false { return held[id, default: []].append(.line(line)) }
            lines.withLock { $0[id, default: []].append(line) }
        }
    }

    /// Moves deliveries on that no longer wait for an encoding.
    private func pump(_ client: Client) {
        let id = ObjectIdentifier(client)
        held.withLock { held in
            while let first = held[id]?.first {
                switch first {
                case .line(let line): lines.withLock { $0[id, default: []].append(line) }
                case .later(let deferred):
                    guard let outcome = deferred.outcome else { return }
                    lines.withLock { lines in
                        if let reply = outcome.reply { lines[id, default: []].append("\(reply)") }
                        if outcome.isTooLarge { lines[id, default: []].append("too large") }
                        if !outcome.bytes.isEmpty { lines[id, default: []].append(String(decoding: outcome.bytes, as: UTF8.self)) }
                    }
                }
                held[id]?.removeFirst()
            }
        }
    }

    /// The client's connection is lost: its waiting deliveries are dropped, as a lane does.
    func lose(_ client: Client) {
        client.isGone.store(true, ordering: .relaxed)
        let dropped = held.withLock { $0.removeValue(forKey: ObjectIdentifier(client)) }
        _ = dropped
    }

    /// Waits until all requests and the background work that they caused are done, and checks the engine's invariants.
    func settle() {
        work.settle(database)
        #if DEBUG
            let broken = database.brokenInvariants()
            #expect(broken.isEmpty, "\(broken)")
        #endif
    }

    /// The lines sent to a client since the last call.
    func take(_ client: Client) -> [String] {
        settle()
        return linesSoFar(client)
    }

    /// The same, without waiting.
    func linesSoFar(_ client: Client) -> [String] {
        lines.withLock { $0.removeValue(forKey: ObjectIdentifier(client)) ?? [] }
    }

    /// Shared frames sent so far.
    var sharedFrames: Int {
        settle()
        return frames.withLock { $0 }
    }

    /// Bytes of the largest delivery to a lane so far.
    var largestRelease: Int {
        settle()
        return largest.withLock { $0 }
    }

    /// Submits requests and returns all lines that the client was sent.
    func ask(_ client: Client, _ requests: Request...) -> [String] {
        for (i, request) in requests.enumerated() { database.submit(request, from: client, token: Int64(i)) }
        return take(client)
    }
}

/// `d a/b {"x":1}`, `m a {"b/c":1,"d":null}`, `ok 3`, `value 3 …`, `error 3 permission_denied`, `added 7 key value prev`.
struct LineFormat: WireFormat {
    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] {
        let line =
            switch reply {
            case .observing(_, true): "ok \(token) no_index"
            case .observed(_, _, let epoch, let isReset): "ok \(token) \(epoch)\(isReset ? " reset" : "")"
            case .done, .observing, .written: "ok \(token)"
            case .value(let node), .selected(let node, _): "value \(token) \(node.json)"
            case .pushed(let key, _): "pushed \(token) \(key)"
            case .counted(let count): "counted \(token) \(count)"
            case .exchanged(let outcome): "exchanged \(token) \(outcome.content.json)"
            case .identified(let identity): "identified \(token) \(identity.auth.json)"
            case .explained(_, let explanation): "explained \(token) \(explanation.node.json)"
            case .failed(let failure): "error \(token) \(failure.code.rawValue)"
            }
        return Array(line.utf8)
    }

    func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
        switch style {
        case .patches, .stream: Array("d \(path.relativeText) \(value.json)".utf8)
        case .events(let id, _, _): Array("initial \(id) \(value.json)".utf8)
        case .countStream: Array("count \(value.childCount)".utf8)
        }
    }

    func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] {
        switch style {
        case .countStream: return Array((change.count.map { "count \($0)" } ?? "").utf8)
        case .patches, .stream:
            if change.patches.isEmpty { return Array("d \(change.path.relativeText) \(change.new.json)".utf8) }
            if change.patches.count == 1 { return Array("d \(change.patches[0].path.relativeText) \(change.patches[0].value.json)".utf8) }
            let entries = change.patches.map { "\"\($0.path.dropping(change.path.depth).relativeText)\":\($0.value.json)" }
            return Array("m \(change.path.relativeText) {\(entries.joined(separator: ","))}".utf8)
        case .events(let id, let kinds, _):
            var lines: [String] = []
            for event in change.events where kinds.contains(event.kind) {
                let name = [EventKinds.added: "added", .changed: "changed", .removed: "removed", .moved: "moved"][event.kind] ?? "?"
                lines.append("\(name) \(id) \(event.key) \(event.value.json) \(event.previous?.string ?? "-")")
            }
            if kinds.contains(.value) { lines.append("value \(id) \(change.new.json)") }
            return Array(lines.joined(separator: "; ").utf8)
        }
    }

    func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8] { Array("cancelled \(path)".utf8) }
}

/// The members of a merge, in order. Their names are paths, which a node cannot hold, so each is read separately.
func mergeMembers(_ json: String) throws -> [(Path, Node)] {
    var native = json
    return try native.withUTF8 { bytes in
        var reader = JSONReader(UnsafeRawBufferPointer(bytes))
        var members: [(Path, Node)] = []
        try reader.beginObject()
        while let name = try reader.nextName() { members.append((try Path(parsing: name), try reader.writeValue().node)) }
        return members
    }
}

extension Client {
    static func make(lane: Int = 0) -> Client { Client(lane: lane, dialect: .realtime) }
}

extension Request {
    static func put(_ path: Path, _ value: Node) -> Request { .write([TreeWrite(path, WriteValue(value))]) }
    static func merge(_ writes: KeyValuePairs<String, Node>) -> Request {
        .write(writes.map { TreeWrite(Path($0.key.split(separator: "/").map { Key(String($0)) }), WriteValue($0.value)) })
    }
    static func listen(_ path: Path, hash: String = "") -> Request { .observe(path, style: .patches(tag: nil), hash: hash) }
    static func unlisten(_ path: Path) -> Request { .unobserve(path, style: .patches(tag: nil)) }
    static func events(_ path: Path, id: Int64 = 1, _ kinds: EventKinds = .children) -> Request {
        .observe(path, style: .events(id: id, kinds: kinds), hash: "")
    }
}
