import Glibc
import HubEngine
import JSONTree
import LiveQueries
import SecurityRules
import Testing
import TestSupport

/// Random writes against observers that lose their connection anywhere, also within the events of one commit, and come back. Their events, each
/// applied exactly once, must lead to the query's selection of the content; or the hub makes the observer start from scratch.
/// `VIGLA_MODEL_OPERATIONS` sets the number of steps, `VIGLA_MODEL_SEED` repeats one run.
@Suite(.timeLimit(.minutes(30))) struct ResumeModelTests {
    private static let stepsPerRun = 660
    private static func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }

    @Test(arguments: [false, true]) func observers_missNothingAndHearNothingTwice(refuses: Bool) throws {
        let runs = max(1, (Self.number("VIGLA_MODEL_OPERATIONS") ?? 4_000) / UInt64(Self.stepsPerRun))
        let seeds = Self.number("VIGLA_MODEL_SEED").map { $0...$0 } ?? 1...runs
        var (resumed, resets, replayed) = (0, 0, 0)
        for seed in seeds {
            let world = ResumeWorld(seed: seed, refuses: refuses)
            for step in 0..<Self.stepsPerRun {
                do { try world.step() } catch {
                    Issue.record("seed \(seed), step \(step): \(error)\n\(world.trace.suffix(30).joined(separator: "\n"))")
                    return
                }
            }
            resumed += world.resumed
            resets += world.resets
            replayed += world.replayed
        }
        #expect(resumed > 10 * seeds.count && resets > seeds.count && replayed > 10 * seeds.count, "\(resumed), \(resets), \(replayed)")
    }
}

private final class ResumeWorld {
    struct Wrong: Error, CustomStringConvertible { let description: String }

    /// An observer of a program that outlives its connections.
    private final class Observer {
        let id: Int64
        let path: Path
        /// With the region that was stored when it was last sent.
        var query: Query?
        let kinds: EventKinds
        var client: Client?
        var position: Position?
        var epoch = ""
        var list: [(key: String, value: String)] = []
        var value: String?
        var count: String?
        /// Events of one commit, until the last of them has arrived.
        var held: [[String]] = []
        /// It has reconnected, and does not know yet how it resumes.
        var isReturning = false

        init(_ id: Int64, _ path: Path, _ query: Query?, _ kinds: EventKinds) {
            (self.id, self.path, self.query, self.kinds) = (id, path, query, kinds)
        }
    }

    private var random: SeededRandom
    private let log: FlakyLog?
    private let hub: EngineHarness
    private let writer = Client(lane: 1, dialect: .observe)
    private var observers: [Observer] = []
    private var used: [Client] = []
    /// The region stored at `zone`, of observers of a stored region. There are some only where no write is refused.
    private var zone = Region.polygon(LiveSelections.triangle)
    private(set) var trace: [String] = []
    private(set) var (resumed, resets, replayed) = (0, 0, 0)

    private static let limits = {
        var limits = EngineLimits.patient
        (limits.resumeCommits, limits.resumeEvents, limits.inlineChildren) = (25, 60, 100)
        // Time passes while the log refuses.
        limits.resumeMs = .max
        return limits
    }()

    init(seed: UInt64, refuses: Bool) {
        random = SeededRandom(seed)
        log = refuses ? FlakyLog() : nil
        let rules = try? RuleSet(parsing: LiveSelections.rules)
        hub = EngineHarness(rules: rules ?? .allowAll, log: log, limits: Self.limits, format: EventLines())
        let kinds: [EventKinds] = [.children, [.children, .ready], [.children, .count, .ready], .value, [.value, .ready], .count]
        for id in 1...12 {
            var query: Query?
            if id % 3 != 0 { query = Query(self.query()) }
            if id > 6 { query = LiveSelections.query(self.query(), &random) ?? query }
            // Children at this place have coordinates.
            let path: Path = query?.hasArea != true ? random.pick(["p", "p/l", "p/l", "p/m"]) : "p/l"
            observers.append(Observer(Int64(id), path, query, random.pick(kinds).union(.resumable)))
        }
        if refuses { return }
        for id in 13...15 {
            let tree = random.chance(50) ? TreeQuery(index: nil) : self.query()
            let query = try? Query(tree, within: WithinQuery(.stored("zone")))
            observers.append(Observer(Int64(id), "p/l", query, random.pick(kinds).union(.resumable)))
        }
        store(zone)
    }

    // MARK: Steps

