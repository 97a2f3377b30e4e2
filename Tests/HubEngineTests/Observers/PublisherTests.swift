import LiveQueries
@testable import HubEngine
import JSONTree
import Synchronization
import Testing

/// Messages to observers about a commit: computed once per view, encoded once per style, and large ones later.
@Suite(.timeLimit(.minutes(30))) struct PublisherTests {
    /// Counts encoded messages, by style.
    private final class CountingFormat: WireFormat {
        let counts = Mutex<[ObserverStyle: Int]>([:])
        private let lines = LineFormat()

        func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] { lines.reply(reply, to: token, dialect: dialect) }
        func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
            lines.initial(value, at: path, query: query, style: style, sequence: sequence)
        }
        func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] {
            counts.withLock { $0[style, default: 0] += 1 }
            return lines.change(change, for: style, sharing: &parts)
        }
        func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8] {
            lines.ended(path, query: query, style: style, failure)
        }
        func count(_ style: ObserverStyle) -> Int { counts.withLock { $0[style] ?? 0 } }
    }

    private static let plain = ObserverStyle.patches(tag: nil)
    private static let values = ObserverStyle.events(id: 1, kinds: .value)
    private static let children = ObserverStyle.events(id: 2, kinds: .children)

    /// Commits writes and publishes them.
    private static func commit(_ bench: Bench, _ writes: [TreeWrite]) throws {
        try bench.run {
            let candidate = try Candidate(writes, on: bench.content.root, now: 0)
            let old = bench.content.install(candidate.tree)
            bench.publisher.publish(writes.map(\.path), old: old)
        }
    }

    @Test func frame_isSharedByAllWhoReadTheSame() throws {
        let format = CountingFormat()
        let bench = Bench(lanes: 1, format: format)
        for place in ["", "a", "a/b"] { for _ in 0..<3 { bench.observe(Observation(place), by: .make()) } }
        bench.observe(Observation("a/b", style: Self.values), by: .make())
        try Self.commit(bench, [TreeWrite("a/b/c", 1)])
        #expect(format.count(Self.plain) == 1, "three views and nine observers")
        let lines = bench.finish()
        #expect(lines.filter { $0 == "d a/b/c 1" }.count == 9 && lines.contains(#"value 1 {"c":1}"#))
        // Several writes: each view gets its own.
        try Self.commit(bench, [TreeWrite("a/b/c", 2), TreeWrite("a/d", 3)])
        #expect(format.count(Self.plain) == 4)
        #expect(Set(bench.finish()) == [#"m  {"a/b/c":2,"a/d":3}"#, #"m a {"b/c":2,"d":3}"#, "d a/b/c 2", #"value 1 {"c":2}"#])
    }

    @Test func view_isToldOnce_andNothingOfWhatChangesNothing() throws {
        let bench = Bench(root: ["a": ["x": 1, "y": 2]])
        for style in [Self.plain, Self.children] { bench.observe(Observation("a", style: style), by: .make()) }
        try Self.commit(bench, [TreeWrite("a/x", 5), TreeWrite("a/y", .null), TreeWrite("a/z", 7)])
        #expect(Set(bench.finish()) == [#"m a {"x":5,"y":null,"z":7}"#, "removed 2 y 2 -; added 2 z 7 x; changed 2 x 5 -"])
        try Self.commit(bench, [TreeWrite("a/x", 5)])
        try Self.commit(bench, [TreeWrite("b", 5)])
        #expect(bench.finish().isEmpty)
    }

    @Test func placesAreLeftClean_forTheNextCommit() throws {
        let bench = Bench(root: ["a": ["x": 1]])
        bench.observe(Observation("a"), by: .make())
        // Otherwise the writes themselves are sent (`SingleWriteFanOut`).
        bench.observe(Observation("a", style: Self.values), by: .make())
        try Self.commit(bench, [TreeWrite("a", ["x": 2, "y": 3])])
        try Self.commit(bench, [TreeWrite("a/x", 4)])
        try Self.commit(bench, [TreeWrite("a/y", 5)])
        let lines = bench.finish()
        #expect(lines.filter { $0.hasPrefix("d ") } == [#"d a {"x":2,"y":3}"#, "d a/x 4", "d a/y 5"])
        let values = [#"{"x":2,"y":3}"#, #"{"x":4,"y":3}"#, #"{"x":4,"y":5}"#].map { "value 1 \($0)" }
        #expect(lines.filter { $0.hasPrefix("value ") } == values)
    }

    @Test func queries_areToldWhatTheyShow_andOnlyThoseConcerned() throws {
        let bench = Bench(root: ["q": ["a": 1, "b": 2, "c": 3]])
        for value in 1...3 {
            let query = TreeQuery(index: .value, start: .init(value: .int(Int64(value))), end: .init(value: .int(Int64(value))))
            bench.observe(Observation("q", query, style: .patches(tag: Int64(value))), by: .make())
        }
        try Self.commit(bench, [TreeWrite("q/a", 2)])
        #expect(bench.finish().sorted() == ["d q/a 2", "d q/a null"])
        #expect(bench.context.meter.counters.windowsMoved == 2, "the third was not even asked")
    }

    @Test func largeChange_isEncodedLater_onceForEachStyle() throws {
        var limits = EngineLimits()
        limits.inlineBytes = 100
        let format = CountingFormat()
        let bench = Bench(limits: limits, format: format)
        bench.work.close()
        let (fast, slow) = (Client.make(), Client.make(lane: 1))
        for client in [fast, slow] { bench.observe(Observation("a"), by: client) }
        try Self.commit(bench, [TreeWrite("a", .string(Text(String(repeating: "x", count: 90))))])
        #expect(bench.finish().count == 2, "small")
        let text = String(repeating: "x", count: 101)
        try Self.commit(bench, [TreeWrite("a", .string(Text(text)))])
        bench.run { bench.outbox.send(Array("behind".utf8), to: fast) }
        bench.endBatch()
        bench.log.completeAll()
        bench.run {}
        #expect(bench.lines(to: fast) == ["later", "probe", "behind"] && bench.lines(to: slow) == ["later", "probe"])
        #expect(fast.lag?.isReceivingLarge == true && fast.lag?.isSuspended == false)
        bench.work.open()
        bench.settle()
        #expect(bench.lines(to: slow) == ["d a \"\(text)\"", "probe"])
        #expect(format.count(Self.plain) == 2, "one small, one large")
        _ = bench.lines()
    }

    /// Limits that let everything be encoded immediately that can be computed immediately.
    private static let roomy = {
        var limits = EngineLimits()
        (limits.inlineBytes, limits.outputBytes) = (1 << 20, 1 << 30)
        return limits
    }()

    private static func numbers(_ count: Int, _ number: (Int) -> Int) -> [(Key, Node)] {
        (0..<count).map { (Key("k\(10_000 + $0)"), .int(Int64(number($0)))) }
    }

    private static func text(_ path: String, _ children: [(Key, Node)]) -> String {
        "m \(path) {" + children.map { "\"\($0.0)\":\($0.1.json)" }.joined(separator: ",") + "}"
    }

    @Test func manyWrites_areLookedAtBesideTheQueue_butWhatASmallWindowShows() throws {
        let bench = Bench(root: ["q": .object(Self.numbers(3_000) { _ in 1 })], limits: Self.roomy, lanes: 1)
        let whole = Client.make()
        bench.observe(Observation("q"), by: whole)
        let windows = [2, 1_000, 1_001, 2_000].map { limit in
            let client = Client.make()
            bench.observe(Observation("q", TreeQuery(index: .key, limit: limit, viewFrom: .last), style: .patches(tag: 1)), by: client)
            return client
        }
        bench.work.close()
        let new = Self.numbers(3_000) { $0 }
        try Self.commit(bench, new.shuffled().map { TreeWrite(Path(["q", $0.0]), WriteValue($0.1)) })
        bench.endBatch()
        bench.log.completeAll()
        bench.run {}
        #expect(bench.lines(to: windows[0]) == [Self.text("q", new.suffix(2))])
        #expect(bench.lines(to: windows[1]) == [Self.text("q", new.suffix(1_000))])
        for client in [whole, windows[2], windows[3]] { #expect(bench.lines(to: client) == ["later", "probe"]) }
        #expect(bench.context.meter.counters.changesOnQueue == 1_002)
        bench.work.open()
        bench.settle()
        #expect(bench.lines(to: whole).first == Self.text("q", new.filter { $0.1 != 1 }))
        #expect(bench.lines(to: windows[2]).first == Self.text("q", new.suffix(1_001)))
        #expect(bench.lines(to: windows[3]).first == Self.text("q", new.suffix(2_000)))
    }

    @Test func manyWrites_ofWindowsTogether_takeNoMoreRoomThanThereIs() throws {
        var limits = Self.roomy
        limits.windowsAtOnce = 1_500
        let bench = Bench(root: ["q": .object(Self.numbers(1_001) { _ in 1 })], limits: limits, lanes: 1)
        for limit in 501...505 { bench.observe(Observation("q", TreeQuery(index: .key, limit: limit)), by: .make()) }
        bench.work.close()
        try Self.commit(bench, Self.numbers(1_001) { $0 + 2 }.map { TreeWrite(Path(["q", $0.0]), WriteValue($0.1)) })
        let lines = bench.finish()
        #expect(lines.filter { $0 == "later" }.count == 3 && lines.filter { $0.hasPrefix("m q") }.count == 2)
        #expect(bench.context.meter.counters.changesOnQueue <= 1_500)
        bench.work.open()
        bench.settle()
    }

    @Test func someWrites_ofManyWindows_takeNoMoreRoomThanThereIs() throws {
        let bench = Bench(root: ["q": .object(Self.numbers(600) { _ in 1 })], limits: Self.roomy, lanes: 1)
        for limit in 581...600 { bench.observe(Observation("q", TreeQuery(index: .key, limit: limit)), by: .make()) }
        bench.observe(Observation("q", TreeQuery(index: .value, limit: 1, viewFrom: .first)), by: .make())
        bench.work.close()
        try Self.commit(bench, Self.numbers(600) { $0 + 2 }.map { TreeWrite(Path(["q", $0.0]), WriteValue($0.1)) })
        #expect(bench.context.meter.counters.changesOnQueue <= 10_000)
        bench.work.open()
        bench.settle()
        let lines = bench.finish().filter { $0 != "probe" }
        #expect(lines.filter { $0.hasPrefix(#"m q {"k10"#) }.count == 20)
        #expect(lines.filter { $0 == "d q/k10000 2" }.count == 1)
    }

    @Test func manyWrites_letAnIndexBeFollowedBesideTheQueue_andItsWindowsShowAllThen() throws {
        let bench = Bench(root: ["q": .object(Self.numbers(5_000) { $0 })], limits: Self.roomy, lanes: 1)
        bench.indexes.onResultReady = { bench.publisher.publish($0, $1, $2) }
        bench.observe(Observation("q", TreeQuery(index: .value, limit: 2, viewFrom: .last), style: .patches(tag: 1)), by: .make())
        let before = bench.context.meter.counters
        bench.work.close()
        try Self.commit(bench, Self.numbers(1_001) { 9_000 + $0 }.map { TreeWrite(Path(["q", $0.0]), WriteValue($0.1)) })
        #expect(bench.finish().isEmpty, "its index is followed first")
        try Self.commit(bench, [TreeWrite("q/k14000", 10_001)])
        #expect(bench.finish().isEmpty)
        bench.work.open()
        bench.settle()
        #expect(bench.finish() == [#"d q {"k11000":10000,"k14000":10001}"#])
        let after = bench.context.meter.counters
        #expect(after.childrenSortedOnQueue == before.childrenSortedOnQueue, "nothing is sorted or moved on the queue")
        #expect(after.childrenSorted == before.childrenSorted, "and nothing is sorted anew")
        try Self.commit(bench, [TreeWrite("q/k10000", 10_002)])
        #expect(bench.finish() == [#"m q {"k11000":null,"k10000":10002}"#])
    }

    @Test func manyWrites_belowFewChildren_areFollowedAtOnce() throws {
        let bench = Bench(root: ["q": ["a": ["v": 1], "b": ["v": 2]]], limits: Self.roomy, lanes: 1)
        bench.observe(Observation("q", TreeQuery(index: .child("v"), limit: 1, viewFrom: .last), style: .patches(tag: 1)), by: .make())
        let many = Self.numbers(1_001) { $0 }
        try Self.commit(bench, [TreeWrite("q/a/v", 3)] + many.map { TreeWrite(Path(["q", "a", $0.0]), WriteValue($0.1)) })
        bench.settle()
        let lines = bench.finish()
        #expect(lines.count == 2 && lines[0].hasPrefix(#"m q {"b":null,"a":{"#) && lines[1] == "probe")
    }

    @Test func output_ofOneCommit_isEncodedHereUpToItsLimit() throws {
        var limits = EngineLimits()
        limits.outputBytes = 40
        let bench = Bench(limits: limits)
        bench.work.close()
        for id in 1...8 { bench.observe(Observation("a", style: .events(id: Int64(id), kinds: .value)), by: .make()) }
        try Self.commit(bench, [TreeWrite("a", 1)])
        #expect(bench.run { bench.outbox.batchBytes } == 45, "the rest counts nothing before it is encoded")
        let lines = bench.finish()
        #expect(lines.filter { $0.hasPrefix("value") }.count == 5, "9 bytes each")
        #expect(lines.filter { $0 == "later" }.count == 3)
        bench.work.open()
        bench.settle()
    }

    @Test func suspendedObserver_isToldTheNewest_whenItIsCaughtUpWith() throws {
        let bench = Bench(root: ["q": ["a": 1, "b": 2]])
        let client = Client.make()
        let query = Observation("q", TreeQuery(index: .key, limit: 1, viewFrom: .first), style: .patches(tag: 1))
        let (parts, value) = (Observation("p"), Observation("p", style: Self.values))
        for observation in [query, parts, value] { bench.observe(observation, by: client) }
        bench.run { bench.slowReaders.suspend(client) }
        for number in 1...3 { try Self.commit(bench, [TreeWrite("p/x/y", .int(Int64(number)))]) }
        try Self.commit(bench, [TreeWrite("p/z", 9), TreeWrite("q/a", 5)])
        #expect(bench.finish().isEmpty && bench.context.meter.counters.conflated == 9)
        try bench.run {
            let (missed, _) = try #require(bench.slowReaders.catchUp(client))
            bench.publisher.publish(missed, to: client)
        }
        let lines = bench.finish().map { $0.hasPrefix("m p") ? "m p" : $0 }
        #expect(lines.sorted() == [#"d q {"a":5}"#, "m p", #"value 1 {"x":{"y":3},"z":9}"#])
    }

    @Test func heldBackAgain_isToldLater() throws {
        let bench = Bench()
        let client = Client.make()
        bench.observe(Observation("p"), by: client)
        try bench.run {
            bench.slowReaders.suspend(client)
            bench.publisher.publish([Observation("p"): .at(["p/x"])], to: client)
            let missed = try #require(bench.slowReaders.catchUp(client)?.missed[Observation("p")])
            if case .at(let places) = missed { #expect(places == ["p/x"]) } else { Issue.record("only that was missed") }
        }
        #expect(bench.finish().isEmpty)
    }

    @Test func liveQueries_showWhatTheySelect_whenTheirIndexIsThere() throws {
        let bench = Bench(root: ["q": ["a": 3, "b": 1, "c": 2]])
        for (limit, tag) in [(1, 1), (2, 2)] as [(Int, Int64)] {
            let query = TreeQuery(index: .value, limit: limit, viewFrom: .first)
            bench.observe(Observation("q", query, style: .patches(tag: tag)), by: .make())
        }
        bench.observe(Observation("q", TreeQuery(index: .key, limit: 1)), by: .make())
        let update = DeferredUpdate(content: .null, sequence: 0)
        bench.run { bench.publisher.publish("q", .value, update) }
        #expect(bench.finish().sorted() == [#"d q {"b":1,"c":2}"#, #"d q {"b":1}"#])
        bench.run { bench.publisher.publish("nowhere", .value, update) }
        #expect(bench.finish().isEmpty)
    }

    @Test func work_isCountedByViewsAndCollectedChildren() throws {
        let bench = Bench(root: ["q": .object((0..<64).map { (Key("k\($0)"), .int(1)) })])
        bench.observe(Observation("q", TreeQuery(index: .key, limit: 32)), by: .make())
        bench.observe(Observation("q"), by: .make())
        let before = bench.context.meter.work
        try Self.commit(bench, [TreeWrite("q/k1", 2)])
        #expect(bench.context.meter.work - before == 2, "two views")
        try Self.commit(bench, [TreeWrite("q", .object((0..<64).map { (Key("k\($0)"), .int(3)) }))])
        #expect(bench.context.meter.work - before == 4 + 32 / RequestCost.childrenForWork)
    }
}
