import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Expiring nodes of large writes, starts and deploys are found in the background; known times are right throughout.
@Suite(.timeLimit(.minutes(30))) struct ExpirySearchTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "a":{"$x":{".expire":"data.child('at').val()"}},
          "w":{"$x":{".expire":{"at":"written + 500","log":"log","value":{"x":"$x","w":"written"}}}}}}
        """#

    private static func many(_ prefix: String, _ numbers: Range<Int>) -> Node { .object(numbers.map { (Key("\(prefix)\($0)"), 1) }) }

    private func settled(_ it: RestartHarness) -> Node {
        var root = it.root
        while true {
            for _ in 0..<20 { it.settle() }
            let next = it.root
            if next == root { return root }
            root = next
        }
    }

    /// The times of a large write are stored in several commits. A process killed between two of them continues with the right ones.
    @Test func killAtAnyBoundaryOfALargeWrite_endsEachNodeAtItsTime() throws {
        var limits = EngineLimits()
        limits.inlineChildren = 10
        let it = try RestartHarness(Self.rules, root: ["w": Self.many("k", 0..<1_300)], limits: limits)
        _ = settled(it)
        #expect(it.snapshot.written.count == 1_300)
        it.advance(ms: 400)
        var content = Self.many("k", 0..<1_200)
        content.set(1, at: "new")
        #expect(it.put("w", content) == "ok 0")
        it.advance(ms: 50)
        #expect(it.put("w/k7", 2) == "ok 0")
        _ = settled(it)
        let killed = it.boundaries.filter { $0.root.node(at: "w/new").exists }
        #expect(killed.filter { !$0.written.open.isEmpty }.count >= 3, "the times came in several commits")
        #expect(killed.last?.written.open.isEmpty == true && killed.last?.written.count == 1_201)
        for (i, state) in killed.enumerated() {
            let isLater = state.root.node(at: "w/k7") == 2
            let other = try RestartHarness(Self.rules, root: state.root, written: state.written, limits: limits, now: 1_899)
            #expect(settled(other) == state.root, "boundary \(i): nothing ends before its time")
            other.advance(ms: 1)
            let root = settled(other)
            #expect(root.node(at: "w") == (isLater ? ["k7": 2] : .null), "boundary \(i)")
            #expect(root.node(at: "log").childCount == (isLater ? 1_200 : 1_201), "boundary \(i): each once")
            for (_, row) in root.node(at: "log").children { #expect(row.child("w") == 1_400) }
            let left = other.snapshot.written
            #expect(left.open.isEmpty && left.count == (isLater ? 1 : 0) && left == other.stored.written)
        }
    }

    /// A prepared write of many places: its sibling nodes keep their time, also when the hub is killed.
    @Test func killAfterAWriteOfManyPlaces_leavesTheOthersTheirTime() throws {
        var limits = EngineLimits()
        (limits.inlineChildren, limits.largeWritePlaces, limits.followedPlaces) = (10, 20, 5)
        let it = try RestartHarness(Self.rules, root: ["w": ["old": 1]], limits: limits)
        it.advance(ms: 100)
        var all: [TreeWrite] = []
        for i in 0..<50 { all.append(TreeWrite(Path([Key("w"), Key("k\(i)"), Key("deep")]), WriteValue(1))) }
        let client = Client.make()
        it.hub.work.close()
        it.hub.database.submit(.write(all), from: client, token: 0)
        it.settle()
        while it.stored.written.open.isEmpty, it.hub.work.waiting > 0 {
            it.hub.work.step()
            it.settle()
        }
        let open = it.stored
        #expect(open.written.open.count == 1 && open.written.count == 1 && open.root.node(at: "w").childCount == 51)
        it.hub.work.open()
        let other = try RestartHarness(Self.rules, root: open.root, written: open.written, limits: limits, now: 1_500)
        #expect(settled(other).node(at: "w").childCount == 50)
        #expect(other.root.node(at: "log").children.map { $0.node.child("x") } == ["old"])
        other.advance(ms: 99)
        #expect(settled(other).node(at: "w").childCount == 50)
        other.advance(ms: 1)
        #expect(settled(other).node(at: "w").isNull)
    }

    /// Nodes of a large write that are still to be found delay no others: all expire at their time.
    @Test func nodesEnd_whileALargeWriteIsFollowed() throws {
        var limits = EngineLimits()
        limits.inlineChildren = 10
        let it = try RestartHarness(Self.rules, root: ["w": Self.many("k", 0..<15)], limits: limits)
        #expect(it.put("a/x", ["at": 1_450]) == "ok 0" && it.put("a/y", ["at": 1_950]) == "ok 0")
        it.advance(ms: 300)
        it.hub.work.close()
        #expect(it.put("w", Self.many("k", 0..<16)) == "ok 0")
        #expect(it.snapshot.written.open.count == 1)
        it.advance(ms: 400)
        #expect(it.root.node(at: "a") == ["y": ["at": 1_950]] && it.root.node(at: "w").childCount == 16, "1,700")
        it.hub.work.open()
        it.advance(ms: 99)
        #expect(settled(it).node(at: "w").childCount == 16 && it.snapshot.written.open.isEmpty)
        it.advance(ms: 1)
        #expect(settled(it).node(at: "w").isNull && it.root.node(at: "log").childCount == 16)
    }

    /// A write during the search of all nodes replaces the time that the search found: earlier, later, never, or new.
    @Test(arguments: [1_000_000, 5]) func nodesWrittenDuringTheSearch_endAtTheirTime(most: Int) throws {
        var limits = EngineLimits()
        limits.expiringNodes = most
        let nodes: Node = .object((0..<700).map { (Key("k\($0)"), ["at": 2_000]) })
        let it = try RestartHarness(#"{"rules":{".read":true,".write":true}}"#, root: ["a": nodes], limits: limits)
        for again in [false, true] {
            it.hub.work.close()
            try it.deploy(Self.rules, settles: false)
            let base = it.hub.time.ms
            let written: KeyValuePairs<String, Node> = ["k1": ["at": 1_500], "k2": ["at": 3_000], "k3": .null, "new": ["at": 1_200]]
            for (key, node) in written {
                var later = node
                if again, case .int(let at) = node.child("at") { later = ["at": .int(at + 2_000)] }
                #expect(it.put(Path([Key("a"), Key(key)]), later) == "ok 0")
            }
            it.hub.work.open()
            it.settle()
            // Each is counted once; the entry of a node removed since finds nothing at its time.
            if most > 1_000 { #expect(it.counters.expiringNodes == (again ? 3 : 701)) }
            func left(_ ms: Int64) -> Int {
                it.advance(ms: ms - it.hub.time.ms + (again ? 2_000 : 0))
                return settled(it).node(at: "a").childCount
            }
            #expect(base <= (again ? 3_000 : 1_000))
            #expect(left(1_199) == (again ? 3 : 700) && left(1_200) == (again ? 2 : 699) && left(1_500) == (again ? 1 : 698))
            if !again { #expect(left(1_999) == 698 && left(2_000) == 1) }
            if !again { #expect(it.put("a/k2", ["at": 5_000]) == "ok 0") } else { #expect(left(3_000) == 0) }
        }
    }

    /// The disk refuses while the search of a large write runs: its stored times are rolled back with the write, or the search starts again.
    @Test func refusedTimesOfALargeWrite_areFoundAgain() throws {
        let log = FlakyLog()
        var limits = EngineLimits.patient
        limits.inlineChildren = 10
        let rules = try RuleSet(parsing: #"{"rules":{".write":true,"w":{"$x":{".expire":"written + 100000000"}}}}"#)
        let hub = EngineHarness(rules: rules, log: log, limits: limits, now: 1_000)
        func settle(_ completes: Bool) {
            for _ in 0..<8 {
                hub.settle()
                if completes { log.completeAll() }
            }
        }
        settle(true)
        hub.database.submit(.put("w", Self.many("k", 0..<700)), from: .make(), token: 0)
        settle(false)
        #expect(!log.isIdle)
        log.complete()
        log.refuse()
        for _ in 0..<4 {
            hub.passRetryTime()
            settle(true)
        }
        let found = Mutex<WrittenTimes?>(nil)
        hub.database.journalSnapshot { snapshot in found.withLock { $0 = snapshot?.written } }
        settle(true)
        let written = found.withLock { $0 }
        #expect(written?.count == 700 && written?.open.isEmpty == true)
        #expect(written?["w/k0"] == 1_000 && written?["w/k699"] == 1_000, "the time of the write, not of the retry")
    }

    /// A refused expiry is retried after twice as long each time, and immediately when a client writes the node.
    @Test func refusedEnd_restsLongerEachTime() throws {
        final class Refusals: RefusalListener {
            let count = Mutex(0)
            func wantsRefusal(now: Int64) -> Bool { true }
            func refused(_ request: RuledRequest, _ question: RuleQuestion) { count.withLock { $0 += 1 } }
        }
        let rules = #"""
            {"rules":{".read":true,".write":true,"a":{"$x":{"s":{".validate":"newData.val() != 'late'"},
              ".expire":{"at":"data.child('at').val()","patch":{"s":"'late'"}}}}}}
            """#
        var limits = EngineLimits()
        (limits.expiryRetryMs, limits.expiryRetryMostMs) = (1_000, 4_000)
        let refusals = Refusals()
        let it = try RestartHarness(rules, root: ["a": ["x": ["at": 500]]], limits: limits, refusals: refusals)
        var tries: [Int] = []
        for second in 0...20 {
            if refusals.count.withLock({ $0 }) > tries.count { tries.append(second) }
            if second == 16 { #expect(it.put("a/x/n", 1) == "ok 0") }
            if refusals.count.withLock({ $0 }) > tries.count { tries.append(second) }
            it.advance(ms: 1_000)
        }
        #expect(tries == [0, 1, 3, 7, 11, 15, 16, 17, 19])
    }
}
