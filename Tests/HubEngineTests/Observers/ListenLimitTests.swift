import Dispatch
import Glibc
import HubEngine
import JSONTree
import LiveQueries
import SecurityRules
import Testing

/// The number of observers: each limit from both sides, and how many end at once.
@Suite(.timeLimit(.minutes(30))) struct ListenLimitTests {
    private func hub(_ change: (inout EngineLimits) -> Void) -> EngineHarness {
        var limits = EngineLimits()
        change(&limits)
        return EngineHarness(root: ["a": 1, "b": 2, "c": 3], limits: limits)
    }

    private func client(_ address: String? = nil, _ identity: Identity = .anonymous) -> Client {
        let client = Client(lane: 0, dialect: .realtime, identity: identity)
        client.address = address
        return client
    }

    private func user(_ uid: String) -> Identity { Identity(auth: ["uid": .string(Text(uid))]) }

    @Test func listens_ofAConnection() {
        let hub = hub { $0.listens = 2 }
        let one = client()
        #expect(hub.ask(one, .listen("a"), .listen("b"), .listen("c")).last == "error 2 too_big")
        #expect(hub.ask(one, .listen("a")).last == "ok 0", "one that is there is no more")
        _ = hub.ask(.make(), .put("b", 5))
        #expect(hub.take(one) == ["d b 5"], "the others stay")
        #expect(hub.ask(one, .unlisten("a"), .listen("c")).last == "ok 1")
        #expect(hub.ask(.make(), .listen("a")).last == "ok 0")
        #expect(hub.database.counters.listens == 3)
    }

    @Test func listens_ofAnAddress_andOfAUser() {
        let hub = hub { $0.listensOfOwner = 2 }
        #expect(hub.ask(client("1"), .listen("a")).last == "ok 0")
        let second = client("1")
        #expect(hub.ask(second, .listen("a"), .listen("b")).last == "error 1 too_big")
        #expect(hub.ask(client("2"), .listen("a")).last == "ok 0")
        #expect(hub.ask(second, .identify(user("u")), .listen("b"), .listen("c")).suffix(1) == ["error 2 too_big"],
            "its observers came along")
        #expect(hub.ask(client("1"), .listen("a"), .listen("b")).last == "error 1 too_big", "the address has the first one's left")
        #expect(hub.ask(client("9", user("u")), .listen("c")) == ["error 0 too_big"])
        #expect(hub.ask(client("9", .admin), .listen("a"), .listen("b"), .listen("c")).last == "ok 2", "an administrator counts for itself")
        _ = hub.ask(second, .end)
        #expect(hub.ask(client("9", user("u")), .listen("c")).last == "ok 0")
    }

    /// Anyone can create guest accounts, so they count as their address. A customer of a provider with 65,536 networks counts as one network.
    @Test func listens_ofGuests_andOfANetwork() {
        let hub = hub { ($0.listensOfOwner, $0.listensOfNamespace) = (2, 20) }
        func guest(_ number: Int) -> Identity { Identity(auth: ["uid": .string(Text("g\(number)")), "provider": "anonymous"]) }
        func listening(_ make: (Int) -> Client) -> Int { (0..<20).count { hub.ask(make($0), .listen("a")).last == "ok 0" } }
        #expect(listening { client("192.0.2.1", guest($0)) } == 2)
        #expect(listening { client("192.0.3.\($0)", guest(99)) } == 2, "one guest, wherever it is")
        #expect(listening { client("20010db80000\(1_000 + $0)/64") } == 8)
        #expect(listening { client("192.0.4.\($0)") } == 3, "all strangers have 15 of 20")
        #expect(hub.ask(client("192.0.2.1", user("u")), .listen("a")).last == "ok 0")
        #expect(hub.ask(client(nil), .listen("a")).last == "ok 0", "this machine's own")
    }

    // MARK: What live queries hold

    /// `count` open children `k0`, … with their number as `n`, within 1 km of the centre.
    private static func children(_ count: Int) -> Node {
        .object(
            (0..<count).map { i in
                let at: Node = ["lat": .number(37.97 + Double(i) / 1_000_000), "lng": 23.73]
                return (Key("k\(i)"), ["open": true, "n": .int(Int64(i)), "at": at])
            })
    }
    private static let rules = #"""
        {"rules":{".read":true,".write":true,"p":{".indexOn":"n",".geoIndex":{"lat":"at/lat","lng":"at/lng"}}}}
        """#

    private func hub(of children: Int, _ change: (inout EngineLimits) -> Void) throws -> EngineHarness {
        var limits = EngineLimits()
        change(&limits)
        return EngineHarness(rules: try RuleSet(parsing: Self.rules), root: ["p": Self.children(children)], limits: limits)
    }

    private func observe(_ query: Query, _ id: Int64 = 0) -> Request {
        .observe("p", query: query, style: .events(id: id, kinds: [.added]), hash: "")
    }

    /// The open children whose number is at least `number`.
    private func open(from number: Int, limit: Int? = nil) throws -> Query {
        let isOpen = Condition("open", .equal(try #require(Constant(.bool(true)))))
        let isLater = Condition("n", .above(try #require(Constant(.int(Int64(number)))), orEqual: true))
        return try Query(
            TreeQuery(index: limit == nil ? .key : .child("n"), limit: limit, viewFrom: limit == nil ? nil : .first),
            where: Filter([isOpen, isLater]))
    }

    /// A circle that contains all children, or lies far from them.
    private func circle(
        _ metres: Double, _ tree: TreeQuery = TreeQuery(index: nil), where filter: Filter = .all, latitude: Double = 37.97
    ) throws -> Query {
        let centre = try #require(GeoPoint(latitude: latitude, longitude: 23.73))
        return try Query(tree, where: filter, near: NearQuery(centre: centre, metres: metres, limit: nil))
    }

    /// A query is charged once for the children its view holds, to an owner that observes it.
    @Test func heldChildren_areChargedOnce() throws {
        let hub = try hub(of: 80) { ($0.liveQueryChildren, $0.liveQueryChildrenOfAll) = (100, 1_000) }
        func answer(_ client: Client, _ number: Int) throws -> String? {
            hub.ask(client, observe(try open(from: number), Int64(number))).first
        }
        let (one, same, other) = (client("192.0.2.1"), client("192.0.2.1"), client("192.0.2.2"))
        let first = try [0, 1, 2, 3].map { try answer(one, $0) }
        #expect(first == ["ok 0", "ok 0", "ok 0", "error 0 unavailable"], "80 + 79 + 78 of 250, and 77")
        #expect(try [70, 78, 0].map { try answer(same, $0) } == ["ok 0", "ok 0", "ok 0"], "10 and 2 more, and one that is there")
        #expect(try answer(same, 77) == "error 0 unavailable")
        #expect(try [1, 2, 70, 3, 4, 5].map { try answer(other, $0) } == Array(repeating: "ok 0", count: 6), "77 + 76 + 75 of its own")
        #expect(try answer(other, 50) == "error 0 unavailable")
        _ = hub.ask(one, .unobserveID(0))
        #expect(try answer(same, 77) == "error 0 unavailable", "the same address observes it still")
        _ = hub.ask(same, .unobserveID(0))
        #expect(try answer(same, 77) == "ok 0", "nobody does")
        _ = hub.ask(other, .end)
        #expect(try answer(client("192.0.2.2"), 3) == "ok 0", "nothing is left")
        for client in [one, same] { _ = hub.ask(client, .end) }
        #expect(try [0, 1, 2].map { try answer(client("192.0.2.1"), $0) } == ["ok 0", "ok 0", "ok 0"])
    }

    @Test func sharedView_ofManyObservers_isChargedOnce() throws {
        let hub = try hub(of: 80) { ($0.liveQueryChildren, $0.liveQueryChildrenOfAll) = (100, 400) }
        let visitors = (0..<60).map { client("192.0.2.\($0)") }
        #expect(try visitors.map { hub.ask($0, observe(try open(from: 0))).first } == Array(repeating: "ok 0", count: 60))
        #expect(hub.database.counters.listens == 121, "two for an observer with two conditions, and one for the view")
        for visitor in visitors { _ = hub.ask(visitor, .end) }
        #expect(hub.database.counters.listens == 0)
    }

    @Test func heldChildren_areChargedAsTheyGrow() throws {
        let hub = try hub(of: 0) { ($0.liveQueryChildren, $0.liveQueryChildrenOfAll) = (200, 1_000) }
        let one = client("192.0.2.1")
        #expect(hub.ask(one, observe(try open(from: 0), 0)).first == "ok 0")
        _ = hub.ask(.make(), .put("p", Self.children(150)))
        #expect(hub.take(one).count > 0)
        #expect(hub.ask(one, observe(try open(from: 49), 49)).first == "error 0 unavailable", "150 and 101 of 250")
        #expect(hub.ask(one, observe(try open(from: 50), 50)).first == "ok 0")
        _ = hub.ask(.make(), .put("p", Self.children(60)))
        #expect(hub.ask(one, observe(try open(from: 0, limit: 5), 5)).first == "ok 0", "60, 10 and 60")
        #expect(hub.ask(one, observe(try open(from: 1), 1)).first == "ok 0", "59 more")
        #expect(hub.ask(one, observe(try open(from: 2), 2)).first == "ok 0", "58 more")
        #expect(hub.ask(one, observe(try open(from: 53), 53)).first == "error 0 unavailable", "247, and 7 more")
    }

    /// A view that takes over children from another is charged for them, also when the other has ended.
    @Test func heldChildren_thatChangeViews() throws {
        let hub = try hub(of: 60) { ($0.liveQueryChildren, $0.liveQueryChildrenOfAll) = (100, 280) }
        let one = client("192.0.2.1")
        let below = Condition("n", .below(try #require(Constant(.int(100))), orEqual: false))
        #expect(hub.ask(one, observe(try Query(where: Filter([below])), 1)).first == "ok 0")
        #expect(hub.ask(one, observe(try open(from: 100), 2)).first == "ok 0")
        for i in 0..<60 { _ = hub.ask(.make(), .put(Path(["p", Key("k\(i)"), "n"]), .int(Int64(100 + i)))) }
        _ = hub.ask(one, .unobserveID(1))
        #expect(hub.ask(one, observe(try open(from: 145), 3)) == ["error 0 unavailable"], "60 and 15 of 70")
    }

    /// A circle in an order that no rule declares holds all matching children, whatever its limit.
    @Test func heldChildren_ofCircles() throws {
        let isOpen = try #require(Constant(.bool(true)))
        let all = Filter([Condition("open", .equal(isOpen))])
        let unnamed = TreeQuery(index: .child("x"), limit: 1, viewFrom: .first)
        let circles: [(Double) throws -> Query] = [{ try self.circle($0, unnamed) }, { try self.circle($0, where: all) }]
        for circle in circles {
            let hub = try hub(of: 150) {
                ($0.liveQueryChildren, $0.liveQueryChildrenOfAll, $0.inlineChildren) = (200, 1_000, 20)
            }
            let one = client("192.0.2.1")
            #expect(hub.ask(one, observe(try circle(1_000), 1)).first == "ok 0")
            #expect(hub.ask(one, observe(try circle(1_001), 2)).first == "error 0 unavailable", "150 and 150 of 250")
            #expect(hub.ask(client("192.0.2.1"), observe(try circle(1_000), 1)).first == "ok 0")
            #expect(hub.ask(one, observe(try self.circle(1_001), 2)).first == "ok 0", "nothing is held of a circle without conditions")
        }
    }

    @Test func heldChildren_ofCirclesThatMove() throws {
        let hub = try hub(of: 150) { ($0.liveQueryChildren, $0.liveQueryChildrenOfAll) = (200, 1_000) }
        let (one, unnamed) = (client("192.0.2.1"), TreeQuery(index: .child("x"), limit: 1, viewFrom: .first))
        for id in 1...3 { #expect(hub.ask(one, observe(try circle(1_000 + Double(id), unnamed, latitude: 10), Int64(id))).first == "ok 0") }
        let there = try #require(GeoPoint(latitude: 37.97, longitude: 23.73))
        #expect(hub.ask(one, .move(1, to: .centre(there))).contains("ok 0"))
        #expect(hub.ask(one, .move(2, to: .centre(there))) == ["error 0 unavailable"])
        _ = hub.ask(one, .unobserveID(1))
        #expect(hub.ask(one, .move(2, to: .centre(there))).contains("ok 0"), "it went on where it was")
    }

    /// A polygon weighs more than a box, also where another client observes it already.
    @Test func weightOfRegions_countsWhereAnObserverMovesToASharedView() throws {
        let hub = try hub(of: 3) { $0.listens = 20 }
        let (one, other) = (client("192.0.2.1"), client("192.0.2.2"))
        // Weighs 16: 1,000 points.
        let ring = (0..<GeoPolygon.mostPoints).map { i in
            let angle = Double(i) / Double(GeoPolygon.mostPoints) * 2 * Double.pi
            return (latitude: 10 + sin(angle), longitude: 10 + cos(angle))
        }
        let polygon = WithinQuery(.region(.polygon(try GeoPolygon(ring))))
        func box(_ id: Int64) throws -> WithinQuery { try WithinQuery(text: "\(id),1,50,2") }
        func observing(_ region: WithinQuery, _ id: Int64) throws -> Request { observe(try Query(TreeQuery(index: nil), within: region), id) }
        #expect(hub.ask(other, try observing(polygon, 1)).first == "ok 0")
        for id in 1...3 as ClosedRange<Int64> { #expect(hub.ask(one, try observing(box(id), id)).first == "ok 0") }
        let before = hub.database.counters.listens
        #expect(hub.ask(one, .move(1, to: .within(polygon))) == ["error 0 too_big"], "3 views, 2 boxes and 16 of 20")
        #expect(hub.database.counters.listens == before)
        _ = hub.ask(one, .unobserveID(3))
        #expect(hub.ask(one, .move(1, to: .within(polygon))).contains("ok 0"), "2 views, a box and 16")
        #expect(hub.ask(one, try observing(box(4), 4)).first == "ok 0", "2 views, 2 boxes and 16")
        #expect(hub.ask(one, try observing(box(5), 5)) == ["error 0 too_big"])
        #expect(hub.ask(one, .move(1, to: .within(try box(6)))).contains("ok 0"))
        #expect(hub.ask(one, try observing(box(5), 5)).first == "ok 0", "the polygon's weight is free again")
    }

    /// Limits come from clients, so no arithmetic is done with one before it is compared.
    @Test(arguments: [1 << 62, Int.max - 1, Int.max]) func largestLimits(limit: Int) throws {
        let hub = try hub(of: 3) { $0.liveQueryChildren = 100 }
        let one = client("192.0.2.1")
        for order in [TreeQuery.Index.child("n"), .child("x"), .key] {
            for side in [TreeQuery.Side.first, .last] {
                let tree = TreeQuery(index: order, limit: limit, viewFrom: side)
                let isOpen = try #require(Constant(.bool(true)))
                for live in [try circle(1_000, tree), try Query(tree, where: Filter([Condition("open", .equal(isOpen))]))] {
                    let query = live
                    #expect(hub.ask(one, observe(live)) == ["error 0 too_big"])
                    #expect(hub.ask(one, .observe("p", query: query, style: .countStream, hash: "")) == ["error 0 too_big"])
                    #expect(hub.ask(one, .get("p", query: query), .count("p", query: query)) == ["error 0 too_big", "error 1 too_big"])
                    #expect(hub.ask(one, .explained(.get("p", query: query))) == ["error 0 too_big"])
                }
                let window = Request.observe("p", query: Query(tree), style: .events(id: 1, kinds: [.added]), hash: "")
                #expect(hub.ask(one, window, .unobserveID(1)).filter { $0.hasPrefix("error") } == [])
                let answer = order == .child("x") ? "error 0 missing_index" : "value 0"
                #expect(hub.ask(one, .get("p", query: Query(tree))).first?.hasPrefix(answer) == true)
            }
        }
    }

    @Test func listens_ofANamespace() {
        let hub = hub { $0.listensOfNamespace = 2 }
        let one = client()
        #expect(hub.ask(one, .listen("a"), .listen("b")).last == "ok 1")
        #expect(hub.ask(client(), .listen("c")) == ["error 0 too_big"])
        _ = hub.ask(one, .unlisten("a"))
        #expect(hub.ask(client(), .listen("c")).last == "ok 0")
    }

    @Test func listens_ofAConnectionAtOnePlace() {
        let hub = hub { $0.listensAtPlace = 2 }
        let one = client()
        func listen(_ limit: Int) -> Request {
            .observe("a", query: TreeQuery(index: .key, limit: limit), style: .patches(tag: Int64(limit)), hash: "")
        }
        #expect(hub.ask(one, listen(1), listen(2), listen(3)).last == "error 2 too_big")
        #expect(hub.ask(one, .listen("b")).last == "ok 0")
        #expect(hub.ask(client(), listen(3)).last == "ok 0")
    }

    @Test func texts_ofAQuery() {
        let hub = hub { $0.queryBytes = 100 }
        let one = client()
        func bound(_ count: Int, key: Key? = nil) -> TreeQuery.Bound {
            TreeQuery.Bound(value: .string(Text(String(repeating: "x", count: count))), key: key)
        }
        func listen(_ query: TreeQuery) -> Request { .observe("a", query: query, style: .patches(tag: 1), hash: "") }
        let within = TreeQuery(start: bound(40), end: bound(50, key: "0123456789"))
        let beyond = TreeQuery(start: bound(40), end: bound(50, key: "0123456789a"))
        #expect(hub.ask(one, listen(within), .get("a", query: within)).filter { $0.hasPrefix("error") } == [])
        #expect(hub.ask(one, listen(beyond), .get("a", query: beyond)) == ["error 0 too_big", "error 1 too_big"])
        #expect(hub.ask(one, listen(TreeQuery(index: .child(Path([Key(String(repeating: "o", count: 100))])), limit: 1)))
            == ["error 0 too_big"])
        #expect(hub.database.counters.listens == 1, "nothing is kept of what was refused")
    }

    @Test(arguments: [100, 10_000]) func queriesOfAPlaceWrittenWhole_collectBesideTheQueue_whatIsBeyondTheRoom(windowsAtOnce: Int) {
        let hub = hub { $0.windowsAtOnce = windowsAtOnce }
        let clients = (0..<30).map { _ in client() }
        for (i, one) in clients.enumerated() {
            _ = hub.ask(one, .observe("p", query: TreeQuery(index: .key, limit: 20 + i), style: .patches(tag: 1), hash: ""))
        }
        hub.work.close()
        _ = hub.ask(client(), .put("p", .object((0..<100).map { (Key("k\(100 + $0)"), 1) })))
        var told = clients.map { hub.take($0).filter { $0 != "probe" } }
        let atOnce = told.count { !$0.isEmpty }
        #expect(windowsAtOnce == 100 ? (2...4).contains(atOnce) : atOnce == 30)
        _ = hub.ask(client(), .put("p/k199", 2))
        hub.work.open()
        for (i, one) in clients.enumerated() {
            told[i] += hub.take(one).filter { $0 != "probe" }
            let shown = (80 - i..<100).map { #""k\#(100 + $0)":1"# }.joined(separator: ",")
            #expect(told[i] == ["d p {\(shown)}", "d p/k199 2"], "as it was then, and in order")
        }
    }

    @Test func whoWritesAPlaceWhole_seesItBeforeTheAnswer_whereverItIsCollected() {
        let hub = hub { $0.windowsAtOnce = 0 }
        let writer = client()
        _ = hub.ask(writer, .observe("p", query: TreeQuery(index: .key, limit: 2), style: .patches(tag: 1), hash: ""))
        hub.work.close()
        #expect(hub.ask(writer, .put("p", ["a": 1, "b": 2, "c": 3])) == [])
        hub.work.open()
        #expect(hub.take(writer).filter { $0 != "probe" } == [#"d p {"b":2,"c":3}"#, "ok 0"])
    }

    @Test func whatASlowReaderMissed_isCollectedBesideTheQueueAsWell() {
        let hub = hub { $0.windowsAtOnce = 0 }
        let slow = client()
        _ = hub.ask(slow, .observe("p", query: TreeQuery(index: .key, limit: 2), style: .patches(tag: 1), hash: ""), .congested)
        hub.work.close()
        _ = hub.ask(client(), .put("p", ["a": 1, "b": 2, "c": 3]))
        #expect(hub.ask(slow, .drained).filter { $0 != "probe" } == [])
        _ = hub.ask(client(), .put("p/c", 4))
        hub.work.open()
        var told = hub.take(slow)
        #expect(told.filter { $0 != "probe" } == [#"d p {"b":2,"c":3}"#])
        told = hub.ask(slow, .drained).filter { $0 != "probe" }
        #expect(told == [#"d p {"b":2,"c":4}"#], "what was written meanwhile comes when it has taken that")
    }

    @Test func deepListens_countMore() {
        let hub = hub { $0.listens = 4 }
        func place(_ depth: Int) -> Path { Path((0..<depth).map { Key("d\($0)") }) }
        let one = client()
        #expect(hub.ask(one, .listen(place(7)), .listen(place(8)), .listen(place(15))).last == "error 2 too_big", "1 + 2 + 2")
        #expect(hub.ask(one, .listen(place(6))).last == "ok 0", "the fourth")
        #expect(hub.ask(client(), .listen(place(24)), .listen("a")).last == "error 1 too_big")
        _ = hub.ask(one, .end)
        #expect(hub.database.counters.listens == 4)
    }

    /// Keys have up to 768 bytes, queries 8 KiB: their bytes are charged.
    @Test func longNamesAndQueries_countMore() {
        let hub = hub { $0.listens = 4 }
        func place(_ name: String, _ bytes: Int) -> Path { Path([Key(name), Key(String(repeating: "k", count: bytes - 3)), "zz"]) }
        let one = client()
        #expect(hub.ask(one, .listen(place("a", 1_023)), .listen(place("b", 1_024))).last == "ok 1", "1 + 2")
        #expect(hub.ask(one, .listen(place("c", 1_024))).last == "error 0 too_big")
        #expect(hub.ask(one, .listen(place("c", 1_023))).last == "ok 0", "the fourth")
        let other = client()
        let query = TreeQuery(index: .value, start: .init(value: .string(String(repeating: "x", count: 4_000))))
        #expect(hub.ask(other, .observe("d", query: query, style: .patches(tag: 1), hash: ""), .listen("e")).last == "error 1 too_big")
        _ = hub.ask(one, .end)
        _ = hub.ask(other, .end)
        #expect(hub.database.counters.listens == 0)
    }

    @Test func longNames_countMore_inTheNamespace() {
        let hub = hub { $0.observedPlaces = 4 }
        let (one, long) = (client(), Path([Key(String(repeating: "k", count: 512))]))
        #expect(hub.ask(one, .listen(long), .listen("d")).last == "error 1 too_big", "the root and three")
        _ = hub.ask(one, .unlisten(long))
        #expect(hub.ask(one, .listen("a/b"), .listen("d")).last == "ok 1")
    }

    @Test func places_ofANamespace() {
        let hub = hub { $0.observedPlaces = 4 }
        let one = client()
        #expect(hub.ask(one, .listen("a/b/c"), .listen("d")).last == "error 1 too_big", "the root and three")
        _ = hub.ask(one, .unlisten("a/b/c"))
        #expect(hub.ask(one, .listen("a/b"), .listen("d")).last == "ok 1")
    }

    @Test func refusedByRules_isNotCounted() throws {
        let hub = EngineHarness(rules: try RuleSet(parsing: #"{"rules":{"a":{".read":"data.exists()",".write":true}}}"#), root: ["a": 1])
        let one = client("1")
        #expect(hub.ask(one, .listen("b")) == ["error 0 permission_denied"])
        _ = hub.ask(one, .listen("a"))
        #expect(hub.database.counters.listens == 1)
        _ = hub.ask(.make(), .put("a", .null))
        #expect(hub.take(one) == ["cancelled /a"])
        #expect(hub.database.counters.listens == 0)
    }

    // MARK: Ends

    @Test func manyObservers_endInSlices_betweenWhichOthersGetTheirTurn() {
        let hub = hub { $0.removalsAtOnce = 10 }
        let (one, other) = (client(), client())
        for i in 0..<35 { _ = hub.ask(one, .listen(Path([Key("p\(i)")]))) }
        _ = hub.ask(one, .onDisconnect([TreeWrite("gone", WriteValue(true))]))
        hub.database.queue.sync {
            // After the end, before the slices.
            _ = hub.database.submit(.end, from: one)
        }
        #expect(hub.ask(other, .get("gone")) == ["value 0 true"], "what it leaves behind is written at once")
        // Each turn of the queue is one slice.
        for _ in 0..<6 { hub.settle() }
        #expect(hub.database.counters.listens == 0)
        #expect(hub.take(one) == [])
    }

    @Test func endTakenBack_leavesTheObservers() {
        var limits = EngineLimits()
        limits.removalsAtOnce = 2
        let log = FlakyLog()
        let hub = EngineHarness(root: .null, log: log, limits: limits)
        let one = client()
        for i in 0..<7 { _ = hub.ask(one, .listen(Path([Key("p\(i)")]))) }
        hub.database.queue.sync {
            _ = hub.database.submit(.put("x", 1), from: client())
            _ = hub.database.submit(.end, from: one)
        }
        for _ in 0..<2 { hub.settle() }
        log.refuse()
        for _ in 0..<9 { hub.settle() }
        #expect(hub.database.counters.listens == 0, "carried out again, it ends for good")
    }
}

/// Requests whose cost grows with the number of observers leave turns for others.
@Suite(.timeLimit(.minutes(30))) struct TurnTests {
    @Test(arguments: [false, true])
    func identityOfManyObservers_givesWayToOthers(hasMany: Bool) {
        var limits = EngineLimits()
        limits.removalsAtOnce = 3
        let hub = EngineHarness(root: ["a": 1], limits: limits)
        let (one, other) = (Client.make(), Client.make())
        for i in 0..<(hasMany ? 4 : 3) { _ = hub.ask(one, .listen(Path([Key("p\(i)")]))) }
        hub.database.queue.sync {
            _ = hub.database.submit(.identify(Identity(auth: ["uid": "u"])), from: one, token: 1)
            _ = hub.database.submit(.put("a", 2), from: one, token: 2)
            _ = hub.database.submit(.get("a"), from: other, token: 3)
        }
        #expect(hub.take(other) == [hasMany ? "value 3 1" : "value 3 2"])
        #expect(hub.take(one) == [#"identified 1 {"uid":"u"}"#, "ok 2"])
        // The identity is unchanged, so no permission is checked.
        hub.database.queue.sync {
            _ = hub.database.submit(.identify(Identity(auth: ["uid": "u"])), from: one, token: 1)
            _ = hub.database.submit(.put("a", 4), from: one, token: 2)
            _ = hub.database.submit(.get("a"), from: other, token: 3)
        }
        #expect(hub.take(other) == ["value 3 4"])
    }
}
