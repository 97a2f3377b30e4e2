import HubEngine
import JSONTree
import SecurityRules
import Testing
import TestSupport

/// Kept indexes: what uses, creates and drops them. The tests count sorted and moved children, not time.
@Suite(.timeLimit(.minutes(30))) struct IndexTests {
    @Test(arguments: [4, 3]) func childEventsOfAPlaceWrittenWhole_areFoundBesideTheQueue_whenItIsLarge(inlineChildren: Int) {
        var limits = EngineLimits()
        limits.inlineChildren = inlineChildren
        let hub = EngineHarness(root: ["p": ["a": 1, "b": 1, "c": 1]], limits: limits)
        let (watcher, reader) = (Client.make(), Client.make())
        _ = hub.ask(watcher, .events("p"))
        _ = hub.ask(reader, .listen("p"))
        hub.work.close()
        #expect(hub.ask(.make(), .put("p", ["b": 1, "c": 2, "d": 3, "e": 4])) == ["ok 0"])
        #expect(hub.take(reader).count == 1, "who asks for no events is told at once")
        var told = hub.take(watcher).filter { $0 != "probe" }
        #expect(told.isEmpty == (inlineChildren == 3))
        _ = hub.ask(.make(), .put("p/f", 5))
        hub.work.open()
        told += hub.take(watcher).filter { $0 != "probe" }
        #expect(told == ["removed 1 a 1 -; added 1 d 3 c; added 1 e 4 d; changed 1 c 2 b", "added 1 f 5 e"])
    }

    @Test(arguments: [1_000, 999]) func longStrings_areSortedBesideTheQueue(inlineTextBytes: Int) {
        var limits = EngineLimits()
        limits.inlineTextBytes = inlineTextBytes
        let alike = String(repeating: "x", count: 99)
        let children = (0..<10).map { (Key("k\($0)"), Node.int(Int64($0)).with(priority: .string("\(alike)\(9 - $0)"))) }
        let hub = EngineHarness(root: ["p": .object(children)], limits: limits)
        let first = TreeQuery(index: .priority, limit: 1, viewFrom: .first)
        let told = hub.ask(.make(), .get("p", query: first))
        #expect(told.count == 1 && told[0].contains("k9"))
        var counters = hub.database.counters
        #expect(counters.childrenSortedOnQueue == (inlineTextBytes == 1_000 ? 10 : 0))
        #expect(counters.childrenSorted == (inlineTextBytes == 1_000 ? 0 : 10))
        // The same for a place that is overwritten as a whole under a live query.
        let watcher = Client.make()
        _ = hub.ask(watcher, .observe("p", query: first, style: .patches(tag: 1), hash: ""))
        let before = hub.database.counters
        _ = hub.ask(.make(), .put("p", .object(children.map { ($0.0, $0.1.with(priority: .string("\(alike)\($0.0.string.suffix(1))"))) })))
        let shown = hub.take(watcher)
        #expect(shown.count == 1 && shown[0].contains("k0"))
        counters = hub.database.counters
        #expect(counters.childrenSortedOnQueue - before.childrenSortedOnQueue == (inlineTextBytes == 1_000 ? 10 : 0))
    }

    private static let rules = #"{"rules":{".read":true,".write":true,"k":{".indexOn":["age",".value"]}}}"#

    static func people(_ count: Int, from first: Int = 0) -> Node {
        .object((first..<(first + count)).map { (Key("p\($0)"), ["age": .int(Int64($0 * 7919 % count)), "n": .int(Int64($0))]) })
    }

    private func hub(_ root: Node, _ change: (inout EngineLimits) -> Void = { _ in }) throws -> EngineHarness {
        var limits = EngineLimits()
        limits.inlineChildren = 100
        change(&limits)
        return EngineHarness(rules: try RuleSet(parsing: Self.rules), root: root, limits: limits)
    }

    private func youngest(_ limit: Int, _ index: TreeQuery.Index? = .child("age")) -> TreeQuery {
        TreeQuery(index: index, limit: limit, viewFrom: .first)
    }
    private func listen(_ path: Path, _ query: TreeQuery, tag: Int64 = 1) -> Request {
        .observe(path, query: query, style: .patches(tag: tag), hash: "")
    }

    // MARK: Gets

    @Test func gets_shareOneIndex_builtBesideTheQueue() throws {
        let hub = try hub(["k": Self.people(5_000)])
        for _ in 0..<10 { #expect(hub.ask(.make(), .get("k", query: youngest(2))).count == 1) }
        let counters = hub.database.counters
        #expect(counters.childrenSorted == 5_000)
        #expect(counters.childrenSortedOnQueue == 0)
        #expect(counters.indexes == 1 && counters.indexEntries == 5_000)
    }

    @Test func smallPlace_isSortedOnTheQueue_once() throws {
        let hub = try hub(["k": Self.people(100)])
        for _ in 0..<10 { _ = hub.ask(.make(), .get("k", query: youngest(2))) }
        #expect(hub.database.counters.childrenSortedOnQueue == 100)
        #expect(hub.database.counters.childrenSorted == 0)
    }

    @Test func keptIndex_followsWrites() throws {
        let hub = try hub(["k": Self.people(500)])
        _ = hub.ask(.make(), .get("k", query: youngest(1)))
        _ = hub.ask(.make(), .put("k/new", ["age": -1]), .put("k/p0/age", -2), .put("k/p1", .null))
        #expect(hub.ask(.make(), .get("k", query: youngest(2))) == [#"value 0 {"new":{"age":-1},"p0":{"age":-2,"n":0}}"#])
        #expect(hub.database.counters.childrenSorted == 500)
        #expect(hub.database.counters.indexEntries == 500)
    }

    @Test func writesWhileItIsBuilt_areInTheAnswer() throws {
        let hub = try hub(["k": Self.people(500)])
        hub.work.close()
        let reader = Client.make()
        #expect(hub.ask(reader, .get("k", query: youngest(1)), .get("k/p5/n")) == [], "what the client asks behind it waits")
        #expect(hub.ask(.make(), .put("k/new", ["age": -1]), .get("k/p3/n")) == ["ok 0", "value 1 3"], "others go on")
        hub.work.open()
        #expect(hub.take(reader) == [#"value 0 {"new":{"age":-1}}"#, "value 1 5"])
        #expect(hub.database.counters.childrenSorted == 500)
    }

    @Test func waitingReaders_shareOneBuilding() throws {
        let hub = try hub(["k": Self.people(500)])
        hub.work.close()
        let readers = (0..<5).map { _ in Client.make() }
        for reader in readers { _ = hub.ask(reader, .get("k", query: youngest(1))) }
        #expect(hub.work.waiting == 1)
        _ = hub.ask(readers[4], .end)
        hub.work.open()
        for reader in readers { #expect(hub.take(reader).count == 1) }
    }

    @Test func placeWrittenWhole_whileItIsBuilt_isSortedAgain() throws {
        let hub = try hub(["k": Self.people(500)]) { $0.followedChanges = 50 }
        hub.work.close()
        let reader = Client.make()
        _ = hub.ask(reader, .get("k", query: youngest(1)))
        _ = hub.ask(.make(), .put("k", Self.people(400, from: 1_000)))
        hub.work.open()
        #expect(hub.take(reader).first?.hasPrefix("value 0 {") == true)
        #expect(hub.database.counters.childrenSorted == 900)
    }

    @Test func placeWrittenWholeAgainAndAgain_isUnavailable() throws {
        let hub = try hub(["k": Self.people(500)]) { $0.followedChanges = 50 }
        hub.work.close()
        let reader = Client.make()
        _ = hub.ask(reader, .get("k", query: youngest(1)))
        for round in 1...3 {
            _ = hub.ask(.make(), .put("k", Self.people(500, from: round * 1_000)))
            hub.work.step(hub.work.waiting)
            #expect(hub.take(reader) == (round == 3 ? ["error 0 unavailable"] : []))
        }
        #expect(hub.database.counters.indexes == 0)
    }

    @Test func priorityOrder_isKeptToo_andKeyOrderNeedsNothing() throws {
        let hub = try hub(["other": Self.people(500)])
        for _ in 0..<3 { _ = hub.ask(.make(), .get("other", query: youngest(2, nil))) }
        #expect(hub.database.counters.childrenSorted == 500)
        let range = TreeQuery(index: .key, start: .init(value: "p7"), end: .init(value: "p70"))
        #expect(hub.ask(.make(), .get("other", query: range)).first?.hasPrefix(#"value 0 {"p7":"#) == true)
        #expect(hub.database.counters.childrenSorted == 500 && hub.database.counters.childrenSortedOnQueue == 0)
    }

    @Test func undeclaredOrder_isRefusedAsBefore() throws {
        let hub = try hub(["k": Self.people(500)])
        #expect(hub.ask(.make(), .get("k", query: youngest(1, .child("n")))) == ["error 0 missing_index"])
        #expect(hub.database.counters.childrenSorted == 0)
    }

    // MARK: Large results

    @Test func largeResult_isCollectedBesideTheQueue_andIsCurrent() throws {
        let hub = try hub(["k": Self.people(500)])
        hub.work.close()
        let reader = Client.make()
        _ = hub.ask(reader, .get("k", query: TreeQuery(index: .key, start: .init(value: "p0"))))
        #expect(hub.work.waiting == 1)
        _ = hub.ask(.make(), .put("k/p1", .null), .put("k/p2/n", "now"), .put("k/p9999", 1), .put("k/a", 1))
        hub.work.open()
        var expected = Self.people(500)
        expected.set(.null, at: "p1")
        expected.set("now", at: "p2/n")
        expected.set(1, at: "p9999")
        #expect(hub.take(reader) == ["value 0 \(expected.json)"])
    }

    @Test func revokedWhileItWaited_getsNothing() throws {
        let rules = #"{"rules":{"open":{".write":true},"k":{".read":"root.child('open').val() == 1",".indexOn":"age"}}}"#
        var limits = EngineLimits()
        limits.inlineChildren = 100
        let hub = EngineHarness(rules: try RuleSet(parsing: rules), root: ["open": 1, "k": Self.people(500)], limits: limits)
        hub.work.close()
        let (reader, watcher) = (Client.make(), Client.make())
        _ = hub.ask(reader, .get("k", query: youngest(1)))
        _ = hub.ask(watcher, listen("k", youngest(1)))
        #expect(hub.ask(.make(), .put("open", 0)) == ["ok 0"])
        hub.work.open()
        #expect(hub.take(reader) == ["error 0 permission_denied"])
        #expect(hub.take(watcher) == ["error 0 permission_denied"])
        #expect(hub.database.counters.listens == 0)
    }

    // MARK: Observers

    @Test func firstWindow_isMadeBesideTheQueue_andIsCurrent() throws {
        let hub = try hub(["k": Self.people(500)])
        hub.work.close()
        let watcher = Client.make()
        #expect(hub.ask(watcher, listen("k", youngest(1))) == [])
        _ = hub.ask(.make(), .put("k/new", ["age": -1]))
        hub.work.open()
        #expect(hub.take(watcher) == [#"d k {"new":{"age":-1}}"#, "ok 0"])
        _ = hub.ask(.make(), .put("k/new/age", -2))
        #expect(hub.take(watcher) == ["d k/new/age -2"])
        #expect(hub.database.counters.childrenSortedOnQueue == 0)
    }

    @Test func largePlaceWrittenWhole_isShown_whenItsIndexIsBuiltAnew() throws {
        let hub = try hub(["k": Self.people(500)]) { $0.followedChanges = 50 }
        let (watcher, second) = (Client.make(), Client.make())
        _ = hub.ask(watcher, listen("k", youngest(1)))
        hub.work.close()
        #expect(hub.ask(.make(), .put("k", Self.people(400, from: 1_000)), .put("k/p1001/age", -5)) == ["ok 0", "ok 1"])
        #expect(hub.ask(second, listen("k", youngest(1))) == [])
        #expect(hub.take(watcher) == [], "others need not wait for it")
        hub.work.open()
        let shown = #"d k {"p1001":{"age":-5,"n":1001}}"#
        #expect(hub.take(watcher) == [shown])
        #expect(hub.take(second) == [shown, "ok 0"])
        _ = hub.ask(.make(), .put("k/p1001/age", -6))
        #expect(hub.take(watcher) == ["d k/p1001/age -6"])
        #expect(hub.database.counters.childrenSortedOnQueue == 0)
    }

    @Test func smallPlaceWrittenWhole_isShownAtOnce() throws {
        let hub = try hub(["k": Self.people(500)])
        let watcher = Client.make()
        _ = hub.ask(watcher, listen("k", youngest(1)))
        hub.work.close()
        _ = hub.ask(.make(), .put("k", ["a": ["age": 1], "b": ["age": 0]]))
        #expect(hub.take(watcher) == [#"d k {"b":{"age":0}}"#])
    }

    @Test func suspendedWatcher_isToldTheWindow_afterItsIndexWasBuiltAnew() throws {
        let hub = try hub(["k": Self.people(500)]) { $0.followedChanges = 50 }
        let watcher = Client.make()
        _ = hub.ask(watcher, listen("k", youngest(1)))
        _ = hub.ask(watcher, .congested)
        hub.work.close()
        _ = hub.ask(.make(), .put("k", Self.people(400, from: 1_000)), .put("k/p1001/age", -5))
        hub.work.open()
        #expect(hub.take(watcher) == [])
        #expect(hub.ask(watcher, .drained) == [#"d k {"p1001":{"age":-5,"n":1001}}"#])
    }

    // MARK: The end of an index

    @Test func idleIndex_isDropped_afterItsTime() throws {
        let hub = try hub(["k": Self.people(500)]) { $0.indexIdleMs = 1_000 }
        _ = hub.ask(.make(), .get("k", query: youngest(1)))
        hub.time.advance(ms: 999)
        _ = hub.ask(.make(), .get("k/p1/n"))
        #expect(hub.database.counters.indexes == 1)
        hub.time.advance(ms: 1)
        _ = hub.ask(.make(), .get("k/p1/n"))
        #expect(hub.database.counters.indexes == 0 && hub.database.counters.indexEntries == 0)
    }

    @Test func idleIndex_isDropped_whenRulesNameItNoMore() throws {
        let hub = try hub(["k": Self.people(500)])
        _ = hub.ask(.make(), .get("k", query: youngest(1)), .get("k", query: youngest(1, nil)))
        #expect(hub.database.counters.indexes == 2)
        hub.database.replace(.allowAll)
        _ = hub.ask(.make(), .get("k/p1/n"))
        #expect(hub.database.counters.indexes == 1, "priority order needs no rule")
    }

    @Test func idleIndexes_makeRoom_oldestFirst() throws {
        let rules = #"{"rules":{".read":true,".write":true,"$any":{".indexOn":"age"}}}"#
        var limits = EngineLimits()
        (limits.inlineChildren, limits.indexEntries) = (100, 1_000)
        let hub = EngineHarness(
            rules: try RuleSet(parsing: rules), root: ["a": Self.people(500), "b": Self.people(500), "c": Self.people(500)], limits: limits)
        let client = Client.make()
        for name in ["a", "b", "a"] as [Path] { _ = hub.ask(client, .get(name, query: youngest(1))) }
        #expect(hub.database.counters.indexEntries == 1_000 && hub.database.counters.childrenSorted == 1_000)
        for name in ["c", "a"] as [Path] { _ = hub.ask(client, .get(name, query: youngest(1))) }
        #expect(hub.database.counters.indexEntries == 1_000 && hub.database.counters.childrenSorted == 1_500)
        _ = hub.ask(client, .get("b", query: youngest(1)))
        #expect(hub.database.counters.childrenSorted == 2_000, "b was dropped")
    }

    @Test func withoutRoom_getsAreSortedEach_andObserversRefused() throws {
        let hub = try hub(["k": Self.people(500)]) { $0.indexEntries = 499 }
        for _ in 0..<2 { #expect(hub.ask(.make(), .get("k", query: youngest(1))).first?.hasPrefix("value 0 {") == true) }
        #expect(hub.database.counters.childrenSorted == 1_000 && hub.database.counters.indexes == 0)
        #expect(hub.ask(.make(), listen("k", youngest(1))) == ["error 0 too_big"])
        #expect(hub.ask(.make(), listen("k", youngest(1, nil))) == ["error 0 too_big"])
        #expect(hub.ask(.make(), listen("k", youngest(1, .key))).last == "ok 0")
        let roomy = try self.hub(["k": Self.people(500)]) { $0.indexEntries = 500 }
        #expect(roomy.ask(.make(), listen("k", youngest(1))).last == "ok 0")
    }

    @Test func answerSortedForItself_isCurrent() throws {
        let hub = try hub(["k": Self.people(500)]) { $0.indexEntries = 499 }
        hub.work.close()
        let reader = Client.make()
        _ = hub.ask(reader, .get("k", query: youngest(200)))
        _ = hub.ask(.make(), .put("k/new", ["age": -1]))
        hub.work.step()
        _ = hub.take(reader)
        _ = hub.ask(.make(), .put("k/new2", ["age": -2]), .put("k/new/age", 1_000_000))
        hub.work.open()
        let line = hub.take(reader).first ?? ""
        #expect(line.contains("new2") && !line.contains(#""new":"#))
    }

    // MARK: Orders that no rule names

    @Test func unindexedListen_isServedUpToALimit() throws {
        let hub = try hub(["at": Self.people(200), "over": Self.people(201)]) { $0.unindexedChildren = 200 }
        #expect(hub.ask(.make(), listen("at", youngest(1))).last == "ok 0 no_index")
        #expect(hub.ask(.make(), listen("over", youngest(1))) == ["error 0 missing_index"])
        #expect(hub.ask(.make(), listen("over", youngest(1, nil))).last == "ok 0", "priority order needs no rule")
        #expect(hub.ask(.make(), listen("over", youngest(1, .key))).last == "ok 0")
    }

    @Test func unindexedOrder_goesWithItsLastObserver() throws {
        let hub = try hub(["at": Self.people(200)])
        let (one, other) = (Client.make(), Client.make())
        _ = hub.ask(one, listen("at", youngest(1)))
        _ = hub.ask(other, listen("at", youngest(2)))
        _ = hub.ask(one, .end)
        #expect(hub.database.counters.indexes == 1)
        _ = hub.ask(other, .end)
        #expect(hub.database.counters.indexes == 0 && hub.database.counters.indexEntries == 0)
    }

    @Test func everNewOrders_areRefusedByPlace() throws {
        let hub = try hub(["at": Self.people(10)]) { $0.unindexedOrders = 3 }
        let answers = (0..<5).map { hub.ask(.make(), listen("at", youngest(1, .child(Path([Key("c\($0)")]))))).last }
        #expect(answers == ["ok 0 no_index", "ok 0 no_index", "ok 0 no_index", "error 0 missing_index", "error 0 missing_index"])
        #expect(hub.ask(.make(), listen("at", youngest(2, .child("c0")))).last == "ok 0 no_index", "one that is there")
    }

    /// Clients of one owner: a connection, a user, or an address of strangers or guests.
    private func clients(_ address: String?, _ auth: Node = .null) -> Client {
        let client = Client(lane: 0, dialect: .realtime, identity: Identity(auth: auth))
        client.address = address
        return client
    }
    private static func guest(_ uid: String) -> Node { ["uid": .string(Text(uid)), "provider": "anonymous"] }

    @Test func everNewOrders_ofOneOwner_leaveOthersTheirs() throws {
        func order(_ name: String) -> Request { listen("at", youngest(1, .child(Path([Key(name)])))) }
        func answers(_ hub: EngineHarness, _ name: String, _ make: (Int) -> Client) -> Int {
            (0..<60).count { hub.ask(make($0), order("\(name)\($0)")).last == "ok 0 no_index" }
        }
        let hub = try hub(["at": Self.people(20)])
        let one = clients(nil)
        #expect(answers(hub, "a") { _ in one } == 6, "of a connection")
        #expect(answers(hub, "b") { _ in clients("192.0.2.1") } == 6, "of an address")
        #expect(answers(hub, "c") { clients("192.0.2.1", Self.guest("g\($0)")) } == 0, "a guest's address is the strangers'")
        #expect(answers(hub, "d") { clients("192.0.2.\(2 + $0)", Self.guest("g")) } == 6, "one guest at many addresses")
        #expect(answers(hub, "e") { _ in clients("192.0.2.99", ["uid": "u", "provider": "password"]) } == 6, "of a user")
        #expect(hub.ask(clients("192.0.2.99", ["uid": "v", "provider": "password"]), order("v")).last == "ok 0 no_index")
    }

    /// Strangers from all addresses together leave a quarter to users with an account. An IPv6 network has four times the share of an address.
    @Test func everNewOrders_ofManyStrangers_leaveUsersTheirs() throws {
        func order(_ name: String) -> Request { listen("at", youngest(1, .child(Path([Key(name)])))) }
        let hub = try hub(["at": Self.people(20)]) { $0.unindexedOrders = 80 }
        func answers(_ name: String, _ address: (Int) -> String) -> Int {
            (0..<60).count { hub.ask(clients(address($0)), order("\(name)\($0)")).last == "ok 0 no_index" }
        }
        #expect(answers("n") { "20010db80000\(1_000 + $0)/64" } == 40, "a network, of which each address has 10")
        #expect(answers("s") { "192.0.2.\($0)" } == 20, "all strangers have 60")
        #expect(hub.ask(clients("192.0.2.1", ["uid": "u", "provider": "password"]), order("mine")).last == "ok 0 no_index")
    }

    /// An order counts once, for one owner, however many clients observe it.
    @Test func oneOrder_ofMany_countsOnce() throws {
        let hub = try hub(["at": Self.people(20)])
        func user(_ uid: String) -> Client { clients("192.0.3.1", ["uid": .string(Text(uid)), "provider": "password"]) }
        func order(_ name: String) -> Request { listen("at", youngest(1, .child(Path([Key(name)])))) }
        func observes(_ client: Client, _ name: String) -> Bool { hub.ask(client, order(name)).last == "ok 0 no_index" }
        let (connections, strangers) = ((0..<9).map { _ in user("u") }, (0..<60).map { clients("192.0.2.\($0)") })
        #expect(connections.count { observes($0, "shared") } == 9)
        #expect(strangers.count { observes($0, "shared") } == 60)
        let (maker, other) = (user("maker"), user("other"))
        #expect((0..<7).count { observes(maker, "m\($0)") } == 6)
        #expect((0..<6).count { observes(other, "m\($0)") } == 6, "the maker is charged")
        #expect((0..<7).count { observes(other, "o\($0)") } == 6)
        _ = hub.ask(maker, .end)
        _ = hub.ask(other, .unobserve("at", style: .patches(tag: 1)))
        #expect((0..<7).count { observes(user("maker"), "n\($0)") } == 6, "nothing is left of what has ended")
        for connection in connections { _ = hub.ask(connection, .end) }
        let own = strangers.enumerated().count { observes($0.element, "s\($0.offset)") }
        #expect(own == 37, "all strangers have 38, with the shared one, which is theirs now")
    }

    /// An order whose owner leaves it is charged to another client that observes it.
    @Test func orderThatIsLeft_isChargedToWhoObservesIt() throws {
        let hub = try hub(["at": Self.people(20)])
        func user(_ uid: String) -> Client { clients("192.0.3.1", ["uid": .string(Text(uid)), "provider": "password"]) }
        func observes(_ client: Client, _ name: String, tag: Int64) -> Bool {
            hub.ask(client, listen("at", youngest(1, .child(Path([Key(name)]))), tag: tag)).last == "ok 0 no_index"
        }
        let (maker, other) = (user("maker"), user("other"))
        #expect((0..<4).allSatisfy { observes(maker, "m\($0)", tag: Int64($0)) && observes(other, "m\($0)", tag: Int64($0)) })
        _ = hub.ask(maker, .end)
        #expect((4..<8).count { observes(other, "o\($0)", tag: Int64($0)) } == 2, "four and two")
        for tag in 0..<4 { _ = hub.ask(other, .unobserve("at", style: .patches(tag: Int64(tag)))) }
        #expect((8..<16).count { observes(other, "p\($0)", tag: Int64($0)) } == 4)
    }

    @Test func unindexedOrders_areCountedByOwner() throws {
        let hub = try hub(["a": Self.people(150), "b": Self.people(150), "c": Self.people(50)]) { $0.unindexedEntriesOfOwner = 350 }
        func client(_ address: String, _ uid: String? = nil) -> Client {
            let client = Client(lane: 0, dialect: .realtime, identity: uid.map { Identity(auth: ["uid": .string(Text($0))]) } ?? .anonymous)
            client.address = address
            return client
        }
        let one = client("1")
        #expect(hub.ask(one, listen("a", youngest(1)), listen("b", youngest(1)), listen("c", youngest(1))).last == "error 2 missing_index",
            "150 + 150 + 100")
        #expect(hub.ask(one, listen("a", youngest(2), tag: 2)).last == "ok 0 no_index", "the same order again costs nothing")
        #expect(hub.ask(client("1"), listen("c", youngest(1))) == ["error 0 missing_index"], "the same address")
        #expect(hub.ask(client("2"), listen("c", youngest(1))).last == "ok 0 no_index")
        let oldest = TreeQuery(index: .child("id"), limit: 1)
        #expect(hub.ask(client("1", "u"), listen("a", oldest), listen("b", oldest)).last == "ok 1 no_index", "a user counts for itself")
        #expect(hub.ask(client("3", "u"), listen("c", oldest)) == ["error 0 missing_index"], "wherever it comes from")
        #expect(hub.ask(client("3", "u"), listen("c", youngest(1))).last == "ok 0 no_index", "one that is there")
        _ = hub.ask(one, .unobserve("a", style: .patches(tag: 1)), .unobserve("a", style: .patches(tag: 2)))
        #expect(hub.ask(one, listen("c", youngest(1), tag: 9)).last == "ok 0 no_index")
    }

    @Test func outgrownMemory_endsUnindexedObservers_andNoOthers() throws {
        let hub = try hub(["k": Self.people(150), "u": Self.people(120)]) { ($0.indexEntries, $0.unindexedChildren) = (400, 150) }
        let (declared, undeclared) = (Client.make(), Client.make())
        _ = hub.ask(declared, listen("k", youngest(1)))
        _ = hub.ask(undeclared, listen("u", youngest(1)))
        _ = hub.ask(.make(), .merge(["u/x1": ["age": 1_000]]))
        #expect(hub.take(undeclared) == [])
        _ = hub.ask(.make(), .write((0..<200).map { TreeWrite(Path([Key("u"), Key("y\($0)")]), WriteValue(["age": 1_000])) }))
        #expect(hub.take(undeclared) == ["cancelled /u"])
        #expect(hub.database.counters.indexEntries == 150)
        _ = hub.ask(.make(), .put("k/new", ["age": -1]))
        #expect(hub.take(declared).count == 1)
    }

    // MARK: What a write costs

    @Test func queriesForOneValue_areFoundByIt() throws {
        let hub = try hub(["k": Self.people(100)])
        let watchers = (0..<300).map { _ in Client.make() }
        for (i, watcher) in watchers.enumerated() {
            let value = TreeQuery.Bound(value: .int(Int64(i)))
            _ = hub.ask(watcher, listen("k", TreeQuery(index: .child("age"), start: value, end: value)))
            _ = hub.take(watcher)
        }
        let before = hub.database.counters.windowsMoved
        _ = hub.ask(.make(), .put("k/p0/age", 250))
        #expect(hub.database.counters.windowsMoved - before == 2)
        #expect(hub.take(watchers[0]).count == 1 && hub.take(watchers[250]).count == 1 && hub.take(watchers[7]).isEmpty)
    }

    @Test func listensWithTheSameQuery_shareOneComputation() throws {
        let hub = try hub(["k": Self.people(100)])
        for tag in 1...50 { _ = hub.ask(.make(), listen("k", youngest(2), tag: Int64(tag))) }
        let before = hub.database.counters.windowsMoved
        _ = hub.ask(.make(), .put("k/p0/age", -1))
        #expect(hub.database.counters.windowsMoved - before == 1)
    }
}
