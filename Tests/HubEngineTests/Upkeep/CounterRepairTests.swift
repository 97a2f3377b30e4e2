import HubEngine
import Journal
import JSONTree
import SecurityRules
import TestSupport
import Testing

/// Counters are right after a start, a deploy and an import, with any concurrent writes.
@Suite(.timeLimit(.minutes(30))) struct CounterRepairTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "e":{"$e":{".counts":{"n":"count(v/$e)","sum":"sum(v/$e)"}}},
          "u":{"$u":{".counts":{"mine":"count(e, each.child('by').val() == $u)"}}}}}
        """#
    private static let root: Node = [
        "e": ["x": ["by": "a", "n": 7], "y": ["by": "a"], "z": ["by": "b", "n": 0, "sum": 0]],
        "v": ["x": ["1": 5, "2": 6], "y": ["1": 7]], "u": ["a": ["name": "A"], "b": ["name": "B", "mine": 1]],
    ]
    private static let right: Node = [
        "e": ["x": ["by": "a", "n": 2, "sum": 11], "y": ["by": "a", "n": 1, "sum": 7], "z": ["by": "b", "n": 0, "sum": 0]],
        "v": ["x": ["1": 5, "2": 6], "y": ["1": 7]], "u": ["a": ["name": "A", "mine": 2], "b": ["name": "B", "mine": 1]],
    ]

    @Test func start_countsAll_andWritesWhatIsWrong() throws {
        let it = try GatedHarness(Self.rules, root: Self.root)
        #expect(it.content == Self.root, "not on the queue")
        it.finish()
        #expect(it.content == Self.right)
        let counters = it.hub.database.counters
        #expect(counters.countings == 1 && counters.systemCommits[.counters] == 1)
        let again = try GatedHarness(Self.rules, root: Self.right)
        again.finish()
        #expect(again.hub.database.counters.countings == 1 && again.hub.database.counters.commits == 0, "nothing is wrong")
    }

    @Test func deploy_countsWhatItBrings() throws {
        let it = try GatedHarness(root: Self.root)
        it.finish()
        #expect(it.hub.database.counters.countings == 0)
        it.hub.database.replace(try RuleSet(parsing: Self.rules))
        it.finish()
        #expect(it.content == Self.right)
    }

    @Test func import_isCounted() throws {
        let it = try GatedHarness(Self.rules)
        it.finish()
        var exchange = Exchange(.root, .write([TreeWrite(.root, WriteValue(Self.root))]))
        exchange.isImport = true
        #expect(it.ask(.make(), .identify(.admin), .exchange(exchange)).count == 2)
        it.finish()
        #expect(it.content == Self.right)
    }

    /// Writes made during the count go to the same counters.
    @Test func writesMeanwhile_areCountedOnce() throws {
        let it = try GatedHarness(Self.rules, root: Self.root)
        let one = Client.make()
        it.hub.settle()
        #expect(it.ask(one, .put("v/x/3", 1), .put("v/y", .null), .put("e/w", ["by": "a"])) == ["ok 0", "ok 1", "ok 2"])
        // Removed and created again: counted independently.
        #expect(it.ask(one, .put("e/x", .null), .put("e/x", ["by": "b"])) == ["ok 0", "ok 1"])
        it.finish()
        let rules = try RuleSet(parsing: Self.rules)
        #expect(rules.countAll(in: it.content) == [])
        #expect(it.content.node(at: "e/x") == ["by": "b", "n": 3, "sum": 12] && it.content.node(at: "u/a/mine") == 2)
    }

    @Test func largeSetOfANewNode_isCountedAMomentLater() throws {
        var limits = EngineLimits()
        limits.countedAtOnce = 1
        let it = try GatedHarness(Self.rules, root: ["v": ["x": ["1": 5, "2": 6]]], limits: limits)
        it.finish()
        #expect(it.ask(.make(), .put("e/x", ["by": "a"])) == ["ok 0"])
        #expect(it.content.node(at: "e/x") == ["by": "a", "n": 2, "sum": 0])
        it.finish()
        #expect(it.content.node(at: "e/x") == ["by": "a", "n": 2, "sum": 11])
    }

    /// The best of a large set is counted in the background, while members come and go, also in the pause between two counts.
    @Test(arguments: 1...20 as ClosedRange<UInt64>) func bestOfALargeSet_isRight_howeverMembersChangeMeanwhile(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let rules = #"""
            {"rules":{".read":true,".write":true,"s":{"$s":{".counts":{
              "best":{"value":"max(m/$s)","creates":true},"least":"min(m/$s)","some":"any(m/$s, each.val() > 7)"}}}}}
            """#
        var limits = EngineLimits()
        limits.countedAtOnce = 2
        let it = try GatedHarness(rules, limits: limits)
        it.finish()
        let (client, set) = (Client.make(), try RuleSet(parsing: rules))
        for _ in 0..<60 {
            let path = Path(["m", "x", Key("k\(random.below(6))")])
            _ = it.ask(client, .put(path, random.chance(40) ? .null : .int(Int64(random.below(10)))))
            // Sometimes the count ends, sometimes it waits; sometimes the pause is over.
            switch random.below(4) {
            case 0: it.finish()
            case 1: it.hub.time.advance(ms: Int64(random.below(3))) { it.hub.settle() }
            default: break
            }
        }
        for _ in 0..<5 {
            it.finish()
            it.hub.time.advance(ms: 100) { it.hub.settle() }
        }
        it.finish()
        #expect(set.countAll(in: it.content) == [], "\(it.content.json)")
    }

    /// Each corrected counter may cause a thousand copies. A turn corrects few enough that all copies fit.
    @Test func correctionsOfCopiedNodes_areMadeWithTheirCopies() throws {
        let rules = #"""
            {"rules":{".read":true,".write":true,
              "e":{"$e":{".counts":{"n":"count(v/$e)"},".copy":{"to":"t/$f/$e","each":"f/$f"}}}}}
            """#
        var root: Node = ["v": ["e0": ["a": 1, "b": 1]]]
        for e in 0..<50 {
            root.set(["x": 1], at: Path(["e", Key("e\(e)")]))
            for f in 0..<30 { root.set(["x": 1], at: Path(["t", Key("f\(f)"), Key("e\(e)")])) }
        }
        var limits = EngineLimits()
        limits.systemWrites = 100
        let it = try GatedHarness(rules, root: root, limits: limits)
        // Each turn of the queue schedules the next one.
        for _ in 0..<200 { it.finish() }
        let content = it.content
        #expect(content.node(at: "e/e0") == ["n": 2, "x": 1] && content.node(at: "e/e49") == ["n": 0, "x": 1])
        for e in 0..<50 {
            let (key, node) = (Key("e\(e)"), content.node(at: Path(["e", Key("e\(e)")])))
            for f in 0..<30 { #expect(content.node(at: Path(["t", Key("f\(f)"), key])) == node, "the copy of \(e) at \(f)") }
        }
    }

    /// A correction that the disk refuses is retried when it takes commits again.
    @Test func refusedCorrection_isMadeAgain() throws {
        let log = FlakyLog(root: Self.root)
        let gate = GatedWork()
        let hub = EngineHarness(
            rules: try RuleSet(parsing: Self.rules), root: Self.root, log: log, limits: .patient, background: gate.work)
        func finish() {
            hub.settle()
            while gate.runOne() { hub.settle() }
        }
        finish()
        #expect(!log.isIdle)
        log.complete(.failure(.diskFull))
        finish()
        for _ in 0..<6 {
            hub.passRetryTime()
            finish()
            while !log.isIdle {
                log.complete()
                finish()
            }
        }
        #expect(log.root == Self.right)
    }

    /// Random writes, deploys and restarts during the count.
    @Test(arguments: Array(1...40) as [UInt64]) func randomWrites_endWithRightCounters(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let rules = try RuleSet(parsing: Self.rules)
        var limits = EngineLimits()
        limits.countedAtOnce = 2
        var it = try GatedHarness(Self.rules, root: Self.root, limits: limits)
        for _ in 0..<60 {
            let (e, u) = (Key(random.pick(["x", "y", "z"])), Key(random.pick(["a", "b", "c"])))
            let write: (Path, Node) = switch random.below(8) {
            case 0: (Path([Key("e"), e]), random.chance(40) ? .null : ["by": .string(u.string)])
            case 1: (Path([Key("e"), e, Key("by")]), .string(u.string))
            case 2: (Path([Key("u"), u]), random.chance(40) ? .null : ["name": "N"])
            case 3: (Path([Key("v"), e]), random.chance(40) ? .null : ["1": 1, "2": 2, "3": .int(Int64(random.below(9)))])
            case 4: (Path([Key("v"), e, u]), .number(random.pick([0.1, 0x1p53, -0x1p53])))
            default: (Path([Key("v"), e, u]), random.chance(30) ? .null : .int(Int64(random.below(9))))
            }
            #expect(it.ask(.make(), .put(write.0, write.1)) == ["ok 0"])
            switch random.below(12) {
            case 0: it.finish()
            case 1, 2: it.gate.runOne()
            case 3: it.hub.database.replace(rules)
            case 4:
                var exchange = Exchange("v", .write([TreeWrite("v", WriteValue(["x": ["1": 4], "y": ["2": 2, "3": 5]]))]))
                exchange.isImport = true
                #expect(it.ask(.make(), .identify(.admin), .exchange(exchange)).count == 2)
            case 5: it = try GatedHarness(Self.rules, root: it.content, limits: limits)
            default: break
            }
        }
        it.finish()
        let wrong = rules.countAll(in: it.content)
        #expect(wrong == [], "\(wrong)\n\(it.content.json)")
    }
}
