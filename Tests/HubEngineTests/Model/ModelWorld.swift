import Dispatch
import HubEngine
import JSONTree
import LiveQueries
import SecurityRules
import Synchronization
import TestSupport

/// The engine and the naive model side by side. Every client's cache is built only from what the engine sent. After every step it must equal what the
/// model computes from its whole content.
final class ModelWorld {
    struct Difference: Error, CustomStringConvertible {
        let description: String
    }

    fileprivate struct Listen {
        var tag: Int64?
        let path: [String]
        let query: TreeQuery?
        var cache = Node.null
        var pushes = 0
    }

    fileprivate final class Simulated {
        var client: Client
        var session: String
        var who = 0
        var listens: [Listen] = []
        var pending: [ModelStep.Write] = []
        /// Pushes without a tag since the last request.
        var untagged = 0

        init(_ client: Client, session: String) {
            self.client = client
            self.session = session
        }
    }

    private static let now: Int64 = 1_700_000_000_000
    /// The read rules; the model repeats them below.
    private static let rules = [
        """
        {"rules":{"a":{".read":true,".write":true},"m":{".read":true,".write":true},
        "s":{".read":"root.child('m/'+auth.uid).exists()",".write":true,"d":{".read":"root.child('a/open').val() == 1"}}}}
        """,
        """
        {"rules":{"a":{".read":"auth.uid != null",".write":true},"m":{".write":true},
        "s":{".write":true,"d":{".read":"data.hasChildren(['a']) || root.child('m').hasChild(auth.uid)"}}}}
        """,
        """
        {"rules":{"a":{".read":"query.limitToLast == 1 || auth.uid == 'u1'",".write":true},"m":{".read":true,".write":true},
        "s":{".read":true,".write":true}}}
        """,
    ].map { (try? RuleSet(parsing: $0)) ?? .denyAll }

    private func mayRead(_ path: [String], _ query: TreeQuery?, _ who: Int) -> Bool {
        if who == 3 { return true }
        let uid = who == 0 ? nil : "u\(who)"
        let isMember = uid.map { !model[["m", $0]].isEmpty } ?? false
        switch (ruleNumber, path.first) {
        case (0, "a"), (0, "m"), (2, "m"), (2, "s"): return true
        case (0, "s"): return isMember || (path.starts(with: ["s", "d"]) && model[["a", "open"]].leaf == 1)
        case (1, "a"): return uid != nil
        case (1, "s"): return path.starts(with: ["s", "d"]) && (isMember || !model[["s", "d", "a"]].isEmpty)
        // A rule sees the query only at the place that is read.
        case (2, "a"): return uid == "u1" || (path.count == 1 && query?.limit == 1 && query?.keeps == .last)
        default: return false
        }
    }

    private func mayWrite(_ path: [String], _ who: Int) -> Bool { who == 3 || ["a", "m", "s"].contains(path.first) }

    private let sink = EventSink()
    private let gate = TestWork()
    /// So few children are visited on the queue that longer lists are sorted and collected in the background.
    private static let limits = {
        var limits = EngineLimits()
        limits.inlineChildren = 8
        return limits
    }()
    private let database: Database
    private var model = Plain()
    private var ruleNumber = 0
    private var clients: [Int: Simulated] = [:]
    private var made = 0
    private var nextTag: Int64 = 1

    init() {
        database = Database(
            name: "model", rules: Self.rules[0], lanes: 2, limits: Self.limits, background: gate.background,
            format: EventFormat(sink), outlet: { [sink] _, deliveries in sink.deliver(deliveries) },
            scheduler: FakeClock(ms: Self.now).scheduler)
    }

    /// Runs steps until the engine and the model differ.
    static func difference(_ steps: [ModelStep]) -> (step: Int, what: Difference)? {
        let world = ModelWorld()
        for (i, step) in steps.enumerated() {
            do { try world.run(step) } catch { return (i, error as? Difference ?? Difference(description: "\(error)")) }
        }
        return nil
    }

    private func client(_ number: Int) -> Simulated {
        if let known = clients[number] { return known }
        let one = Simulated(Client(lane: number % 2, dialect: .realtime), session: newSession())
        clients[number] = one
        _ = ask(one, .begin(sessionID: one.session, replacing: nil))
        return one
    }

