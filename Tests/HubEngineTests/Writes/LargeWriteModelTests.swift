import Glibc
import HubEngine
import Journal
import JSONTree
import SecurityRules
import Testing
import TestSupport

/// Random writes, small and large, under rules that read other data. Large ones are prepared at random moments, with other writes in between. The
/// result must equal a serial order: an acknowledged write takes effect at its answer, a refused one is wrong at some moment since its request.
@Suite(.timeLimit(.minutes(30))) struct LargeWriteModelTests {
    private static func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }

    private static let rules = """
        {"rules":{".read":true,
          "a":{".write":"root.child('b/open').val() != 1",
               "$k":{".validate":"!newData.parent().child('y').exists() || newData.val() != 7"}},
          "b":{".write":true, ".validate":"newData.hasChildren()"},
          "c":{"$k":{".write":"!data.exists() || newData.parent().parent().child('b/open').val() == 2"}},
          "d":{".write":"newData.getPriority() == null || auth != null", "x":{".validate":"data.val() != newData.val()"}}
        }}
        """

    @Test func answersAndContent_areThoseOfOneOrder_whateverComesBetween() throws {
        let runs = max(1, (Self.number("VIGLA_MODEL_OPERATIONS") ?? 6_000) / 300)
        let seeds = Self.number("VIGLA_MODEL_SEED").map { $0...$0 } ?? 1...runs
        var total = (prepared: 0, again: 0, denied: 0, stale: 0)
        for seed in seeds {
            var world = try World(seed: seed, RuleSet(parsing: Self.rules))
            for step in 0..<300 {
                do { try world.step() } catch {
                    Issue.record("seed \(seed), step \(step): \(error)\n\(world.trace.suffix(40).joined(separator: "\n"))")
                    return
                }
            }
            total.prepared += world.it.hub.database.counters.prepared
            total.again += world.it.hub.database.counters.preparedAgain
            total.denied += world.denied
            total.stale += world.stale
        }
        #expect(total.prepared > 5 * seeds.count && total.again > seeds.count && total.denied > seeds.count, "\(total)")
    }

    private struct Difference: Error, CustomStringConvertible { let description: String }

    private struct World {
        let it: GatedHarness
        let rules: RuleSet
        var random: SeededRandom
        var model = Node.null
        /// All states of the model, oldest first.
        var versions: [Node] = [.null]
        var clients: [Client] = []
        /// For each client, its unanswered writes, and the first version to which each may apply.
        var open: [[(token: Int64, writes: [TreeWrite], condition: Condition?, since: Int)]] = []
        var token: Int64 = 0
        var trace: [String] = []
        var denied = 0
        var stale = 0

        init(seed: UInt64, _ rules: RuleSet) throws {
            random = SeededRandom(seed)
            self.rules = rules
            var limits = EngineLimits.tight
            limits.preparations = 3
            limits.dependencies = seed % 3 == 0 ? 2 : 100
            limits.recentPlaces = seed % 4 == 0 ? 5 : 1_000
            limits.turnWork = seed % 5 == 0 ? 1 : 4_000
            it = GatedHarness(rules, limits: limits)
            for i in 0..<4 {
                clients.append(i < 2 ? .make() : .user("u\(i)"))
                open.append([])
            }
        }

        private mutating func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &random) }
        private mutating func pick<T>(_ list: [T]) -> T { list[roll(list.count)] }

        mutating func step() throws {
            if it.gate.count > 0, roll(2) == 0 {
                it.gate.runOne(roll(it.gate.count))
                trace.append("-- work")
            } else {
                let who = roll(clients.count)
                token += 1
                let writes = writes()
                var condition: Condition?
                if roll(8) == 0 {
                    let place = pick(["a", "b", "c"] as [Path])
                    condition = Condition(place, hash: pick([model.node(at: place).hash, ""]))
                }
                let asked = writes.map { "\($0.path) \($0.part) \($0.value.deferred.count) \($0.value.node.json)" }
                trace.append("\(who) \(token) \(asked) \(condition.map { "\($0)" } ?? "")")
                open[who].append((token, writes, condition, versions.count - 1))
                it.hub.database.submit(.write(writes, condition: condition), from: clients[who], token: token)
            }
            it.hub.settle()
            for who in clients.indices {
                for line in it.hub.take(clients[who]) { try judge(line, who) }
            }
            if it.content != model { throw Difference(description: "stored \(it.content.json), expected \(model.json)") }
        }

        private mutating func judge(_ line: String, _ who: Int) throws {
            trace.append("\(who) < \(line)")
            guard let asked = open[who].first else { throw Difference(description: "an answer to nothing: \(line)") }
            open[who].removeFirst()
            let auth = who < 2 ? Node.null : ["uid": .string("u\(who)")]
            func made(on root: Node) throws(Failure) -> Node {
                let new = Self.apply(asked.writes, to: root)
                guard rules.allowsWrite(asked.writes.map(\.path), old: root, new: new, auth: auth, now: 1_700_000_000_000) else {
                    throw .permissionDenied
                }
                if let condition = asked.condition, root.node(at: condition.path).hash != condition.hash { throw .dataStale }
                return new
            }
            switch line {
            case "ok \(asked.token)":
                do { model = try made(on: model) } catch { throw Difference(description: "acknowledged, expected \(error)") }
                versions.append(model)
            case "error \(asked.token) permission_denied", "error \(asked.token) datastale":
                let code = line.hasSuffix("datastale") ? Failure.Code.dataStale : .permissionDenied
                let isExplained = versions[asked.since...].contains { version in
                    do throws(Failure) { _ = try made(on: version) } catch { return error.code == code }
                    return false
                }
                if code == .dataStale { stale += 1 } else { denied += 1 }
                if !isExplained { throw Difference(description: "\(line), which nothing explains") }
            case "error \(asked.token) unavailable": break
            default: throw Difference(description: "\(line) as an answer to \(asked.token)")
            }
        }

        private static func apply(_ writes: [TreeWrite], to root: Node) -> Node {
            var new = root
            for write in writes.applied {
                switch (write.part, write.value.deferred.first?.value) {
                case (.priority, _): new.setPriority(write.value.node, at: write.path)
                case (.node, .increment(.int(let by))):
                    if case .int(let old) = new.node(at: write.path).leaf {
                        new.set(.int(old + by), at: write.path)
                    } else {
                        new.set(.int(by), at: write.path)
                    }
                default: new.set(write.value.node, at: write.path)
                }
            }
            return new
        }

        private mutating func writes() -> [TreeWrite] {
            let count = pick([1, 1, 1, 2, 3, 4, 5])
            var result: [TreeWrite] = []
            for _ in 0..<count * 2 where result.count < count {
                var path = Path([Key(pick(["a", "a", "b", "c", "d"]))])
                for _ in 0..<pick([0, 1, 1, 2]) { path = path.appending(Key(pick(["x", "y", "z", "open", "1"]))) }
                if !result.contains(where: { $0.path.contains(path) || path.contains($0.path) }) { result.append(write(path)) }
            }
            return result
        }

        private mutating func write(_ path: Path) -> TreeWrite {
            switch roll(10) {
            case 0: return TreeWrite(path, part: .priority, WriteValue(pick([.null, 1, "p"])))
            case 1:
                var value = WriteValue(0)
                value.deferred = [.init(path: .root, target: .value, value: .increment(.int(Int64(1 + roll(3)))))]
                return TreeWrite(path, value)
            case 2...3: return TreeWrite(path, WriteValue(.null))
            case 4:
                let value = ["x": .int(Int64(roll(9))), "open": .int(Int64(roll(3)))] as Node
                return TreeWrite(path, WriteValue(value.with(priority: pick([.null, 2]))))
            default: return TreeWrite(path, WriteValue(.int(Int64(roll(8)))))
            }
        }
    }

    // MARK: A log that refuses

    /// Increments at random places over a log that is slow and refuses: the content includes exactly the acknowledged ones.
    @Test func acknowledgedSums_areStored_andNoOthers_whateverTheLogRefuses() throws {
        let runs = max(1, (Self.number("VIGLA_MODEL_OPERATIONS") ?? 6_000) / 300)
        let seeds = Self.number("VIGLA_MODEL_SEED").map { $0...$0 } ?? 1...runs
        var (refused, made) = (0, 0)
        for seed in seeds {
            var random = SeededRandom(seed)
            func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &random) }
            let log = FlakyLog()
            var limits = EngineLimits.tight
            limits.preparations = 5
            let it = GatedHarness(.allowAll, log: log, limits: limits)
            let clients = (0..<4).map { _ in Client.make() }
            var asked = clients.map { _ in [(token: Int64, places: [Path])]() }
            var sums: [Path: Int64] = [:]
            var token: Int64 = 0
            func collect() {
                for who in clients.indices {
                    for line in it.hub.take(clients[who]) {
                        let first = asked[who].isEmpty ? (token: -1, places: []) : asked[who].removeFirst()
                        if line == "ok \(first.token)" {
                            made += 1
                            for place in first.places { sums[place, default: 0] += 1 }
                        } else {
                            #expect(line == "error \(first.token) unavailable", "seed \(seed)")
                            refused += 1
                        }
                    }
                }
            }
            for _ in 0..<300 {
                switch roll(12) {
                case 0 where !log.isIdle: log.refuse()
                case 1...3 where !log.isIdle: log.complete()
                case 4...7 where it.gate.count > 0: it.gate.runOne(roll(it.gate.count))
                case 8: it.hub.passRetryTime()
                default:
                    let who = roll(clients.count)
                    token += 1
                    let places = Array(Set((0..<1 + roll(5)).map { _ in Path([Key("n"), Key("\(roll(6))")]) })).sorted()
                    asked[who].append((token, places))
                    it.hub.database.submit(.increments(places), from: clients[who], token: token)
                }
                it.hub.settle()
                collect()
            }
            for _ in 0..<10 {
                it.hub.passRetryTime()
                _ = it.ask(.make(), .get("n"))
                it.finish()
                log.completeAll()
                it.finish()
                collect()
            }
            #expect(!asked.contains { !$0.isEmpty }, "seed \(seed)")
            var expected = Node.null
            for (place, sum) in sums { expected.set(.int(sum), at: place) }
            #expect(it.content == expected && log.root == expected, "seed \(seed)")
        }
        #expect(refused > seeds.count && made > 20 * seeds.count, "\(refused), \(made)")
    }
}

extension GatedHarness {
    init(_ rules: RuleSet, log: (any Journal)? = nil, limits: EngineLimits) {
        hub = EngineHarness(rules: rules, log: log, limits: limits, background: gate.work)
    }
}
