import Dispatch
import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import Testing

/// The engine with a log that is slow and fails at random, and a model without batches. The model judges each request once the log has answered for
/// it, one by one, with the disk working or refusing.
///
///     submitted ─► in flight ── log accepted ──────► judged as usual
///                     └──────── log refused ─────► judged as refusing, with all that follow
///
/// Each judged request must have been answered: answers in order, and caches equal to the model's. No other output is allowed, except answers that do
/// not wait for the log. Those must match the durable content when sent, and must not overtake others of their client.
final class RefusalWorld {
    /// A client that applies its messages as an SDK does.
    final class Simulated {
        let client: Client
        let session: String
        var identity = Identity.anonymous
        var pending = PendingWrites()
        /// The places that it observes according to the model.
        var listens: Set<Path> = []
        /// The client's cache of the places it has asked to observe.
        var caches: [Path: Node] = [:]
        /// The observed places that were confirmed; its values for other places are incidental.
        var established: Set<Path> = []
        var lastLine = ""
        /// Places whose listen or unlisten is not answered yet.
        var busy: Set<Path> = []
        /// By request number: the effect of the answer on the caches.
        var asked: [Int64: (path: Path, isEnd: Bool)] = [:]
        var expected: [(line: String, isRead: Bool)] = []
        /// Numbers of requests that were answered before they were judged.
        var answered: Set<Int64> = []
        /// Reads of a client that was lost need no answer.
        var mustHear: [(line: String, isRead: Bool)] { client.isGone.load(ordering: .relaxed) ? expected.filter { !$0.isRead } : expected }
        /// Whether its lane has reported that it reads slowly, and whether the model knows.
        var isSlow = false
        var isHeldBack = false
        var hasEnded = false
        /// Whether it has asked, or was asked, to end.
        var isLeaving = false

        init(_ number: Int) {
            client = Client(lane: number % 2, dialect: .realtime)
            session = "s\(number)"
        }

        func note(_ request: Request, _ token: Int64) {
            switch request {
            case .observe(let path, _, _, _, _):
                busy.insert(path)
                asked[token] = (path, false)
                caches[path] = caches[path] ?? .null
            case .unobserve(let path, _):
                busy.insert(path)
                asked[token] = (path, true)
            case .congested: isSlow = true
            case .drained: isSlow = false
            default: break
            }
        }

        /// The value is correct for every cache that contains the place, whichever listen it was sent for.
        func set(_ path: Path, _ value: Node) {
            for place in caches.keys {
                if place.contains(path) {
                    caches[place]?.set(value, at: path.dropping(place.depth))
                } else if path.contains(place) {
                    caches[place] = value.node(at: place.dropping(path.depth))
                }
            }
        }
    }

    struct Item {
        let one: Simulated
        let request: Request
        let token: Int64
    }

    static let rules = try? RuleSet(
        parsing: """
            {"rules":{"open":{".read":true,".write":true},"a":{".read":true,".write":true},
            "s":{".read":"root.child('open').val() == 1 || auth.uid == 'm'",".write":true},"l":{".read":true}}}
            """)

    let log = FlakyLog()
    let hub: EngineHarness
    var clients: [Simulated] = []
    private(set) var model = Node.null
    private var isRefusing = false
    private var pendingWrites: [(identity: Identity, writes: [TreeWrite])] = []
    /// Requests submitted together, and how many appends they caused.
    private var inFlight: [(items: [Item], appends: Int)] = []
    private var isTrying = false
    private var made = 0
    private var token: Int64 = 0
    /// A record of the steps, to find the cause of a failure.
    private(set) var trace: [String] = []
    private(set) var refusals = 0
    private(set) var refused = 0
    private(set) var early = 0

    init() { hub = EngineHarness(rules: Self.rules ?? .denyAll, log: log, limits: .patient) }

    var canComplete: Bool { isTrying || inFlight.contains { $0.appends > 0 } }
    var isRefusingNow: Bool { isRefusing }

    func newClient(replacing old: Simulated? = nil) -> (Simulated, Request) {
        made += 1
        let one = Simulated(made)
        clients.append(one)
        return (one, .begin(sessionID: one.session, replacing: old?.session))
    }

    // MARK: Operations

    /// Submits requests that the engine drains together.
    func submit(_ count: Int, _ next: () -> (Simulated, Request)) throws {
        let before = log.appended
        var items: [Item] = []
        for _ in 0..<count {
            let (one, request) = next()
            token += 1
            items.append(Item(one: one, request: request, token: token))
            one.note(request, token)
            trace.append("\(one.session) \(token) \(request)")
        }
        hub.database.queue.sync {
            for item in items { hub.database.submit(item.request, from: item.one.client, token: item.token) }
        }
        hub.settle()
        let appends = log.appended - before
        trace.append("-- \(appends) appends, refusing \(isRefusing), trying \(isTrying)")
        if isRefusing { try check(appends == 0, "an append while the log refuses") }
        inFlight.append((items, appends))
        judgeFront(until: 0)
        try compare()
    }