    private func newSession() -> String {
        made += 1
        return "session \(made)"
    }

    private func run(_ step: ModelStep) throws {
        switch step {
        case .listen(let number, let path, let query):
            let one = client(number)
            if query == nil, one.listens.contains(where: { $0.path == path && $0.query == nil }) { return }
            try listen(one, Listen(tag: query == nil ? nil : tag(), path: path, query: query), hash: "")
        case .unlisten(let number, let n):
            let one = client(number)
            guard one.listens.indices.contains(n) else { return }
            let listen = one.listens.remove(at: n)
            try expect(ask(one, .unobserve(Path(listen.path), style: .patches(tag: listen.tag))), nil)
        case .write(let number, let writes):
            let one = client(number)
            let isAllowed = writes.allSatisfy { mayWrite($0.path, one.who) }
            if isAllowed { apply(writes) }
            try expect(ask(one, .write(writes.map(\.treeWrite))), isAllowed ? nil : .permissionDenied)
        case .transaction(let number, let write, let isStale):
            let one = client(number)
            let hash = isStale ? "stale" : model[write.path[...]].node.hash
            // Only a client that may read the place learns whether its hash matches.
            let isAllowed = mayWrite(write.path, one.who) && mayRead(write.path, nil, one.who)
            if isAllowed, !isStale { apply([write]) }
            try expect(
                ask(one, .write([write.treeWrite], condition: Condition(Path(write.path), hash: hash))),
                !isAllowed ? .permissionDenied : isStale ? .dataStale : nil)
        case .pend(let number, let writes):
            let one = client(number)
            let isAllowed = writes.allSatisfy { mayWrite($0.path, one.who) }
            if isAllowed { for write in writes { pend(write, one) } }
            try expect(ask(one, .onDisconnect(writes.map(\.treeWrite))), isAllowed ? nil : .permissionDenied)
        case .cancel(let number, let path):
            let one = client(number)
            one.pending.removeAll { $0.path.starts(with: path) }
            for i in one.pending.indices where path.starts(with: one.pending[i].path) {
                let below = Array(path.dropFirst(one.pending[i].path.count))
                one.pending[i].node = Plain(one.pending[i].node).setting(below[...], to: Plain()).node
                one.pending[i].deferred.removeAll { $0.path.starts(with: below) }
            }
            try expect(ask(one, .cancelOnDisconnect(Path(path))), nil)
        case .identify(let number, let who):
            let one = client(number)
            one.who = who
            try expect(ask(one, .identify(who == 3 ? .admin : who == 0 ? .anonymous : Identity(auth: ["uid": .string("u\(who)")]))), nil)
        case .replaceRules(let number):
            ruleNumber = number
            database.replace(Self.rules[number])
            settle()
        case .end(let number):
            guard let one = clients.removeValue(forKey: number) else { return }
            leave(one)
            _ = ask(one, .end)
        case .reconnect(let number):
            let one = client(number)
            leave(one)
            let session = newSession()
            let held = one.listens
            one.listens = []
            one.pending = []
            one.client = Client(lane: (number + made) % 2, dialect: .realtime)
            _ = ask(one, .begin(sessionID: session, replacing: one.session))
            one.session = session
            let user = Identity(auth: ["uid": .string("u\(one.who)")])
            try expect(ask(one, .identify(one.who == 3 ? .admin : one.who == 0 ? .anonymous : user)), nil)
            for listen in held { try self.listen(one, listen, hash: listen.cache.hash) }
        }
        try compare()
    }

    private func tag() -> Int64 {
        defer { nextTag += 1 }
        return nextTag
    }

    private func listen(_ one: Simulated, _ listen: Listen, hash: String) throws {
        let isAllowed = mayRead(listen.path, listen.query, one.who)
        if isAllowed { one.listens.append(listen) }
        try expect(
            ask(one, .observe(Path(listen.path), query: listen.query, style: .patches(tag: listen.tag), hash: hash)),
            isAllowed ? nil : .permissionDenied)
    }

    // MARK: The model

