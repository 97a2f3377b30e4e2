import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Rows of inboxes: in the commit of their node if they are few, otherwise in commits of their own. Each row is written once.
@Suite(.timeLimit(.minutes(30))) struct InboxTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "news":{"$k":{".inbox":{"to":"inbox/$u/$k","each":"subs/$u","any":["newData.child('tag').val()"],"if":"each.val() != 5",
            "changes":"newData.child('again').val() != data.child('again').val()","value":"newData.child('t').val()"}}},
          "inbox":{"$u":{"$k":{".validate":"newData.val() != 'bad' && $u != 'u3'"}}},
          "counts":{"$u":{".counts":{"n":"count(inbox/$u)"}}}}}
        """#

    private static func subs(_ count: Int) -> Node { ["subs": .object((0..<count).map { (Key("u\($0 + 10)"), ["x": true]) })] }
    private static func news(_ t: String = "t") -> Node { ["tag": "x", "t": .string(t)] }

    private static func limits(_ atOnce: Int = 10) -> EngineLimits {
        var limits = EngineLimits()
        (limits.systemWrites, limits.continuedAtOnce) = (20, atOnce)
        return limits
    }

    private func rows(_ root: Node, _ k: Key = "n") -> [String: Int] {
        var rows: [String: Int] = [:]
        for (_, row) in root.child("inbox").children where row.child(k).exists { rows[row.child(k).json, default: 0] += 1 }
        return rows
    }

    @Test func few_areInTheCommit_andManyComeBehind() throws {
        var it = try RestartHarness(Self.rules, root: Self.subs(20), limits: Self.limits())
        let watcher = Client.make()
        _ = it.hub.ask(watcher, .listen("inbox/u10"))
        #expect(it.put("news/n", Self.news()) == "ok 0")
        #expect(it.commits.count == 1 && rows(it.root) == ["\"t\"": 20] && it.counters.systemWrites[.inbox] == 20)
        #expect(it.counters.systemCommits[.inbox] == nil && it.hub.take(watcher) == [#"d inbox/u10/n "t""#])

        it = try RestartHarness(Self.rules, root: Self.subs(21), limits: Self.limits())
        #expect(it.put("news/n", Self.news()) == "ok 0")
        #expect(rows(it.root) == ["\"t\"": 21] && it.counters.systemWrites[.inbox] == 21 && it.counters.systemCommits[.inbox] == 3)
        // The causing commit, the list, and the rows.
        #expect(it.commits.map { $0.operations.count { $0.path != nil } } == [1, 0, 10, 10, 1])
        #expect(it.stored.pendingRows.isEmpty && it.counters.owedRows == 0)
    }

    /// The hub is killed after any commit, also twice, and restarts from the log or a snapshot: each row is written once, and none is left out.
    @Test(arguments: [false, true]) func killedHub_goesOn(fromSnapshot: Bool) throws {
        let first = try RestartHarness(Self.rules, root: Self.subs(45), limits: Self.limits())
        _ = first.put("news/n", Self.news())
        let whole = first.commits.count
        #expect(whole == 7)
        for count in 1...whole {
            for again in [1, 3] {
                let it = try RestartHarness(Self.rules, root: Self.subs(45), limits: Self.limits())
                _ = it.put("news/n", Self.news())
                func through(_ stored: RestartHarness.Stored) -> RestartHarness.Stored {
                    guard fromSnapshot, stored.pendingRows.items.allSatisfy(\.isListed) else { return stored }
                    var read = RestartHarness.Stored(root: stored.root, sequence: stored.sequence)
                    stored.pendingRows.forEach { read.pendingRows.apply($0, in: stored.root) }
                    return read
                }
                try it.restart(after: count, through: through)
                let written = it.commits.flatMap(\.operations).compactMap(\.path)
                let before = rows(it.stored(after: 0).root)["\"t\""] ?? 0
                #expect(Set(written).count == written.count && written.count + before == 45, "commit \(count)")
                #expect(rows(it.root) == ["\"t\"": 45] && it.stored.pendingRows.isEmpty)
                try it.restart(after: again, through: through)
                #expect(rows(it.root) == ["\"t\"": 45] && it.stored.pendingRows.isEmpty, "commit \(count) and \(again)")
            }
        }
    }

    /// Later writes, deploys and kills change neither receivers nor values: these are the commit's.
    @Test func whatOthersDoMeanwhile_changesNothing() throws {
        let others = #"""
            {"rules":{".read":true,".write":true,"news":{"$k":{".inbox":{"to":"other/$u/$k","each":"subs/$u","value":"'other'"}}}}}
            """#
        for rules in [Self.rules, others, #"{"rules":{".read":true,".write":true}}"#] {
            let it = try RestartHarness(Self.rules, root: Self.subs(45), limits: Self.limits())
            _ = it.put("news/n", Self.news())
            // After the list and a part of the rows.
            try it.restart(after: 3, rules: rules, through: { stored in
                var stored = stored
                stored.root.set(["late": ["x": true]], at: "subs")
                stored.root.set("new", at: "news/n/t")
                return stored
            })
            #expect(rows(it.root) == ["\"t\"": 45] && it.root.node(at: "inbox/late").isNull && it.root.child("other").isNull)
        }
        // The receivers are computed with the rules of the commit in the same process; after a restart, with the new rules if they have the inbox.
        let it = try RestartHarness(Self.rules, root: Self.subs(45), limits: Self.limits())
        _ = it.put("news/n", Self.news())
        try it.restart(after: 1, rules: others)
        #expect(rows(it.root) == [:] && it.stored.pendingRows.isEmpty)
    }

    /// If nodes expire before the first request, rows resume right after that.
    @Test func startWithExpiries_resumesRowsAtOnce() throws {
        let rules = Self.rules.dropLast(2) + #","drafts":{"$d":{".expire":"data.child('at').val()"}}}}"#
        let root: Node = ["subs": Self.subs(45).child("subs"), "drafts": .object((0..<300).map { (Key("d\($0)"), ["at": 9_000]) })]
        let it = try RestartHarness(String(rules), root: root, limits: Self.limits())
        #expect(it.put("news/n", Self.news()) == "ok 0")
        try it.restart(after: 3)
        #expect(rows(it.root) == ["\"t\"": 45] && it.stored.pendingRows.isEmpty && it.hub.time.ms == 1_000)
    }

    @Test func rulesDeployedInBetween_leaveRowsAsTheyAre() throws {
        let gate = try GatedHarness(Self.rules, root: Self.subs(45), limits: Self.limits())
        gate.finish()
        let client = Client.make()
        // The receivers are still unknown: they are computed with the rules of the commit, in its tree.
        #expect(gate.ask(client, .put("news/n", Self.news())) == ["ok 0"])
        gate.hub.database.replace(try RuleSet(parsing: #"{"rules":{".read":true,".write":true}}"#))
        #expect(gate.ask(client, .put("subs", ["z": ["x": true]])) == ["ok 0"])
        #expect(gate.hub.database.counters.owedRows == 45 && rows(gate.content) == [:])
        while gate.hub.database.counters.owedRows > 0 {
            gate.finish()
            gate.hub.time.advance(ms: 2)
        }
        #expect(rows(gate.content) == ["\"t\"": 45])
    }

    /// Removing the node, or a node above it, cancels its pending rows; written rows stay.
    @Test func removedNode_cancelsItsPendingRows() throws {
        let limits = Self.limits()
        for count in 1...6 {
            let it = try RestartHarness(Self.rules, root: Self.subs(145), limits: limits)
            _ = it.put("news/n", Self.news())
            let rest = it.stored(after: count)
            let log = FlakyLog(root: rest.root)
            let hub = EngineHarness(rules: it.rules, root: rest.root, beside: rest.beside, log: log, limits: limits, now: 5)
            hub.settle()
            let client = Client.make()
            hub.database.submit(.put(count.isMultiple(of: 2) ? "news" : "news/n", .null), from: client)
            for _ in 0..<100 {
                hub.settle()
                log.completeAll()
                hub.time.advance(ms: 2)
            }
            let made = rows(log.root)["\"t\""] ?? 0
            #expect(log.root.child("news").isNull && hub.database.counters.owedRows == 0)
            #expect(made <= (rows(rest.root)["\"t\""] ?? 0) + 40, "\(made) rows behind commit \(count)")
        }
    }

    /// Rows that the disk refuses are rolled back with their commit, and retried once it takes commits again.
    @Test func refusingLog_losesAndDoublesNothing() throws {
        var limits = Self.limits()
        limits.retryMs = EngineLimits.patient.retryMs
        let root = Self.subs(45)
        for failing in 0..<9 {
            let log = FlakyLog(root: root)
            let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), root: root, log: log, limits: limits, now: 5)
            hub.settle()
            let client = Client.make()
            hub.database.submit(.put("news/n", Self.news()), from: client)
            hub.settle()
            var completed = 0
            for _ in 0..<300 {
                hub.settle()
                if log.isIdle {
                    hub.time.advance(ms: 2)
                } else if completed == failing {
                    log.refuse()
                    completed += 1
                    hub.settle()
                    hub.passRetryTime()
                } else {
                    log.complete()
                    completed += 1
                }
            }
            let told = hub.take(client)
            let isMade = told.contains("ok 0")
            #expect(rows(log.root) == (isMade ? ["\"t\"": 45] : [:]), "append \(failing) was refused: \(told)")
            #expect(isMade == (failing > 0) && hub.database.counters.owedRows == 0)
        }
    }

    /// A row that a `.validate` refuses is left out; the other rows are written.
    @Test func refusedRow_isLeftOut_andReported() throws {
        final class Listener: RefusalListener {
            let heard = Mutex<[String]>([])
            func wantsRefusal(now: Int64) -> Bool { true }
            func refused(_ request: RuledRequest, _ question: RuleQuestion) {
                let trace = question.explained()
                if case .write(let paths) = trace.operation { heard.withLock { $0.append("\(paths.count) \(trace.refuser)") } }
            }
        }
        let listener = Listener()
        var root = Self.subs(45)
        root.set(["x": true], at: "subs/u3")
        let it = try RestartHarness(Self.rules, root: root, limits: Self.limits(), refusals: listener)
        #expect(it.put("news/n", Self.news()) == "ok 0")
        #expect(rows(it.root) == ["\"t\"": 45] && it.root.node(at: "inbox/u3").isNull && it.stored.pendingRows.isEmpty)
        #expect(listener.heard.withLock { $0.last } == "1 /inbox/$u/$k.validate")
        #expect(it.put("news/b", Self.news("bad")) == "ok 0")
        #expect(rows(it.root, "b") == [:] && it.stored.pendingRows.isEmpty && it.counters.owedRows == 0)
        // In the commit of its node, it refuses that commit.
        let few = try RestartHarness(Self.rules, root: ["subs": ["u3": ["x": 1], "u4": ["x": 1]]], limits: Self.limits())
        #expect(few.put("news/n", Self.news()) == "error 0 permission_denied" && few.root.child("news").isNull)
    }

    /// Rows have counters as consequences, and a commit has a bound for these, so it holds fewer rows.
    @Test func whatFollowsFromRows_isInTheirCommits() throws {
        var root = Self.subs(45)
        root.set(.object((0..<45).map { (Key("u\($0 + 10)"), ["n": 0]) }), at: "counts")
        let it = try RestartHarness(Self.rules, root: root, limits: Self.limits(100))
        #expect(it.put("news/n", Self.news()) == "ok 0")
        #expect(rows(it.root) == ["\"t\"": 45] && it.root.child("counts").children.allSatisfy { $1.child("n") == 1 })
        #expect(it.counters.systemWrites[.counts] == 45)
    }

    /// The rows of a node keep the order of its commits: those of a change come after the pending ones.
    @Test func changeMeanwhile_comesBehind() throws {
        let gate = try GatedHarness(Self.rules, root: Self.subs(45), limits: Self.limits())
        gate.finish()
        let client = Client.make()
        _ = gate.ask(client, .put("news/n", Self.news()))
        // Few receivers by now: their rows would be in the commit but for the pending ones.
        _ = gate.ask(client, .put("subs", ["u10": ["x": true], "z": ["x": true]]))
        _ = gate.ask(client, .merge(["news/n/again": 1, "news/n/t": "second"]))
        #expect(rows(gate.content) == [:])
        while gate.hub.database.counters.owedRows > 0 {
            gate.finish()
            gate.hub.time.advance(ms: 2)
        }
        #expect(rows(gate.content) == ["\"t\"": 44, "\"second\"": 2])
    }

    @Test func deletedAccount_getsNoRowThatIsOwed() throws {
        let gate = try GatedHarness(Self.rules, root: Self.subs(45), limits: Self.limits())
        gate.finish()
        let client = Client.make()
        _ = gate.ask(client, .put("news/n", Self.news()))
        _ = gate.ask(client, .accountData([], of: "u12"))
        while gate.hub.database.counters.owedRows > 0 {
            gate.finish()
            gate.hub.time.advance(ms: 2)
        }
        #expect(rows(gate.content) == ["\"t\"": 44] && gate.content.node(at: "inbox/u12").isNull)
    }

    @Test func largeWrite_owesAsOthersDo() throws {
        var limits = Self.limits()
        limits.largeWritePlaces = 2
        let it = try RestartHarness(Self.rules, root: Self.subs(45), limits: limits)
        let client = Client.make()
        _ = it.hub.ask(client, .merge(["news/n": Self.news(), "x": 1, "y": 2, "z": 3]))
        it.settle()
        #expect(it.counters.prepared == 1 && rows(it.root) == ["\"t\"": 45] && it.stored.pendingRows.isEmpty)
    }

    @Test func imports_owNothing() throws {
        let it = try RestartHarness(Self.rules, root: Self.subs(45), limits: Self.limits())
        var exchange = Exchange("news/n", .write([TreeWrite("news/n", WriteValue(Self.news()))]))
        exchange.isImport = true
        let client = Client.make()
        _ = it.hub.ask(client, .identify(.admin), .exchange(exchange))
        it.settle()
        #expect(it.root.node(at: "news/n").exists && rows(it.root) == [:])
        // A patch that replaces a node cancels its pending rows.
        let gate = try GatedHarness(Self.rules, root: Self.subs(45), limits: Self.limits())
        gate.finish()
        _ = gate.ask(client, .put("news/n", Self.news()))
        #expect(gate.hub.database.counters.owedRows == 45)
        _ = gate.ask(client, .identify(.admin), .exchange(exchange))
        gate.finish()
        gate.hub.time.advance(ms: 2)
        gate.finish()
        #expect(rows(gate.content) == [:] && gate.hub.database.counters.owedRows == 0)
    }

    @Test func bounds_refuseTheNode() throws {
        var limits = Self.limits()
        limits.owedRows = 45
        #expect(try RestartHarness(Self.rules, root: Self.subs(45), limits: limits).put("news/n", Self.news()) == "ok 0")
        limits.owedRows = 44
        let it = try RestartHarness(Self.rules, root: Self.subs(45), limits: limits)
        #expect(it.put("news/n", Self.news()) == "error 0 too_big" && it.root.child("news").isNull)
        limits.owedRows = 1_000
        limits.owingNodes = 1
        let gate = try GatedHarness(Self.rules, root: Self.subs(45), limits: limits)
        gate.finish()
        let client = Client.make()
        #expect(gate.ask(client, .put("news/n", Self.news())) == ["ok 0"])
        #expect(gate.ask(client, .put("news/o", Self.news())) == ["error 0 unavailable"])
        #expect(gate.ask(client, .put("news/p", 1), .put("subs", .null)) == ["ok 0", "ok 1"], "what owes nothing")
    }

    /// A snapshot holds no tree of an earlier commit, so it waits until the receivers are known. The one at shutdown is skipped.
    @Test func snapshot_waitsForTheList() throws {
        let gate = try GatedHarness(Self.rules, root: Self.subs(45), limits: Self.limits())
        gate.finish()
        let client = Client.make()
        _ = gate.ask(client, .put("news/n", Self.news()))
        let made = Mutex<[String]>([])
        gate.hub.database.journalSnapshot { snapshot in
            made.withLock { $0.append("\(snapshot?.pendingRows.items.first?.isListed ?? false) \(snapshot?.pendingRows.items.first?.listed ?? 0)") }
        }
        gate.hub.database.journalSnapshot(isLast: true) { snapshot in made.withLock { $0.append(snapshot == nil ? "none" : "one") } }
        gate.hub.database.snapshot { root, _, _ in made.withLock { $0.append(root.child("news").json) } }
        gate.hub.settle()
        #expect(made.withLock { $0 } == ["none", #"{"n":{"t":"t","tag":"x"}}"#])
        gate.finish()
        #expect(made.withLock { $0.last } == "true 45")
    }

    // MARK: Model

    /// Compared with all rows computed from the whole history, while others write and deploy and the hub is killed with rows pending.
    @Test(arguments: Array(1...80) as [UInt64]) func randomHistory_makesEachRowOnce(seed: UInt64) throws {
        let rules = #"""
            {"rules":{".read":true,".write":true,"news":{"$k":{".inbox":{"to":"inbox/$u/$k","each":"subs/$u",
              "any":["newData.child('tags')"],"not":"newData.child('by').val()","if":"newRoot.child('blocked').child($u).val() != true",
              "changes":"newData.child('again').val() != data.child('again').val()","value":"newData.child('t').val()"}}}}}
            """#
        var random = SeededRandom(seed)
        var limits = EngineLimits()
        (limits.systemWrites, limits.continuedAtOnce) = (random.pick([1, 4, 1_000]), random.pick([1, 3]))
        let it = try RestartHarness(rules, limits: limits, gate: GatedWork())
        var model = Node.null
        var rowsMade = 0
        for step in 0..<80 {
            let (k, u, t) = (Key(random.pick(["n", "o", "p"])), Key("u\(random.below(9))"), Key(random.pick(["x", "y"])))
            let tags: Node = random.chance(50) ? ["x": 1] : ["x": 1, "y": 1]
            let write: (Path, Node)? = switch random.below(12) {
            case 0, 1, 2: (Path([Key("subs"), u, t]), random.chance(30) ? .null : true)
            case 3: (Path([Key("subs"), u]), random.chance(30) ? .null : ["x": 1, "y": 1])
            case 4: (Path([Key("blocked"), u]), .bool(random.chance(50)))
            case 5, 6: (Path([Key("news"), k]), ["t": .int(Int64(step)), "by": .string(u.string), "tags": tags])
            case 7: (Path([Key("news"), k]), .null)
            case 8: (Path([Key("news"), k, Key("again")]), .int(Int64(step)))
            default: nil
            }
            if let (path, value) = write {
                // Which rows a removal cancels depends on how many are written.
                if value.isNull, path.keys[0] == Key("news") { it.settle() }
                try #require(it.put(path, value, settles: false) == "ok 0")
                let before = model
                model.set(value, at: path)
                for (k, news) in model.child("news").children {
                    let was = before.child("news").child(k)
                    guard was.isNull || news.child("again") != was.child("again") else { continue }
                    for (u, set) in model.child("subs").children {
                        guard news.child("tags").children.contains(where: { set.child($0.0).exists }), news.child("t").exists,
                            .string(u.string) != news.child("by"), model.child("blocked").child(u) != true
                        else { continue }
                        model.set(news.child("t"), at: Path([Key("inbox"), u, k]))
                        rowsMade += 1
                    }
                }
            } else {
                switch random.below(5) {
                case 0: try it.restart(settles: false)
                case 1: try it.deploy(rules, settles: false)
                case 2: it.settle()
                default:
                    it.gate?.runOne()
                    it.hub.settle()
                }
            }
            if random.chance(15) || step == 79 {
                it.settle()
                try #require(it.root == model, "step \(step): \(it.root.json) is to be \(model.json)")
                try #require(it.stored.pendingRows.isEmpty)
            }
        }
        #expect(rowsMade > 0)
    }
}
