import HubEngine
import JSONTree
import SecurityRules
import TestSupport
import Testing

/// Consequences of writes are charged to their author. The tests count the commits that precede those of others, never time.
@Suite(.timeLimit(.minutes(30))) struct DerivedWorkTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,"posts":{"$p":{".copy":{"to":"line/$f/$p","each":"friends/$f"}}},
          "cnt":{"$c":{".counts":{"n":"count(votes/$c, each.val() > 0)"}}}}}
        """#
    private static let friends = Node.object((0..<50).map { (Key("f\($0 + 10)"), true) })
    private static let text = Node.string(Text(String(repeating: "x", count: 10_000)))

    /// - Parameter log: nil for a journal in memory.
    private func hub(_ log: FlakyLog? = nil, _ change: (inout EngineLimits) -> Void = { _ in }) throws -> EngineHarness {
        var limits = EngineLimits.patient
        change(&limits)
        let root: Node = ["friends": Self.friends, "votes": ["c": .object((0..<1_000).map { (Key("v\($0)"), 1) })]]
        if let log { return EngineHarness(rules: try RuleSet(parsing: Self.rules), root: root, log: log, limits: limits) }
        return EngineHarness(rules: try RuleSet(parsing: Self.rules), root: root, limits: limits)
    }

    private func user(_ uid: String, _ hub: EngineHarness, _ dialect: Dialect = .realtime) -> Client {
        let client = Client(lane: 0, dialect: dialect)
        _ = hub.ask(client, .identify(Identity(auth: ["uid": .string(Text(uid)), "provider": "password"])))
        return client
    }

    private func place(_ keys: String...) -> Path { Path(keys.map { Key($0) }) }

    private func together(_ hub: EngineHarness, _ submit: () -> Void) {
        let gate = DispatchGate(hub.database)
        submit()
        gate.open()
        hub.settle()
    }

    /// Each write of one user, on two connections, has consequences of half a megabyte. Only one is on its way to the journal at a time, and writes
    /// of others come between.
    @Test func bytesThatFollow_waitForTheirAuthor() throws {
        let log = FlakyLog(root: ["friends": Self.friends])
        let hub = try hub(log)
        let (eve, again, ada) = (user("eve", hub), user("eve", hub), user("ada", hub))
        together(hub) {
            for i in 0..<20 {
                hub.database.submit(.put(place("posts", "p\(i)"), Self.text), from: i % 2 == 0 ? eve : again, token: Int64(i))
            }
            hub.database.submit(.put("other", 1), from: ada)
        }
        #expect(hub.database.counters.commits == 2 && hub.database.inboxDepth == 19, "one of hers and that of another")
        _ = hub.ask(ada, .put("other", 2))
        #expect(hub.database.counters.commits == 3)
        // Her reads on a connection without writes are not held, nor are other users' reads.
        let reader = user("eve", hub)
        _ = hub.ask(reader, .get("other"))
        #expect(hub.database.counters.waitingRequests == 19)
        var most = 0
        while !log.isIdle {
            let before = hub.database.counters.commits
            log.complete()
            hub.settle()
            most = max(most, hub.database.counters.commits - before)
        }
        #expect(most == 1 && hub.database.counters.commits == 22 && log.root.child("posts").childCount == 20)
        #expect(hub.take(eve) == stride(from: 0, to: 20, by: 2).map { "ok \($0)" })
        #expect(hub.take(again) == stride(from: 1, to: 20, by: 2).map { "ok \($0)" })
        #expect(hub.take(ada) == ["ok 0", "ok 0"])
    }

    /// Those who waited behind an author's consequences are answered before its next write takes the queue.
    @Test func authorsNextWrite_waitsForThoseBehindItsConsequences() throws {
        let log = FlakyLog(root: ["friends": Self.friends])
        let hub = try hub(log)
        let (eve, ada) = (user("eve", hub), user("ada", hub))
        for (client, write) in [(eve, Request.put("posts/a", Self.text)), (ada, .put("other", 1)), (eve, .put("posts/b", Self.text))] {
            hub.database.submit(write, from: client, token: 0)
            hub.settle()
        }
        #expect(hub.database.counters.commits == 2)
        log.complete()
        hub.settle()
        #expect(hub.database.counters.commits == 2 && hub.take(eve) == ["ok 0"] && hub.take(ada).isEmpty)
        log.complete()
        hub.settle()
        #expect(hub.database.counters.commits == 3 && hub.take(ada) == ["ok 0"])
    }

    /// Each author has a share; beyond the common bound no author has a second write under way.
    @Test func authors_haveSharesOfTheirOwn() throws {
        let log = FlakyLog(root: ["friends": Self.friends])
        let hub = try hub(log) { $0.derivedBytesOfAll = 1_200_000; $0.derivedBytes = 600_000 }
        let users = (0..<6).map { user("u\($0)", hub) }
        for (k, user) in users.enumerated() {
            for i in 0..<3 { hub.database.submit(.put(place("posts", "p\(k)-\(i)"), Self.text), from: user, token: Int64(i)) }
        }
        hub.settle()
        // Each has one write under way; a second fits its own share, but not the common one.
        let first = hub.database.counters.commits
        #expect(first >= 6 && first <= 8, "\(first)")
        while !log.isIdle {
            log.completeAll()
            hub.settle()
        }
        for user in users { #expect(hub.take(user) == ["ok 0", "ok 1", "ok 2"]) }
    }

    /// A memory journal stores immediately, so nothing is on its way; each write takes a turn of its own.
    @Test func inMemory_othersGoBetween() throws {
        let hub = try hub()
        let (eve, ada) = (user("eve", hub), user("ada", hub, .rest))
        together(hub) {
            for i in 0..<20 { hub.database.submit(.put(place("posts", "p\(i)"), Self.text), from: eve, token: Int64(i)) }
            hub.database.submit(.put("other", 1), from: ada)
        }
        #expect(hub.take(eve) == (0..<20).map { "ok \($0)" })
        #expect(hub.take(ada).first.flatMap { Int($0.filter(\.isNumber)) }.map { $0 <= 3 } == true)
    }

    /// Bytes that a refusing log rolls back no longer count as on their way.
    @Test func refusingLog_letsWaitingWritesBeAnswered() throws {
        let log = FlakyLog(root: ["friends": Self.friends])
        let hub = try hub(log)
        let eve = user("eve", hub)
        for i in 0..<5 { hub.database.submit(.put(place("posts", "p\(i)"), Self.text), from: eve, token: Int64(i)) }
        hub.settle()
        #expect(hub.database.counters.commits == 1)
        log.refuse()
        hub.settle()
        #expect(hub.take(eve).count == 5)
        hub.passRetryTime()
        log.completeAll()
        hub.settle()
        hub.database.submit(.put("posts/q", Self.text), from: eve, token: 9)
        hub.settle()
        log.completeAll()
        hub.settle()
        #expect(hub.take(eve) == ["ok 9"])
    }

    /// A removal that scans many places and finds nothing there costs its author as much as one that does.
    @Test func searchThatFindsNothing_isWork() throws {
        let rules = #"{"rules":{".read":true,".write":true,"rm":{"$r":{".removes":["m/*/$r"]}}}}"#
        let places = Node.object((0..<900).map { (Key("k\($0)"), ["q": 1]) })
        let hub = EngineHarness(rules: try RuleSet(parsing: rules), root: ["m": places], limits: .patient)
        let (eve, ada) = (user("eve", hub), user("ada", hub, .rest))
        together(hub) {
            for i in 0..<200 { hub.database.submit(.put("rm/r", i % 2 == 0 ? 1 : .null), from: eve, token: Int64(i)) }
            hub.database.submit(.put("other", 1), from: ada)
        }
        // A turn is 4,000 units, and each of eve's 100 removals scans 900 places: some 450. She has the first turn, and half of the second.
        let before = try #require(hub.take(ada).first.flatMap { Int($0.filter(\.isNumber)) })
        #expect(before <= 40, "\(before)")
        #expect(hub.take(eve) == (0..<200).map { "ok \($0)" })
    }

    /// A counter that is recreated evaluates its condition for each member of its set, which is most of a turn.
    @Test func conditionsThatAreEvaluated_areWork() throws {
        let hub = try hub()
        let (eve, ada) = (user("eve", hub), user("ada", hub, .rest))
        together(hub) {
            for i in 0..<200 { hub.database.submit(.put("cnt/c", i % 2 == 0 ? ["a": 1] : .null), from: eve, token: Int64(i)) }
            hub.database.submit(.put("other", 1), from: ada)
        }
        #expect(hub.take(ada).first.flatMap { Int($0.filter(\.isNumber)) }.map { $0 <= 8 } == true)
        #expect(hub.take(eve) == (0..<200).map { "ok \($0)" })
    }

    /// Copies and rows count in the write budgets of their places. They may overdraw these; then their author waits.
    @Test func copiesAndRows_countInBudgetsOfTheirPlaces() throws {
        let rules = #"""
            {"rules":{".read":true,".write":true,
              "posts":{"$p":{".copy":{"to":"line/$f/$p","each":"friends/$f"},".counts":{"n":"count(likes/$p)"}}},
              "news":{"$k":{".inbox":{"to":"box/$u/$k","each":"friends/$u","value":"1"}}},
              "line":{".rate":{"perSecond":10,"burst":5}},"box":{".rate":{"perSecond":10,"burst":5}}}}
            """#
        for (place, rowsAtOnce) in [("posts", 1_000), ("news", 1_000), ("news", 10)] {
            var limits = EngineLimits.patient
            limits.systemWrites = place == "news" ? rowsAtOnce : 1_000
            let hub = EngineHarness(rules: try RuleSet(parsing: rules), root: ["friends": Self.friends], limits: limits)
            let (eve, ada) = (user("eve", hub), user("ada", hub))
            func put(_ client: Client, _ key: String, _ value: Node = ["a": 1]) -> String {
                hub.ask(client, .put(self.place(place, key), value))[0]
            }
            #expect(put(eve, "a") == "ok 0", "\(place): 50 at once, of 5 and 10 a second")
            #expect(put(eve, "b").contains("over_budget") && put(ada, "c") == "ok 0" && hub.ask(eve, .put("x", 1)) == ["ok 0"])
            hub.time.advance(ms: 4_599)
            #expect(put(eve, "b").contains("over_budget"))
            #expect(put(eve, "a", .null) == "ok 0", "what is removed counts as nothing")
            hub.time.advance(ms: 1)
            #expect(put(eve, "b") == "ok 0" && put(eve, "d").contains("over_budget"))
            #expect(hub.ask(eve, .put("likes/b/x", 1), .get("posts/d")).first == (place == "news" ? "ok 0" : "error 0 over_budget"))
            let admin = Client.make()
            _ = hub.ask(admin, .identify(.admin))
            #expect(put(admin, "e") == "ok 0" && put(admin, "f") == "ok 0")
        }
    }
}
