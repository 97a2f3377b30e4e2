@testable import HubEngine
import Journal
import JSONTree
import LiveQueries
import SecurityRules
import TestSupport
import Testing

/// Indexes: when they are created, kept, awaited and dropped.
@Suite(.timeLimit(.minutes(30))) struct IndexStoreTests {
    private static let rules = #"{"rules":{"q":{".indexOn":["v",".value"]}}}"#

    private static func bench(_ limits: EngineLimits = EngineLimits(), children: Int) throws -> Bench {
        Bench(root: ["q": place(children)], rules: try RuleSet(parsing: rules), limits: limits)
    }

    private static func place(_ count: Int, from first: Int = 0) -> Node {
        .object((first..<first + count).map { (Key("k\($0)"), .int(Int64(($0 * 7) % 11))) })
    }

    private static func keys(_ children: OrderedChildren?, _ ordering: TreeQuery.Index) -> [Key]? {
        children.map { TreeQuery(index: ordering).select(from: $0).map(\.key) }
    }

    private static func sorted(_ node: Node, _ ordering: TreeQuery.Index) -> [Key] {
        node.children.map { ordering.place($0.key, $0.node) }.sorted { $0.order($1) < 0 }.map(\.key)
    }

    /// The children of `q` in an order; nil if that has to be built first.
    private static func order(
        _ bench: Bench, _ ordering: TreeQuery.Index, mustKeep: Bool = false
    ) throws -> [Key]? {
        try bench.run {
            let node = bench.content.root.child("q")
            let order = bench.indexes.order(node, at: "q", by: ordering, mustKeep: mustKeep)
            return keys(try order?.get(), ordering)
        }
    }

    private static func counters(_ bench: Bench) -> EngineCounters {
        bench.run { bench.indexes.evictIdle() }
        return bench.context.meter.counters
    }

    @Test func fewChildren_areSortedForEachAnswer_moreAreKept() throws {
        for (count, isKept) in [(63, false), (64, true)] {
            let bench = try Self.bench(children: count)
            for _ in 0..<2 { #expect(try Self.order(bench, .value) == Self.sorted(bench.content.root.child("q"), .value)) }
            #expect(Self.counters(bench).indexes == (isKept ? 1 : 0))
            #expect(Self.counters(bench).childrenSortedOnQueue == (isKept ? count : 2 * count))
            #expect(try Self.order(bench, .key)?.count == count)
            #expect(Self.counters(bench).indexes == (isKept ? 1 : 0), "key order is the tree's own")
        }
    }

    @Test func manyChildren_areSortedBesideTheQueue_onceForAll() throws {
        var limits = EngineLimits()
        limits.inlineChildren = 100
        #expect(try Self.order(try Self.bench(limits, children: 100), .value) != nil)
        let bench = try Self.bench(limits, children: 101)
        #expect(try Self.order(bench, .value) == nil)
        let again = try Self.bench(limits, children: 101)
        again.work.close()
        let resumed = ReceivedBox<[String]>([])
        again.run {
            for name in ["a", "b"] {
                let node = again.content.root.child("q")
                let failure = again.indexes.awaitIndex(.value, at: "q", over: node) { resumed.value.append(name + ($0?.message ?? "")) }
                #expect(failure == nil)
            }
        }
        #expect(again.work.waiting == 1 && resumed.value.isEmpty)
        // Writes made meanwhile update the index.
        again.run {
            var root = again.content.root
            root.set(.int(-1), at: "q/new")
            _ = again.content.install(root)
        }
        again.work.open()
        again.settle()
        #expect(resumed.value == ["a", "b"])
        #expect(try Self.order(again, .value) == Self.sorted(again.content.root.child("q"), .value))
        #expect(Self.counters(again).childrenSorted == 101 && Self.counters(again).childrenSortedOnQueue == 0)
    }

    @Test func placeWrittenTooFast_isSortedAgainForLiveQueries_afterAPause() throws {
        var limits = EngineLimits()
        (limits.inlineChildren, limits.followedChanges) = (10, 5)
        let bench = try Self.bench(limits, children: 5)
        bench.observe(Observation("q", TreeQuery(index: .value, limit: 1)), by: .make())
        let place = try #require(bench.places.existingPlace(at: "q"))
        let index = try #require(place.existingIndex(.value))
        bench.work.close()
        func overwrite(_ first: Int) {
            bench.run {
                let new = Self.place(64, from: first)
                let old = bench.content.install(["q": new])
                bench.indexes.rebuild(place, over: new, from: old.child("q"))
            }
        }
        overwrite(0)
        for first in [100, 200, 300] {
            #expect(bench.work.waiting == 1)
            overwrite(first)
            bench.work.step()
            bench.run {}
        }
        #expect(bench.work.waiting == 0 && index.index == nil, "three tries were overtaken")
        bench.time.advance(ms: 999)
        bench.run {}
        #expect(bench.work.waiting == 0)
        bench.time.advance(ms: 1)
        bench.run {}
        #expect(bench.work.waiting == 1)
        bench.work.step()
        #expect(try Self.order(bench, .value) == Self.sorted(Self.place(64, from: 300), .value))
    }

    @Test func longStrings_areSortedBesideTheQueue() throws {
        var limits = EngineLimits()
        limits.inlineTextBytes = 100
        for (bytes, isHere) in [(50, true), (51, false)] {
            let text = Node.string(Text(String(repeating: "x", count: bytes)))
            let bench = Bench(root: ["q": ["a": text, "b": text, "c": 1]], rules: try RuleSet(parsing: Self.rules), limits: limits)
            #expect(try (Self.order(bench, .value) != nil) == isHere)
            #expect(try Self.order(bench, .child("v")) != nil, "only what the order looks at counts")
        }
    }

    @Test func room_isMadeByIdleIndexes_andNotByThoseInUse() throws {
        var limits = EngineLimits()
        limits.indexEntries = 250
        let bench = try Self.bench(limits, children: 120)
        #expect(try Self.order(bench, .value) != nil && Self.order(bench, .child("v")) != nil)
        #expect(Self.counters(bench).indexEntries == 220, "120 values, and an index that leaves out all children: it counts as 100")
        #expect(try Self.order(bench, .priority) != nil)
        #expect(Self.counters(bench).indexEntries == 200)
        #expect(bench.places.existingPlace(at: "q")?.existingIndex(.value) == nil, "the one that was used longest ago went")
        for ordering in [TreeQuery.Index.priority, .child("v")] {
            bench.observe(Observation("q", TreeQuery(index: ordering, limit: 1)), by: .make())
        }
        #expect(throws: Failure.tooManyIndexes) { try Self.order(bench, .value, mustKeep: true) }
        #expect(try Self.order(bench, .value) != nil, "an answer is given all the same")
    }

    /// At first one of the children has a value; then all of them get one. The invariants check the windows and the index after each write.
    @Test(arguments: [10, 1_000]) func sparseIndex_isBuiltAgain_whenItIsOutgrown(inlineChildren: Int) throws {
        var limits = EngineLimits()
        limits.inlineChildren = inlineChildren
        let children = Node.object((0..<200).map { (Key("k\($0)"), $0 == 7 ? ["v": 1] : ["n": 1]) })
        let rules = try RuleSet(parsing: #"{"rules":{".read":true,".write":true,"q":{".indexOn":"v"}}}"#)
        let hub = EngineHarness(rules: rules, root: ["q": children], limits: limits)
        let (client, other) = (Client.make(), Client.make())
        let query = Query(TreeQuery(index: .child("v"), limit: 3, viewFrom: .first))
        _ = hub.ask(client, .observe("q", query: query, style: .patches(tag: 1), hash: ""))
        hub.settle()
        #expect(hub.database.counters.indexEntries == 100)
        var expected = (0..<200).map { "k\($0)" }.filter { $0 != "k7" }.sorted { Key($0) < Key($1) }
        for i in 0..<190 where i != 7 {
            #expect(hub.ask(other, .put(Path([Key("q"), Key("k\(i)"), Key("v")]), .int(2))).contains("ok 0"))
            hub.settle()
            expected.removeAll { $0 == "k\(i)" }
            guard i % 40 == 39 else { continue }
            let answer = hub.ask(other, .get("q", query: query)).joined()
            for key in expected.prefix(3) { #expect(answer.contains("\"\(key)\""), "\(i): \(answer)") }
        }
        #expect(hub.database.counters.indexEntries == 200)
    }

    @Test func ordersThatNoRuleNames_areFew_andDroppedBehindTheirUse() throws {
        var limits = EngineLimits()
        limits.unindexedOrders = 2
        let bench = try Self.bench(limits, children: 64)
        #expect(try Self.order(bench, .child("x")) != nil)
        #expect(Self.counters(bench).indexes == 0)
        for ordering in [TreeQuery.Index.child("x"), .child("y"), .child("v")] {
            bench.observe(Observation("q", TreeQuery(index: ordering, limit: 1)), by: .make())
        }
        #expect(Self.counters(bench).indexes == 3)
        #expect(throws: Failure.missingIndex(.child("z"), "q")) { try Self.order(bench, .child("z"), mustKeep: true) }
    }

    @Test func idleIndex_isDroppedWhenItsTimeIsOver() throws {
        var limits = EngineLimits()
        limits.indexIdleMs = 1_000
        let bench = try Self.bench(limits, children: 64)
        _ = try Self.order(bench, .value)
        bench.time.advance(ms: 999)
        #expect(Self.counters(bench).indexes == 1)
        _ = try Self.order(bench, .value)
        bench.time.advance(ms: 999)
        #expect(Self.counters(bench).indexes == 1, "it was used")
        bench.time.advance(ms: 1)
        #expect(Self.counters(bench).indexes == 0 && bench.places.count == 1)
        // A pinned index stays.
        _ = try Self.order(bench, .value)
        let index = try #require(bench.places.existingPlace(at: "q")?.existingIndex(.value))
        bench.run { bench.indexes.pin(index) }
        bench.time.advance(ms: 5_000)
        #expect(Self.counters(bench).indexes == 1)
        bench.run { bench.indexes.unpin(index) }
        bench.time.advance(ms: 1_000)
        #expect(Self.counters(bench).indexes == 0)
    }

    @Test func overwrittenLargePlace_owesItsViews_untilTheIndexIsBuilt() throws {
        var limits = EngineLimits()
        limits.inlineChildren = 10
        let bench = try Self.bench(limits, children: 5)
        bench.observe(Observation("q", TreeQuery(index: .value, limit: 2)), by: .make())
        let shown = ReceivedBox<[String]>([])
        bench.indexes.onResultReady = { path, ordering, _ in shown.value.append("\(path) \(ordering.text)") }
        let place = try #require(bench.places.existingPlace(at: "q"))
        let view = try #require(place.views.first)
        func overwrite(_ count: Int) {
            bench.run {
                let old = bench.content.install(["q": Self.place(count, from: 100)])
                bench.indexes.rebuild(place, over: bench.content.root.child("q"), from: old.child("q"))
            }
        }
        overwrite(10)
        #expect(view.shown.all(of: bench.content.root.child("q"), at: place) != nil && shown.value.isEmpty, "few are sorted at once")
        bench.work.close()
        overwrite(11)
        #expect(view.shown.all(of: bench.content.root.child("q"), at: place) == nil)
        bench.work.open()
        bench.settle()
        #expect(shown.value == ["/q .value"])
        #expect(view.shown.all(of: bench.content.root.child("q"), at: place) != nil)
    }

    @Test func outgrownOrders_endTheirObservers_theLargestFirst() throws {
        var limits = EngineLimits()
        limits.indexEntries = 300
        let bench = Bench(root: ["a": Self.place(100), "q": Self.place(10)], rules: try RuleSet(parsing: Self.rules), limits: limits)
        let cancelled = ReceivedBox<[Path]>([])
        bench.indexes.cancel = { [weak bench] observation, client in
            cancelled.value.append(observation.path)
            bench?.registry.remove(observation, of: client)
        }
        // Half of the entries are for orders that no rule declares, so there is room for one of them and a declared one.
        bench.observe(Observation("q", TreeQuery(index: .value, limit: 1)), by: .make())
        bench.observe(Observation("a", TreeQuery(index: .value, limit: 1)), by: .make())
        #expect(Self.counters(bench).indexEntries == 200)
        var changes: [ChildChange] = []
        for i in 100..<201 { changes.append(ChildChange(key: Key("k\(i)"), old: .null, new: 1)) }
        let place = try #require(bench.places.existingPlace(at: "a"))
        bench.run { bench.indexes.follow(Array(changes.prefix(100)), at: place, from: .null, to: .null) }
        #expect(Self.counters(bench).indexEntries == 300 && cancelled.value.isEmpty, "as many as may be")
        bench.run { bench.indexes.follow(Array(changes.suffix(1)), at: place, from: .null, to: .null) }
        #expect(Self.counters(bench).indexEntries == 100 && cancelled.value == ["a"], "what a rule names stays")
    }

    @Test func deployedRules_sayWhichOrdersStay() throws {
        let bench = try Self.bench(children: 64)
        _ = try Self.order(bench, .value)
        bench.observe(Observation("q", TreeQuery(index: .child("v"), limit: 1)), by: .make())
        #expect(bench.run { !bench.indexes.isMissing(.value, "q") && bench.indexes.isMissing(.child("w"), "q") })
        #expect(bench.run { !bench.indexes.isMissing(.key, "x") && !bench.indexes.isMissing(.priority, "x") })
        bench.run {
            bench.content.deploy(.allowAll)
            bench.indexes.recheckDeclarations()
        }
        let indexes = bench.places.existingPlace(at: "q")?.indexes ?? []
        #expect(indexes.map(\.ordering) == [.child("v")] && indexes.allSatisfy { !$0.isDeclared }, "it is in use, so it stays")
    }

    @Test(arguments: Array(1...10) as [UInt64])
    func indexes_followCommitsAndRollbacks_likeSortingAnew(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var limits = EngineLimits()
        limits.followedChanges = seed % 2 == 0 ? 3 : 10_000
        let bench = try Self.bench(limits, children: 70)
        let orders: [TreeQuery.Index] = [.value, .child("v"), .priority]
        for ordering in orders { bench.observe(Observation("q", TreeQuery(index: ordering, limit: 2)), by: .make()) }
        let place = try #require(bench.places.existingPlace(at: "q"))
        var earlier = bench.content.root
        for _ in 0..<60 {
            let old = bench.content.root
            bench.run {
                if random.chance(10) {
                    _ = bench.content.rollBack(to: .init(root: earlier))
                    bench.indexes.follow(from: old)
                } else {
                    if random.chance(10) { earlier = old }
                    var root = old
                    let keys = Set((0...random.below(4)).map { _ in Key("k\(random.below(90))") }).sorted()
                    for key in keys {
                        let number = Node.int(Int64(random.below(9)))
                        root.set(random.pick([.null, number, ["v": number], number.with(priority: 2)]), at: Path(["q", key]))
                    }
                    _ = bench.content.install(root)
                    let (before, after) = (old.child("q"), root.child("q"))
                    let changes = keys.map { ChildChange(key: $0, old: before.child($0), new: after.child($0)) }
                    bench.indexes.follow(changes, at: place, from: before, to: after)
                }
            }
            let node = bench.content.root.child("q")
            for ordering in orders { #expect(Self.keys(place.children(of: node, by: ordering), ordering) == Self.sorted(node, ordering)) }
        }
        #expect(Self.counters(bench).indexEntries == 3 * max(ChildIndex.leastEntries, bench.content.root.child("q").childCount))
    }
}
