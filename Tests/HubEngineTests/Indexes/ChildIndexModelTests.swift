import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import Testing
import TestSupport

/// Random gets and listens with queries, writes and overwrites, while background work returns at random moments and the log refuses now and then.
/// When no work is pending, every cache and answer equals a full scan.
@Suite(.timeLimit(.minutes(30))) struct ChildIndexModelTests {
    private static let rules = try? RuleSet(parsing: #"{"rules":{".read":true,".write":true,"q":{"k":{".indexOn":["v",".value"]}}}}"#)

    private struct Watcher {
        let client: Client
        let query: TreeQuery
        var cache = Node.null
        var isAnswered = false
        var isSlow = false
    }

    /// Reads all output of a client, as one that keeps up.
    private func readAll(_ client: Client, _ hub: EngineHarness) -> [String] {
        var lines = hub.take(client)
        var new = lines
        while new.contains("probe") {
            hub.database.submit(.drained, from: client)
            new = hub.take(client)
            lines += new
        }
        return lines.filter { $0 != "probe" }
    }

    @Test(arguments: Array(1...12) as [UInt64])
    func answersAndCaches_areThoseOfAScan(seed: UInt64) throws {
        var script = ChildIndexScript(seed: seed)
        var limits = EngineLimits()
        limits.inlineChildren = [0, 3, 12][Int(seed % 3)]
        limits.followedChanges = [4, 30, 10_000][Int(seed / 3 % 3)]
        limits.indexEntries = seed % 4 == 0 ? 250 : 10_000
        limits.indexIdleMs = 20
        limits.windowsAtOnce = [10_000, 1, 20][Int(seed / 2 % 3)]
        limits.unindexedOrders = 50
        limits.turnWork = seed % 2 == 0 ? 4_000 : 1
        let log = FlakyLog()
        let hub = EngineHarness(rules: try #require(Self.rules), log: log, limits: limits)
        hub.work.close()
        var model = Node.null
        var watchers: [Watcher] = []
        var answered = 0
        var readers: [(client: Client, query: TreeQuery)] = []
        // The harness identifies clients by object address: keep them all, so that none reuses one.
        var clients: [Client] = []
        func client() -> Client {
            clients.append(.make(lane: clients.count % 2))
            return clients[clients.count - 1]
        }
        for step in 0..<400 {
            hub.time.advance(ms: 1)
            switch script.roll(20) {
            case 0...2 where watchers.count < 10:
                watchers.append(Watcher(client: client(), query: script.query(declaredOnly: false)))
                hub.database.submit(
                    .observe("q/k", query: watchers[watchers.count - 1].query, style: .patches(tag: 7), hash: ""),
                    from: watchers[watchers.count - 1].client)
            case 3 where !watchers.isEmpty:
                hub.database.submit(.end, from: watchers.remove(at: script.roll(watchers.count)).client)
            case 4...6:
                readers.append((client(), script.query(declaredOnly: true)))
                hub.database.submit(.get("q/k", query: readers[readers.count - 1].query), from: readers[readers.count - 1].client)
            case 7, 8: hub.work.step()
            case 9 where !watchers.isEmpty:
                let i = script.roll(watchers.count)
                watchers[i].isSlow.toggle()
                hub.database.submit(watchers[i].isSlow ? .congested : .drained, from: watchers[i].client)
            default:
                let writes = script.writes()
                let before = log.appended
                _ = hub.ask(client(), .write(writes))
                if log.appended > before, script.roll(12) == 0 {
                    log.refuse()
                    hub.settle()
                    hub.time.advance(ms: 2_000)
                    _ = hub.ask(client(), .get("x"))
                    log.complete()
                } else {
                    log.completeAll()
                    for write in writes { Self.apply(write, to: &model) }
                }
                hub.settle()
            }
            log.completeAll()
            guard script.roll(4) == 0 else { continue }
            // No work is pending from here on.
            for i in watchers.indices where watchers[i].isSlow {
                watchers[i].isSlow = false
                hub.database.submit(.drained, from: watchers[i].client)
            }
            hub.work.open()
            hub.settle()
            let told = watchers.map { readAll($0.client, hub) }
            hub.work.close()
            for i in watchers.indices.reversed() {
                for line in told[i] {
                    if line.hasPrefix("error") {
                        #expect(line == "error 0 too_big" || line == "error 0 unavailable" || line == "error 0 failure",
                            "seed \(seed) step \(step)")
                        watchers.remove(at: i)
                        break
                    }
                    // Too many changes at once in few indexes: the hub may end an order that no rule declares.
                    if line.hasPrefix("cancelled") {
                        #expect(seed % 4 == 0)
                        watchers.remove(at: i)
                        break
                    }
                    if line.hasPrefix("ok") { watchers[i].isAnswered = true }
                    try QueryModelTests.apply(line, &watchers[i].cache)
                }
                guard watchers.indices.contains(i) else { continue }
                #expect(watchers[i].isAnswered)
                let expected = QueryModelTests.scan(model.node(at: "q/k"), watchers[i].query)
                #expect(watchers[i].cache == expected,
                    "seed \(seed) step \(step) \(watchers[i].query) \(watchers[i].cache.json) \(expected.json)")
                if watchers[i].cache != expected { return }
            }
            for reader in readers {
                let lines = hub.take(reader.client)
                #expect(lines.count == 1, "seed \(seed) step \(step)")
            }
            // An answer before a write shows the content before it, an answer after it the content after it.
            let asked = (0..<3).map { _ in (client: client(), query: script.query(declaredOnly: true)) }
            var late: [(client: Client, query: TreeQuery)] = []
            for reader in asked {
                let lines = hub.ask(reader.client, .get("q/k", query: reader.query))
                if lines.isEmpty {
                    late.append(reader)
                } else {
                    #expect(lines == [Self.answer(reader.query, model)], "seed \(seed) step \(step)")
                }
            }
            let writes = script.writes()
            _ = hub.ask(client(), .write(writes))
            log.completeAll()
            for write in writes { Self.apply(write, to: &model) }
            hub.work.open()
            hub.settle()
            hub.work.close()
            for reader in late {
                let lines = hub.take(reader.client)
                #expect(lines == ["error 0 unavailable"] || lines == [Self.answer(reader.query, model)],
                    "seed \(seed) step \(step) \(reader.query)")
                answered += lines.first?.hasPrefix("value") == true ? 1 : 0
            }
            readers = []
        }
        if limits.inlineChildren < 12 { #expect(answered > 0) }
        for watcher in watchers { _ = hub.ask(watcher.client, .end) }
        hub.work.open()
        hub.settle()
        hub.time.advance(ms: 20)
        _ = hub.ask(client(), .get("x"))
        log.completeAll()
        _ = hub.ask(client(), .get("x"))
        #expect(hub.database.counters.indexes == 0 && hub.database.counters.indexEntries == 0 && hub.database.counters.listens == 0)
    }

    private static func answer(_ query: TreeQuery, _ model: Node) -> String {
        "value 0 \(QueryModelTests.scan(model.node(at: "q/k"), query).json)"
    }

    private static func apply(_ write: TreeWrite, to model: inout Node) {
        if write.part == .priority {
            model.setPriority(write.value.node, at: write.path)
        } else {
            model.set(write.value.node, at: write.path)
        }
    }
}

