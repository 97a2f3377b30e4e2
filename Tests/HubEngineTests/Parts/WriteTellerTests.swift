@testable import HubEngine
import JSONTree
import TestSupport
import Testing

/// A single write is told as the write itself where nothing else is observed. It must read as what `Publisher` works out.
@Suite(.timeLimit(.minutes(30))) struct WriteTellerTests {
    /// Observers of these places are told the writes themselves in both worlds.
    private static let observed = ["", "a", "a/b", "c"]
    private static let keys = ["a", "b", "c", "d"].map { Key($0) }

    private static func write(_ random: inout SeededRandom) -> TreeWrite {
        let path = Path((0..<random.below(5)).map { _ in random.pick(keys) })
        let leaf = Node.int(Int64(random.below(3)))
        switch random.below(10) {
        case 0, 1: return TreeWrite(path, WriteValue(.null))
        case 2: return TreeWrite(path, part: .priority, WriteValue(leaf))
        case 3, 4: return TreeWrite(path, WriteValue(Node.object(keys.prefix(1 + random.below(4)).map { ($0, leaf) })))
        case 5: return TreeWrite(path, WriteValue(.string(Text(String(repeating: "x", count: 50 + random.below(150))))))
        default: return TreeWrite(path, WriteValue(leaf))
        }
    }

    /// What each client is told now.
    private static func told(_ world: Bench, _ clients: [Client]) -> [[String]] {
        world.endBatch()
        world.log.completeAll()
        world.run {}
        world.settle()
        defer { _ = world.lines() }
        return clients.map { client in world.lines(to: client).filter { $0 != "probe" } }
    }

    /// Each write is made in both worlds, as a commit of its own.
    @Test(arguments: 0..<12) func writes_readAsWhatThePublisherWorksOut(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var limits = EngineLimits()
        // Some of the texts are large.
        limits.inlineBytes = 150
        let worlds = (0..<2).map { _ in Bench(root: ["a": ["b": 1, "d": 2]], limits: limits, lanes: 1) }
        let clients = worlds.map { world in
            Self.observed.map { place in
                let client = Client.make()
                world.observe(Observation(place), by: client)
                return client
            }
        }
        // In the other world there is more to tell at each of these places.
        for place in Self.observed { worlds[1].observe(Observation(place, style: .events(id: 1, kinds: .value)), by: .make()) }
        var (told, silent) = (0, 0)
        for _ in 0..<400 {
            let write = Self.write(&random)
            var known: [[[String]]] = []
            for (world, clients) in zip(worlds, clients) {
                try world.run {
                    let candidate = try Candidate([write], on: world.content.root, now: 0)
                    let old = world.content.install(candidate.tree)
                    let value = random.chance(50) ? candidate.onlyValue : nil
                    world.publisher.publish([write.path], old: old, value: value)
                }
                var lines = Self.told(world, clients)
                // Those of a large message go on when they have taken it.
                world.run {
                    for client in clients {
                        if let missed = world.slowReaders.catchUp(client)?.missed { world.publisher.publish(missed, to: client) }
                    }
                }
                lines += Self.told(world, clients)
                known.append(lines)
            }
            try #require(known[0] == known[1], "\(write)")
            if known[0].allSatisfy(\.isEmpty) { silent += 1 } else { told += 1 }
        }
        #expect(told > 100 && silent > 20)
    }

    @Test func suspendedObserver_hasMissedIt() throws {
        let bench = Bench(root: ["a": ["x": 1]], lanes: 1)
        let (slow, fast) = (Client.make(), Client.make())
        for client in [slow, fast] { bench.observe(Observation("a"), by: client) }
        bench.run { bench.slowReaders.suspend(slow) }
        bench.run {
            let old = bench.content.install(["a": ["x": 2]])
            bench.publisher.publish(["a/x"], old: old, value: 2)
        }
        #expect(bench.finish() == ["d a/x 2"])
        #expect(bench.context.meter.counters.conflated == 1)
        // Back among the others, it is told the write itself again.
        bench.run {
            guard let missed = bench.slowReaders.catchUp(slow)?.missed else { return }
            bench.publisher.publish(missed, to: slow)
        }
        #expect(bench.finish() == ["d a/x 2"])
        #expect(bench.run { bench.places.existingPlace(at: "a")?.views.allSatisfy(\.isPlain) } == true)
    }
}
