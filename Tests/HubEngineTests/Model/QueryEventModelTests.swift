import Glibc
import HubEngine
import JSONTree
import LiveQueries
import SecurityRules
import Testing
import TestSupport

/// Random writes against observers of random live queries. Each observer builds a list from its events alone. After every step the list and the last
/// value sent must equal a full scan of the content.
/// `VIGLA_MODEL_OPERATIONS` sets the number of steps, `VIGLA_MODEL_SEED` repeats one run.
@Suite(.timeLimit(.minutes(30))) struct QueryEventModelTests {
    private static let stepsPerRun = 300
    private static func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }

    @Test(arguments: [false, true]) func listsAndValues_areWhatASelectionMadeAnewShows(refuses: Bool) throws {
        let runs = max(1, (Self.number("VIGLA_MODEL_OPERATIONS") ?? 4_500) / UInt64(Self.stepsPerRun))
        let seeds = Self.number("VIGLA_MODEL_SEED").map { $0...$0 } ?? 1...runs
        var (events, moves, later) = (0, 0, 0)
        for seed in seeds {
            let world = QueryEventWorld(seed: seed, refuses: refuses)
            for step in 0..<Self.stepsPerRun {
                do { try world.step() } catch {
                    Issue.record("seed \(seed), step \(step): \(error)\n\(world.trace.suffix(40).joined(separator: "\n"))")
                    return
                }
            }
            events += world.events
            moves += world.moves
            later += world.later
        }
        #expect(events > 200 * seeds.count && moves > 5 * seeds.count && later > seeds.count, "\(events), \(moves), \(later)")
    }
}

/// One database, and observers of its queries.
private final class QueryEventWorld {
    struct Wrong: Error, CustomStringConvertible { let description: String }

    private final class Watcher {
        let client = Client(lane: 0, dialect: .observe)
        var observed: [Int64: Observed] = [:]
    }

    private struct Observed {
        let path: Path
        var query: Query?
        let kinds: EventKinds
        var list: [(key: String, value: String)] = []
        var value: String?
        var count: String?
        var isReady = false
        /// Metres from the centre.
        var distances: [String: Double] = [:]
    }

    private var random: SeededRandom
    private let log: FlakyLog?
    private let hub: EngineHarness
    private let writer = Client(lane: 1, dialect: .observe)
    private var watchers: [Watcher] = []
    private var nextID: Int64 = 1
    /// Kept alive: the harness identifies clients by object address.
    private var used: [Client] = []
    private(set) var trace: [String] = []
    private(set) var (events, moves, ended) = (0, 0, 0)
    var later: Int { hub.work.count }

    private static let limits = {
        var limits = EngineLimits.patient
        (limits.inlineChildren, limits.windowsAtOnce, limits.largeWritePlaces, limits.followedChanges) = (8, 20, 30, 10)
        (limits.inlineBytes, limits.retryMs) = (512, EngineLimits.patient.retryMs)
        limits.unindexedChildren = 1_000
        (limits.windows.reserve, limits.windows.complete, limits.windows.visits, limits.windows.firstVisits) = (2, 4, 3, 5)
        return limits
    }()

    init(seed: UInt64, refuses: Bool) {
        random = SeededRandom(seed)
        log = refuses ? FlakyLog() : nil
        let rules = try? RuleSet(parsing: LiveSelections.rules)
        hub = EngineHarness(rules: rules ?? .allowAll, log: log, limits: Self.limits, format: EventLines())
    }

    // MARK: Steps