/// Random queries and writes over few keys and values, so that they meet.
private struct ChildIndexScript {
    private var random: SeededRandom
    private let keys = ["a", "b", "c", "d", "e", "f", "g", "1", "2", "3", "10", "-x", "é"] + (0..<30).map { "k\($0)" }

    init(seed: UInt64) { random = SeededRandom(seed) }

    mutating func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &random) }
    private mutating func pick<T>(_ list: [T]) -> T { list[roll(list.count)] }
    private mutating func leaf() -> Node { pick([false, true, 1, 2, 1.5, "s", "t"]) }

    private mutating func child() -> Node {
        switch roll(7) {
        case 0: .null
        case 1: leaf()
        case 2: leaf().with(priority: pick([1, 2, "p"]))
        case 3: ["v": ["w": leaf()], "z": 1]
        default: ["v": leaf(), "z": .int(Int64(roll(3)))]
        }
    }

    mutating func writes() -> [TreeWrite] {
        switch roll(14) {
        case 0: return [TreeWrite("q/k", WriteValue(.object(keys.prefix(roll(keys.count)).map { (Key($0), child()) })))]
        case 1: return [TreeWrite("q", WriteValue(pick([.null, ["k": 5], ["k": ["a": 1]]])))]
        case 2...4:
            return (0..<(1 + roll(9))).reduce(into: [:]) { some, _ in some[pick(keys)] = child() }
                .map { TreeWrite(Path([Key("q"), Key("k"), Key($0.key)]), WriteValue($0.value)) }
        case 5: return [TreeWrite(Path([Key("q"), Key("k"), Key(pick(keys))]), part: .priority, WriteValue(pick([.null, 1, 2, "x"])))]
        default:
            let path = Path([Key("q"), Key("k"), Key(pick(keys))] + pick([[], [Key("v")], [Key("v"), Key("w")]]))
            return [TreeWrite(path, WriteValue(roll(4) == 0 ? .null : leaf()))]
        }
    }

    mutating func query(declaredOnly: Bool) -> TreeQuery {
        let declared: [TreeQuery.Index?] = [nil, .key, .value, .priority, .child("v")]
        let index = pick(declaredOnly ? declared : declared + [.child("v/w"), .child("z")])
        var query = TreeQuery(index: index)
        if roll(2) == 0 { query.start = bound(index == .key) }
        if roll(2) == 0 { query.end = bound(index == .key) }
        if roll(4) == 0 { query.end = query.start }
        if query.isDefault || roll(3) > 0 {
            query.limit = pick([1, 2, 3, 5, 20])
            query.viewFrom = pick([nil, .first, .last])
        }
        return query
    }

    private mutating func bound(_ isKey: Bool) -> TreeQuery.Bound {
        if isKey { return .init(value: .string(Text(pick(keys))), inclusive: pick([nil, true, false])) }
        return .init(
            value: roll(5) == 0 ? .null : leaf(), key: pick([nil, nil, Key(pick(keys)), "[MIN_NAME]", "[MAX_NAME]"]),
            inclusive: pick([nil, true, false]))
    }
}
