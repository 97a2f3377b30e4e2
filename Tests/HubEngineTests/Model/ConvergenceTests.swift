import HubEngine
import JSONTree
import Testing
import TestSupport

/// Random writes against simulated clients: a cache built only from what the server sent equals the tree after every step.
@Suite(.timeLimit(.minutes(30))) struct ConvergenceTests {
    /// A client that applies pushes to its cache as an SDK does.
    private final class Simulated {
        let client: Client
        let path: Path
        var cache = Node.null
        var children: [String: String] = [:]

        init(lane: Int, path: Path) {
            client = Client(lane: lane, dialect: .realtime)
            self.path = path
        }

        func apply(_ line: String) throws {
            let parts = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
            switch parts[0] {
            case "d": set(try Path(parsing: parts[1]), try Node(json: parts[2]))
            case "m":
                let base = try Path(parsing: parts[1])
                for (key, value) in try mergeMembers(parts[2]) { set(base.appending(key), value) }
            default: break
            }
        }

        private func set(_ absolute: Path, _ value: Node) {
            #expect(path.contains(absolute))
            var below = absolute
            below = below.dropping(path.depth)
            cache.set(value, at: below)
        }
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func caches_equalTheTree_afterEveryStep(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var limits = EngineLimits()
        limits.turnWork = seed % 2 == 0 ? 4_000 : 1
        let hub = EngineHarness(limits: limits)
        let admin = Client.make()
        var model = Node.null
        let places: [Path] = [.root, "a", "a/b", "a/b/c", "b", "b/1", "c/a/b"]
        var listening: [Simulated] = []
        let keys = ["a", "b", "c", "1", "2", "10"]
        func randomPath(_ longest: Int) -> Path {
            Path((0..<Int.random(in: 0...longest, using: &random)).map { _ in Key(keys.randomElement(using: &random)!) })
        }
        func randomValue() -> Node {
            switch Int.random(in: 0..<6, using: &random) {
            case 0: .null
            case 1: .object(
                (0..<3).map { _ in (Key(keys.randomElement(using: &random)!), Node.int(Int64.random(in: 0..<3, using: &random))) })
            default: .int(Int64.random(in: 0..<4, using: &random))
            }
        }
        for step in 0..<2000 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0 where listening.count < 12:
                let one = Simulated(lane: Int.random(in: 0..<2, using: &random), path: places.randomElement(using: &random)!)
                for line in hub.ask(one.client, .listen(one.path)) { try one.apply(line) }
                listening.append(one)
            case 1 where listening.count > 6:
                let one = listening.remove(at: Int.random(in: 0..<listening.count, using: &random))
                _ = hub.ask(one.client, .end)
            case 2...4:
                var writes: [TreeWrite] = []
                for _ in 0..<Int.random(in: 1...4, using: &random) {
                    let path = randomPath(4)
                    if !path.isRoot, !writes.contains(where: { $0.path.contains(path) || path.contains($0.path) }) {
                        writes.append(TreeWrite(path, WriteValue(randomValue())))
                    }
                }
                _ = hub.ask(admin, .write(writes))
                for write in writes { model.set(write.value.node, at: write.path) }
            default:
                let (path, value) = (randomPath(4), randomValue())
                _ = hub.ask(admin, .put(path, value))
                model.set(value, at: path)
            }
            for one in listening {
                let lines = hub.take(one.client)
                #expect(lines.count <= 1, "one message per commit")
                for line in lines { try one.apply(line) }
                #expect(one.cache == model.node(at: one.path), "step \(step) at \(one.path)")
            }
        }
        #expect(hub.ask(admin, .get(.root)) == ["value 0 \(model.json)"])
    }
}