    func step() throws {
        if hub.work.waiting == 0, random.chance(10) { hub.work.close() }
        switch random.below(20) {
        case 0...2: observe()
        case 3: unobserve()
        case 4: random.chance(60) ? move() : leave()
        case 5: submit([Self.set("p/l", .object((0..<random.below(40)).map { (Key("k\($0)"), child()) }))])
        case 6: submit([Self.set(random.pick(["p", "p/l", "p/m"]), random.chance(50) ? .null : ["l": ["k1": child()]])])
        case 7...9:
            var writes: [TreeWrite] = []
            for _ in 0..<random.below(random.chance(20) ? 60 : 12) {
                let write = write()
                if !writes.contains(where: { $0.path.contains(write.path) || write.path.contains($0.path) }) { writes.append(write) }
            }
            submit(writes)
        default: submit([write()])
        }
        if let log {
            hub.settle()
            if random.chance(15), !log.isIdle { trace.append("refuse"); log.refuse() } else if random.chance(50), !log.isIdle { log.complete() }
            if random.chance(30) { hub.passRetryTime() }
            guard random.chance(30) else { return }
        } else if hub.work.waiting > 0, random.chance(50) {
            return
        }
        try compare()
    }

    private func submit(_ writes: [TreeWrite]) {
        trace.append("write \(writes.map { "\($0.path)\($0.part == .priority ? "!" : "") \($0.value.node.json)" })")
        hub.database.submit(.write(writes), from: writer, token: 0, size: writes.count * 20)
    }

    private func observe() {
        if watchers.count < 4 { watchers.append(Watcher()) }
        let watcher = random.pick(watchers)
        let kinds: EventKinds = random.pick([
            .children, [.children, .ready], [.children, .value, .ready, .count], .value, [.value, .ready], .count, [.count, .ready],
        ])
        let tree = query()
        let query: Query? =
            random.chance(15) ? nil : random.chance(50) ? Query(tree) : LiveSelections.query(tree, &random)
        let observed = Observed(path: random.pick(["p/l", "p/l", "p/m", "p"] as [Path]), query: query, kinds: kinds)
        trace.append("observe \(nextID) \(observed.path) \(query as Query?) \(kinds.rawValue)")
        watcher.observed[nextID] = observed
        hub.database.submit(
            .observe(observed.path, query: query, style: .events(id: nextID, kinds: kinds), hash: ""), from: watcher.client, token: nextID)
        nextID += 1
    }

    private func move() {
        guard let watcher = watchers.randomElement(using: &random), let centre = LiveSelections.centre(&random) else { return }
        let areas = watcher.observed.filter {
            $0.value.query?.hasArea == true && ($0.value.isReady || !$0.value.distances.isEmpty || !$0.value.list.isEmpty)
        }
        guard let id = areas.keys.sorted().first, let live = watcher.observed[id]?.query else { return }
        let target = live.near != nil ? QueryMove.centre(centre) : .within(WithinQuery(.region(LiveSelections.region(&random))))
        trace.append("move \(id) \(target)")
        watcher.observed[id]?.query = live.moved(to: target)
        hub.database.submit(.move(id, to: target), from: watcher.client, token: id)
    }

    private func unobserve() {
        guard let watcher = watchers.randomElement(using: &random), let id = watcher.observed.keys.sorted().first else { return }
        trace.append("unobserve \(id)")
        hub.database.submit(.unobserveID(id), from: watcher.client, token: 0)
        watcher.observed[id] = nil
    }

    private func leave() {
        guard let at = watchers.indices.randomElement(using: &random) else { return }
        trace.append("end")
        let client = watchers.remove(at: at).client
        used.append(client)
        hub.lose(client)
        hub.database.submit(.end, from: client)
    }

    private func child() -> Node {
        let number: Node = random.pick([0, 1, 2, 3, 2.5, "s", "t", true, .null])
        switch random.below(6) {
        case 0: return .null
        case 1: return number
        case 2: return number.exists ? number.with(priority: .int(Int64(random.below(3)))) : .null
        case 3: return (["v": number, "w": 1] as Node).with(priority: random.pick([1, "p"]))
        case 4: return ["v": number, "w": .int(Int64(random.below(3)))]
        default: return ["v": number, "at": LiveSelections.position(&random)]
        }
    }

