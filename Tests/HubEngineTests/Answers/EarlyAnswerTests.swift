import HubEngine
import JSONTree
import SecurityRules
import Testing

/// Answers that need no disk do not wait for another client's write, and stay true even if the log refuses that write.
@Suite(.timeLimit(.minutes(30))) struct EarlyAnswerTests {
    private func rules(_ text: String) throws -> RuleSet { try RuleSet(parsing: "{\"rules\":\(text)}") }

    @Test func readOfWhatIsDurable_leaves_whileAWriteWaits() {
        let log = FlakyLog(root: ["a": 1, "c": ["d": 2]])
        let hub = EngineHarness(root: ["a": 1, "c": ["d": 2]], log: log, limits: .patient)
        let (writer, reader, other) = (Client.make(), Client.make(lane: 1), Client.make())
        #expect(hub.ask(writer, .put("a", 2)) == [])
        #expect(hub.ask(reader, .get("c"), .get("c/d"), .get("nothing")) == [#"value 0 {"d":2}"#, "value 1 2", "value 2 null"])
        #expect(hub.ask(reader, .get("c", query: TreeQuery(index: .key, limit: 1, viewFrom: .last))) == [#"value 0 {"d":2}"#])
        #expect(hub.ask(other, .get("a"), .get("c")) == [], "it has seen the write, and its next answer waits behind that")
        log.refuse()
        #expect(hub.take(other) == ["value 0 1", #"value 1 {"d":2}"#])
        #expect(hub.take(reader) == [], "nothing is told twice")
        #expect(hub.take(writer) == ["error 0 unavailable"])
    }

    @Test func readInTheBatchOfAWrite_leaves_andOnlyItsOwnClientWaits() {
        let log = FlakyLog()
        let hub = EngineHarness(root: ["c": 3], log: log)
        let (writer, reader) = (Client.make(), Client.make())
        let gate = DispatchGate(hub.database)
        hub.database.submit(.put("a", 2), from: writer)
        hub.database.submit(.get("c"), from: writer, token: 1)
        hub.database.submit(.get("c"), from: reader)
        gate.open()
        #expect(hub.take(reader) == ["value 0 3"])
        #expect(hub.take(writer) == [])
        log.complete()
        #expect(hub.take(writer) == ["ok 0", "value 1 3"])
        #expect(hub.ask(writer, .get("c")) == ["value 0 3"])
    }

    @Test func observerThatIsToldOfAWrite_waitsBehindIt_andOthersDoNot() {
        let log = FlakyLog()
        let hub = EngineHarness(root: ["c": 3], log: log)
        let (writer, watcher, elsewhere) = (Client.make(), Client.make(), Client.make())
        _ = hub.ask(watcher, .listen("a"))
        _ = hub.ask(elsewhere, .listen("b"))
        _ = hub.ask(writer, .put("a", 2))
        #expect(hub.ask(watcher, .get("c")) == [])
        #expect(hub.ask(elsewhere, .get("c")) == ["value 0 3"])
        log.complete()
        #expect(hub.take(watcher) == ["d a 2", "value 0 3"])
        _ = hub.ask(writer, .put("x", 2))
        #expect(hub.ask(watcher, .get("c")) == ["value 0 3"])
    }

    @Test(arguments: [(32, true), (33, false)]) func clientWithManyObservers_waits(count: Int, leaves: Bool) {
        let log = FlakyLog()
        let hub = EngineHarness(root: ["c": 3], log: log)
        let client = Client.make()
        for i in 0..<count { _ = hub.ask(client, .listen(Path([Key("k\(i)")]))) }
        _ = hub.ask(.make(), .put("x", 2))
        #expect(hub.ask(client, .get("c")) == (leaves ? ["value 0 3"] : []))
    }

    @Test func permission_thatRestsOnWhatIsNotDurable_waits() throws {
        for (before, after, truth) in [(0, 1, "error 0 permission_denied"), (1, 0, "value 0 5")] as [(Int64, Int64, String)] {
            let root: Node = ["open": .int(before), "s": 5]
            let log = FlakyLog(root: root)
            let hub = EngineHarness(
                rules: try rules(#"{"open":{".write":true},"s":{".read":"root.child('open').val() == 1"},"n":{}}"#), root: root, log: log,
                limits: .patient)
            let (reader, stranger) = (Client.make(), Client.make())
            _ = hub.ask(.make(), .put("open", .int(after)))
            #expect(hub.ask(reader, .get("s")) == [])
            #expect(hub.ask(stranger, .get("n")) == ["error 0 permission_denied"], "denied by any data")
            log.refuse()
            #expect(hub.take(reader) == [truth])
        }
    }

    @Test func identity_isAnsweredAtOnce_andHoldsWhateverTheLogSays() throws {
        for isRefused in [false, true] {
            let log = FlakyLog(root: ["u": 6])
            let hub = EngineHarness(
                rules: try rules(#"{"a":{".write":true},"u":{".read":"auth.uid == 'ana'"}}"#), root: ["u": 6], log: log, limits: .patient)
            let (client, left) = (Client.make(), Client.make())
            let ana = Request.identify(Identity(auth: ["uid": "ana"]))
            _ = hub.ask(.make(), .put("a", 1))
            #expect(hub.ask(client, ana, .get("u")) == [#"identified 0 {"uid":"ana"}"#, "value 1 6"])
            #expect(hub.ask(client, .listen("u")) == [], "it says where it begins")
            #expect(hub.ask(left, .onDisconnect([TreeWrite("a", WriteValue(1))]), .signOut) == [])
            log.completeAll(isRefused ? .failure(.diskFull) : .success(()))
            #expect(hub.take(client) == ["d u 6", "ok 0"])
            #expect(hub.ask(client, .get("u"), .signOut).contains("value 0 6"))
        }
    }

    @Test func answersWithoutTheDatabase_andRESTReads_leave() {
        let log = FlakyLog()
        let hub = EngineHarness(root: ["c": 3], log: log)
        let (client, rest) = (Client.make(), Client(lane: 1, dialect: .rest))
        _ = hub.ask(.make(), .put("a", 1))
        #expect(hub.ask(client, .answer(Array("pong".utf8))) == ["pong"])
        #expect(hub.ask(rest, .exchange(Exchange("c", .read(nil)))).count == 1)
        #expect(hub.ask(Client(lane: 0, dialect: .rest), .exchange(Exchange("a", .read(nil)))) == [])
        #expect(hub.ask(client, .put("a", 2), .answer(Array("pong".utf8))) == [])
        log.completeAll()
        #expect(hub.take(client) == ["ok 0", "pong"])
    }

    @Test func observerThatIsShownAWholePlace_waitsBehindThat() throws {
        func people(_ first: Int) -> Node { .object((first..<first + 300).map { (Key("p\($0)"), ["age": .int(Int64($0))]) }) }
        let root: Node = ["k": people(0), "c": 3]
        let log = FlakyLog(root: root)
        var limits = EngineLimits.patient
        limits.inlineChildren = 100
        limits.followedChanges = 50
        let hub = EngineHarness(
            rules: try rules(#"{".read":true,".write":true,"k":{".indexOn":["age"]}}"#), root: root, log: log, limits: limits)
        let watcher = Client.make()
        let query = TreeQuery(index: .child("age"), limit: 1, viewFrom: .first)
        _ = hub.ask(watcher, .observe("k", query: query, style: .patches(tag: 1), hash: ""))
        hub.work.close()
        _ = hub.ask(.make(), .put("k", people(1_000)))
        // The event that follows the index belongs to another batch, and is sent after this one.
        log.complete()
        _ = hub.ask(.make(), .put("x", 1))
        hub.work.open()
        #expect(hub.take(watcher) == [])
        #expect(hub.ask(watcher, .get("c")) == [])
        log.completeAll()
        #expect(hub.take(watcher) == [#"d k {"p1000":{"age":1000}}"#, "value 0 3"])
    }

    @Test func largeAnswer_leavesEarly_withItsProbe() {
        let log = FlakyLog()
        var limits = EngineLimits()
        limits.inlineBytes = 10
        let hub = EngineHarness(root: ["c": "longer than ten bytes"], log: log, limits: limits)
        let client = Client.make()
        _ = hub.ask(.make(), .put("a", 1))
        #expect(hub.ask(client, .get("c")) == [#"value 0 "longer than ten bytes""#, "probe"])
        #expect(hub.ask(client, .drained, .get("c")).count == 2)
    }
}
