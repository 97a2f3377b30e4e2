import Dispatch
@testable import HubEngine
import JSONTree
import LiveQueries
import SecurityRules
import Testing
import TestSupport

/// Observers are added, removed and counted; each of their limits from both sides.
@Suite(.timeLimit(.minutes(30))) struct ObserverRegistryTests {
    private static func refusal(_ bench: Bench, _ observation: Observation, _ client: Client) -> Failure.Code? {
        bench.run { bench.registry.refusal(of: observation, of: client)?.code }
    }

    private static func user(_ uid: String) -> Client {
        Client(lane: 0, dialect: .realtime, identity: Identity(auth: ["uid": .string(Text(uid))]))
    }

    private static func from(_ address: String) -> Client {
        let client = Client.make()
        client.address = address
        return client
    }

    /// Adds as many observers as a limit allows.
    /// - Returns: their number, and why the next one was refused.
    private static func fill(_ bench: Bench, _ client: Client, _ observations: [Observation]) -> (count: Int, refusal: Failure.Code?) {
        for (index, observation) in observations.enumerated() {
            if let code = refusal(bench, observation, client) { return (index, code) }
            bench.observe(observation, by: client)
        }
        return (observations.count, nil)
    }

    private static func places(_ count: Int, depth: Int = 1) -> [Observation] {
        (0..<count).map { Observation(String(repeating: "d/", count: depth - 1) + "p\($0)") }
    }

    @Test func listens_ofAConnection_weighByDepth() {
        var limits = EngineLimits()
        limits.listens = 6
        #expect(Self.fill(Bench(limits: limits), .make(), Self.places(9)) == (6, .tooBig))
        #expect(Self.fill(Bench(limits: limits), .make(), Self.places(9, depth: 8)) == (3, .tooBig))
        #expect(Self.fill(Bench(limits: limits), .make(), Self.places(9, depth: 16)) == (2, .tooBig))
    }

    @Test func listens_ofAnOwner_countItsConnectionsTogether() {
        var limits = EngineLimits()
        limits.listensOfOwner = 4
        for (one, other, stranger) in [
            (Self.user("u"), Self.user("u"), Self.user("v")), (Self.from("1.2.3.4"), Self.from("1.2.3.4"), Self.from("1.2.3.5")),
        ] {
            let bench = Bench(limits: limits)
            #expect(Self.fill(bench, one, Self.places(3)) == (3, nil))
            #expect(Self.fill(bench, other, Self.places(3)) == (1, .tooBig))
            #expect(Self.fill(bench, stranger, Self.places(3)) == (3, nil))
            bench.run { bench.registry.remove(Self.places(1)[0], of: one) }
            #expect(Self.fill(bench, other, Self.places(3).suffix(2)) == (1, .tooBig), "there is room again for one")
        }
    }

    @Test func listens_moveWithTheIdentity() {
        var limits = EngineLimits()
        limits.listensOfOwner = 4
        let bench = Bench(limits: limits)
        let (one, other) = (Self.from("1.2.3.4"), Self.from("1.2.3.4"))
        #expect(Self.fill(bench, one, Self.places(4)) == (4, nil))
        #expect(Self.refusal(bench, Observation("x"), other) == .tooBig)
        one.identity = Identity(auth: ["uid": "u"])
        bench.run { bench.registry.charge(one) }
        #expect(Self.refusal(bench, Observation("x"), other) == nil)
        #expect(Self.refusal(bench, Observation("x"), Self.user("u")) == .tooBig)
    }

    @Test func listens_ofTheNamespace_countAll() {
        var limits = EngineLimits()
        limits.listensOfNamespace = 3
        let bench = Bench(limits: limits)
        #expect(Self.fill(bench, Self.user("a"), Self.places(2)) == (2, nil))
        #expect(Self.fill(bench, Self.user("b"), Self.places(2)) == (1, .tooBig))
        #expect(bench.context.meter.counters.observers == 3 && bench.context.meter.counters.listens == 3)
    }

    @Test func places_andObserversOfOne_areLimited() {
        var limits = EngineLimits()
        limits.observedPlaces = 4
        limits.listensAtPlace = 2
        // Counted with the places above them, and the root.
        #expect(Self.fill(Bench(limits: limits), .make(), [Observation("a/b"), Observation("c"), Observation("a")]) == (2, .tooBig))
        let queries = (1...3).map { Observation("a", TreeQuery(index: .key, limit: $0), style: .patches(tag: Int64($0))) }
        #expect(Self.fill(Bench(limits: limits), .make(), queries) == (2, .tooBig))
    }

    @Test func unindexedOrders_areLimitedByTheirChildren() {
        var limits = EngineLimits()
        limits.unindexedChildren = 150
        limits.unindexedEntriesOfOwner = 250
        func place(_ count: Int) -> Node { .object((0..<count).map { (Key("k\($0)"), .int(1)) }) }
        let bench = Bench(root: ["few": place(2), "some": place(150), "many": place(151), "other": place(3)], limits: limits)
        let client = Self.user("u")
        func query(_ place: String, _ limit: Int = 1) -> Observation { Observation(place, TreeQuery(index: .value, limit: limit)) }
        #expect(Self.refusal(bench, query("many"), client) == .missingIndex, "one child too many")
        #expect(Self.refusal(bench, Observation("many", TreeQuery(index: .key, limit: 1)), client) == nil, "key order needs no index")
        #expect(Self.fill(bench, client, [query("some"), query("few"), query("some", 2), query("other")]) == (3, .missingIndex))
        #expect(client.charge.unindexedEntries == 250, "150, and 100 for few: the same order of a place counts once")
        #expect(Self.refusal(bench, query("other"), Self.user("v")) == nil)
        bench.run { bench.registry.remove(query("some"), of: client) }
        #expect(client.charge.unindexedEntries == 250, "another one observes it so")
        bench.run { bench.registry.remove(query("some", 2), of: client) }
        #expect(client.charge.unindexedEntries == 100 && Self.refusal(bench, query("other"), client) == nil)
    }

    /// Clients can invent member names.
    @Test func ordersByMembers_areLimitedByTheirChildren() throws {
        var limits = EngineLimits()
        (limits.unindexedChildren, limits.unindexedEntriesOfOwner) = (100, 250)
        func place(_ count: Int) -> Node { .object((0..<count).map { (Key("k\($0)"), .int(1)) }) }
        let rules = try RuleSet(parsing: #"{"rules":{"$p":{".read":true,".indexOn":["types/*","age"]}}}"#)
        let bench = Bench(root: ["few": place(2), "many": place(300)], rules: rules, limits: limits)
        let client = Self.user("u")
        func query(_ place: String, _ order: Path) -> Observation { Observation(place, TreeQuery(index: .child(order), limit: 1)) }
        #expect(Self.fill(bench, client, [query("few", "types/a"), query("few", "types/b"), query("few", "types/c")]) == (2, .tooBig))
        #expect(client.charge.unindexedEntries == 200)
        #expect(Self.refusal(bench, query("many", "age"), client) == nil, "one that the rules name")
        let other = Self.user("v")
        #expect(Self.fill(bench, other, [query("many", "types/a"), query("few", "types/z")]) == (1, .tooBig), "one alone may be large")
        #expect(other.charge.unindexedEntries == 300)
        #expect(Self.fill(bench, other, [query("few", "types/a"), query("few", "types/b")]) == (2, nil), "those that are there")
        #expect(other.charge.unindexedEntries == 300)
    }

    /// However observers come, leave and change identity, each order is charged once, to one of its observers.
    @Test(arguments: 0..<4) func sharedOrders_areChargedOnce(seed: UInt64) {
        var random = SeededRandom(seed)
        let bench = Bench(root: ["p": ["x": 1], "q": ["x": 1]])
        let clients = (0..<6).map { Self.from("192.0.2.\($0 / 2)") }
        let all: [Observation] = (0..<12).map { i in
            let query = TreeQuery(index: .child(Path([Key("c\(i / 4)")])), limit: 1 + i)
            return Observation(i % 2 == 0 ? "p" : "q", query, style: .patches(tag: Int64(i)))
        }
        for _ in 0..<400 {
            let (client, observation) = (clients[random.below(6)], all[random.below(12)])
            switch random.below(5) {
            case 0, 1: if !client.observations.contains(observation) { bench.observe(observation, by: client) }
            case 2, 3: bench.run { bench.registry.remove(observation, of: client) }
            default:
                client.identity = random.below(2) == 0 ? .anonymous : Identity(auth: ["uid": .string(Text("u\(random.below(3))"))])
                bench.run { bench.registry.charge(client) }
            }
            let observed: [Set<[String]>] = clients.map { client in
                Set(all.filter { client.observations.contains($0) }.map { [$0.path.description, $0.query?.tree.orderedBy.text ?? ""] })
            }
            let charged: Int = clients.reduce(0) { $0 + $1.charge.unindexedEntries }
            let orders: Set<[String]> = observed.reduce(into: []) { $0.formUnion($1) }
            #expect(charged == 100 * orders.count)
            for (client, observed) in zip(clients, observed) {
                #expect(client.charge.unindexedEntries == 100 * client.paid.count && client.paid.count <= observed.count)
            }
        }
        for client in clients { bench.run { for observation in all { bench.registry.remove(observation, of: client) } } }
        #expect(clients.allSatisfy { $0.charge.isZero && $0.paid.isEmpty })
        #expect(bench.context.meter.counters.listens == 0)
    }

    @Test func removed_leavesNothing() {
        let bench = Bench(root: ["a": ["x": 1]])
        let client = Client.make()
        let query = Observation("a", TreeQuery(index: .value, limit: 1), style: .patches(tag: 1))
        let observations = [Observation("a/b/c"), Observation("a"), query]
        for observation in observations { bench.observe(observation, by: client) }
        bench.run { bench.registry.setDependencies(["m/n"], of: observations[0], client) }
        #expect(bench.places.dependentCount > 0 && bench.places.count == 6)
        bench.run {
            for observation in observations + observations { bench.registry.remove(observation, of: client) }
            bench.indexes.evictIdle()
        }
        #expect(bench.places.count == 1 && bench.places.dependentCount == 0 && client.dependents.isEmpty)
        #expect(client.charge.isZero && bench.context.meter.counters.observers == 0 && bench.context.meter.counters.indexes == 0)
        #expect(bench.batch.end().history.changes.count == 6, "three came and three went")
    }

    @Test func dependencies_areReplaced() {
        let bench = Bench()
        let client = Client.make()
        bench.run {
            bench.registry.setDependencies(["m/1", "m/2"], of: Observation("a"), client)
            bench.registry.setDependencies(["m/2", "m/3"], of: Observation("a"), client)
            let old = ["m": ["1": 1, "2": 1, "3": 1]] as Node
            func rests(_ place: Path) -> Int { bench.places.dependents(touchedBy: [place], old: old, new: .null).count }
            #expect(rests("m/1") == 0 && rests("m/2") == 1 && rests("m/3") == 1)
        }
    }

    @Test func restored_isThereAgain_andBehindIfItsClientIsSlow() throws {
        let bench = Bench(root: ["a": ["x": 1, "y": 2]])
        let client = Client.make()
        let (whole, query) = (Observation("a"), Observation("a", TreeQuery(index: .value, limit: 1), style: .patches(tag: 1)))
        for observation in [whole, query] { bench.observe(observation, by: client) }
        try bench.run {
            bench.registry.remove(query, of: client)
            bench.registry.restore(query, of: client)
            #expect(client.observations.contains(query) && client.charge.listens == 2)
            let place = try #require(bench.places.existingPlace(at: "a"))
            let view = try #require(place.existingView(query.query, for: query.style))
            #expect(view.clients.count == 1)
            #expect(view.shown.all(of: bench.content.root.child("a"), at: place) != nil, "it shows what it selects")
            bench.slowReaders.suspend(client)
            bench.registry.remove(whole, of: client)
            bench.registry.restore(whole, of: client)
            #expect(place.existingView(nil, for: .patches(tag: nil))?.suspended.count == 1 && place.existingView(nil, for: .patches(tag: nil))?.audiences.isEmpty == true)
            let missed = bench.slowReaders.catchUp(client)?.missed
            if case .whole? = missed?[whole] {} else { Issue.record("it may have missed anything") }
            #expect(missed?[query] == nil)
        }
    }

    @Test func manyObservers_areRemovedInSlices_betweenWhichOthersAreServed() {
        var limits = EngineLimits()
        limits.removalsAtOnce = 2
        let bench = Bench(limits: limits)
        let (client, few) = (Client.make(), Client.make())
        for observation in Self.places(5) { bench.observe(observation, by: client) }
        for observation in Self.places(2) { bench.observe(observation, by: few) }
        let left = ReceivedBox<[Int]>([])
        bench.run {
            (client.hasEnded, few.hasEnded) = (true, true)
            bench.registry.removeAll(of: few)
            #expect(few.observations.count == 0, "a few at once")
            bench.registry.removeAll(of: client)
            #expect(client.observations.count == 5)
            for _ in 0..<3 { lookBetween(bench, client, left) }
        }
        for _ in 0..<6 { bench.run {} }
        #expect(left.value == [3, 3, 3], "one slice was before them, the next one is behind")
        #expect(client.observations.count == 0 && bench.places.count == 1)
    }

    private func lookBetween(_ bench: Bench, _ client: Client, _ left: ReceivedBox<[Int]>) {
        bench.queue.async { left.value.append(client.observations.count) }
    }

    @Test func undoneEnd_keepsItsObservers() {
        var limits = EngineLimits()
        limits.removalsAtOnce = 2
        let bench = Bench(limits: limits)
        let client = Client.make()
        for observation in Self.places(7) { bench.observe(observation, by: client) }
        bench.run {
            client.hasEnded = true
            bench.registry.removeAll(of: client)
            client.hasEnded = false
        }
        for _ in 0..<6 { bench.run {} }
        #expect(client.observations.count == 7)
    }
}