    /// Removals come last: a merge keeps a node's priority (contract check 87), also when all its children are replaced.
    private func apply(_ writes: [ModelStep.Write]) {
        for write in writes.filter({ !$0.isRemoval }) + writes.filter(\.isRemoval) {
            let value = write.part == .node ? write.resolved(model[write.path[...]], now: Self.now) : Plain()
            model = write.part == .node ? model.setting(write.path[...], to: value) : model.settingPriority(write.path[...], to: write.node)
        }
    }

    /// The sparse tree of contract §6.2: a write below a pending value becomes part of that value.
    private func pend(_ write: ModelStep.Write, _ one: Simulated) {
        let above = one.pending.firstIndex {
            $0.part == .node && write.path.starts(with: $0.path) && (write.part == .priority || $0.path != write.path)
        }
        if let above {
            let below = Array(write.path.dropFirst(one.pending[above].path.count))
            let value = Plain(one.pending[above].node)
            if write.part == .priority {
                one.pending[above].node = value.settingPriority(below[...], to: write.node).node
                one.pending[above].deferred.removeAll { $0.isPriority && $0.path == below }
            } else {
                let result = value.setting(below[...], to: Plain(write.node))
                one.pending[above].node = result.node
                one.pending[above].deferred.removeAll { item in
                    item.path.starts(with: below) || (!item.isPriority && !result[item.path[...]].children.isEmpty)
                }
                one.pending[above].deferred += write.deferred.map { (below + $0.path, $0.isPriority, $0.increment) }
            }
            return
        }
        one.pending.removeAll {
            write.part == .node ? $0.path.starts(with: write.path) : $0.part == .priority && $0.path == write.path
        }
        one.pending.append(write)
    }

    private func leave(_ one: Simulated) {
        apply(one.pending.filter { mayWrite($0.path, one.who) })
    }

    // MARK: Output of the engine

    /// Submits a request.
    /// - Returns: the failure it was answered with, if any.
    private func ask(_ one: Simulated, _ request: Request) -> Failure? {
        for simulated in clients.values {
            simulated.untagged = 0
            for i in simulated.listens.indices { simulated.listens[i].pushes = 0 }
        }
        database.submit(request, from: one.client)
        settle()
        return sink.takeFailure()
    }

    /// Waits until everything has been done and received.
    private func settle() {
        while true {
            gate.settle(database)
            let drained = sink.receive()
            if drained.isEmpty { return }
            for client in drained { database.submit(.drained, from: client) }
        }
    }

    private func expect(_ failure: Failure?, _ expected: Failure?) throws {
        if failure == expected { return }
        func name(_ failure: Failure?) -> String { failure.map { "\($0.code)" } ?? "ok" }
        throw Difference(description: "answered \(name(failure)), expected \(name(expected))")
    }

    private func compare() throws {
        if sink.isMissing { throw Difference(description: "a message was not encoded") }
        for (client, event) in sink.takeEvents() {
            guard let one = clients.values.first(where: { $0.client === client }) else { continue }
            try one.receive(event)
        }
        for (number, one) in clients {
            for listen in one.listens {
                guard mayRead(listen.path, listen.query, one.who) else {
                    throw Difference(description: "client \(number) still listens at \(listen.path) \(listen.query.map { "\($0)" } ?? "")")
                }
                let stored = model[listen.path[...]].node
                let expected = listen.query.map { QueryModelTests.scan(stored, $0) } ?? stored
                if listen.cache != expected {
                    throw Difference(
                        description: "client \(number) at \(listen.path) \(listen.query.map { "\($0)" } ?? "") "
                            + "holds \(listen.cache.json), the model \(expected.json)")
                }
            }
        }
    }
}

