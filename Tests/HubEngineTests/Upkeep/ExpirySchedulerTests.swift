import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Nodes expire at their time, whatever the hub and its clock do meanwhile.
@Suite(.timeLimit(.minutes(30))) struct ExpirySchedulerTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "a":{"$x":{".expire":"data.child('at').val()"}},
          "w":{"$x":{".expire":{"at":"written + 500","log":"log","value":"$x"}}}}}
        """#

    private static func many(_ count: Int, at time: Int64) -> Node {
        .object((0..<count).map { (Key("k\($0)"), ["at": .int(time + Int64($0 % 7))] as Node) })
    }

    @Test func node_isRemovedAtItsTime_andEveryObserverIsTold() throws {
        let it = try RestartHarness(Self.rules)
        let watcher = Client.make()
        #expect(it.put("a/x", ["at": 3_000]) == "ok 0")
        #expect(it.hub.ask(watcher, .listen("a")) == [#"d a {"x":{"at":3000}}"#, "ok 0"])
        #expect(it.counters.expiringNodes == 1)
        it.advance(ms: 1_999)
        #expect(it.hub.take(watcher) == [] && it.root.exists)
        it.advance(ms: 1)
        #expect(it.hub.take(watcher) == ["d a/x null"] && it.root.isNull)
        let counters = it.counters
        #expect(counters.systemCommits == [.expiry: 1] && counters.systemWrites == [.expire: 1] && counters.expired == 1)
        #expect(counters.expiringNodes == 0 && counters.expiryLagMs == 0)
        #expect(it.put("a/y", ["at": 1]) == "ok 0", "what is due already ends at once")
        #expect(it.root.isNull)
    }

    /// A node that is written again has its new time; a removed node has none.
    @Test func time_isThatOfTheLastWrite() throws {
        let it = try RestartHarness(Self.rules)
        for at in [5_000, 9_000, 2_000, 4_000] { #expect(it.put("a/x/at", .int(Int64(at))) == "ok 0") }
        #expect(it.put("a/y", ["at": 1_500]) == "ok 0" && it.put("a/y", .null) == "ok 0")
        #expect(it.put("a/z", ["at": 1_500]) == "ok 0" && it.put("a/z", ["n": 1]) == "ok 0")
        it.advance(ms: 2_999)
        #expect(it.root == ["a": ["x": ["at": 4_000], "z": ["n": 1]]] && it.counters.expired == 0)
        it.advance(ms: 1)
        #expect(it.root == ["a": ["z": ["n": 1]]] && it.counters.expired == 1)
    }

    /// Writing the same value counts as a write, and so does a write below the node.
    @Test func written_isTheLastCommitAtOrBelowTheNode_alsoAfterARestart() throws {
        let it = try RestartHarness(Self.rules)
        #expect(it.put("w/x", 1) == "ok 0" && it.put("w/y/deep/n", 1) == "ok 0")
        it.advance(ms: 400)
        #expect(it.put("w/x", 1) == "ok 0")
        it.restart(afterMs: 99)
        #expect(it.root.node(at: "w") == ["x": 1, "y": ["deep": ["n": 1]]])
        it.advance(ms: 1)
        #expect(it.root.node(at: "w") == ["x": 1])
        #expect(it.snapshot.written.count == 1 && it.snapshot.written["w/x"] == 1_400)
        it.advance(ms: 400)
        #expect(it.root.node(at: "w").isNull && it.snapshot.written.count == 0 && it.stored.written.count == 0)
        #expect(it.root.node(at: "log").children.map { $0.1 } == ["y", "x"])
    }

    /// A request that arrives during the start sees the tree after the overdue expiries.
    @Test func whatBecameDueWhileTheHubWasDown_isDoneBeforeItServes() throws {
        let root: Node = ["a": Self.many(300, at: 500).setting("late", ["at": 5_000])]
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), root: root, now: 1_000)
        let client = Client.make()
        hub.database.submit(.get("a"), from: client, token: 0)
        for _ in 0..<12 { hub.settle() }
        #expect(hub.take(client) == [#"value 0 {"late":{"at":5000}}"#])
        #expect(hub.database.counters.expired == 300)
    }

    /// Other rules are deployed while requests wait for overdue expiries.
    @Test(arguments: [nil, #"{"rules":{".read":true}}"#] as [String?])
    func deployDuringTheStart_letsRequestsInWhenNothingIsDue(_ others: String?) throws {
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), root: ["a": Self.many(300, at: 500)], now: 1_000)
        let client = Client.make()
        hub.database.submit(.get(others == nil ? "a" : "b"), from: client, token: 0)
        hub.database.replace(try RuleSet(parsing: others ?? Self.rules))
        for _ in 0..<24 { hub.settle() }
        #expect(hub.take(client) == ["value 0 null"])
    }

    /// The disconnect writes of old sessions take several turns, during which the log is closed. Overdue expiries wait for them, and requests for
    /// both.
    @Test func whatSessionsLeftBehind_comesFirst_andThenWhatIsDue() throws {
        let left = (0..<60).map { i in
            var session = PendingSession(id: "s\(i)", isAdmin: true)
            session.writes.add(TreeWrite(Path([Key("s"), Key("k\(i)")]), WriteValue(1)))
            return session
        }
        var limits = EngineLimits()
        limits.turnWork = 20
        let hub = EngineHarness(
            rules: try RuleSet(parsing: Self.rules), root: ["a": Self.many(30, at: 500)], pending: left, limits: limits, now: 1_000)
        let client = Client.make()
        hub.database.submit(.get("a"), from: client, token: 0)
        for _ in 0..<100 {
            hub.settle()
            hub.time.advance(ms: 2)
        }
        #expect(hub.take(client) == ["value 0 null"] && hub.database.counters.expired == 30)
        #expect(hub.ask(.make(), .get("s/k59")) == ["value 0 1"])
    }

    @Test func clock_thatIsSet_isNoticedWithinASecond() throws {
        let it = try RestartHarness(Self.rules, now: 1_000_000_000)
        #expect(it.put("a/x", ["at": 1_003_600_000]) == "ok 0")
        it.hub.time.step(seconds: -86_400)
        #expect(it.put("a/y", ["at": .int(it.hub.time.ms + 10_000)]) == "ok 0" && it.put("w/z", 1) == "ok 0")
        it.advance(ms: 600)
        #expect(it.root.node(at: "w").isNull)
        it.hub.time.step(seconds: 86_400)
        it.advance(ms: 1_000)
        #expect(it.root.node(at: "a") == ["x": ["at": 1_003_600_000]])
        it.hub.time.step(seconds: 86_400)
        it.advance(ms: 1_000)
        #expect(it.root.node(at: "a").isNull && it.counters.expired == 3)
    }

    /// This many expire in one turn, each with a commit of its own; other requests get their turn between.
    @Test func manyAtOnce_endInTurns() throws {
        var limits = EngineLimits()
        limits.expiredAtOnce = 7
        let it = try RestartHarness(Self.rules, limits: limits)
        #expect(it.put("a", Self.many(300, at: 2_000)) == "ok 0")
        it.advance(ms: 2_000)
        for _ in 0..<60 { it.settle() }
        #expect(it.root.isNull && it.counters.systemCommits[.expiry] == 300)
    }

    @Test func deploy_findsWhatIsThere_andForgetsWhatIsNotAskedAnyMore() throws {
        let it = try RestartHarness(#"{"rules":{".read":true,".write":true}}"#)
        #expect(it.put("w", ["x": 1, "y": ["n": 1]]) == "ok 0" && it.put("a/x", ["at": 1_200]) == "ok 0")
        it.advance(ms: 100)
        try it.deploy(Self.rules)
        #expect(it.snapshot.written.count == 2 && it.snapshot.written["w/y"] == 1_100 && it.stored.written["w/x"] == 1_100)
        it.advance(ms: 100)
        #expect(it.root == ["w": ["x": 1, "y": ["n": 1]]])
        try it.deploy(#"{"rules":{".read":true,".write":true}}"#)
        #expect(it.snapshot.written.count == 0 && it.stored.written.count == 0)
        it.advance(ms: 10_000)
        #expect(it.root == ["w": ["x": 1, "y": ["n": 1]]])
    }

    /// The limit from both sides: known nodes may be written again, and an expired node makes room.
    @Test func nodesWithTimes_areLimited() throws {
        var limits = EngineLimits()
        limits.expiryEntries = 3
        let it = try RestartHarness(Self.rules, limits: limits)
        #expect(it.put("w", ["x": 1, "y": 1, "z": 1]) == "ok 0" && it.put("w/x", 2) == "ok 0")
        #expect(it.put("w/v", 1) == "error 0 too_big" && it.root.node(at: "w/v").isNull && it.put("a/v", ["at": 9_000]) == "ok 0")
        #expect(it.put("w/x", .null) == "ok 0" && it.put("w/v", 1) == "ok 0")
        #expect(it.hub.ask(.make(), .merge(["w/u": 1, "w/v": .null])) == ["ok 0"])
        // Nodes beyond the limit that existed before the rule.
        let other = try RestartHarness(Self.rules, root: ["w": ["a": 1, "b": 1, "c": 1, "d": 1]], limits: limits)
        #expect(other.snapshot.written.count == 3 && other.put("w/d", 2) == "ok 0" && other.put("w/a", 2) == "ok 0")
        #expect(other.put("w/e", 1) == "error 0 too_big")
    }

    /// The index holds the earliest expiries; the others are found in time.
    @Test func nodesBeyondTheIndex_endAsWell() throws {
        var limits = EngineLimits()
        limits.expiringNodes = 5
        let it = try RestartHarness(Self.rules, limits: limits)
        for i in 0..<60 { #expect(it.put(Path([Key("a"), Key("k\(i)")]), ["at": .int(2_000 + Int64(i) * 37 % 1_000)]) == "ok 0") }
        #expect(it.counters.expiringNodes <= 5)
        it.advance(ms: 1_499)
        for (_, node) in it.root.node(at: "a").children {
            guard case .int(let at) = node.child("at") else { continue }
            #expect(at > 2_499)
        }
        it.advance(ms: 600)
        #expect(it.root.isNull && it.counters.expired == 60)
    }

    /// A large write, prepared in the background, and one with many nodes below it.
    @Test func largeWrites_areFollowed() throws {
        var limits = EngineLimits()
        (limits.inlineChildren, limits.largeWritePlaces, limits.followedPlaces) = (10, 20, 5)
        let it = try RestartHarness(Self.rules, limits: limits)
        #expect(it.put("w/old", 1) == "ok 0")
        it.advance(ms: 100)
        var all = ContiguousArray<TreeWrite>()
        for i in 0..<50 { all.append(TreeWrite(Path([Key("w"), Key("k\(i)")]), WriteValue(1))) }
        let client = Client.make()
        it.hub.database.submit(.write(Array(all)), from: client, token: 0)
        it.settle()
        #expect(it.hub.take(client) == ["ok 0"] && it.put("a", Self.many(15, at: 1_300)) == "ok 0")
        #expect(it.snapshot.written.count == 51 && it.stored.written.count == 51 && it.snapshot.written["w/old"] == 1_000)
        it.advance(ms: 250)
        #expect(it.root.node(at: "a").isNull && it.root.node(at: "w").childCount == 51)
        it.advance(ms: 150)
        #expect(it.root.node(at: "w").childCount == 50 && it.put("w", .null) == "ok 0")
        #expect(it.snapshot.written.count == 0 && it.counters.expired == 16)
    }

    // MARK: Refusals

    private final class Refusals: RefusalListener {
        let traces = Mutex<[RuleTrace]>([])
        func wantsRefusal(now: Int64) -> Bool { true }
        func refused(_ request: RuledRequest, _ question: RuleQuestion) { traces.withLock { $0.append(question.explained()) } }
    }

    /// An expiry is checked against `.validate`, with the hub as the author, but not `.write`. A refused one is retried, and the log says why.
    @Test func validate_isAsked_andWhatItRefusesIsTriedAgain() throws {
        let rules = #"""
            {"rules":{".read":true,"open":{".write":true},"a":{"$x":{
              "s":{".validate":"auth.provider == 'hub' && newData.val() == 'late' && root.child('open').val() == true"},
              ".expire":{"at":"data.child('at').val()","patch":{"s":"'late'"}}}}}}
            """#
        let refusals = Refusals()
        let it = try RestartHarness(rules, root: ["a": ["x": ["at": 1_500]]], refusals: refusals)
        it.advance(ms: 1_000)
        #expect(it.root == ["a": ["x": ["at": 1_500]]] && it.counters.expired == 0)
        let traces = refusals.traces.withLock { $0 }
        #expect(traces.count == 1 && traces.first?.refusal?.pattern == "/a/$x/s" && traces.first?.isAllowed == false)
        #expect(it.put("open", true) == "ok 0")
        it.advance(ms: 50_000)
        #expect(it.counters.expired == 0)
        it.advance(ms: 10_000)
        #expect(it.root.node(at: "a/x") == ["at": 1_500, "s": "late"] && it.counters.expired == 1)
    }

    /// The clock goes a year ahead and back: an expiry refused meanwhile does not pause for a year.
    @Test func clockThatGoesBack_hasWhatWasRefusedTriedAgain() throws {
        let rules = #"""
            {"rules":{".read":true,"open":{".write":true},"a":{"$x":{"s":{".validate":"root.child('open').val() == true"},
              ".expire":{"at":"data.child('at').val()","patch":{"s":"'late'"}}}}}}
            """#
        let it = try RestartHarness(rules, root: ["a": ["x": ["at": 500]]], now: 1_000)
        it.hub.time.step(seconds: 31_536_000)
        it.advance(ms: 60_000)
        it.advance(ms: 60_000)
        #expect(it.counters.expired == 0)
        it.hub.time.step(seconds: -31_536_000)
        #expect(it.put("open", true) == "ok 0")
        it.advance(ms: 60_000)
        it.advance(ms: 1_000)
        #expect(it.root.node(at: "a/x/s") == "late" && it.counters.expired == 1)
    }

    @Test func faultsAndConsequencesThatAreRefused_leaveTheNode() throws {
        let rules = #"""
            {"rules":{".read":true,".write":true,
              "a":{"$x":{".expire":"data.child('at').val()",".removes":"b/{to}/t"}},"b":{"$b":{".validate":"newData.hasChild('t')"}},
              "e":{"$x":{".expire":{"at":"data.child('at').val()","patch":{"n":"data.child('n').val(0) + 1"}}}}}}
            """#
        let refusals = Refusals()
        let it = try RestartHarness(
            rules,
            root: [
                "a": ["w": ["at": 500, "to": "c/d"], "x": ["at": 500, "to": "p"], "y": ["at": 500, "to": "z"]],
                "b": ["p": ["s": 1, "t": 1], "q": ["t": 1], "z": ["t": 1]], "e": ["x": ["at": 500]],
            ],
            refusals: refusals)
        let left: Node = ["p": ["s": 1, "t": 1], "q": ["t": 1]]
        #expect(it.root == ["a": ["x": ["at": 500, "to": "p"]], "b": left, "e": ["x": ["at": 500]]])
        let reasons = refusals.traces.withLock { $0 }.map { $0.fault?.description ?? $0.refuser }.sorted()
        #expect(reasons == [
            "/b/$b.validate", "/e/$x.expire at /e/x: it would be due again at once: let the patch make its 'if' false",
        ])
        #expect(it.put("a/x/to", "q") == "ok 0", "its next write has it tried at once")
        #expect(it.root == ["b": ["p": ["s": 1, "t": 1]], "e": ["x": ["at": 500]]])
    }

    /// Expiries that undo each other, also at nodes above each other, and rows that expire immediately: one per rule at first, more after a while.
    @Test(arguments: [
        (#"""
            [{"at":"1","if":"data.child('s').val() == 'a'","patch":{"s":"'b'"}},
             {"at":"1","if":"data.child('s').val() == 'b'","patch":{"s":"'a'"}}]
            """#, "", 3),
        (#"{"at":"1","log":"a","value":"'row'"}"#, "", 1),
        (#"{"at":"1","if":"data.child('in/y/s').val() == 'a'","patch":{"in/y/s":"'b'"}}"#,
         #","in":{"$y":{".expire":{"at":"1","if":"data.child('s').val() == 'b'","patch":{"s":"'a'"}}}}"#, 4),
    ] as [(String, String, Int)])
    func endsThatMakeOthersDueForEver_areTriedNowAndThen(_ expire: String, _ more: String, _ most: Int) throws {
        let refusals = Refusals()
        let it = try RestartHarness(
            #"{"rules":{".read":true,"a":{"$x":{".expire":\#(expire)\#(more)}}}}"#,
            root: ["a": ["x": ["s": "a", "in": ["y": ["s": "a"]]]]], refusals: refusals)
        #expect(it.hub.ask(.make(), .get("z")) == ["value 0 null"], "requests wait for what was due before alone")
        let ends = it.counters.expired
        #expect(ends >= 1 && ends <= most)
        it.advance(ms: 30_000)
        #expect(it.counters.expired == ends)
        #expect(refusals.traces.withLock { $0 }.contains { $0.fault?.reason == .stillDue })
        it.advance(ms: 31_000)
        #expect(it.counters.expired > ends)
    }

    /// A repeating patch resumes after any outage. One that is due more often than commits can run catches up a little each second.
    @Test(arguments: [60_000, 100, 1] as [Int64]) func repeatingPatch_goesOnAfterAnOutage(_ every: Int64) throws {
        let refusals = Refusals()
        let it = try RestartHarness(
            #"""
                {"rules":{".read":true,"a":{"$x":{
                  ".expire":{"at":"data.child('at').val()","patch":{"at":"data.child('at').val() + data.child('every').val()"}}}}}}
                """#,
            root: ["a": ["x": ["at": 1_000, "every": .int(every)]]], now: 7_000, refusals: refusals)
        func isAhead() -> Bool { it.root.node(at: "a/x/at") == .int(1_000 + (it.hub.time.ms - 1_000) / every * every + every) }
        if every > 1 { #expect(isAhead() && it.counters.expired == 1) }
        for _ in 0..<10 { it.advance(ms: 1_000) }
        #expect(isAhead(), "\(it.root.json) at \(it.hub.time.ms)")
        it.restart(afterMs: 90_000)
        it.advance(ms: 0)
        if every > 1 { #expect(isAhead(), "\(it.root.json) at \(it.hub.time.ms)") }
        #expect(refusals.traces.withLock { $0.isEmpty })
    }

    /// The disk refuses: expired nodes are restored, and expire when the disk takes commits.
    @Test func refusingDisk_isWaitedFor() throws {
        let log = FlakyLog(root: ["a": ["x": ["at": 2_000], "y": ["at": 2_000]]])
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), root: log.root, log: log, limits: .patient, now: 1_000)
        func settle() { for _ in 0..<4 { hub.settle() } }
        settle()
        hub.time.advance(ms: 1_000)
        settle()
        #expect(!log.isIdle)
        log.refuse()
        settle()
        #expect(log.root.node(at: "a").childCount == 2 && hub.ask(.make(), .get("a/x/at")) == ["value 0 2000"])
        for _ in 0..<4 {
            hub.passRetryTime()
            settle()
            while !log.isIdle {
                log.complete()
                settle()
            }
        }
        #expect(log.root.isNull && hub.ask(.make(), .get("a")) == ["value 0 null"])
    }
}

extension Node {
    fileprivate func setting(_ key: Key, _ value: Node) -> Node {
        var node = self
        node.set(value, at: Path([key]))
        return node
    }
}
