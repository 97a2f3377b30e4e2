@testable import HubEngine
import Journal
@testable import JSONTree
import SecurityRules
import TestSupport
import Testing

/// One small value is written into the current tree in place. The result must equal that of the stages with a candidate tree.
@Suite(.timeLimit(.minutes(30))) struct PlainWriteTests {
    private static let rules = #"""
        {"rules":{
          ".read": true,
          "a": {".write": "newData.exists()", "$k": {".validate": "!newData.isBoolean() && newData.parent().hasChildren()"}},
          "b": {"$k": {".write": "newData.val() !== data.val()", ".validate": "newData.isNumber() || newData.isString()"}},
          "c": {".write": "auth != null"},
          "d": {".write": true}
        }}
        """#
    private static let keys = ["a", "b", "c", "d"].map { Key($0) }
    private static let observed = ["", "a", "b/c"]

    private static func write(_ random: inout SeededRandom) -> TreeWrite {
        let path = Path((0..<random.below(5)).map { _ in random.pick(keys) })
        let leaf: Node = random.pick([0, 1, 2.5, true, "x", "é", .string(Text(String(repeating: "y", count: 80)))])
        switch random.below(12) {
        case 0: return TreeWrite(path, WriteValue(.null))
        case 1: return TreeWrite(path, part: .priority, WriteValue(random.pick([.null, 1])))
        case 2, 3: return TreeWrite(path, WriteValue(Node.object(keys.prefix(1 + random.below(4)).map { ($0, leaf) })))
        case 4: return TreeWrite(path, WriteValue(leaf.with(priority: 3)))
        case 5:
            // Too large for one page.
            let text = Node.string(String(repeating: "z", count: 90))
            return TreeWrite(path, WriteValue(Node.object((0..<60).map { (Key("k\($0)"), text) })))
        default: return TreeWrite(path, WriteValue(leaf))
        }
    }

    /// The same writes in two worlds: one makes plain writes in place; the other keeps every tree, so each write takes all stages. Trees held
    /// meanwhile stay unchanged.
    @Test(arguments: 0..<10 as Range<UInt64>, [true, false]) func writes_leaveWhatAllStagesLeave(seed: UInt64, isObserved: Bool) throws {
        var random = SeededRandom(seed)
        let rules = try RuleSet(parsing: Self.rules)
        let root: Node = ["a": ["a": 1], "b": .object((0..<300).map { (Key("k\($0)"), .int($0)) }), "d": ["d": ["d": "leaf"]]]
        let refusals = [RefusalLog(), RefusalLog()]
        let worlds = refusals.map { Bench(root: root, rules: rules, lanes: 1, refusals: $0) }
        worlds[1].ring.count(1)
        let clients = worlds.map { world in
            (isObserved ? Self.observed : []).map { place in
                let client = Client.make()
                world.observe(Observation(place), by: client)
                return client
            }
        }
        let origin = WriteOrigin.client(.anonymous)
        var held: [(tree: Node, json: String)] = []
        var (made, refused) = (0, 0)
        for _ in 0..<300 {
            let write = Self.write(&random)
            let outcomes = worlds.map { world in
                world.run { () -> String in
                    do throws(Failure) { return "\(try world.commits.commit([write], by: origin) ?? 0)" } catch { return "\(error)" }
                }
            }
            try #require(outcomes[0] == outcomes[1], "\(write)")
            if Int(outcomes[0]) == nil { refused += 1 } else { made += 1 }
            try #require(worlds[0].content.root == worlds[1].content.root, "\(write)")
            #expect(worlds[0].batch.journalled == worlds[1].batch.journalled)
            let last = worlds.map { $0.commits.recent.places(since: max(1, $0.content.sequence) - 1) }
            #expect(last[0] == last[1])
            #expect(worlds[0].context.meter.counters.commits == worlds[1].context.meter.counters.commits)
            #expect(worlds[0].context.meter.work == worlds[1].context.meter.work)
            if random.chance(10) { held.append((worlds[0].content.root, worlds[0].content.root.json)) }
            if random.chance(50) {
                let told = zip(worlds, clients).map { $0.sentLines($1) }
                try #require(told[0] == told[1], "\(write)")
            }
        }
        #expect(made > 80 && refused > 30, "\(made), \(refused)")
        #expect(worlds[0].commits.plainCommits > 60 && worlds[1].commits.plainCommits == 0)
        #expect(refusals[0].all == refusals[1].all && !refusals[0].all.isEmpty)
        #expect(held.allSatisfy { $0.tree.json == $0.json })
    }

    private static func object(_ node: Node) -> ObjectIdentifier? {
        if case .object(let object) = node { ObjectIdentifier(object) } else { nil }
    }

    @Test func tree_isChangedInPlace_whereNothingElseHoldsIt() throws {
        let bench = Bench(root: .object((0..<300).map { (Key("k\($0)"), .string("a text of some length")) }), lanes: 1)
        let write = { (key: String, value: Node) in
            _ = try bench.run { try bench.commits.commit([TreeWrite(key, value)], by: .client(.anonymous)) }
        }
        // The log holds the durable tree.
        let durable = bench.run { Self.object(bench.durability.durable.root) }
        try write("k1", "another text there it")
        let own = bench.run { Self.object(bench.content.root) }
        #expect(own != nil && own != durable)
        for i in 2..<50 { try write("k\(i)", .int(Int64(i))) }
        #expect(bench.run { Self.object(bench.content.root) } == own)
        let held = bench.run { bench.content.root }
        try write("k2", "changed")
        #expect(bench.run { Self.object(bench.content.root) } != own)
        #expect(held.child("k2") == 2 && bench.run { bench.content.root.child("k2") } == "changed")
        #expect(bench.run { bench.durability.durable.root.child("k1") } == "a text of some length")
    }

    @Test func writeOnWhichAPermissionRests_takesAllStages() throws {
        let rules = #"{"rules":{".write":true,"open":{".read":"root.child('who/may').val() == true"},"who":{},"other":{}}}"#
        let bench = Bench(root: ["open": ["a": 1], "who": ["may": true]], rules: try RuleSet(parsing: rules), lanes: 1)
        let client = Client.make()
        let count = try bench.run {
            let dependent = Dependent(client, Observation("open"), ["who/may"])
            bench.places.add(dependent, at: "who/may")
            for (path, value) in [("other/x", 1), ("open/a", 2)] as [(String, Node)] {
                _ = try bench.commits.commit([TreeWrite(path, value)], by: .client(.anonymous))
            }
            let plain = bench.commits.plainCommits
            for (path, value) in [("who/may", 2), ("who", 3), ("who/may/not", 4)] as [(Path, Node)] {
                #expect(bench.places.hasDependents(around: path))
                _ = try bench.commits.commit([TreeWrite(path, WriteValue(value))], by: .client(.anonymous))
            }
            return (plain, bench.commits.plainCommits)
        }
        #expect(count == (2, 2))
    }

    @Test func refusedBatch_takesThemBack() throws {
        let bench = Bench(root: .object((0..<300).map { (Key("k\($0)"), .int(0)) }), lanes: 1)
        for i in 0..<300 {
            _ = try bench.run { try bench.commits.commit([TreeWrite("k\(i)", .int(1))], by: .client(.anonymous)) }
        }
        let before = bench.run {
            bench.durability.finishBatch()
            _ = bench.durability.giveUp()
            return bench.content.rollBack(to: bench.durability.durable)
        }
        #expect(before.children.allSatisfy { $0.node == 1 } && before.childCount == 300)
        #expect(bench.run { bench.content.root.children.allSatisfy { $0.node == 0 } && bench.content.root.childCount == 300 })
    }

    @Test func equality_inPlace_isThatOfTheNodes() throws {
        var random = SeededRandom(7)
        let leaves: [Node] = [
            .null, true, false, 0, 1, 2.5, "", "a", "é", .string(Text(String(repeating: "y", count: 80))),
            .string(Text(String(repeating: "y", count: 5_000))), Node.int(1).with(priority: 2), Node.int(1).with(priority: 3),
            Node.string("a").with(priority: "a"),
        ]
        func node(_ depth: Int) -> Node {
            if depth == 0 || random.chance(40) { return random.pick(leaves) }
            let children = random.pick([1, 2, 3, 400])
            let object = Node.object((0..<children).map { (Key("k\($0)"), children > 3 ? random.pick(leaves) : node(depth - 1)) })
            return random.chance(20) && object.exists ? object.with(priority: 1) : object
        }
        var equal = 0
        for _ in 0..<400 {
            let root = node(3)
            let path = Path((0..<random.below(3)).map { _ in Key("k\(random.below(3))") })
            let there = root.node(at: path)
            // An equal value at another place in memory.
            let other = random.chance(40) ? try Node(json: there.json) : node(2)
            root.withCursor(at: path) { cursor in
                guard let cursor else { return #expect(there.isNull) }
                #expect(cursor.isEqual(to: there))
                #expect(cursor.isEqual(to: other) == (there == other))
                if there == other { equal += 1 }
            }
        }
        #expect(equal > 50, "\(equal)")
    }
}