extension ModelWorld.Simulated {
    fileprivate func receive(_ event: Event) throws {
        switch event {
        case .data(let path, let tag, let patches):
            if let tag {
                guard let i = listens.firstIndex(where: { $0.tag == tag }) else {
                    throw ModelWorld.Difference(description: "push with tag \(tag) at \(path) for nobody")
                }
                listens[i].pushes += 1
                if listens[i].pushes > 1 { throw ModelWorld.Difference(description: "two pushes of one commit at \(path)") }
                for patch in patches { listens[i].cache.set(patch.value, at: patch.path.dropping(Path(listens[i].path).depth)) }
                return
            }
            // An untagged push holds the current value of the place, for whichever default listen it was sent.
            untagged += 1
            if untagged > listens.count(where: { $0.tag == nil }) {
                throw ModelWorld.Difference(description: "more pushes than listens at \(path)")
            }
            for i in listens.indices where listens[i].tag == nil {
                let place = Path(listens[i].path)
                for patch in patches where place.contains(patch.path) {
                    listens[i].cache.set(patch.value, at: patch.path.dropping(place.depth))
                }
            }
        case .cancelled(let path, let query):
            guard let i = listens.firstIndex(where: { Path($0.path) == path && $0.query == query }) else {
                throw ModelWorld.Difference(description: "cancel at \(path) for nobody")
            }
            listens.remove(at: i)
        }
    }
}

extension Path {
    fileprivate init(_ keys: [String]) { self.init(keys.map { Key($0) }) }
}

/// What a client is sent, in place of bytes.
enum Event: Sendable {
    /// Absolute paths and values; `path` is the listen's.
    case data(path: Path, tag: Int64?, patches: [(path: Path, value: Node)])
    case cancelled(Path, query: TreeQuery?)
}

/// Keeps events under numbers, which frames contain instead.
final class EventSink: Sendable {
    private struct State {
        var formatted: [Int: Event] = [:]
        var next = 1
        var sent: [Delivery] = []
        var delivered: [(Client, Event)] = []
        var failure: Failure?
        /// Whether a message was taken before it was encoded.
        var isMissing = false

        mutating func receive(_ bytes: [UInt8], by clients: [Client]) {
            guard bytes.count == 8, let event = formatted[bytes.withUnsafeBytes { $0.loadUnaligned(as: Int.self) }] else { return }
            for client in clients { delivered.append((client, event)) }
        }
    }
    private let state = Mutex(State())

    func frame(_ event: Event) -> [UInt8] {
        let number = state.withLock { state in
            defer { state.next += 1 }
            state.formatted[state.next] = event
            return state.next
        }
        return withUnsafeBytes(of: number) { Array($0) }
    }

    func note(_ failure: Failure) { state.withLock { $0.failure = failure } }

    func deliver(_ deliveries: [Delivery]) { state.withLock { $0.sent += deliveries } }

    /// Takes the messages sent, in order. All must have been encoded.
    /// - Returns: the clients that were sent a probe.
    func receive() -> [Client] {
        state.withLock { state in
            var probed: [Client] = []
            for delivery in state.sent {
                switch delivery {
                case .one(let client, let bytes): state.receive(bytes, by: [client])
                case .many(let clients, let bytes): state.receive(bytes, by: clients)
                case .later(let clients, let deferred):
                    if deferred.outcome == nil { state.isMissing = true }
                    state.receive(deferred.outcome?.bytes ?? [], by: clients)
                case .probe(let client): probed.append(client)
                case .close, .marked, .reply: break
                }
            }
            state.sent = []
            return probed
        }
    }

    var isMissing: Bool { state.withLock { $0.isMissing } }

    func takeFailure() -> Failure? {
        state.withLock { state in
            defer { state.failure = nil }
            return state.failure
        }
    }

    func takeEvents() -> [(Client, Event)] {
        state.withLock { state in
            defer { (state.delivered, state.formatted) = ([], [:]) }
            return state.delivered
        }
    }
}

struct EventFormat: WireFormat {
    private let sink: EventSink
    init(_ sink: EventSink) { self.sink = sink }

    func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] {
        if case .failed(let failure) = reply { sink.note(failure) }
        return [0]
    }

    func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
        sink.frame(.data(path: path, tag: Self.tag(style), patches: [(path, value)]))
    }

    func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] {
        let patches = change.patches.isEmpty ? [(path: change.path, value: change.new)] : change.patches
        return sink.frame(.data(path: change.path, tag: Self.tag(style), patches: patches))
    }

    func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8] {
        sink.frame(.cancelled(path, query: query?.plain))
    }

    private static func tag(_ style: ObserverStyle) -> Int64? { if case .patches(let tag) = style { tag } else { nil } }
}