    /// The log is retried once, and not again before the outcome is known.
    func passRetryTime() throws {
        let before = log.appended
        hub.passRetryTime()
        trace.append("-- time for another try, trying \(isTrying)")
        try check(log.appended - before == (isTrying ? 0 : 1), "the log is tried \(log.appended - before) times")
        isTrying = true
        try compare()
    }

    /// The oldest append succeeds.
    func complete() throws {
        trace.append("-- complete")
        log.complete()
        hub.settle()
        if isTrying {
            (isTrying, isRefusing) = (false, false)
            // Pending disconnect writes are written immediately.
            if log.isIdle { try check(pendingWrites.isEmpty, "what is owed is not written") } else { inFlight.append(([], 1)) }
        } else {
            judgeFront(until: 1)
        }
        try compare()
    }

    /// The oldest append fails, and all appended after it.
    func refuse() throws {
        trace.append("-- refuse")
        log.refuse()
        hub.settle()
        refusals += 1
        if isTrying {
            isTrying = false
        } else {
            isRefusing = true
            while !inFlight.isEmpty { judge(inFlight.removeFirst().items) }
        }
        try compare()
    }

    /// Judges the requests before the next incomplete append.
    private func judgeFront(until appends: Int) {
        var left = appends
        while let first = inFlight.first, first.appends <= left {
            left -= first.appends
            inFlight.removeFirst()
            judge(first.items)
        }
    }

    // MARK: The model

    private func judge(_ items: [Item]) {
        if items.isEmpty { return applyDeferred() }
        for item in items { judge(item) }
    }

    private func judge(_ item: Item) {
        let one = item.one
        if one.hasEnded { return }
        let isRead = switch item.request { case .get, .observe: true; default: false }
        func answer(_ line: String) { if one.answered.remove(item.token) == nil { one.expected.append((line, isRead)) } }
        func answer(_ code: Failure.Code?) {
            if code == .unavailable { refused += 1 }
            answer(code.map { "error \(item.token) \($0.rawValue)" } ?? "ok \(item.token)")
        }
        switch item.request {
        case .begin(_, let previous):
            if let old = clients.first(where: { $0.session == previous && !$0.hasEnded }) {
                leave(old)
                old.expected.append(("close", false))
            }
        case .end: leave(one)
        case .identify(let identity):
            one.identity = identity
            answer("identified \(item.token) \(identity.auth.json)")
            recheck(one)
        case .observe(let path, _, _, _, _):
            one.busy.remove(path)
            let isAllowed = mayRead(path, one)
            if isAllowed { one.listens.insert(path) } else { one.listens.remove(path) }
            answer(isAllowed ? nil : .permissionDenied)
        case .unobserve(let path, _):
            one.busy.remove(path)
            one.listens.remove(path)
            answer(nil as Failure.Code?)
        case .get(let path, _):
            if mayRead(path, one) { answer("value \(item.token) \(model.node(at: path).json)") } else { answer(.permissionDenied) }
        case .write(let writes, let condition, _):
            if let code = speaksAgainst(writes, one.identity) { return answer(code) }
            // Only a client that may read the place learns whether its hash matches.
            if let condition, !mayRead(condition.path, one) { return answer(.permissionDenied) }
            if let condition, model.node(at: condition.path).hash != condition.hash { return answer(.dataStale) }
            if isRefusing { return answer(.unavailable) }
            apply(writes)
            answer(nil as Failure.Code?)
        case .onDisconnect(let writes):
            if let code = speaksAgainst(writes, one.identity) ?? (isRefusing ? .unavailable : nil) { return answer(code) }
            for write in writes { one.pending.add(write) }
            answer(nil as Failure.Code?)
        case .cancelOnDisconnect(let path):
            if isRefusing, !one.pending.isEmpty { return answer(.unavailable) }
            one.pending.cancel(path)
            answer(nil as Failure.Code?)
        case .congested: one.isHeldBack = true
        case .drained: one.isHeldBack = false
        default: Issue.record("the model knows no \(item.request)")
        }
    }

    private func mayRead(_ path: Path, _ one: Simulated) -> Bool { mayRead(path, one.identity) }

    private func mayRead(_ path: Path, _ identity: Identity) -> Bool {
        if identity.isAdmin { return true }
        switch path.keys.first?.string {
        case "open", "a", "l": return true
        case "s": return model.node(at: "open").leaf == 1 || identity.auth.child("uid") == "m"
        default: return false
        }
    }

    /// Handles an answer that came before the log answered for all earlier requests.
    private func receiveEarly(_ line: String, _ one: Simulated) throws -> Bool {
        guard one.expected.isEmpty, let token = line.split(separator: " ").dropFirst().first.flatMap({ Int64($0) }) else { return false }
        var identity = one.identity
        for item in inFlight.lazy.flatMap(\.items) where item.one === one && !one.answered.contains(item.token) {
            switch item.request {
            case .begin, .congested, .drained: continue
            default: break
            }
            // The first unanswered request: it must not overtake others of its client.
            guard item.token == token else { return false }
            for case let earlier in inFlight.lazy.flatMap(\.items) where earlier.one === one && earlier.token < token {
                if case .identify(let told) = earlier.request { identity = told }
            }
            let truth: String
            switch item.request {
            case .get(let path, _):
                truth = mayRead(path, identity) ? "value \(token) \(model.node(at: path).json)" : "error \(token) permission_denied"
            case .identify(let told): truth = "identified \(token) \(told.auth.json)"
            default: return false
            }
            try check(line == truth, "\(one.session) is told \(line) early, and durable is \(truth)")
            one.answered.insert(token)
            early += 1
            return true
        }
        return false
    }