    private static func set(_ path: Path, _ value: Node) -> TreeWrite { TreeWrite(path, WriteValue(value)) }

    private func write() -> TreeWrite {
        let key = random.chance(90) ? Path(["p", "l", Key("k\(random.below(40))")]) : Path(["p", "m", Key("k\(random.below(3))")])
        switch random.below(8) {
        case 0: return Self.set(key, .null)
        case 1, 2: return Self.set(key.appending("v" as Key), random.pick([0, 1, 2, 3, "s"]))
        case 3 where random.chance(50): return Self.set(key.appending("at" as Key), LiveSelections.position(&random))
        case 3: return Self.set(key.appending("w" as Key), random.pick([.null, 1, 2]))
        case 4: return TreeWrite(key, part: .priority, WriteValue(random.pick([.null, 1, 2])))
        default: return Self.set(key, child())
        }
    }

    private func query() -> TreeQuery {
        var query = TreeQuery(index: random.pick([.key, .value, .priority, .child("v"), .child("v"), .child("w")]))
        if random.chance(40) { query.start = bound(query) }
        if random.chance(30) { query.end = bound(query) }
        if random.chance(10), let start = query.start { query.end = start }
        if random.chance(70) { (query.limit, query.viewFrom) = (random.pick([1, 2, 3, 12]), random.pick([.first, .last])) }
        return query
    }

    private func bound(_ query: TreeQuery) -> TreeQuery.Bound {
        if query.orderedBy == .key { return .init(value: .string(Text("k\(random.below(40))")), inclusive: random.chance(50)) }
        return .init(
            value: random.pick([.null, 1, 2, "s"]), key: random.pick([nil, nil, "k20", "[MAX_NAME]", "[MIN_NAME]"]),
            inclusive: random.chance(50))
    }

    // MARK: Comparing

    /// Lets all waiting work run, and checks every observer's events.
    private func compare() throws {
        hub.work.open()
        repeat {
            hub.settle()
            log?.completeAll()
            hub.settle()
        } while try takeAll() || log?.isIdle == false
        let reader = Client(lane: 1, dialect: .observe, identity: .admin)
        used.append(reader)
        let answers = hub.ask(reader, .get(.root))
        guard let json = answers.first(where: { $0 != "probe" }), let content = try? Node(json: json) else {
            throw Wrong(description: "the content is \(answers)")
        }
        for watcher in watchers {
            for (id, observed) in watcher.observed {
                let node = content.node(at: observed.path)
                let expected = Self.selection(observed.query, node)
                let note = "observer \(id) of \(observed.path), \(observed.query as Query?)"
                if observed.kinds.contains(.ready), !observed.isReady { throw Wrong(description: "\(note) is not ready") }
                if observed.kinds.contains(.value) {
                    let value = observed.query == nil ? node : Node.object(expected.map { ($0, node.child($0)) })
                    if observed.value != value.json { throw Wrong(description: "\(note): \(observed.value ?? "-") for \(value.json)") }
                }
                if observed.kinds.contains(.count), observed.count != "\(expected.count)" {
                    throw Wrong(description: "\(note): \(observed.count ?? "-") for \(expected.count)")
                }
                guard observed.kinds.contains(.added) else { continue }
                if let live = observed.query, live.hasArea { try compare(observed, live, node, note) }
                if observed.query?.isByPosition == true { continue }
                let list = expected.map { "\($0) \(node.child($0).json)" }
                if observed.list.map({ "\($0.key) \($0.value)" }) != list {
                    throw Wrong(description: "\(note): \(observed.list) for \(list)")
                }
            }
        }
    }

