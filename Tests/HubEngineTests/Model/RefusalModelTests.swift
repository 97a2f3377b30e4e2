import Glibc
import HubEngine
import JSONTree
import Testing
import TestSupport

/// Random requests over a log that is slow and refuses at random, against the model of `RefusalWorld`.
/// `VIGLA_MODEL_OPERATIONS` sets the number of steps, `VIGLA_MODEL_SEED` repeats one run.
@Suite(.timeLimit(.minutes(30))) struct RefusalModelTests {
    private static let stepsPerRun = 500
    private static func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }

    @Test func answersCachesAndLog_equalTheModel_whateverIsRefused() throws {
        let runs = max(1, (Self.number("VIGLA_MODEL_OPERATIONS") ?? 6_000) / UInt64(Self.stepsPerRun))
        let seeds = Self.number("VIGLA_MODEL_SEED").map { $0...$0 } ?? 1...runs
        var (refusals, refused, early) = (0, 0, 0)
        for seed in seeds {
            var script = RefusalScript(seed: seed)
            let world = RefusalWorld()
            for step in 0..<Self.stepsPerRun {
                do { try script.step(world) } catch {
                    Issue.record("seed \(seed), step \(step): \(error)\n\(world.trace.suffix(150).joined(separator: "\n"))")
                    return
                }
            }
            refusals += world.refusals
            refused += world.refused
            early += world.early
        }
        #expect(
            refusals > 8 * seeds.count && refused > 20 * seeds.count && early > seeds.count,
            "\(refusals), \(refused), \(early): the runs meet what they are about")
    }
}

private struct RefusalScript {
    private var random: SeededRandom
    private let keys = ["x", "y", "1"]

    init(seed: UInt64) { random = SeededRandom(seed) }

    private mutating func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &random) }
    private mutating func pick<T>(_ list: [T]) -> T { list[roll(list.count)] }

    mutating func step(_ world: RefusalWorld) throws {
        switch roll(10) {
        case 0...1 where world.canComplete: try world.complete()
        case 2 where world.canComplete: if roll(3) > 0 { try world.refuse() } else { try world.complete() }
        case 3 where world.isRefusingNow: try world.passRetryTime()
        default: try world.submit(1 + roll(3) * roll(2)) { request(world) }
        }
    }

    private mutating func request(_ world: RefusalWorld) -> (RefusalWorld.Simulated, Request) {
        let open = world.clients.filter { !$0.isLeaving }
        guard open.count >= 3, let one = open.randomElement(using: &random) else { return world.newClient() }
        if one.isSlow {
            if roll(10) == 0 { return ending(one) }
            return (one, .drained)
        }
        switch roll(24) {
        case 0...3:
            let place = pick(["open", "a", "a/x", "s", "s/x", "s/x/y", "l", "m"].map { (try? Path(parsing: $0)) ?? .root })
            if one.busy.contains(place) { return (one, .get(place)) }
            let isOver = one.caches[place] != nil && roll(2) == 0
            let style = ObserverStyle.patches(tag: nil)
            return (one, isOver ? .unobserve(place, style: style) : .observe(place, style: style, hash: ""))
        case 4: return (one, .get(path()))
        case 5...6: return (one, .onDisconnect(writes()))
        case 7: return (one, .cancelOnDisconnect(path()))
        case 8: return (one, .identify(pick([.anonymous, .admin, Identity(auth: ["uid": "m"]), Identity(auth: ["uid": "n"])])))
        case 9 where roll(2) == 0: return ending(one)
        case 10 where roll(2) == 0:
            one.isLeaving = true
            return world.newClient(replacing: one)
        case 11: return (one, .congested)
        case 12...13:
            let place = path()
            let hash = pick([world.model.node(at: place).hash, "", "stale"])
            return (one, .write([TreeWrite(place, WriteValue(value()))], condition: Condition(place, hash: hash)))
        case 14...16: return (one, .write(writes()))
        case 17: return (one, .put("open", pick([1, 2, .null])))
        case 18...19:
            var value = WriteValue(0)
            value.deferred = [.init(path: .root, target: .value, value: .increment(.int(Int64(1 + roll(3)))))]
            return (one, .write([TreeWrite("a/x", value)]))
        case 20: return (one, .write([TreeWrite(path(), part: .priority, WriteValue(pick([.null, 1, "p"])))]))
        default: return (one, .put(path(), value()))
        }
    }

    private mutating func ending(_ one: RefusalWorld.Simulated) -> (RefusalWorld.Simulated, Request) {
        one.isLeaving = true
        return (one, .end)
    }

    private mutating func path() -> Path {
        Path([Key(pick(["a", "a", "a", "s", "s", "open", "l"]))] + (0..<roll(3)).map { _ in Key(keys[roll(keys.count)]) })
    }

    private mutating func writes() -> [TreeWrite] {
        var result: [TreeWrite] = []
        for _ in 0...roll(3) {
            let place = path()
            if !result.contains(where: { $0.path.contains(place) || place.contains($0.path) }) {
                result.append(TreeWrite(place, WriteValue(value())))
            }
        }
        return result
    }

    private mutating func value() -> Node {
        switch roll(6) {
        case 0: .null
        case 1: .object(keys.map { (Key($0), .int(Int64(roll(3)))) })
        case 2: (["x": 1, "y": ["x": .int(Int64(roll(9)))]] as Node).with(priority: 2)
        default: .int(Int64(roll(4)))
        }
    }
}