    private func speaksAgainst(_ writes: [TreeWrite], _ identity: Identity) -> Failure.Code? {
        let isAllowed = identity.isAdmin || writes.allSatisfy { ["open", "a", "s"].contains($0.path.keys.first?.string) }
        return isAllowed ? nil : .permissionDenied
    }

    private func apply(_ writes: [TreeWrite]) {
        for write in writes.applied {
            switch (write.part, write.value.deferred.first?.value) {
            case (.priority, _): model.setPriority(write.value.node, at: write.path)
            case (.node, .increment(.int(let by))):
                if case .int(let old) = model.node(at: write.path).leaf {
                    model.set(.int(old + by), at: write.path)
                } else {
                    model.set(.int(by), at: write.path)
                }
            default: model.set(write.value.node, at: write.path)
            }
        }
        for one in clients where !one.hasEnded { recheck(one) }
    }

    private func recheck(_ one: Simulated) { one.listens = one.listens.filter { mayRead($0, one) } }

    private func leave(_ one: Simulated) {
        if one.hasEnded { return }
        one.hasEnded = true
        one.listens = []
        if !one.pending.isEmpty { write(one.identity, one.pending.writes) }
    }

    private func write(_ identity: Identity, _ writes: [TreeWrite]) {
        if isRefusing { return pendingWrites.append((identity, writes)) }
        apply(writes.filter { speaksAgainst([$0], identity) == nil })
    }

    private func applyDeferred() {
        let all = pendingWrites
        pendingWrites = []
        for (identity, writes) in all { write(identity, writes) }
    }

    // MARK: Output of the engine

    private func check(_ holds: Bool, _ text: @autoclosure () -> String) throws {
        if !holds { throw Difference(description: text()) }
    }

    struct Difference: Error, CustomStringConvertible {
        let description: String
    }

    private func compare() throws {
        for one in clients {
            for line in hub.take(one.client) { try receive(line, one) }
            try check(one.mustHear.isEmpty, "\(one.session) is not told \(one.expected)")
            if one.hasEnded || one.isHeldBack { continue }
            for path in one.listens.subtracting(one.busy) {
                let (cache, truth) = (one.caches[path], model.node(at: path))
                try check(cache == truth, "\(one.session) holds \(cache?.json ?? "nothing") at \(path), the model \(truth.json)")
            }
            try check(Set(one.caches.keys).subtracting(one.busy) == one.listens.subtracting(one.busy),
                "\(one.session) observes \(one.caches.keys)")
        }
        clients.removeAll { $0.hasEnded }
        try check(log.root == model, "the log holds \(log.root.json), the model \(model.json)")
    }

    private func receive(_ line: String, _ one: Simulated) throws {
        let words = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        trace.append("\(one.session) <- \(line)")
        switch words[0] {
        case "d": one.set(try Path(parsing: words[1]), try Node(json: words[2]))
        case "m":
            let base = try Path(parsing: words[1])
            for (key, value) in try Self.merge(words[2]) { one.set(base.appending(key), value) }
        case "cancelled":
            // Requested again already, so it is about to start from scratch.
            let path = try Path(parsing: words[1])
            one.caches[path] = one.asked.values.contains { $0.path == path && !$0.isEnd } ? .null : nil
            one.established.remove(path)
        case "probe": break
        default:
            if one.expected.first?.line != line { one.expected = one.mustHear }
            if try receiveEarly(line, one) { break }
            try check(one.expected.first?.line == line, "\(one.session) is told \(line), not \(one.expected.first?.line ?? "nothing")")
            one.expected.removeFirst()
            guard words.count > 1, let token = Int64(words[1]), let (path, isEnd) = one.asked.removeValue(forKey: token) else { break }
            if isEnd || words[0] == "error" {
                one.caches[path] = nil
                one.established.remove(path)
            } else if one.established.insert(path).inserted, !one.lastLine.hasPrefix("d \(path.relativeText) ") {
                // The place is empty, so no value was sent.
                one.caches[path] = .null
            }
        }
        one.lastLine = line
    }

    /// Keys of a merge are paths, which a node cannot hold.
    private static func merge(_ json: String) throws -> [(Path, Node)] {
        var json = json
        return try json.withUTF8 { bytes in
            var reader = JSONReader(UnsafeRawBufferPointer(bytes))
            var entries: [(Path, Node)] = []
            try reader.beginObject()
            while let name = try reader.nextName() { entries.append((try Path(parsing: name), try reader.writeValue().node)) }
            return entries
        }
    }
}
