@testable import HubEngine
import JSONTree
import LiveQueries
import SecurityRules
import Testing
import TestSupport

/// Circles that hold more children than a query may show. The bound is on children visited and shown, not on those within the circle.
@Suite(.timeLimit(.minutes(30))) struct NearSearchTests {
    private static let path: Path = "p/l"
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
        "p":{"l":{".indexOn":["status","v"],".geoIndex":{"lat":"at/lat","lng":"at/lng"}}}}}
        """#

    /// Few of these are open, and all lie within 2 km of the centre.
    private static func children(_ count: Int, open: Int, _ random: inout SeededRandom) -> Node {
        var members: [(Key, Node)] = []
        for i in 0..<count { members.append((Key("k\(i)"), child(i % (count / open) == 1 ? "open" : "shut", &random))) }
        return .object(members)
    }

    private static func child(_ status: String, _ random: inout SeededRandom) -> Node {
        let (lat, lng) = (37.97 + Double(random.below(1_000)) / 100_000, 23.73 + Double(random.below(1_000)) / 100_000)
        return [
            "status": .string(Text(status)), "v": .int(Int64(random.below(1_000))), "w": .int(Int64(random.below(1_000))),
            "at": ["lat": .number(lat), "lng": .number(lng)],
        ]
    }

    private static func query(
        _ tree: TreeQuery = TreeQuery(index: nil), where conditions: [LiveQueries.Condition] = [], metres: Double? = 5_000
    ) throws -> Query {
        let centre = try #require(GeoPoint(latitude: 37.975, longitude: 23.735))
        return try Query(tree, where: Filter(conditions), near: NearQuery(centre: centre, metres: metres, limit: nil))
    }

    private static let isOpen = LiveQueries.Condition("status", .equal("open"))

    private static func order(_ path: Path, _ limit: Int?, _ side: TreeQuery.Side) -> TreeQuery {
        TreeQuery(index: .child(path), limit: limit, viewFrom: limit == nil ? nil : side)
    }

    private static func limits(shown: Int) -> EngineLimits {
        var limits = EngineLimits()
        (limits.liveQueryChildren, limits.inlineChildren) = (shown, 10)
        (limits.windows.reserve, limits.windows.complete, limits.windows.visits, limits.windows.firstVisits) = (4, 8, 16, 30)
        return limits
    }

    /// Replies with their codes, and events with their previous siblings.
    private struct Lines: WireFormat {
        private let events = EventLines()

        func reply(_ reply: Reply, to token: Int64, dialect: Dialect) -> [UInt8] { LineFormat().reply(reply, to: token, dialect: dialect) }
        func initial(_ value: Node, at path: Path, query: Query?, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
            events.initial(value, at: path, query: query, style: style, sequence: sequence)
        }
        func initial(count: Int, style: ObserverStyle, sequence: UInt64) -> [UInt8] {
            events.initial(count: count, style: style, sequence: sequence)
        }
        func ready(_ style: ObserverStyle, sequence: UInt64) -> [UInt8] { events.ready(style, sequence: sequence) }
        func change(_ change: ViewChange, for style: ObserverStyle, sharing parts: inout (any ChangeParts)?) -> [UInt8] {
            events.change(change, for: style, sharing: &parts)
        }
        func ended(_ path: Path, query: Query?, style: ObserverStyle, _ failure: Failure) -> [UInt8] {
            Array("ended \(failure.code.rawValue)\n".utf8)
        }
    }

    /// The children that an observer shows, built from its events.
    private struct Shown {
        var keys: [String] = []
        var ends: [String] = []

        mutating func take(_ lines: [String]) {
            for line in lines.flatMap({ $0.split(separator: "\n") }) {
                let words = line.split(separator: " ", maxSplits: 4).map(String.init)
                if words[0] == "ended" || words[0] == "error" { ends.append(String(line)) }
                guard words.count > 3, ["added", "changed", "removed", "moved"].contains(words[0]) else { continue }
                keys.removeAll { $0 == words[2] }
                if words[0] == "removed" { continue }
                let at = words[3] == "-" ? nil : keys.firstIndex(of: words[3])
                keys.insert(words[2], at: at.map { $0 + 1 } ?? 0)
            }
        }
    }

    private final class World {
        let hub: EngineHarness
        let reader = Client(lane: 0, dialect: .observe)
        let writer = Client(lane: 1, dialect: .observe)
        private(set) var place: Node
        /// Kept alive: the harness identifies clients by object address.
        private var used: [Client] = []

        init(_ place: Node, _ limits: EngineLimits) throws {
            self.place = place
            let root: Node = ["p": ["l": place]]
            hub = EngineHarness(rules: try RuleSet(parsing: NearSearchTests.rules), root: root, limits: limits, format: Lines())
        }

        /// Uses a new client for each request: one that was sent a lot is first probed.
        func ask(_ request: Request) -> String {
            let client = Client(lane: 0, dialect: .observe)
            used.append(client)
            return hub.ask(client, request).filter { $0 != "probe" }.joined(separator: "\n")
        }

        /// The answer to a get of the query: the keys, or the error.
        func got(_ query: Query) throws -> [String] {
            let answer = ask(.get(NearSearchTests.path, query: query))
            guard answer.hasPrefix("value 0 ") else { return [answer] }
            return try Node(json: String(answer.dropFirst(8))).children.map(\.0.string).sorted()
        }

        func set(_ key: Key, _ value: Node) {
            var children = place.children
            children.set(key, value)
            place = .object(children.map { ($0.key, $0.node) })
            _ = hub.ask(writer, .put(NearSearchTests.path.appending(key), value))
        }
    }

    private static func keys(_ query: Query, _ place: Node) -> [String] { LiveSelections.selection(query, place).map(\.key.string) }

    // MARK: Full circles

    /// 400 children within the circle, of which 5 are open, where 20 may be shown.
    @Test func circleThatIsFull_isServed_whereFewMatch() throws {
        var random = SeededRandom(21)
        let world = try World(Self.children(400, open: 5, &random), Self.limits(shown: 20))
        var observed: [(query: Query, client: Client, shown: Shown)] = []
        for (tree, conditions) in [
            (TreeQuery(index: nil), [Self.isOpen]),
            (TreeQuery(index: nil, limit: 3, viewFrom: .first), [Self.isOpen]),
            (TreeQuery(index: nil, limit: 3, viewFrom: .first), []),
            (Self.order("v", nil, .first), [Self.isOpen]),
            (Self.order("v", 3, .last), [Self.isOpen]),
            (Self.order("v", 3, .first), [Self.isOpen]),
            (Self.order("v", 3, .last), []),
            (Self.order("v", 3, .first), []),
            (TreeQuery(index: .key, limit: 3, viewFrom: .last), []),
            // Without an index for it, the view holds all matching children.
            (Self.order("w", 3, .last), [Self.isOpen]),
        ] as [(TreeQuery, [LiveQueries.Condition])] {
            let query = try Self.query(tree, where: conditions)
            #expect(try world.got(query) == Self.keys(query, world.place).sorted(), "\(query)")
            let matches = conditions.isEmpty ? 400 : 5
            #expect(world.ask(.count(Self.path, query: query)) == "counted 0 \(min(matches, query.tree.limit ?? .max))", "\(query)")
            let client = Client(lane: 0, dialect: .observe)
            var shown = Shown()
            let style = ObserverStyle.events(id: 1, kinds: .children)
            shown.take(world.hub.ask(client, .observe(Self.path, query: query, style: style, hash: "")))
            #expect(shown.keys.sorted() == Self.keys(query, world.place).sorted(), "\(query)")
            observed.append((query, client, shown))
        }
        // Later writes are followed, as long as the limit is refilled with other children.
        for step in 0..<120 {
            let key = Key("k\(random.below(60) < 40 ? random.below(400) : (random.below(5) * 80 + 1))")
            let status = random.chance(4) ? "open" : "shut"
            world.set(key, random.chance(60) ? .null : Self.child(status, &random))
            for i in observed.indices {
                observed[i].shown.take(world.hub.take(observed[i].client))
                let expected = Self.keys(observed[i].query, world.place)
                let isOrdered = !observed[i].query.isByPosition
                let shown = observed[i].shown.keys
                #expect(isOrdered ? shown == expected : shown.sorted() == expected.sorted(), "step \(step), \(observed[i].query)")
                #expect(observed[i].shown.ends.isEmpty)
            }
        }
    }

    @Test func whatIsShown_isBoundedFromBothSides() throws {
        var random = SeededRandom(22)
        let world = try World(Self.children(400, open: 20, &random), Self.limits(shown: 20))
        #expect(try world.got(Self.query(where: [Self.isOpen])).count == 20)
        #expect(try world.got(Self.query(Self.order("w", nil, .first), where: [Self.isOpen])).count == 20)
        #expect(try world.got(Self.query(Self.order("w", 20, .last), where: [Self.isOpen])).count == 20)
        world.set("more", Self.child("open", &random))
        #expect(try world.got(Self.query(where: [Self.isOpen])) == ["error 0 too_big"])
        #expect(try world.got(Self.query(Self.order("w", nil, .first), where: [Self.isOpen])) == ["error 0 too_big"])
        // The missing index; with it the view holds no extra children.
        #expect(try world.got(Self.query(Self.order("w", 20, .last), where: [Self.isOpen])) == ["error 0 missing_index"])
        #expect(try world.got(Self.query(Self.order("v", 20, .last), where: [Self.isOpen])).count == 20)
        #expect(try world.got(Self.query()) == ["error 0 too_big"])
    }

    /// The feed of a city after two years, with the default limits (product load profiles).
    @Test func feedOfACity_isServedByDefault() throws {
        var random = SeededRandom(23)
        let world = try World(Self.children(300_000, open: 3_000, &random), EngineLimits())
        let feed = try Self.query(Self.order("v", 20, .last), where: [Self.isOpen], metres: 20_000)
        for query in [
            feed, try Self.query(where: [Self.isOpen], metres: 20_000), try Self.query(Self.order("v", 20, .last), metres: 20_000),
            try Self.query(TreeQuery(index: nil, limit: 20, viewFrom: .first), where: [Self.isOpen], metres: 20_000),
            try Self.query(Self.order("v", 20, .last), where: [Self.isOpen, LiveQueries.Condition("w", .above(500, orEqual: true))]),
        ] {
            let got = try world.got(query)
            #expect(got == Self.keys(query, world.place).sorted(), "\(got.count) \(got.first ?? "none"): \(query)")
        }
        #expect(world.ask(.count(Self.path, query: try Self.query(where: [Self.isOpen]))) == "counted 0 3000")
        let client = Client(lane: 0, dialect: .observe)
        var shown = Shown()
        let style = ObserverStyle.events(id: 1, kinds: .children)
        shown.take(world.hub.ask(client, .observe(Self.path, query: feed, style: style, hash: "")))
        #expect(shown.keys == Self.keys(feed, world.place))
    }

    // MARK: Steps

    /// Children at one spot are all equally near.
    private static func spot(_ count: Int) -> Node {
        .object((0..<count).map { (Key("k\($0)"), ["at": ["lat": 37.975, "lng": 23.735], "w": .int(Int64($0))]) })
    }

    @Test func nearestAmongEquals_areSearchedForOffTheQueue() throws {
        let world = try World(Self.spot(3_000), EngineLimits())
        let query = try Self.query(TreeQuery(index: nil, limit: 1, viewFrom: .first), metres: nil)
        // The geo index exists from then on.
        #expect(try world.got(query).count == 1)
        world.hub.work.close()
        world.hub.database.submit(.get(Self.path, query: query), from: world.reader, token: 7)
        #expect(world.hub.ask(world.writer, .put("p/other", 1)) == ["ok 0"])
        #expect(world.hub.work.waiting == 1 && world.hub.linesSoFar(world.reader).isEmpty)
        world.set("k9", .null)
        world.hub.work.open()
        let answer = world.hub.take(world.reader).filter { $0 != "probe" }
        #expect(answer.count == 1 && answer.first?.hasPrefix("value 7 {\"k") == true, "\(answer)")
    }

    /// A search visits a bounded number of children, from any starting point.
    @Test func steps_areBoundedFromBothSides() throws {
        var limits = Self.limits(shown: 1_000)
        limits.unindexedChildren = 10_000
        func answers(_ steps: Int, _ query: Query, _ place: Node) throws -> (String, String) {
            limits.liveQuerySteps = steps
            let world = try World(place, limits)
            let got = try world.got(query)
            let counted = world.ask(.count(Self.path, query: query))
            return (got.first?.hasPrefix("error") == true ? got[0] : "\(got.count)", counted)
        }
        var random = SeededRandom(24)
        let place = Self.children(400, open: 5, &random)
        // An index: 5 open children, or all of an order by another condition.
        let indexed = try Self.query(where: [Self.isOpen])
        #expect(try answers(5, indexed, place) == ("5", "counted 0 5"))
        #expect(try answers(4, indexed, place) == ("error 0 too_big", "error 0 too_big"))
        // Every child, without a circle.
        let all = try Query(TreeQuery(index: .key), where: Filter([LiveQueries.Condition("w", .equal(-1))]))
        #expect(try answers(400, all, place) == ("0", "counted 0 0"))
        #expect(try answers(399, all, place) == ("error 0 too_big", "error 0 too_big"))
        // The geo index: all 400 points, and their cells.
        let around = try Self.query(where: [LiveQueries.Condition("w", .equal(-1))])
        #expect(try answers(2_000, around, place) == ("0", "counted 0 0"))
        #expect(try answers(399, around, place) == ("error 0 too_big", "error 0 too_big"))
        let nearest = try Self.query(TreeQuery(index: nil, limit: 1, viewFrom: .first), metres: nil)
        #expect(try answers(2_000, nearest, Self.spot(400)).0 == "1")
        #expect(try answers(399, nearest, Self.spot(400)).0 == "error 0 too_big")
        // An order in which no child matches.
        let ordered = try Query(Self.order("v", 1, .first), where: Filter([LiveQueries.Condition("w", .equal(-1))]))
        #expect(try answers(400, ordered, place).0 == "0")
        #expect(try answers(399, ordered, place).0 == "error 0 too_big")
    }

    /// A count of a place, or of an order without a range, visits no child, however many there are.
    @Test func countOfAWholePlace_isKnown() throws {
        let bench = Bench(root: ["p": ["l": Self.spot(4_000)]], rules: try RuleSet(parsing: Self.rules), lanes: 1)
        let node = Self.spot(4_000)
        for query in [Query.all(least: 3), Query(Self.order("v", nil, .first)).counted(least: 3)] {
            let planned = bench.run {
                LivePlan.find(query, .count, at: Self.path, over: node, bench.indexes, points: nil, EngineLimits())
            }
            guard case .success(.ready(let plan)) = planned, case .count(4_000)? = plan.found else {
                Issue.record("\(planned)")
                continue
            }
        }
    }

    @Test func error_namesTheLimit() {
        let message = Failure.tooManySteps(1_000_000).message
        #expect(message.contains("1000000") && message.contains("liveQuerySteps"))
    }

    /// Searches that find nothing are charged in full, to the turn of their caller.
    @Test func looks_areChargedToTheTurn() throws {
        var limits = EngineLimits()
        (limits.windows.firstVisits, limits.inlineChildren) = (1_600, 3_000)
        let bench = Bench(root: ["p": ["l": Self.spot(4_000)]], rules: try RuleSet(parsing: Self.rules), limits: limits, lanes: 1)
        func spent(_ query: Query) throws -> (units: Int, isSuspended: Bool) {
            let client = Client(lane: 0, dialect: .observe)
            let request = Request.get(Self.path, query: query)
            // In one turn: a search off the queue may be back in the next one.
            let (units, isSuspended) = bench.run {
                let before = bench.context.meter.work
                bench.reads.get(Self.path, query, .init(request, of: client, token: 0))
                return (bench.context.meter.work - before, client.suspendedRequest != nil)
            }
            _ = bench.sentLines([client])
            return (units, isSuspended)
        }
        let nearest = try Self.query(TreeQuery(index: nil, limit: 1, viewFrom: .first), metres: nil)
        // The geo index exists from then on.
        _ = try spent(nearest)
        let first = try spent(nearest)
        #expect(first.isSuspended && first.units >= 100 && first.units < 200, "\(first)")
        // A search on the queue is charged as well: 2,000 points, and the children.
        bench.run { _ = try? bench.commits.commit([TreeWrite(Self.path, WriteValue(Self.spot(2_000)))], by: .client(.admin)) }
        bench.settle()
        let circle = try spent(Self.query(Self.order("w", nil, .first), metres: 100))
        #expect(!circle.isSuspended && circle.units >= 250, "\(circle)")
    }
}
