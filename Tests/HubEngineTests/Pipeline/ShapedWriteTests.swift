import HubEngine
import JSONTree
import SecurityRules
import TestSupport
import Testing

/// `.default` and `.drop` for every kind of write.
@Suite(.timeLimit(.minutes(30))) struct ShapedWriteTests {
    private static let rules = #"""
        {"rules":{".read":true,"e":{"$e":{
          ".write":"newData.hasChild('t') || !newData.exists()",
          ".validate":"newData.hasChildren(['t','status'])",
          "status":{".default":"'open'",".validate":"newData.val() != 'forbidden' && newData.parent().child('t').val() != 13"},
          "secret":{".drop":true}}}}}
        """#

    private func hub(root: Node = .null, limits: EngineLimits = EngineLimits(), work: TestWork = TestWork()) throws -> EngineHarness {
        EngineHarness(rules: try RuleSet(parsing: Self.rules), root: root, limits: limits, work: work)
    }

    private static let sent: Node = ["t": 1, "secret": "s"]
    private static let stored = #"{"status":"open","t":1}"#

    @Test func everyWayOfWriting_isShaped() throws {
        let hub = try hub()
        let (one, watcher) = (Client.make(), Client.make())
        #expect(hub.ask(watcher, .listen("e")) == ["ok 0"])
        #expect(hub.ask(one, .put("e/set", Self.sent), .get("e/set")) == ["ok 0", "value 1 \(Self.stored)"])
        #expect(hub.take(watcher) == ["d e/set \(Self.stored)"])
        #expect(hub.ask(one, .merge(["e/up/t": 1, "e/up/secret": 5]), .get("e/up")) == ["ok 0", "value 1 \(Self.stored)"])
        #expect(hub.take(watcher) == [#"m e {"up/status":"open","up/t":1}"#])
        let pushed = hub.ask(one, .push("e", WriteValue(Self.sent)))[0].split(separator: " ")
        #expect(hub.take(watcher) == ["d e/\(pushed[2]) \(Self.stored)"])
        var exchange = Exchange("e/rest", .write([TreeWrite("e/rest", WriteValue(Self.sent))]), wantsContent: true)
        #expect(hub.ask(one, .exchange(exchange)) == ["exchanged 0 \(Self.stored)"])
        exchange.isImport = true
        #expect(hub.ask(one, .exchange(exchange)) == ["exchanged 0 \(Self.stored)"], "who is no administrator imports nothing")
        #expect(hub.ask(one, .onDisconnect([TreeWrite("e/gone", WriteValue(Self.sent))]), .end) == ["ok 0"])
        #expect(hub.take(watcher).suffix(1) == ["d e/gone \(Self.stored)"])
    }

    @Test func administrator_isShaped_andAnImportIsNot_norTheHub() throws {
        let hub = try hub()
        let admin = Client.make()
        #expect(hub.ask(admin, .identify(.admin), .put("e/a", Self.sent), .get("e/a")).last == "value 2 \(Self.stored)")
        var exchange = Exchange("e/b", .write([TreeWrite("e/b", WriteValue(Self.sent))]), wantsContent: true)
        exchange.isImport = true
        #expect(hub.ask(admin, .exchange(exchange)) == [#"exchanged 0 {"secret":"s","t":1}"#])
        let answers = hub.ask(admin, .system([TreeWrite("e/b/u", 1)], .accountDeletion), .get("e/b"))
        #expect(answers.last == #"value 1 {"secret":"s","t":1,"u":1}"#)
    }

    /// A transaction sends the hash of the value that it read, which was stored with its default.
    @Test func compare_isWithTheFormerValue() throws {
        let hub = try hub()
        let one = Client.make()
        let stored: Node = ["t": 1, "status": "open"]
        _ = hub.ask(one, .put("e/x", ["t": 1]))
        let condition = Condition("e/x", hash: stored.hash)
        #expect(hub.ask(one, .write([TreeWrite("e/x", ["t": 1])], condition: Condition("e/x", hash: (["t": 1] as Node).hash)))
            == ["error 0 datastale"])
        #expect(hub.ask(one, .write([TreeWrite("e/x", ["t": 2])], condition: condition), .get("e/x"))
            == ["ok 0", #"value 1 {"status":"open","t":2}"#])
    }

    /// The rules see the stored value; a default beside the write is checked against `.validate`.
    @Test func rules_areAskedAboutTheShape() throws {
        let hub = try hub()
        let one = Client.make()
        #expect(hub.ask(one, .put("e/x/status", "open")) == ["error 0 permission_denied"])
        #expect(hub.ask(one, .put("e/x/t", 13)) == ["error 0 permission_denied"], "its default would not be valid")
        #expect(hub.ask(one, .put("e/x", ["t": 1, "status": "forbidden"])) == ["error 0 permission_denied"])
        #expect(hub.ask(one, .put("e/x/t", 1), .put("e/x/secret", 5), .get("e/x")) == ["ok 0", "ok 1", "value 2 \(Self.stored)"])
        #expect(hub.database.counters.commits == 2)
    }

    /// Prepared in the background, while others write data that the shape depends on.
    @Test func largeWrite_isShaped_andPreparedAgainWhenTheShapeWouldBeAnother() throws {
        let text = #"""
            {"rules":{".read":true,".write":true,"p":{"n":{".default":"root.child('seq').val(0) + 1"},"$k":{"s":{".drop":true}}}}}
            """#
        var limits = EngineLimits.tight
        limits.largeWritePlaces = 2
        let it = try GatedHarness(text, root: ["p": ["z": 0]], limits: limits)
        let (one, other) = (Client.make(), Client.make())
        let large = Request.merge(["p/a/s": 1, "p/a/t": 1, "p/b/s": 2, "p/b/t": 2])
        #expect(it.ask(one, large) == [])
        #expect(it.ask(other, .put("seq", 41)) == ["ok 0"])
        it.finish()
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.content == ["p": ["a": ["t": 1], "b": ["t": 2], "z": 0], "seq": 41], "an update of the children's children puts nothing")
        #expect(it.ask(one, .merge(["p/a": ["s": 1], "p/b": 5, "p/c": 6])) == [])
        #expect(it.ask(other, .put("seq", 42)) == ["ok 0"])
        it.finish()
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"])
        #expect(it.content == ["p": ["b": 5, "c": 6, "n": 43, "z": 0], "seq": 42])
        #expect(it.hub.database.counters.preparedAgain > 0)
        // A default that another client has written meanwhile stays.
        #expect(it.ask(one, .merge(["p/n": .null, "p/x": 5, "p/y": 6])) == [])
        it.finish()
        #expect(it.hub.take(one) == ["ok 0"] && it.content.node(at: "p/n") == 43)
    }

    @Test func tooMuchWork_refusesTheWrite() throws {
        let rules = try RuleSet(parsing: #"{"rules":{"a":{".write":true,"$x":{".drop":"newData.val() + newData.val() == ''"}}}}"#)
        let hub = EngineHarness(rules: rules)
        let text = Node.string(String(repeating: "h", count: 5 << 20))
        let value = Node.object((0..<8).map { (Key("\($0)"), text) })
        #expect(hub.ask(.make(), .put("a", value)) == ["error 0 too_big"])
    }

    /// A value of which `.drop` leaves nothing removes the node. Like other removals it comes last, so that the place is not empty in between.
    @Test func placeWhoseChildrenAreReplaced_keepsItsPriority_whenADropRemovesOneOfThem() throws {
        let node = try Node(json: #"{"p":{"b":1,".priority":2}}"#)
        for members: KeyValuePairs<String, Node> in [["p/b": ["s": 1], "p/a": 5], ["p/a": 5, "p/b": ["s": 1]]] {
            let rules = #"{"rules":{".read":true,".write":true,"p":{"b":{"s":{".drop":"true"}}}}}"#
            let hub = EngineHarness(rules: try RuleSet(parsing: rules), root: node)
            let watcher = Client.make()
            _ = hub.ask(watcher, .observe("p", style: .patches(tag: nil), hash: ""))
            #expect(hub.ask(.make(), .merge(members)) == ["ok 0"])
            #expect(hub.take(watcher) == [#"d p {"a":5,".priority":2}"#])
            #expect(hub.ask(.make(), .get("p")) == [#"value 0 {"a":5,".priority":2}"#])
        }
    }
}
