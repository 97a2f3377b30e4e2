import LiveQueries
@testable import HubEngine
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Where no other kind of observer is affected, a single write is sent as itself. The result must equal the output of `Publisher`.
@Suite(.timeLimit(.minutes(30))) struct SingleWriteFanOutTests {
    /// Counts messages encoded as a single write.
    private final class CountingFormat: WireFormat {
        let writes = Atomic<Int>(0)
        private let lines = LineFormat()

        func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] { lines.reply(reply, to: token, dialect: dialect) }
        func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
            lines.initial(value, at: path, query: query, style: style, sequence: sequence)
        }
        func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] {
            lines.change(change, for: style, sharing: &parts)
        }
        func written(_ value: Node, at path: Path) -> [UInt8] {
            writes.add(1, ordering: .relaxed)
            return lines.written(value, at: path)
        }
        func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8] {
            lines.ended(path, query: query, style: style, failure)
        }
    }

    /// In both worlds, observers of these places are sent the writes themselves.
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

    /// Each write is a commit of its own in both worlds.
    @Test(arguments: 0..<12) func writes_readAsWhatThePublisherWorksOut(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var limits = EngineLimits()
        // Some of the texts are large.
        limits.inlineBytes = 150
        let formats = [CountingFormat(), CountingFormat()]
        let worlds = formats.map { Bench(root: ["a": ["b": 1, "d": 2]], limits: limits, lanes: 1, format: $0) }
        let clients = worlds.map { world in
            Self.observed.map { place in
                let client = Client.make()
                world.observe(Observation(place), by: client)
                return client
            }
        }
        // The other world has another kind of observer at each of these places.
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
                    let isChange = random.chance(50) && old.node(at: write.path) != candidate.tree.node(at: write.path)
                    world.publisher.publish([write.path], old: old, areCompared: isChange, value: value)
                }
                var lines = world.sentLines(clients)
                // Clients of a large message continue once they have received it.
                world.run {
                    for client in clients {
                        if let missed = world.slowReaders.catchUp(client)?.missed { world.publisher.publish(missed, to: client) }
                    }
                }
                lines += world.sentLines(clients)
                known.append(lines)
            }
            try #require(known[0] == known[1], "\(write)")
            if known[0].allSatisfy(\.isEmpty) { silent += 1 } else { told += 1 }
        }
        #expect(told > 100 && silent > 20)
        let counts = formats.map { $0.writes.load(ordering: .relaxed) }
        #expect(counts[0] > 50 && counts[1] == 0)
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
        // Caught up, the client is sent the write itself again.
        bench.run {
            guard let missed = bench.slowReaders.catchUp(slow)?.missed else { return }
            bench.publisher.publish(missed, to: slow)
        }
        #expect(bench.finish() == ["d a/x 2"])
        #expect(bench.run { bench.places.existingPlace(at: "a")?.views.map(\.isPlain) } == [true])
    }

    @Test func observers_areToldWhatIsStored() throws {
        let bench = Bench(
            root: ["n": 3],
            rules: try RuleSet(parsing: #"""
                {"rules":{".read":true,".write":true,"u":{"$u":{"email":{".drop":true},"role":{".default":"'none'"}}}}}
                """#),
            lanes: 1)
        bench.observe(Observation(""), by: .make())
        var sum = TreeWrite("n", .null)
        sum.value.deferred = [.init(path: .root, target: .value, value: .increment(5))]
        for write in [TreeWrite("u/ana", ["name": "Ana", "email": "a@b"]), TreeWrite("u/ana/email", "a@b"), sum, TreeWrite("n/m", 1)] {
            try bench.run { _ = try bench.commits.commit([write], by: .client(.anonymous)) }
        }
        #expect(bench.finish() == [#"d u/ana {"name":"Ana","role":"none"}"#, "d n 8", "d n/m 1"])
    }

    @Test(arguments: [false, true]) func largeContentThatGoes_isReleasedOffTheQueue(isObserved: Bool) {
        var limits = EngineLimits()
        limits.largeWritePlaces = 3
        let bench = Bench(root: ["few": ["a": 1], "many": ["a": 1, "b": 2, "c": 3, "d": 4]], limits: limits, lanes: 1)
        if isObserved { bench.observe(Observation(""), by: .make()) }
        for (place, retired) in [("few", 0), ("many", 1)] as [(Path, Int)] {
            let count = bench.run {
                var tree = bench.content.root
                tree.set(.null, at: place)
                bench.publisher.publish([place], old: bench.content.install(tree))
                return bench.batch.end().retiring.count
            }
            #expect(count == retired, "\(place)")
        }
    }
}
