import HubEngine
import Journal
import JSONTree
import SecurityRules
import Synchronization
import TestSupport
import Testing

/// Consequences of a removal that do not fit into its commit run in later commits, so every node can be removed.
@Suite(.timeLimit(.minutes(30))) struct ContinuedRemovalTests {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "posts":{"$p":{".removes":["votes/*/$p","comments/$p"],".expire":"data.child('until').val()",
            ".counts":{"n":"count(comments/$p)"}}},
          "comments":{"$p":{"$c":{".removes":["likes/$c","by/{u}/$c"],".copy":["copies/{u}/$c"]}}},
          "kept":{"$k":{".validate":"newData.hasChild('x')"}},
          "users":{"$u":{".counts":{"votes":"count(votes/$u)","own":"count(votes/$u, each.val() > 0)"}}}}}
        """#

    private static let limits: EngineLimits = {
        var limits = EngineLimits()
        (limits.systemWrites, limits.continuedAtOnce) = (20, 10)
        return limits
    }()

    private static func many(_ count: Int, _ name: String, _ value: Node = 1) -> Node {
        .object((0..<count).map { (Key("\(name)\($0 + 100)"), value) })
    }

    /// A post with this many votes, and with comments that each have a consequence.
    private static func root(votes: Int = 45, comments: Int = 0) -> Node {
        var root: Node = ["posts": ["p": ["author": "ada", "n": .int(Int64(comments))], "q": ["author": "ada", "n": 0]]]
        root.set(many(votes, "u", ["p": 1, "q": 1]), at: "votes")
        if comments > 0 { root.set(many(comments, "c", ["u": "eve"]), at: "comments/p") }
        root.set(many(comments, "c"), at: "by/eve")
        root.set(many(comments, "c"), at: "likes")
        root.set(many(comments, "c", ["u": "eve"]), at: "copies/eve")
        return root
    }

    private static func after(votes: Int = 45) -> Node {
        ["posts": ["q": ["author": "ada", "n": 0]], "votes": many(votes, "u", ["q": 1])]
    }

    private func harness(_ root: Node, _ limits: EngineLimits = Self.limits, gate: GatedWork? = nil) throws -> RestartHarness {
        try RestartHarness(Self.rules, root: root, limits: limits, gate: gate)
    }

    // MARK: Large removals

    @Test func removal_ofManyTargets_isMade_byEverybody() throws {
        let write = TreeWrite("posts/p", WriteValue(.null))
        let requests: [(String, [Request])] = [
            ("client", [.put("posts/p", .null)]), ("administrator", [.identify(.admin), .put("posts/p", .null)]),
            ("disconnect", [.onDisconnect([write]), .end]), ("account", [.system([write], .accountDeletion)]),
            ("update", [.merge(["posts/p/author": .null, "posts/p/n": .null])]),
        ]
        for (name, requests) in requests {
            let it = try harness(Self.root())
            let client = Client.make()
            for request in requests { _ = it.hub.ask(client, request) }
            it.settle()
            #expect(it.root == Self.after() && it.stored.pendingRows.isEmpty && it.counters.owedRows == 0, "\(name)")
            // The removal, the list, and the parts.
            #expect(it.counters.systemCommits[.removal] == 5 && it.counters.systemWrites[.removes] == 45, "\(name)")
        }
        // As many removals as one commit may have are in it.
        let few = try harness(Self.root(votes: 20))
        #expect(few.put("posts/p", .null) == "ok 0" && few.root == Self.after(votes: 20) && few.commits.count == 1)
    }

    @Test func node_endsByTime() throws {
        var root = Self.root()
        root.set(5_000, at: "posts/p/until")
        let it = try harness(root)
        it.advance(ms: 4_000)
        #expect(it.root == Self.after() && it.counters.expired == 1 && it.stored.pendingRows.isEmpty)
    }

    /// Consequences of consequences: each comment has its own, below the removed node or elsewhere.
    @Test(arguments: ["posts/p", "comments/p"]) func nestedConsequences_follow(place: Path) throws {
        let it = try harness(Self.root(votes: 3, comments: 45))
        #expect(it.put(place, .null) == "ok 0")
        var expected = Self.after(votes: 3)
        if place == "comments/p" {
            expected = Self.root(votes: 3)
            expected.set(.null, at: "by")
        }
        #expect(it.root == expected, "\(it.root.json)")
        #expect(it.stored.pendingRows.isEmpty && it.counters.systemWrites[.removes, default: 0] >= 90)
    }

    /// Counters of removed nodes are right once they have been counted.
    @Test func counters_areRight() throws {
        var root = Self.root(votes: 45, comments: 45)
        root.set(.object((0..<45).map { (Key("u\($0 + 100)"), ["votes": 2, "own": 2]) }), at: "users")
        let it = try harness(root)
        #expect(it.put("posts/p", .null) == "ok 0")
        #expect(it.root.child("users").children.allSatisfy { $1 == ["votes": 1, "own": 1] })
        #expect(it.put("votes", .null) == "ok 0" && it.root.child("votes").isNull)
        #expect(it.root.child("users").children.allSatisfy { $1 == ["votes": 0, "own": 0] })
    }

    /// The search for targets reads more keys than one commit may: a wildcard over many children, or the removed node itself.
    @Test func removal_thatLooksAtManyKeys_isMade() throws {
        var limits = Self.limits
        limits.systemWriteKeys = 30
        let it = try harness(Self.root(votes: 45, comments: 0), limits)
        #expect(it.put("posts/p", .null) == "ok 0" && it.root == Self.after())
        limits = Self.limits
        limits.systemWriteQuestions = 30
        let other = try harness(Self.root(votes: 3, comments: 45), limits)
        #expect(other.put("posts/p", .null) == "ok 0" && other.root == Self.after(votes: 3))
    }

    /// A stored value that is not a valid key does not prevent the removal of a node above it.
    @Test func valueThatIsNoKey_namesNoPlace() throws {
        for comments in [3, 45] {
            var root = Self.root(votes: 3, comments: comments)
            root.set(["u": "a/b"], at: "comments/p/c101")
            root.set(["u": ["x": 1]], at: "comments/p/c102")
            root.set(.null, at: "by/eve/c101")
            root.set(.null, at: "by/eve/c102")
            root.set(.null, at: "copies/eve/c101")
            root.set(.null, at: "copies/eve/c102")
            let it = try harness(root)
            #expect(it.put("posts/p", .null) == "ok 0" && it.root == Self.after(votes: 3), "\(comments)")
        }
    }

    /// A consequence that a `.validate` refuses is left out; the others run.
    @Test func refusedRemoval_isLeftOut() throws {
        let rules = #"{"rules":{".write":true,"posts":{"$p":{".removes":"kept/*/x"}},"kept":{"$k":{".validate":"$k != 'k103'"}}}}"#
        let it = try RestartHarness(rules, root: ["posts": ["p": 1], "kept": Self.many(45, "k", ["x": 1, "y": 1])], limits: Self.limits)
        #expect(it.put("posts/p", .null) == "ok 0" && it.stored.pendingRows.isEmpty)
        #expect(it.root.child("kept").children.filter { $1.child("x").exists }.map(\.0) == ["k103"])
    }

    /// Only consequences of a removal are deferred to later commits. Other consequences of a write are bounded as before.
    @Test func otherConsequences_areRefusedAsBefore() throws {
        let rules = #"{"rules":{".write":true,"posts":{"$p":{".removes":"votes/*/$p",".copy":{"to":"line/$f/$p","each":"friends/$f"}}}}}"#
        let root: Node = ["posts": ["p": 1], "votes": Self.many(45, "u", ["p": 1]), "friends": Self.many(45, "f")]
        let it = try RestartHarness(rules, root: root, limits: Self.limits)
        #expect(it.put("posts/q", 1) == "error 0 too_big")
        let client = Client.make()
        #expect(it.hub.ask(client, .merge(["posts/p": .null, "posts/q": 1])) == ["error 0 too_big"])
        it.settle()
        #expect(it.root == root)
    }

    // MARK: Kills and refusals

    /// The hub is killed after any commit, also twice, and restarts from the log or a snapshot: every target is removed, each once.
    @Test(arguments: [false, true]) func killedHub_goesOn(fromSnapshot: Bool) throws {
        let root = Self.root(votes: 25, comments: 25)
        func through(_ stored: RestartHarness.Stored) -> RestartHarness.Stored {
            guard fromSnapshot, stored.pendingRows.items.allSatisfy(\.isListed) else { return stored }
            var read = RestartHarness.Stored(root: stored.root, sequence: stored.sequence)
            stored.pendingRows.forEach { read.pendingRows.apply($0, in: stored.root) }
            return read
        }
        let first = try harness(root)
        _ = first.put("posts/p", .null)
        let whole = first.commits.count
        #expect(first.root == Self.after(votes: 25) && whole > 8)
        for count in 1...whole {
            for again in [1, 3] {
                let it = try harness(root)
                _ = it.put("posts/p", .null)
                try it.restart(after: count, through: through)
                let removed = it.commits.flatMap(\.operations).compactMap(\.path)
                #expect(Set(removed).count == removed.count, "commit \(count)")
                #expect(it.root == Self.after(votes: 25) && it.stored.pendingRows.isEmpty, "commit \(count)")
                try it.restart(after: again, through: through)
                #expect(it.root == Self.after(votes: 25) && it.stored.pendingRows.isEmpty, "commit \(count) and \(again)")
            }
        }
    }

    /// A follower knows the pending removals, too, and continues them.
    @Test func follower_hasTheListOfTheTreeBefore() throws {
        let it = try harness(Self.root())
        _ = it.put("posts/p", .null)
        for count in 1...it.commits.count {
            let stored = it.stored(after: count)
            if let item = stored.pendingRows.items.first, !item.isListed { #expect(item.base?.node(at: "posts/p").exists == true) }
        }
        #expect(it.stored(after: 1).pendingRows.items.count == 1)
    }

    /// Removals that the disk refuses are rolled back with their commit, and retried once it takes commits again.
    @Test func refusingLog_losesNothing() throws {
        var limits = Self.limits
        limits.retryMs = EngineLimits.patient.retryMs
        let root = Self.root()
        for failing in 0..<9 {
            let log = FlakyLog(root: root)
            let hub = EngineHarness(rules: try RuleSet(parsing: Self.rules), root: root, log: log, limits: limits, now: 5)
            hub.settle()
            let client = Client.make()
            hub.database.submit(.put("posts/p", .null), from: client)
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
            #expect(log.root == (isMade ? Self.after() : root), "append \(failing) was refused: \(told)")
            #expect(isMade == (failing > 0) && hub.database.counters.owedRows == 0)
        }
    }

    // MARK: Concurrent writes

    /// Values written while removals are pending stay: they did not exist when their cause was removed.
    @Test(arguments: [0, 1, 2]) func placesWrittenMeanwhile_stay(turns: Int) throws {
        let gate = try GatedHarness(Self.rules, root: Self.root(), limits: Self.limits)
        gate.finish()
        let client = Client.make()
        #expect(gate.ask(client, .put("posts/p", .null)) == ["ok 0"])
        // Before the list is known, or after it.
        if turns == 1 { gate.hub.settle() }
        if turns == 2 { gate.finish() }
        _ = gate.ask(client, .put("votes/u140/p", 2), .put("votes/u141", ["p": 3]), .put("posts/p", ["author": "ben"]))
        while gate.hub.database.counters.owedRows > 0 {
            gate.finish()
            gate.hub.time.advance(ms: 2)
        }
        gate.finish()
        var expected = Self.after()
        expected.set(2, at: "votes/u140/p")
        expected.set(["p": 3], at: "votes/u141")
        expected.set(["author": "ben", "n": 0], at: "posts/p")
        #expect(gate.content == expected, "\(gate.content.json)")
    }

    /// A place that a client removed itself, and recreated by writing below it.
    @Test(arguments: [0, 1, 2]) func placesMadeAgainFromBelow_stay(turns: Int) throws {
        let gate = try GatedHarness(Self.rules, root: Self.root(), limits: Self.limits)
        gate.finish()
        let client = Client.make()
        #expect(gate.ask(client, .put("posts/p", .null)) == ["ok 0"])
        if turns == 1 { gate.hub.settle() }
        if turns == 2 { gate.finish() }
        #expect(gate.ask(client, .put("votes/u140/p", .null), .put("votes/u140/p/x", 2)) == ["ok 0", "ok 1"])
        while gate.hub.database.counters.owedRows > 0 {
            gate.finish()
            gate.hub.time.advance(ms: 2)
        }
        gate.finish()
        var expected = Self.after()
        expected.set(["x": 2], at: "votes/u140/p")
        #expect(gate.content == expected, "\(gate.content.json)")
    }

    /// An update of many places keeps the written places, and not everything between them.
    @Test(arguments: [0, 1, 2]) func largeUpdate_keepsWhatItWrites(turns: Int) throws {
        var limits = Self.limits
        (limits.largeWritePlaces, limits.followedPlaces) = (8, 4)
        let gate = try GatedHarness(Self.rules, root: Self.root(), limits: limits)
        gate.finish()
        let client = Client.make()
        #expect(gate.ask(client, .put("posts/p", .null)) == ["ok 0"])
        if turns == 1 { gate.hub.settle() }
        if turns == 2 { gate.finish() }
        let paths = ["votes/u140/p"] + (0..<10).map { Path(["other", Key("o\($0)")]) }
        _ = gate.ask(client, .write(paths.map { TreeWrite($0, WriteValue(2)) }))
        repeat {
            gate.finish()
            gate.hub.time.advance(ms: 2)
        } while gate.hub.database.counters.owedRows > 0
        gate.finish()
        var expected = Self.after()
        for path in paths { expected.set(2, at: path) }
        #expect(gate.content == expected, "\(gate.content.json)")
    }

    /// Copies that another commit recreates at places pending removal.
    @Test func copiesMadeAgain_stay() throws {
        let rules = #"""
            {"rules":{".read":true,".write":true,"posts":{"$p":{".copy":{"to":"line/$f/$p","each":"friends/$f"}}}}}
            """#
        var limits = Self.limits
        let friends = Self.many(15, "f")
        let gate = try GatedHarness(
            rules, root: ["posts": ["p": 1], "friends": friends, "line": Self.many(45, "f", ["p": 1])], limits: limits)
        limits.systemWrites = 20
        gate.finish()
        let client = Client.make()
        #expect(gate.ask(client, .put("posts/p", .null), .put("posts/p", 2)) == ["ok 0", "ok 1"])
        while gate.hub.database.counters.owedRows > 0 {
            gate.finish()
            gate.hub.time.advance(ms: 2)
        }
        #expect(gate.content == ["posts": ["p": 2], "friends": friends, "line": Self.many(15, "f", ["p": 2])], "\(gate.content.json)")
    }

    @Test func bounds_areThoseOfWhatIsOwed() throws {
        var limits = Self.limits
        limits.owingNodes = 1
        let gate = try GatedHarness(Self.rules, root: Self.root(), limits: limits)
        gate.finish()
        let client = Client.make()
        #expect(gate.ask(client, .put("posts/p", .null), .put("posts/q", .null)) == ["ok 0", "error 1 unavailable"])
        #expect(gate.ask(client, .put("users/x", 1)) == ["ok 0"], "what owes nothing")
        // The places of a deleted account are removed even so.
        _ = gate.ask(client, .system([TreeWrite("posts/q", WriteValue(.null))], .accountDeletion))
        while gate.hub.database.counters.owedRows > 0 {
            gate.finish()
            gate.hub.time.advance(ms: 2)
        }
        #expect(gate.content == ["users": ["x": 1]], "\(gate.content.json)")
    }

    // MARK: Model

    /// Compared with all removals computed from the whole history, while others write and the hub is killed with removals pending.
    @Test(arguments: Array(1...60) as [UInt64]) func randomHistory_removesWhatGoes(seed: UInt64) throws {
        let rules = #"""
            {"rules":{".read":true,".write":true,"posts":{"$p":{".removes":["comments/$p","votes/*/$p"],".copy":"all/$p"}},
              "comments":{"$p":{"$c":{".removes":"by/{u}/$c"}}},"sums":{"$u":{".counts":{"n":"count(by/$u)"}}}}}
            """#
        var random = SeededRandom(seed)
        var limits = EngineLimits()
        (limits.systemWrites, limits.continuedAtOnce) = (random.pick([1, 3, 1_000]), random.pick([1, 2]))
        let it = try RestartHarness(rules, root: ["sums": ["e": ["n": 0], "f": ["n": 0]]], limits: limits, gate: GatedWork())
        var model: Node = ["sums": ["e": ["n": 0], "f": ["n": 0]]]
        var removals = 0
        for step in 0..<80 {
            let (p, c, u) = (Key(random.pick(["p", "q"])), Key("c\(random.below(5))"), Key(random.pick(["e", "f"])))
            let isRemoval = random.chance(25)
            let write: (Path, Node)? = switch random.below(10) {
            case 0, 1: (Path([Key("posts"), p]), isRemoval ? .null : .int(Int64(step)))
            case 2, 3, 4:
                (Path([Key("comments"), p, Key("\(p)\(c)")]), isRemoval ? .null : ["u": .string(u.string), "n": .int(Int64(step))])
            case 5: (Path([Key("votes"), c, p]), isRemoval ? .null : .int(Int64(step)))
            case 6: (Path([Key("by"), u, Key("\(p)\(c)")]), isRemoval ? .null : .int(Int64(step)))
            case 7: (Path([Key("comments"), p]), .null)
            default: nil
            }
            if let (path, value) = write {
                // The outcome depends on how far earlier removals are, as does that of a write below a place pending removal.
                if value.isNull || path.keys[0] == Key("comments") { it.settle() }
                try #require(it.put(path, value, settles: false) == "ok 0")
                let before = model
                model.set(value, at: path)
                if path.keys[0] == Key("posts") { model.set(value, at: Path([Key("all"), p])) }
                if before.node(at: path).exists, value.isNull { removals += 1 }
                for p in [Key("p"), Key("q")] where before.child("posts").child(p).exists && model.child("posts").child(p).isNull {
                    model.set(.null, at: Path([Key("comments"), p]))
                    for (u, _) in before.child("votes").children { model.set(.null, at: Path([Key("votes"), u, p])) }
                }
                for (p, comments) in before.child("comments").children {
                    for (c, comment) in comments.children where model.child("comments").child(p).child(c).isNull {
                        guard case .string(let u) = comment.child("u") else { continue }
                        model.set(.null, at: Path([Key("by"), Key(u.string), c]))
                    }
                }
                for u in [Key("e"), Key("f")] {
                    model.set(.int(Int64(model.child("by").child(u).childCount)), at: Path([Key("sums"), u, Key("n")]))
                }
            } else {
                switch random.below(4) {
                case 0: try it.restart(settles: false)
                case 1: it.settle()
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
        #expect(removals > 0)
    }
}