    func step() throws {
        let observer = random.pick(observers)
        switch random.below(12) {
        case 0, 1: if observer.client == nil { connect(observer) } else { try lose(observer) }
        case 2: if observer.client == nil { connect(observer) }
        case 3: submit([Self.set("p/l", .object((0..<random.below(20)).map { (Key("k\($0)"), child()) }))])
        case 4: submit([Self.set(random.pick(["p", "p/m", "q"]), random.chance(50) ? .null : ["l": ["k1": child()], "k2": child()])])
        case 5, 6:
            var writes: [TreeWrite] = []
            for _ in 0..<random.below(8) {
                let write = write()
                if !writes.contains(where: { $0.path.contains(write.path) || write.path.contains($0.path) }) { writes.append(write) }
            }
            submit(writes)
        default: submit([write()])
        }
        if log == nil, random.chance(5) { store(LiveSelections.region(&random)) }
        if let log {
            hub.settle()
            if random.chance(10), !log.isIdle { log.refuse() } else if random.chance(60), !log.isIdle { log.complete() }
            if random.chance(30) { hub.passRetryTime() }
        }
        if random.chance(20) { try compare() }
    }

    private func store(_ region: Region) {
        zone = region
        submit([Self.set("zone", (try? Node(json: region.json.json)) ?? .null)])
    }

    private func submit(_ writes: [TreeWrite]) {
        trace.append("write \(writes.map { "\($0.path)\($0.part == .priority ? "!" : "") \($0.value.node.json)" })")
        hub.database.submit(.write(writes), from: writer, token: 0)
    }

    private func connect(_ observer: Observer) {
        let client = Client(lane: 0, dialect: .observe)
        used.append(client)
        observer.client = client
        observer.isReturning = true
        if case .stored? = observer.query?.within?.source { observer.query = observer.query?.located(by: nil, within: zone) }
        trace.append("connect \(observer.id) since \(observer.position as Position?)")
        hub.database.submit(
            .observe(
                observer.path, query: observer.query, style: .events(id: observer.id, kinds: observer.kinds), hash: "",
                since: observer.position),
            from: client, token: observer.id)
    }

    /// The connection ends anywhere within the output.
    private func lose(_ observer: Observer) throws {
        guard let client = observer.client else { return }
        let lines = lines(of: client)
        let heard = lines.prefix(random.below(lines.count + 1))
        for line in heard { try apply(line, observer) }
        trace.append("lose \(observer.id) behind \(heard.count) of \(lines.count)")
        hub.lose(client)
        hub.database.submit(.end, from: client)
        observer.client = nil
        // A commit that was received in part is sent again.
        observer.held = []
    }

    private static func set(_ path: Path, _ value: Node) -> TreeWrite { TreeWrite(path, WriteValue(value)) }

    private func child() -> Node {
        let number: Node = random.pick([0, 1, 2, 3, "s", true])
        switch random.below(5) {
        case 0: return .null
        case 1: return number.with(priority: random.pick([.null, 1, 2]))
        case 2: return ["v": number, "at": LiveSelections.position(&random)]
        default: return ["v": number, "w": .int(Int64(random.below(3)))]
        }
    }

    private func write() -> TreeWrite {
        let key = random.chance(80) ? Path(["p", "l", Key("k\(random.below(20))")]) : Path(["p", "m", Key("k\(random.below(3))")])
        switch random.below(6) {
        case 0: return Self.set(key, .null)
        case 1, 2: return Self.set(key.appending("v" as Key), random.pick([0, 1, 2, 3, "s"]))
        case 3: return TreeWrite(key, part: .priority, WriteValue(random.pick([.null, 1, 2])))
        default: return Self.set(key, child())
        }
    }

    private func query() -> TreeQuery {
        var query = TreeQuery(index: random.pick([.key, .value, .priority, .child("v"), .child("v")]))
        if random.chance(40), query.index != .key { query.start = .init(value: random.pick([1, 2, .null]), inclusive: random.chance(50)) }
        if random.chance(60) { (query.limit, query.viewFrom) = (random.pick([1, 3, 6]), random.pick([.first, .last])) }
        return query
    }

    // MARK: Output

    private func lines(of client: Client) -> [String] {
        hub.take(client).flatMap { $0.split(separator: "\n").map(String.init) }.filter { line in
            if line == "probe" { hub.database.submit(.drained, from: client) }
            return line != "probe" && !line.hasPrefix("ok")
        }
    }

