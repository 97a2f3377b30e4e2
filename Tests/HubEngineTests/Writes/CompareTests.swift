import HubEngine
import JSONTree
import Testing

/// Writes that compare a hash first.
@Suite(.timeLimit(.minutes(30))) struct CompareTests {
    private func put(_ path: Path, _ value: Node, if hash: String) -> Request {
        .write([TreeWrite(path, WriteValue(value))], condition: Condition(path, hash: hash))
    }

    @Test func guesses_areConfirmedToNobodyWhoMayNotRead() throws {
        let rules = #"{"rules":{"pin":{".write":true},"note":{".read":true,".write":true}}}"#
        let it = try GatedHarness(rules, root: ["pin": 4711, "note": 1])
        let one = Client.make()
        #expect(it.ask(one, put("pin", 4711, if: (4711 as Node).hash), put("pin", 4711, if: (4712 as Node).hash), put("pin", 1, if: ""))
            == ["error 0 permission_denied", "error 1 permission_denied", "error 2 permission_denied"])
        #expect(it.ask(one, put("note", 2, if: (1 as Node).hash), put("note", 3, if: (1 as Node).hash)) == ["ok 0", "error 1 datastale"])
        #expect(it.content == ["pin": 4711, "note": 2])
    }

    @Test func comparisonOfAnUpdate_takesThePermissionToReadItsPlace() throws {
        let rules = #"{"rules":{"a":{"x":{".read":true,".write":true},".write":true}}}"#
        let it = try GatedHarness(rules, root: ["a": ["x": 1]])
        let update = Request.write([TreeWrite("a/x", WriteValue(2))], condition: Condition("a", hash: (["x": 1] as Node).hash))
        #expect(it.ask(.make(), update) == ["error 0 permission_denied"])
    }

    @Test func contentAndGuesses_areForThoseWhoMayReadWhenTheyAreAnswered() throws {
        let rules = """
            {"rules":{"open":{".write":true},"other":{".write":true},
            "pin":{".read":"root.child('open').val() == true",".write":true}}}
            """
        let pin: Node = ["a": 1, "b": 2, "c": 3]
        let writes = ["a", "b", "c"].map { TreeWrite(Path([Key("pin"), Key($0)]), WriteValue(0)) }
        for isRight in [true, false] {
            // After its preparation, and after merging other clients' writes.
            for writesBetween in [0, 3] {
                let it = try GatedHarness(rules, root: ["open": true, "pin": pin])
                let one = Client(lane: 0, dialect: .rest)
                let guess = isRight ? pin.hash : "wrong"
                _ = it.ask(one, .exchange(Exchange("pin", .write(writes), ifHash: guess, wantsContent: true)))
                if writesBetween > 0, isRight {
                    for i in 0..<writesBetween { _ = it.ask(.make(), .put(Path([Key("other"), Key("\(i)")]), 1)) }
                    it.gate.runOne()
                    it.hub.settle()
                    #expect(it.gate.count > 0 && it.hub.take(one) == [])
                }
                _ = it.ask(.make(), .put("open", false))
                it.finish()
                let said = it.hub.take(one)
                #expect(said.count == 1 && said[0].contains("permissionDenied"), "\(said)")
                #expect(it.content.child("pin") == pin)
            }
        }
    }

    /// A comparison that still has to run on the queue visits few nodes.
    @Test func comparisonThatNobodyCouldFinish_isUnavailable_notStale() throws {
        let it = try GatedHarness(root: ["a": Node.object((0..<1_500).map { (Key("k\($0)"), .int(Int64($0))) })])
        let one = Client.make()
        #expect(it.ask(one, put("a", 1, if: Self.many.hash)) == [])
        // The same background work releases what each write replaces.
        for _ in 0..<60 where it.gate.count > 0 {
            // Removed and restored: the same content, but its hash is not cached.
            let fresh = Node.object((0..<1_500).map { (Key("k\($0)"), .int(Int64($0))) })
            _ = it.ask(.make(), .put("a", fresh))
            it.gate.runOne()
            it.hub.settle()
        }
        #expect(it.hub.take(one) == ["error 0 unavailable"])
        #expect(it.content.child("a") == Self.many)
    }

    private static let many = Node.object((0..<1_500).map { (Key("k\($0)"), .int(Int64($0))) })

    @Test func comparisonWithALargePlace_isMadeInTheBackground_andNotRepeated() throws {
        let it = try GatedHarness(root: ["a": Self.many, "b": 1])
        let (one, other) = (Client.make(), Client.make())
        #expect(it.ask(one, put("a", 1, if: "wrong")) == [])
        #expect(it.ask(other, put("b", 2, if: (1 as Node).hash)) == ["ok 0"])
        it.finish()
        #expect(it.hub.take(one) == ["error 0 datastale"])
        // Its hash is cached by now, so the right one is recognised immediately.
        #expect(it.ask(one, put("a", 1, if: Self.many.hash)) == ["ok 0"])
    }

    @Test func placeThatChangesDuringTheComparison_isComparedAgain() throws {
        let it = try GatedHarness(root: ["a": Self.many])
        let one = Client.make()
        var later = Self.many
        later.set(7, at: "new")
        _ = it.ask(one, put("a", 1, if: later.hash))
        _ = it.ask(.make(), .put("a/new", 7))
        it.finish()
        // Refused based on the tree at its start, which had another hash.
        #expect(it.hub.take(one) == ["error 0 datastale"])
    }

    @Test func placeThatChangesBehindAComparisonThatHeld_isComparedAgain() throws {
        let fresh = Node.object((0..<1_500).map { (Key("k\($0)"), .int(Int64($0))) })
        let it = try GatedHarness(root: ["a": fresh])
        let one = Client.make()
        _ = it.ask(one, put("a", 1, if: Self.many.hash))
        _ = it.ask(.make(), .put("a/new", 8))
        it.finish()
        #expect(it.hub.take(one) == ["error 0 datastale"])
        #expect(it.content.child("a").childCount == 1_501)
        #expect(it.hub.database.counters.preparedAgain == 1)
    }

    @Test func hashesOfSmallPlaces_areComparedOnTheQueue_upToTheSetting() {
        let small = Node.object((0..<1_000).map { (Key("k\($0)"), .int(Int64($0))) })
        func compare(_ node: Node, _ hash: String, within limit: Int) -> (isSame: Bool?, work: Int) {
            var work = 0
            return (node.hasHash(hash, within: limit, work: &work), work)
        }
        #expect(compare(small, "wrong", within: 999) == (nil, 0))
        #expect(compare(small, "wrong", within: 1_001).isSame == false)
        _ = small.hash
        #expect(compare(small, small.hash, within: 10) == (true, 0), "it is cached")
        #expect(compare(.null, "", within: 0) == (true, 0))
        #expect(compare(1, "", within: 1) == (false, 0))
        // Beyond the tolerated size only the hash itself, which is cached, is compared.
        let large = Node.object((0..<10_001).map { (Key("k\($0)"), .int(Int64($0))) })
        #expect(compare(large, "wrong", within: 10).isSame == nil)
        _ = large.hash
        #expect(compare(large, "wrong", within: 10).isSame == false)
    }

    @Test func longTexts_countAsManyNodes_andVariantsOnlyWhereTheyDiffer() {
        func work(_ node: Node, within limit: Int = 100_000) -> Int? {
            var work = 0
            return node.hasHash("wrong", within: limit, work: &work).map { _ in work }
        }
        let text = Node.string(String(repeating: "a", count: 64_000))
        #expect(work(text, within: 999) == nil)
        #expect(work(text, within: 1_001) == 1_000 + 1_001 / 8)
        let long = Node.object((0..<10).map { (Key("k\($0)"), text) })
        #expect(work(long, within: 9_999) == nil, "long texts of a record")
        #expect(work(long.with(priority: 1), within: 10_000) == nil, "more nodes than that in all")
        #expect(work(Node.int(1).with(priority: text), within: 999) == nil, "a long priority")
        #expect(work((["a": 1] as Node).with(priority: text), within: 999) == nil, "of an object")
        let names = Node.object((0..<100).map { (Key("k\($0)" + String(repeating: "n", count: 640)), .int(Int64($0))) })
        #expect(work(names, within: 1_000) == nil, "long keys")
        // One walk if no hash variant differs, three if one may. The check for that costs an eighth of a walk.
        let plain = Node.object((0..<100).map { (Key("k\($0)"), .int(Int64($0))) })
        #expect(work(plain) == 100 + 101 / 8)
        let known = Node.object((0..<400).map { (Key("k\($0)"), .int(Int64($0))) })
        _ = known.hash
        #expect(work(known) == 401 / 8, "also where the hash is known")
        var odd = plain
        odd.set(.double(63.99999999999999), at: "k5")
        #expect(work(odd) == 100 + 101 / 8 + 2 * 101)
    }
}
