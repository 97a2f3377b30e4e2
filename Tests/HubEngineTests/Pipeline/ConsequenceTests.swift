import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// The consequences of a write (copies, counters, removals, rows) are part of its commit, for every kind of write.
@Suite(.timeLimit(.minutes(30))) struct ConsequenceTests {
    private static let rules = #"""
        {"rules":{".read":true,
          "posts":{"$p":{".write":true,".removes":["comments/$p","timeline/*/$p","by/{user}/$p"]}},
          "comments":{"$p":{"$c":{".removes":"likes/$c"}}},
          "timeline":{"$u":{".validate":"auth.provider == 'hub' || newData.exists()"}},
          "copied":{"$c":{".write":true,".copy":"by/{user}/$c"}},
          "guarded":{"$g":{".write":true,".removes":"kept/x"}},
          "kept":{".validate":"newData.hasChild('x')"}}}
        """#
    private static let root: Node = [
        "posts": ["p": ["user": "u"], "q": ["user": "v"]], "comments": ["p": ["c": 1, "d": 2]], "likes": ["c": 1, "z": 1],
        "timeline": ["a": ["p": 1, "q": 2], "b": ["p": 3]], "by": ["u": ["p": 1]], "guarded": ["g": 1], "kept": ["x": 1, "y": 2],
    ]
    private static let after: Node = [
        "posts": ["q": ["user": "v"]], "likes": ["z": 1], "timeline": ["a": ["q": 2]], "guarded": ["g": 1], "kept": ["x": 1, "y": 2],
    ]

    private final class Listener: RefusalListener {
        let heard = Mutex<[String]>([])
        func wantsRefusal(now: Int64) -> Bool { true }
        func refused(_ request: RuledRequest, _ question: RuleQuestion) {
            let trace = question.explained()
            heard.withLock { $0.append("\(trace.isAllowed) \(trace.fault.map { "\($0)" } ?? trace.refusal?.pattern.description ?? "-")") }
        }
    }

    @Test func removal_isOneCommit_withWhatFollows_andOneMessageForEachListen() throws {
        let it = try GatedHarness(Self.rules, root: Self.root, limits: EngineLimits())
        let (one, timeline, all) = (Client.make(), Client.make(), Client.make())
        _ = it.ask(timeline, .listen("timeline"))
        _ = it.ask(all, .events("comments"))
        #expect(it.ask(one, .put("posts/p", .null)) == ["ok 0"])
        #expect(it.hub.take(timeline) == [#"m timeline {"a/p":null,"b/p":null}"#])
        #expect(it.hub.take(all) == ["removed 1 p {\"c\":1,\"d\":2} -"])
        #expect(it.content == Self.after)
        #expect(it.hub.database.counters.commits == 1 && it.hub.database.counters.systemWrites[.removes] == 5)
    }

    /// Every kind of write to the same content gives the same result.
    @Test func everyWayOfWriting_isFollowed_butAnImport() throws {
        let write = TreeWrite("posts/p", WriteValue(.null))
        var imported = Exchange("posts/p", .write([write]))
        imported.isImport = true
        let ways: [(String, [Request])] = [
            ("update", [.merge(["posts/p/user": .null])]), ("REST", [.exchange(Exchange("posts/p", .write([write])))]),
            ("disconnect", [.onDisconnect([write]), .end]),
            ("transaction", [.write([write], condition: Condition("posts/p", hash: Self.root.node(at: "posts/p").hash))]),
            ("administrator", [.identify(.admin), .put("posts/p", .null)]), ("hub", [.system([write], .accountDeletion)]),
        ]
        for (name, requests) in ways {
            let it = try GatedHarness(Self.rules, root: Self.root, limits: EngineLimits())
            let one = Client.make()
            for request in requests { _ = it.ask(one, request) }
            #expect(it.content == Self.after, "\(name)")
        }
        let it = try GatedHarness(Self.rules, root: Self.root, limits: EngineLimits())
        _ = it.ask(.make(), .identify(.admin), .exchange(imported))
        var expected = Self.root
        expected.set(.null, at: "posts/p")
        #expect(it.content == expected)
    }

    /// The write is prepared in the background; what other clients write meanwhile has consequences, too.
    @Test func largeWrite_isFollowed_asOfNow() throws {
        let it = try GatedHarness(Self.rules, root: Self.root)
        let (one, other) = (Client.make(), Client.make())
        let watcher = Client.make()
        _ = it.ask(watcher, .listen("timeline"))
        #expect(it.ask(one, .merge(["posts/p/user": .null, "posts/x": 1, "posts/y": 2])) == [])
        #expect(it.ask(other, .identify(.admin), .put("timeline/c/p", 9)).last == "ok 1")
        _ = it.hub.take(watcher)
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        var expected = Self.after
        expected.set(["q": ["user": "v"], "x": 1, "y": 2], at: "posts")
        #expect(it.content == expected)
        #expect(it.hub.take(watcher) == [#"m timeline {"a/p":null,"b/p":null,"c/p":null}"#])
        #expect(it.hub.database.counters.prepared == 1 && it.hub.database.counters.systemWrites[.removes] == 6)
    }

    @Test func refusedConsequence_refusesAll_andIsExplained() throws {
        let listener = Listener()
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), root: Self.root, refusals: listener)
        let one = Client.make()
        #expect(hub.ask(one, .put("guarded/g", .null), .get("guarded")) == ["error 0 permission_denied", #"value 1 {"g":1}"#])
        #expect(hub.ask(one, .identify(.admin), .put("guarded/g", .null)).last == "error 1 permission_denied", "an administrator's, too")
        #expect(hub.ask(one, .put("copied/z", ["user": "a/b"])) == ["error 0 permission_denied"])
        #expect(hub.ask(one, .put("posts/z", ["user": "a/b"]), .put("posts/z", .null)) == ["ok 0", "ok 1"], "there is no such place")
        #expect(listener.heard.withLock { $0 } == [
            "false /kept", "false /kept", "false /copied/$c.copy at /copied/z: 'a/b' cannot be a key",
        ])
        // The data of a deleted account is removed even so.
        let removal = Request.system([TreeWrite("guarded/g", WriteValue(.null))], .accountDeletion)
        #expect(hub.ask(one, removal, .get("guarded")) == ["ok 0", "value 1 null"])
    }

    /// A post is copied to its author's friends in one commit, and each observer is notified once.
    @Test func copies_joinTheCommit_andFollowTheirNode() throws {
        let rules = #"""
            {"rules":{".read":true,"posts":{"$p":{".write":"auth.uid == newData.child('user').val() || !newData.exists()",
              ".copy":["by/{user}/$p",{"to":"timeline/$f/$p","each":"friends/{user}/$f","if":"each.val() == 'added' && $f != auth.uid"}]}},
              "timeline":{"$u":{"$p":{".validate":"auth.provider == 'hub' && newData.child('t').isString()"}}}}}
            """#
        let friends = Node.object((0..<300).map { (Key("f\($0)"), $0 % 3 == 0 ? "pending" : "added") })
        let it = try GatedHarness(rules, root: ["friends": ["ada": friends]], limits: EngineLimits())
        let (ada, friend) = (Client.make(), Client.make())
        _ = it.ask(ada, .identify(Identity(auth: ["uid": "ada"])))
        _ = it.ask(friend, .listen("timeline/f1"))
        #expect(it.ask(ada, .put("posts/p", ["user": "ada", "t": "hi"])) == ["ok 0"])
        #expect(it.hub.take(friend) == [#"d timeline/f1/p {"t":"hi","user":"ada"}"#])
        #expect(it.content.child("timeline").childCount == 200 && it.content.node(at: "by/ada/p/t") == "hi")
        #expect(it.ask(ada, .put("posts/p/t", "ho")) == ["ok 0"])
        #expect(it.hub.take(friend) == [#"d timeline/f1/p {"t":"ho","user":"ada"}"#])
        #expect(it.ask(ada, .put("posts/p/t", 5)) == ["error 0 permission_denied"], "no copy of it would be valid")
        #expect(it.ask(ada, .put("posts/p", .null)) == ["ok 0"])
        #expect(it.content == ["friends": ["ada": friends]])
        #expect(it.hub.database.counters.commits == 3 && it.hub.database.counters.systemWrites[.copy] == 3 * 201)
    }

    /// Shortly after the start, an index locates copies. It stays correct through commits, deploys and rolled-back commits.
    @Test func copies_areKnownWithoutASearch_whenTheIndexIsThere() throws {
        let rules = #"""
            {"rules":{".read":true,".write":true,"posts":{"$p":{".copy":{"to":"timeline/$f/$p","each":"friends/$f"}}}}}
            """#
        var root: Node = ["posts": ["p": 1], "friends": ["a": true]]
        root.set(.object((0..<20).map { (Key("f\($0)"), $0 < 2 ? ["p": 1] : ["x": 1]) }), at: "timeline")
        var limits = EngineLimits.patient
        limits.systemWriteKeys = 10
        let log = FlakyLog(root: root)
        let gate = GatedWork()
        let hub = EngineHarness(rules: try RuleSet(parsing: rules), root: root, log: log, limits: limits, background: gate.work)
        func finish() {
            hub.settle()
            while gate.runOne() { hub.settle() }
        }
        // Keep both clients alive: the harness keys output by object address, which a new client could reuse.
        let (writer, client) = (Client.make(), Client.make())
        defer { withExtendedLifetime((writer, client)) {} }
        func put(_ value: Node) -> [String] {
            hub.database.submit(.put("posts/p", value), from: client)
            hub.settle()
            log.completeAll()
            return hub.take(client)
        }
        #expect(put(2) == ["error 0 too_big"], "the timelines are searched")
        // The index includes writes made while it is built.
        hub.database.submit(.put("timeline/f9/p", 1), from: writer)
        hub.settle()
        log.completeAll()
        finish()
        #expect(put(3) == ["ok 0"])
        #expect(log.root.node(at: "timeline/f1/p") == 3 && log.root.node(at: "timeline/f9/p") == 3)
        // A commit that the disk refuses is not in the index.
        hub.database.submit(.put("timeline/f5/p", 1), from: writer)
        hub.settle()
        log.refuse()
        finish()
        hub.passRetryTime()
        hub.settle()
        log.completeAll()
        finish()
        #expect(put(4) == ["ok 0"] && put(.null) == ["ok 0"])
        #expect(log.root.child("timeline").childCount == 18 && log.root.node(at: "timeline/f5") == ["x": 1])
        hub.database.replace(try RuleSet(parsing: rules))
        finish()
        #expect(put(5) == ["ok 0"] && put(6) == ["ok 0"] && log.root.node(at: "timeline/a/p") == 6)
    }

    /// The index also holds places that any client may write where copies are, so its size is bounded.
    @Test func indexOfTooManyCopies_isGivenUp_untilThereAreFewer() throws {
        let rules = #"""
            {"rules":{".read":true,".write":true,"posts":{"$p":{".copy":{"to":"timeline/$f/$p","each":"friends/$f"}}}}}
            """#
        var root: Node = ["posts": ["p": 1], "friends": ["a": true]]
        root.set(.object((0..<20).map { (Key("f\($0)"), $0 < 2 ? ["p": 1] : ["x": 1]) }), at: "timeline")
        var limits = EngineLimits.patient
        (limits.systemWriteKeys, limits.copyPlaces) = (10, 25)
        let it = try GatedHarness(rules, root: root, limits: limits)
        it.finish()
        let client = Client.make()
        #expect(it.ask(client, .put("posts/p", 2)) == ["ok 0"], "two of twenty")
        #expect(it.ask(client, .put("timeline/z", .object((0..<6).map { (Key("k\($0)"), 1) }))) == ["ok 0"])
        it.finish()
        #expect(it.ask(client, .put("posts/p", 3)) == ["error 0 too_big"], "21 timelines would be searched")
        #expect(it.ask(client, .put("timeline/z", .null)) == ["ok 0"])
        it.hub.time.advance(ms: 600_000)
        it.finish()
        #expect(it.ask(client, .put("posts/p", 4)) == ["ok 0"])
        #expect(it.content.node(at: "timeline/f1/p") == 4)
        limits.copyPlaces = 19
        let other = try GatedHarness(rules, root: root, limits: limits)
        other.finish()
        #expect(other.ask(client, .put("posts/p", 2)) == ["error 0 too_big"], "there are too many at the start")
    }

    @Test func operationsBehindStagedOnes_areStoredWithTheBatch() {
        let stage = JournalStage(number: 1, parts: 1, bytes: 1) { _ in }
        var batch = JournalBatch(after: 5)
        batch.append([.set("a", 1)], pending: [.forget(session: "s")])
        batch.append([.set("b", 1), .set("c", 2)], also: [.set("d", .null)], stage: stage)
        #expect(batch.staged.map(\.range) == [2..<4] && batch.starts == [2] && batch.operations.count == 5)
        #expect(batch.commits.map { $0.operations.compactMap(\.path).map(\.description) } == [["/a"], ["/b", "/c", "/d"]])
    }

    /// Consequences of a removal beyond a limit run in later commits.
    @Test func limits_leaveTheRestOfARemoval_toLaterCommits() throws {
        func commits(_ change: (inout EngineLimits) -> Void) throws -> Int {
            var limits = EngineLimits()
            (limits.systemWrites, limits.systemWriteKeys) = (5, 4)
            change(&limits)
            let it = try GatedHarness(Self.rules, root: Self.root, limits: limits)
            #expect(it.ask(.make(), .put("posts/p", .null)) == ["ok 0"])
            while it.hub.database.counters.owedRows > 0 { it.finish() }
            #expect(it.content == Self.after)
            return it.hub.database.counters.commits
        }
        #expect(try commits { _ in } == 1)
        #expect(try commits { $0.systemWriteKeys = 3 } > 1, "comments/p has two keys, the timeline two")
        #expect(try commits { $0.systemWriteBytes = 100 } > 1)
        #expect(try commits { $0.systemWrites = 4 } > 1)
        #expect(try commits { $0.systemWriteQuestions = 3 } > 1)
    }

    /// Written places that could have consequences are checked on the queue, so their number is bounded. Other places are not checked.
    @Test func placesOfAnUpdate_areCounted_whereSomethingCouldFollow() throws {
        let rules = #"""
            {"rules":{".read":true,".write":true,"e":{"$e":{".counts":{"n":"count(v/$e)","sum":"sum(v/$e)"}}},
              "posts":{"$p":{".removes":"by/{user}/$p"}}}}
            """#
        var limits = EngineLimits()
        (limits.systemWriteQuestions, limits.largeWritePlaces) = (40, 5)
        let it = try GatedHarness(rules, root: ["e": ["x": ["a": 1]]], limits: limits)
        it.finish()
        func update(_ place: (Int) -> String, _ count: Int, _ value: Node) -> [String] {
            let writes = (0..<count).map { TreeWrite(Path(stringLiteral: place($0)), WriteValue(value)) }
            let client = Client.make()
            it.hub.database.submit(.write(writes), from: client)
            it.finish()
            return it.hub.take(client)
        }
        #expect(update({ "v/x/\($0)" }, 14, 2) == ["error 0 too_big"], "14 places, 14 for each of two counters")
        #expect(update({ "v/x/\($0)" }, 13, 2) == ["ok 0"])
        #expect(it.content.node(at: "e/x") == ["a": 1, "n": 13, "sum": 26])
        #expect(update({ "other/\($0)" }, 200, 1) == ["ok 0"], "nothing follows from these")
        #expect(update({ "posts/\($0)/user" }, 41, "u") == ["error 0 too_big"])
        #expect(update({ "posts/\($0)/user" }, 40, "u") == ["ok 0"])
        // One place with consequences among others without.
        let mixed = update({ $0 == 77 ? "v/x/mixed" : "other/\($0)" }, 100, 5)
        #expect(mixed == ["ok 0"] && it.content.node(at: "e/x/n") == 14)
    }

    /// The journal contains the consequences: a follower that applies its commits without rules gets the same tree.
    @Test func journal_hasWhatFollowed() throws {
        let journal = MemoryJournal(last: 0, epoch: 0, keeping: 100, isImmediate: true)
        let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), root: Self.root, log: journal)
        let tree = Mutex(Self.root)
        let tail = journal.tail(from: 0) { event in
            guard case .batch(let batch) = event else { return }
            tree.withLock { tree in for operation in batch.operations { tree.apply(operation) } }
        }
        #expect(hub.ask(.make(), .put("posts/p", .null)) == ["ok 0"])
        hub.settle()
        #expect(tree.withLock { $0 } == Self.after)
        tail.cancel()
    }
}
