import HubEngine
import Journal
import JSONTree
import SecurityRules
import Testing
import TestSupport

/// `.watch` of a hub: what is remembered over restarts, the index, and its limits.
@Suite(.timeLimit(.minutes(30))) struct WatchTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "items":{".geoIndex":{"lat":"lat","lng":"lng"}},
          "live":{".geoIndex":{"lat":"lat","lng":"lng"}},
          "w":{"$w":{".watch":{"circle":{"at":"live/$w","lat":"lat","lng":"lng","radius":"data.child('r').val()"},"on":"items",
            "to":"hits/$w/{item}","value":"now","cooldown":"data.child('pause').val()"}}},
          "once":{"$w":{".watch":{"circle":{"lat":"lat","lng":"lng","radius":500},"on":"live","to":"met/$w/{item}","value":"now"}}}}}
        """#

    private static func at(_ lat: Double, _ lng: Double = 0) -> Node { ["lat": .double(lat), "lng": .double(lng)] }
    private static let root: Node = [
        "items": ["a": at(0), "b": at(0.1)], "live": ["w": at(5)], "w": ["w": ["r": 1_000, "pause": 60]],
    ]

    private func hits(_ hub: RestartHarness) -> String { hub.root.child("hits").json }

    /// Within the cooldown a watch is silent about what it has found, also over a restart, and not about anything else.
    @Test func cooldown_holdsOverRestarts() throws {
        let hub = try RestartHarness(Self.rules, root: Self.root, now: 1_000)
        #expect(hub.put("live/w", Self.at(0)) == "ok 0" && hits(hub) == #"{"w":{"a":1000}}"#)
        #expect(hub.stored.watchHits.count == 1)
        _ = hub.put("live/w", Self.at(5))
        hub.restart(afterMs: 30_000)
        _ = hub.put("live/w", Self.at(0))
        #expect(hits(hub) == #"{"w":{"a":1000}}"#)
        _ = hub.put("live/w", Self.at(0.1))
        #expect(hits(hub) == #"{"w":{"a":1000,"b":31000}}"#)
        hub.restart(afterMs: 29_999)
        _ = hub.put("live/w", Self.at(0.001))
        #expect(hits(hub) == #"{"w":{"a":1000,"b":31000}}"#)
        hub.advance(ms: 1)
        _ = hub.put("live/w", Self.at(0.002))
        #expect(hits(hub) == #"{"w":{"a":61000,"b":31000}}"#)
        #expect(hub.counters.systemWrites[.watch] == 1)
    }

    /// A row and the memory of it are in one commit: after a kill both are there, or neither.
    @Test func kill_keepsBothOrNeither() throws {
        for count in 0...3 {
            let hub = try RestartHarness(Self.rules, root: Self.root, now: 1_000)
            _ = hub.put("once/e", ["lat": 0, "lng": 0])
            _ = hub.put("live/x", Self.at(0))
            _ = hub.put("live/x", Self.at(0.001))
            try hub.restart(after: count)
            #expect((hub.root.node(at: "met/e/x") == 1_000) == (count >= 2) && hub.stored.watchHits.count == (count >= 2 ? 1 : 0))
            hub.advance(ms: 5)
            _ = hub.put("once/e", ["lat": 0, "lng": 0])
            _ = hub.put("live/x", Self.at(0.002))
            #expect(hub.root.node(at: "met/e/x") == (count >= 2 ? 1_000 : 1_005))
        }
    }

    /// Whatever removes the watch or the child: it is reported again when both are there again.
    @Test(arguments: ["once/e", "once", "live/x", "live", "live/x/lat", ""]) func memory_goesWithTheWatchAndTheChild(
        _ removed: String
    ) throws {
        let hub = try RestartHarness(Self.rules, root: .null, now: 1_000)
        _ = hub.put("", ["once": ["e": ["lat": 0, "lng": 0], "f": Self.at(9)], "live": ["x": ["lat": 0]]])
        _ = hub.put("live/x/lng", 0)
        #expect(hub.root.node(at: "met/e/x") == 1_000 && hub.stored.watchHits.count == 1)
        if removed == "live/x/lat" { _ = hub.put("live/x/lng", .null) }
        _ = hub.put(Path(relative: removed), .null)
        #expect(hub.stored.watchHits.isEmpty)
        hub.restart(afterMs: 10)
        _ = hub.put("once/e", ["lat": 0, "lng": 0])
        _ = hub.put("live/x", Self.at(0))
        #expect(hub.root.node(at: "met/e/x") == 1_010)
        // A write in its place that keeps it does not.
        hub.advance(ms: 10)
        _ = hub.put("once", ["e": ["lat": 0, "lng": 0, "n": 1]])
        _ = hub.put("live", ["x": Self.at(0.0001), "y": Self.at(3)])
        #expect(hub.root.node(at: "met/e") == ["x": 1_010])
    }

    /// Hits whose cooldown is over are removed some minutes later, the others stay.
    @Test func oldHits_areSwept() throws {
        var limits = EngineLimits()
        limits.watchSweepMs = 10_000
        let hub = try RestartHarness(Self.rules, root: Self.root, limits: limits, now: 1_000)
        _ = hub.put("once/e", ["lat": 0, "lng": 0])
        _ = hub.put("live/w", Self.at(0))
        #expect(hub.stored.watchHits.count == 2)
        hub.advance(ms: 59_999)
        #expect(hub.stored.watchHits.count == 2)
        hub.advance(ms: 10_000)
        #expect(hub.stored.watchHits.count == 1 && hub.stored.watchHits.mutedUntil(watch: "once/e", number: 0, item: "live/w") == .max)
        hub.restart()
        hub.advance(ms: 20_000)
        #expect(hub.stored.watchHits.count == 1)
    }

    /// Without an index a scan is bounded; with it, a commit costs what it changes.
    @Test func index_isBuiltInTheBackground_andBoundsNoCommit() throws {
        var limits = EngineLimits()
        limits.systemWriteKeys = 50
        var root = Self.root
        for i in 0..<200 {
            root.set(Self.at(40 + Double(i % 20)), at: Path(relative: "live/u\(i)"))
            root.set(["r": 10], at: Path(relative: "w/u\(i)"))
            root.set(Self.at(-40 - Double(i % 20)), at: Path(relative: "items/i\(i)"))
        }
        let gate = try GatedHarness(Self.rules, root: root, limits: limits)
        let client = Client.make()
        #expect(gate.ask(client, .put("items/new", Self.at(1))) == ["error 0 too_big"])
        #expect(gate.ask(client, .put("live/w", Self.at(0))) == ["error 0 too_big"])
        #expect(gate.ask(client, .put("other", 1)) == ["ok 0"])
        gate.finish()
        #expect(gate.ask(client, .put("items/new", Self.at(40))) == ["ok 0"])
        #expect(gate.ask(client, .put("live/w", Self.at(0))) == ["ok 0"])
        #expect(gate.content.node(at: "hits").childCount == 11, "ten users and the one that has moved")
    }

    /// A commit that changes too much of the index has it built again.
    @Test func largeCommit_hasTheIndexBuiltAgain() throws {
        var limits = EngineLimits()
        limits.watchUpdates = 20
        let hub = try RestartHarness(Self.rules, root: Self.root, limits: limits, now: 1_000)
        let items = (0..<90).map { (Key("i\($0)"), Self.at(Double($0) / 1_000)) }
        #expect(hub.put("items", .object(items)) == "ok 0")
        #expect(hub.put("live/w", Self.at(0)) == "ok 0")
        #expect(hub.root.node(at: "hits/w").childCount == 9)
        #expect(hub.put("items/i50", Self.at(0.001)) == "ok 0")
        #expect(hub.root.node(at: "hits/w").childCount == 10)
    }

    private static func crowd(_ count: Int, most: Int = 3, atOnce: Int = 2, rows: Int = 1_000) throws -> RestartHarness {
        var limits = EngineLimits()
        (limits.systemWrites, limits.continuedAtOnce, limits.owedRows) = (most, atOnce, rows)
        var root = Self.root
        root.set(.null, at: "items/a")
        for i in 0..<count { root.set(at(0.0001 * Double(i)), at: Path(relative: "items/i\(i)")) }
        return try RestartHarness(rules, root: root, limits: limits, now: 1_000)
    }

    /// Rows that fit into the commit are part of it; otherwise all of them follow, each once, wherever the hub is killed.
    @Test func tooManyHits_followInLaterCommits_onceEach() throws {
        let few = try Self.crowd(3)
        #expect(few.put("live/w", Self.at(0)) == "ok 0" && few.commits.count == 1 && few.root.node(at: "hits/w").childCount == 3)
        let all = try Self.crowd(7)
        #expect(all.put("live/w", Self.at(0)) == "ok 0")
        #expect(all.commits.count == 5 && all.root.node(at: "hits/w").childCount == 7 && all.stored.pendingRows.isEmpty)
        #expect(all.counters.systemCommits[.watch] == 4 && all.counters.systemWrites[.watch] == 7)
        for count in 1...5 {
            let hub = try Self.crowd(7)
            _ = hub.put("live/w", Self.at(0))
            try hub.restart(after: count)
            let written = hub.commits.flatMap(\.operations).compactMap(\.path)
            let before = hub.stored(after: 0).root.node(at: "hits/w").childCount
            #expect(before == 2 * (count - 1) - (count == 5 ? 1 : 0))
            #expect(Set(written).count == written.count && written.count + before == 7, "commit \(count)")
            #expect(hub.root.node(at: "hits/w").childCount == 7 && hub.stored.pendingRows.isEmpty && hub.stored.watchHits.count == 7)
            // Remembered since the commit that caused them.
            _ = hub.put("live/w", Self.at(0.0001))
            #expect(hub.stored.watchHits.count == 7 && hub.root.node(at: "hits/w/i0") == 1_000)
        }
    }

    /// What is gone meanwhile gets no row, and neither does what the rules no longer watch.
    @Test func pendingHits_endWithTheirWatch() throws {
        for (path, rules, left) in [("w", nil, 0), ("items/i3", nil, 6), ("", nil, 0), ("other", #"{"rules":{".write":true}}"#, 0)] as [
            (Path, String?, Int)
        ] {
            let hub = try Self.crowd(7)
            _ = hub.put("live/w", Self.at(0))
            try hub.restart(after: 1, rules: rules) { stored in
                var stored = stored
                stored.root.set(.null, at: path)
                return stored
            }
            #expect(hub.root.node(at: "hits/w").childCount == left && hub.stored.pendingRows.isEmpty, "\(path)")
        }
    }

    /// The number of pending rows is bounded from both sides; a commit that only removes is never refused.
    @Test func pendingHits_areBounded() throws {
        #expect(try Self.crowd(7, rows: 7).put("live/w", Self.at(0)) == "ok 0")
        let hub = try Self.crowd(7, rows: 6)
        #expect(hub.put("live/w", Self.at(0)) == "error 0 too_big" && hub.root.child("hits").isNull && hub.stored.watchHits.isEmpty)
        #expect(hub.put("items/i0", .null) == "ok 0" && hub.put("live/w", Self.at(0)) == "ok 0")
        #expect(hub.root.node(at: "hits/w").childCount == 6)
    }

    /// Rules deployed later find what changes from then on.
    @Test func deploy_writesNothing_untilSomethingChanges() throws {
        let hub = try RestartHarness(#"{"rules":{".read":true,".write":true}}"#, root: Self.root, now: 1_000)
        _ = hub.put("live/w", Self.at(0))
        try hub.deploy(Self.rules)
        #expect(hub.root.child("hits").isNull)
        _ = hub.put("items/a/n", 1)
        #expect(hits(hub) == #"{"w":{"a":1000}}"#)
    }

    /// Imports write no rows, and are found afterwards.
    @Test func imports_writeNoRows() throws {
        let hub = try RestartHarness(Self.rules, root: .null, now: 1_000)
        var imported = Exchange("", .write([TreeWrite("", WriteValue(Self.root))]))
        imported.isImport = true
        _ = hub.hub.ask(.make(), .identify(.admin), .exchange(imported))
        hub.settle()
        #expect(hub.root.child("hits").isNull)
        _ = hub.put("live/w", Self.at(0))
        #expect(hits(hub) == #"{"w":{"a":1000}}"#)
    }
}