    /// Compares circles and regions: the places of children, and the shown children whatever their order.
    private func compare(_ observed: Observed, _ live: Query, _ node: Node, _ note: String) throws {
        let expected = LiveSelections.selection(live, node)
        for (key, metres) in expected {
            if live.near == nil { continue }
            guard let metres, let told = observed.distances[key.string], abs(told - metres) < 0.001 else {
                throw Wrong(description: "\(note): \(key) is \(observed.distances[key.string] ?? -1) m away, not \(metres ?? -1)")
            }
        }
        let shown = observed.list.map { "\($0.key) \($0.value)" }.sorted()
        let all = expected.map { "\($0.key) \(node.child($0.key).json)" }.sorted()
        if shown != all { throw Wrong(description: "\(note): \(shown) for \(all)") }
    }

    private static func selection(_ query: Query?, _ node: Node) -> [Key] {
        if let live = query, !live.isPlain { return LiveSelections.selection(live, node).map(\.key) }
        guard let query = query?.plain else { return node.children.map(\.key) }
        let all = node.children.map { query.orderedBy.place($0.key, $0.node) }
        let range = all.filter { query.admits($0) }.sorted { $0.order($1) < 0 }.map(\.key)
        guard let limit = query.limit else { return range }
        return query.keeps == .first ? Array(range.prefix(limit)) : Array(range.suffix(limit))
    }

    /// Takes all output.
    /// - Returns: whether any client was sent something.
    private func takeAll() throws -> Bool {
        var wasTold = false
        _ = hub.take(writer)
        for watcher in watchers {
            let lines = hub.take(watcher.client).flatMap { $0.split(separator: "\n").map(String.init) }
            if lines.contains("probe") { hub.database.submit(.drained, from: watcher.client) }
            for line in lines where !line.hasPrefix("ok") && line != "probe" {
                wasTold = true
                try apply(line, watcher)
            }
            wasTold = wasTold || lines.contains("probe")
        }
        return wasTold
    }

    private func apply(_ line: String, _ watcher: Watcher) throws {
        trace.append("  < \(line)")
        let words = line.split(separator: " ").map(String.init)
        if words[0] == "refused" {
            // Refused for its rate or for lack of room: the observer does not exist.
            watcher.observed[Int64(words[1]) ?? 0] = nil
            return
        }
        if words[0] == "ended" {
            // Its last events were not stored after all.
            ended += 1
            watcher.observed[Int64(words[1]) ?? 0] = nil
            return
        }
        guard words.count > 1, let id = Int64(words[1]), var observed = watcher.observed[id] else { return }
        events += 1
        defer { watcher.observed[id] = observed }
        let wrong = Wrong(description: "\(line), to \(observed.list)")
        func place(_ value: String) throws {
            guard words[3] == "-" || observed.list.contains(where: { $0.key == words[3] }) else { throw wrong }
            let at = observed.list.firstIndex { $0.key == words[3] }.map { $0 + 1 } ?? 0
            observed.list.insert((words[2], value), at: at)
        }
        let isByPosition = observed.query?.isByPosition == true
        let distance = words.last.flatMap { $0.hasPrefix("~") ? Double($0.dropFirst()) : nil }
        if let distance, words[0] != "removed" { observed.distances[words[2]] = distance }
        if words[0] == "removed" { observed.distances[words[2]] = nil }
        let known = words.count > 2 ? observed.list.firstIndex { $0.key == words[2] } : nil
        switch words[0] {
        case "value": observed.value = words[2]
        case "count": observed.count = words[2]
        case "ready":
            if observed.isReady { throw wrong }
            observed.isReady = true
        case "added":
            if known != nil { throw wrong }
            try place(words[4])
        case "removed":
            guard let known, observed.list[known].value == words[4] else { throw wrong }
            observed.list.remove(at: known)
        case "moved":
            guard let known else { throw wrong }
            moves += 1
            if !isByPosition { try place(observed.list.remove(at: known).value) }
        default:
            guard let known, isByPosition || (known == 0 ? "-" : observed.list[known - 1].key) == words[3] else { throw wrong }
            observed.list[known].value = words[4]
        }
    }
}