    private func apply(_ line: String, _ observer: Observer) throws {
        var words = line.split(separator: " ").map(String.init)
        if words[0] == "ended" {
            // Its last events were not stored after all, so it starts from scratch.
            if let client = observer.client { hub.database.submit(.end, from: client) }
            (observer.client, observer.position, observer.held) = (nil, nil, [])
            return
        }
        if words[0] == "refused" { throw Wrong(description: "\(line) \(observer.id)") }
        if words[0] == "observed" {
            observer.isReturning = false
            observer.epoch = words[3]
            if words[4] == "reset" { resets += 1 } else if observer.position != nil { resumed += 1 }
            if words[4] == "reset" || observer.position == nil {
                (observer.list, observer.value, observer.count, observer.position) = ([], nil, nil, nil)
            }
            return
        }
        let isFollowed = words.last == "more"
        if isFollowed { words.removeLast() }
        let sequence = UInt64(words.removeLast().dropFirst()) ?? 0
        observer.held.append(words)
        if isFollowed { return }
        for words in observer.held { try apply(words, observer) }
        observer.held = []
        if let position = observer.position, position.sequence > sequence { throw Wrong(description: "\(line) behind \(position)") }
        observer.position = Position(epoch: observer.epoch, sequence: sequence)
    }

    private func apply(_ words: [String], _ observer: Observer) throws {
        let wrong = Wrong(description: "\(words) to \(observer.id), \(observer.list)")
        func place(_ value: String) throws {
            guard words[3] == "-" || observer.list.contains(where: { $0.key == words[3] }) else { throw wrong }
            let at = observer.list.firstIndex { $0.key == words[3] }.map { $0 + 1 } ?? 0
            observer.list.insert((words[2], value), at: at)
        }
        // The distances define the order.
        let isByPosition = observer.query?.isByPosition == true
        let known = words.count > 2 ? observer.list.firstIndex { $0.key == words[2] } : nil
        if observer.position != nil { replayed += 1 }
        switch words[0] {
        case "value": observer.value = words[2]
        case "count": observer.count = words[2]
        case "ready": break
        case "added":
            if known != nil { throw wrong }
            try place(words[4])
        case "removed":
            guard let known, observer.list[known].value == words[4] else { throw wrong }
            observer.list.remove(at: known)
        case "moved":
            guard let known else { throw wrong }
            if !isByPosition { try place(observer.list.remove(at: known).value) }
        default:
            guard let known, isByPosition || (known == 0 ? "-" : observer.list[known - 1].key) == words[3] else { throw wrong }
            observer.list[known].value = words[4]
        }
    }

    // MARK: Comparing

    private func compare() throws {
        var isQuiet = false
        while !isQuiet {
            hub.settle()
            log?.completeAll()
            hub.settle()
            _ = hub.take(writer)
            isQuiet = true
            for observer in observers {
                guard let client = observer.client else { continue }
                for line in lines(of: client) where observer.client != nil {
                    isQuiet = false
                    try apply(line, observer)
                }
            }
        }
        let reader = Client(lane: 1, dialect: .observe, identity: .admin)
        used.append(reader)
        let answers = hub.ask(reader, .get(.root))
        guard let json = answers.first(where: { $0 != "probe" }), let content = try? Node(json: json) else {
            throw Wrong(description: "the content is \(answers)")
        }
        for observer in observers where observer.client != nil { try compare(observer, content.node(at: observer.path)) }
    }

    private func compare(_ observer: Observer, _ node: Node) throws {
        let note = "observer \(observer.id) of \(observer.path), \(observer.query as Query?), \(observer.kinds.rawValue)"
        if observer.isReturning || !observer.held.isEmpty { throw Wrong(description: "\(note) waits for \(observer.held)") }
        let expected = Self.selection(observer.query, node)
        if observer.kinds.contains(.value) {
            let value = observer.query == nil ? node : Node.object(expected.map { ($0, node.child($0)) })
            if observer.value != value.json { throw Wrong(description: "\(note): \(observer.value ?? "-") for \(value.json)") }
        }
        if observer.kinds.contains(.count), observer.count != "\(expected.count)" {
            throw Wrong(description: "\(note): \(observer.count ?? "-") for \(expected.count)")
        }
        guard observer.kinds.contains(.added) else { return }
        var list = expected.map { "\($0) \(node.child($0).json)" }
        var known = observer.list.map { "\($0.key) \($0.value)" }
        if observer.query?.isByPosition == true { (list, known) = (list.sorted(), known.sorted()) }
        if known != list { throw Wrong(description: "\(note): \(observer.list) for \(list)") }
    }

    private static func selection(_ query: Query?, _ node: Node) -> [Key] {
        if let live = query, !live.isPlain { return LiveSelections.selection(live, node).map(\.key) }
        guard let query = query?.plain else { return node.children.map(\.key) }
        let all = node.children.map { query.orderedBy.place($0.key, $0.node) }
        let range = all.filter { query.admits($0) }.sorted { $0.order($1) < 0 }.map(\.key)
        guard let limit = query.limit else { return range }
        return query.keeps == .first ? Array(range.prefix(limit)) : Array(range.suffix(limit))
    }
}
