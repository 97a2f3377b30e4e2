import Glibc
import LiveQueries
@testable import HubEngine
import JSONTree
import SecurityRules
import Testing

/// Observers and the rules: which observers are permitted, what their permissions depend on, and which are checked again.
@Suite(.timeLimit(.minutes(30))) struct ReadPermissionsTests {
    private static let rules = """
        {"rules":{"open":{".read":true},"own":{".read":"auth.uid === 'u'"},
        "rooms":{"$room":{".read":"root.child('members/' + $room).child(auth.uid).exists()"}},
        "first":{".read":"query.limitToFirst <= 10"}}}
        """

    private static func bench(_ refusals: RefusalLog? = nil, root: Node = .null) throws -> Bench {
        Bench(root: root, rules: try RuleSet(parsing: rules), refusals: refusals)
    }

    private static func user(_ uid: String) -> Client {
        Client(lane: 0, dialect: .realtime, identity: Identity(auth: ["uid": .string(Text(uid))]))
    }

    @Test func reads_areDecidedByTheRules_andRefusalsReported() throws {
        let refusals = RefusalLog()
        let bench = try Self.bench(refusals)
        let stranger = Client.make()
        bench.run {
            #expect(bench.permissions.allowsRead("open/x", nil, stranger))
            #expect(!bench.permissions.allowsRead("own", nil, stranger))
            #expect(bench.permissions.allowsRead("own", nil, Self.user("u")))
            #expect(bench.permissions.allowsRead("own", nil, Client(lane: 0, dialect: .realtime, identity: .admin)))
            #expect(bench.permissions.allowsRead("first", Query(index: .key, limit: 10, viewFrom: .first), stranger))
            #expect(!bench.permissions.allowsRead("first", Query(index: .key, limit: 11, viewFrom: .first), stranger))
            #expect(!bench.permissions.mayRead("own", nil, stranger, in: bench.content.root))
        }
        #expect(refusals.all == ["get /own", "get /first"], "what refuses nothing is not reported")
    }

    /// Reading and checking a region takes up to a millisecond, also of one that is refused.
    @Test func storedRegions_areChargedByPointsAndPairsOfEdges() throws {
        func zigzag(_ edges: Int) throws -> Node {
            let points = (0...edges).map { i in
                let (far, step) = (Double(i % 2), Double(i) / 1_000)
                return "[\(far + step),\(far - step)]"
            }
            return try Node(json: "[\(points.joined(separator: ",")),[-5,-5]]")
        }
        let circle = (0..<1_000).map { i in
            let angle = Double(i) * Double.pi / 500
            return "[\(sin(angle)),\(cos(angle))]"
        }
        let zones: Node = [
            "box": try Node(json: "[1,2,3,4]"), "circle": try Node(json: "[\(circle.joined(separator: ","))]"), "small": try zigzag(150),
            "intricate": try zigzag(900),
        ]
        let bench = try Self.bench(root: ["zones": zones])
        let admin = Client(lane: 0, dialect: .realtime, identity: .admin)
        func located(_ name: String) throws -> (work: Int, code: Failure.Code?) {
            let query = try Query(TreeQuery(index: nil), within: WithinQuery(text: "zones/\(name)"))
            return bench.run {
                let before = bench.context.meter.work
                let result = bench.permissions.located(query, at: "open", for: admin)
                let code: Failure.Code? = if case .failure(let failure) = result { failure.code } else { nil }
                return (bench.context.meter.work - before, code)
            }
        }
        #expect(try located("none").work == 1)
        #expect(try located("box").work <= 3)
        let (round, small, intricate) = (try located("circle"), try located("small"), try located("intricate"))
        #expect(round.code == nil && round.work > 500, "\(round)")
        #expect(small.code == nil && small.work > 300, "\(small)")
        #expect(intricate.code == .tooBig && intricate.work > 1_000, "\(intricate)")
    }

    @Test func permission_restsOnWhatTheRulesLookedAt() throws {
        let bench = try Self.bench(root: ["members": ["r1": ["u": true, "w": true], "r2": ["u": true]]])
        let (u, w) = (Self.user("u"), Self.user("w"))
        let (one, two, open) = (Observation("rooms/r1"), Observation("rooms/r2"), Observation("open"))
        for (observation, client) in [(one, u), (one, w), (two, u), (open, u)] {
            bench.run { #expect(bench.permissions.permits(observation, of: client, as: .listen)) }
            bench.observe(observation, by: client)
        }
        #expect(u.dependents[one] != nil && u.dependents[open] == nil, "where no data is looked at, nothing is asked again")
        // Another place of the same room, then the place that the permission depends on.
        bench.run {
            for (place, value) in [("members/r1/x", true), ("members/r1/u", .null)] as [(Path, Node)] {
                var new = bench.content.root
                new.set(value, at: place)
                let readers = bench.precheck.touched(by: [place], making: new)
                _ = bench.content.install(new)
                bench.permissions.recheck(readers)
            }
        }
        #expect(bench.finish() == ["cancelled /rooms/r1"])
        #expect(!u.observations.contains(one) && u.observations.contains(two) && u.observations.contains(open))
        #expect(w.observations.contains(one), "the other member stays")
    }

    @Test func refusedListen_isReported_andRestsOnNothing() throws {
        let refusals = RefusalLog()
        let bench = try Self.bench(refusals)
        let client = Self.user("u")
        bench.run {
            #expect(!bench.permissions.permits(Observation("rooms/r1"), of: client, as: .listen))
            #expect(bench.context.meter.work == 1, "a decision counts")
        }
        #expect(client.dependents.isEmpty && bench.places.dependentCount == 0)
        #expect(refusals.all == ["listen /rooms/r1"])
    }

    @Test func anotherIdentity_isAskedAboutAll() throws {
        let refusals = RefusalLog()
        let bench = try Self.bench(refusals)
        let client = Self.user("u")
        for observation in [Observation("open"), Observation("own")] {
            bench.run { #expect(bench.permissions.permits(observation, of: client, as: .listen)) }
            bench.observe(observation, by: client)
        }
        client.identity = .anonymous
        bench.run { bench.permissions.recheckObservers(of: client) }
        #expect(bench.finish() == ["cancelled /own"])
        #expect(client.observations.map(\.path) == ["open"] && refusals.all == ["cancelled listen /own"])
        #expect(client.chargedOwners.isEmpty, "its observers count for who it is now")
    }

    @Test func anotherRules_areAskedAboutEverybody() throws {
        let bench = try Self.bench()
        let (one, admin) = (Client.make(), Client(lane: 1, dialect: .realtime, identity: .admin))
        for client in [one, admin] { bench.observe(Observation("open"), by: client) }
        bench.run {
            bench.permissions.recheckAllObservers()
            #expect(bench.outbox.bytes == 0, "all as before")
            bench.content.deploy(.denyAll)
            bench.permissions.recheckAllObservers()
        }
        #expect(bench.finish() == ["cancelled /open"])
        #expect(one.observations.count == 0 && admin.observations.count == 1)
    }

    @Test func cancelledStream_endsItsClient() throws {
        let bench = try Self.bench()
        let client = Client.make()
        let ended = ReceivedBox<[Client]>([])
        bench.permissions.onStreamCancelled = { ended.value.append($0) }
        let (stream, plain) = (Observation("open", style: .stream(.plain)), Observation("open"))
        for observation in [stream, plain] { bench.observe(observation, by: client) }
        bench.run { bench.permissions.cancel(plain, of: client) }
        #expect(ended.value.isEmpty)
        bench.run { bench.permissions.cancel(stream, of: client) }
        #expect(ended.value.count == 1 && ended.value.first === client)
        #expect(bench.finish() == ["cancelled /open", "cancelled /open", "close"])
    }

    @Test func queryVariables_areWhatTheRulesSee() {
        let equal = QueryVariables(Query(index: .child("a/b"), start: .init(value: 3), end: .init(value: 3)))
        #expect(equal.equalTo == 3 && equal.startAt == nil && equal.endAt == nil && equal.orderByChild == "a/b")
        let range = QueryVariables(Query(index: .value, start: .init(value: 3), end: .init(value: 4), limit: 7, viewFrom: .last))
        #expect(range.equalTo == nil && range.startAt == 3 && range.endAt == 4 && range.orderByValue && range.limitToLast == 7)
        #expect(range.limitToFirst == nil && !range.orderByKey && !range.orderByPriority)
        #expect(QueryVariables(Query(index: .key, limit: 2, viewFrom: .first)).limitToFirst == 2)
        #expect(QueryVariables(Query(limit: 2)).orderByPriority, "the order that is meant when none is named")
    }
}
