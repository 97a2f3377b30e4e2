import Glibc
import JSONTree
import LiveQueries
import SecurityRules
import TestSupport
import Testing

@testable import HubEngine

/// A stranger without an account tries to locate one child by counting within circles, knowing the hub's source. Checks both sides of the documented
/// bound: the attacker finds the grid square of the child, and nothing finer.
@Suite(.timeLimit(.minutes(30))) struct CountAttackTests {
    private static let earth = 111_194.9
    /// The south-west corner of the area in which the child may be, and the length of its sides in metres.
    private static let corner = (latitude: 37.9, longitude: 23.6)
    private static let side = 4_000.0

    private static func point(north: Double, east: Double) -> (latitude: Double, longitude: Double) {
        (corner.latitude + north / earth, corner.longitude + east / earth / 0.789)
    }

    /// A hub with one child numbered -1 at a place, and a crowd with other numbers.
    private struct Scene {
        let hub: EngineHarness
        let terms: CountTerms
        private(set) var counts = 0

        init(_ count: String, target: (latitude: Double, longitude: Double), crowd: Int, _ random: inout SeededRandom) throws {
            let rules = try RuleSet(
                parsing: #"{"rules":{"r":{".read":"auth != null",".geoIndex":{"lat":"lat","lng":"lng","filter":["at"]},"#
                    + "\".count\":\(count)}}}")
            var children: [(Key, Node)] = [(Key("t"), Self.child(target, -1))]
            for i in 0..<crowd { children.append((Key("c\(i)"), Self.child(CountAttackTests.place(&random), i))) }
            hub = EngineHarness(rules: rules, root: ["r": .object(children)])
            terms = try #require(rules.countTerms(at: "r"))
        }

        private static func child(_ at: (latitude: Double, longitude: Double), _ number: Int) -> Node {
            ["lat": .double(at.latitude), "lng": .double(at.longitude), "at": .int(Int64(number))]
        }

        mutating func count(_ centre: GeoPoint, _ metres: Double, _ filter: Filter = .all) throws -> Int {
            counts += 1
            let query = try Query(TreeQuery(), where: filter, near: NearQuery(centre: centre, metres: metres, limit: nil))
            let answer = try #require(hub.ask(.make(), .count("r", query: query)).first)
            return try #require(Int(answer.split(separator: " ").last ?? ""), "\(answer)")
        }
    }

    private static func place(_ random: inout SeededRandom) -> (latitude: Double, longitude: Double) {
        point(north: Double(random.below(1_000_000)) / 1_000_000 * side, east: Double(random.below(1_000_000)) / 1_000_000 * side)
    }

    private static func geo(_ at: (latitude: Double, longitude: Double)) throws -> GeoPoint {
        try #require(GeoPoint(latitude: at.latitude, longitude: at.longitude))
    }

    /// The points that remain when no allowed circle divides them. The attacker computes the hub's answer for each possible point, and asks for the
    /// circle that halves them best.
    private static func locate(
        _ scene: inout Scene, atMost most: Int, _ random: inout SeededRandom, holds: (inout Scene, GeoPoint, Double) throws -> Bool
    ) throws -> [GeoPoint] {
        let grid = try #require(scene.terms.grid)
        var left = try stride(from: 0.0, to: side, by: 20).flatMap { north in
            try stride(from: 0.0, to: side, by: 20).map { try geo(point(north: north, east: $0)) }
        }
        let radii = scene.terms.radius.map { least in (0...6).map { least * Double(1 << $0) } } ?? [30, 100, 1_000, 5_000, 77_777]
        while scene.counts < most {
            var best: (uneven: Int, centre: GeoPoint, metres: Double)?
            let sample = (0..<min(200, left.count)).map { _ in left[random.below(left.count)].snapped(toMetres: grid) }
            for _ in 0..<400 {
                let (metres, from) = (random.pick(radii), left[random.below(left.count)])
                let turn = Double(random.below(1_000)) / 1_000 * 2 * .pi
                let (north, east) = (metres * cos(turn) / earth, metres * sin(turn) / earth / 0.789)
                guard let edge = GeoPoint(latitude: from.latitude + north, longitude: from.longitude + east) else { continue }
                let centre = scene.terms.snap(of: metres).map { edge.snapped(toMetres: $0) } ?? edge
                let inside = sample.count { $0.metres(to: centre) <= metres }
                let uneven = abs(2 * inside - sample.count)
                if best.map({ uneven < $0.uneven }) ?? true { best = (uneven, centre, metres) }
            }
            guard let best, best.uneven < sample.count else { return left }
            let isInside = try holds(&scene, best.centre, best.metres)
            left = left.filter { ($0.snapped(toMetres: grid).metres(to: best.centre) <= best.metres) == isInside }
            guard !left.isEmpty else { return [] }
        }
        return left
    }

    /// The extent from south to north and from west to east, in metres.
    private static func extent(_ points: [GeoPoint]) -> (north: Double, east: Double) {
        let (latitudes, longitudes) = (points.map(\.latitude), points.map(\.longitude))
        guard let south = latitudes.min(), let north = latitudes.max(), let west = longitudes.min(), let east = longitudes.max() else {
            return (0, 0)
        }
        return ((north - south) * earth, (east - west) * earth * 0.789)
    }

    @Test(arguments: [
        (#"{"if":"query.near","radius":1000,"snap":100}"#, 250.0), (#"{"if":"query.near","radius":1000,"snap":500}"#, 500),
        (#"{"if":"query.near","snap":200}"#, 200), (#"{"if":"query.near","radius":2000}"#, 500),
    ]) func loneChild_isFoundToItsSquare_andNoFiner(_ count: String, _ grid: Double) throws {
        var random = SeededRandom(41)
        for _ in 0..<3 {
            let target = Self.place(&random)
            var scene = try Scene(count, target: target, crowd: 0, &random)
            #expect(scene.terms.grid == grid)
            let left = try Self.locate(&scene, atMost: 300, &random) { try $0.count($1, $2) == 1 }
            let square = try Self.geo(target).snapped(toMetres: grid)
            #expect(left.allSatisfy { $0.snapped(toMetres: grid) == square }, "\(count): the square, after \(scene.counts) counts")
            // All of the square remains, as far as it lies in the area and on the attacker's own 20 m grid.
            let possible = try stride(from: 0.0, to: Self.side, by: 20).flatMap { north in
                try stride(from: 0.0, to: Self.side, by: 20).map { try Self.geo(Self.point(north: north, east: $0)) }
            }.filter { $0.snapped(toMetres: grid) == square }
            #expect(left.count == possible.count && !left.isEmpty)
            let inside = Self.extent(left)
            #expect(min(inside.north, inside.east) > 0 && max(inside.north, inside.east) > grid / 2, "\(inside)")
        }
    }

    /// Attack with a filter on a value that only one child has: the count is the same as without that child.
    @Test(arguments: ["", #","least":5"#]) func childSingledOutByAFilter_isNotFound(_ more: String) throws {
        var random = SeededRandom(42)
        let target = Self.place(&random)
        var scene = try Scene(#"{"if":"query.near","radius":1000,"snap":100\#(more)}"#, target: target, crowd: 500, &random)
        let own = Filter([Condition("at", .equal(try #require(Constant(.int(-1)))))])
        var told: Set<Int> = []
        for _ in 0..<100 {
            let centre = try Self.geo(Self.place(&random))
            told.insert(try scene.count(centre, random.pick([1_000, 2_000, 8_000, 64_000]), own))
        }
        #expect(told == [0])
    }

    /// In a crowd, two counts whose conditions differ by the child reveal whether the circle holds it, as documented. The square still hides its
    /// exact position.
    @Test func childInACrowd_isFoundToItsSquareByDifferences_andNoFiner() throws {
        var random = SeededRandom(43)
        let target = Self.place(&random)
        var scene = try Scene(#"{"if":"query.near","radius":1000,"snap":100,"least":5}"#, target: target, crowd: 2_000, &random)
        let all = Filter([Condition("at", .above(try #require(Constant(.int(-1))), orEqual: true))])
        let others = Filter([Condition("at", .above(try #require(Constant(.int(-1))), orEqual: false))])
        let left = try Self.locate(&scene, atMost: 600, &random) { scene, centre, metres in
            try scene.count(centre, metres, all) != scene.count(centre, metres, others)
        }
        let square = try Self.geo(target).snapped(toMetres: 250)
        #expect(!left.isEmpty && left.allSatisfy { $0.snapped(toMetres: 250) == square })
        #expect(max(Self.extent(left).north, Self.extent(left).east) > 125)
    }

    /// With moving children, a live count equals a one-time count: the number of square centres within the circle.
    @Test func liveCounts_followMoves_bySquares() throws {
        var random = SeededRandom(44)
        var places = (0..<80).map { _ in Self.place(&random) }
        func child(_ i: Int) -> Node { ["lat": .double(places[i].latitude), "lng": .double(places[i].longitude), "at": .int(Int64(i))] }
        let rules = try RuleSet(
            parsing: #"""
                {"rules":{".write":true,"r":{".read":"auth != null",".geoIndex":{"lat":"lat","lng":"lng","filter":["at"]},
                  ".count":{"if":"true","radius":500,"snap":200,"least":2}}}}
                """#)
        let hub = EngineHarness(rules: rules, root: ["r": .object((0..<80).map { (Key("c\($0)"), child($0)) })])
        let filter = Filter([Condition("at", .below(try #require(Constant(.int(40))), orEqual: false))])
        var live: [(client: Client, centre: GeoPoint, metres: Double, isFiltered: Bool, told: Int)] = []
        for i in 0..<12 {
            let (centre, metres) = (try Self.geo(Self.place(&random)), random.pick([500.0, 1_000, 2_000]))
            let near = NearQuery(centre: centre, metres: metres, limit: nil)
            let query = try Query(TreeQuery(), where: i % 2 == 0 ? .all : filter, near: near)
            let client = Client(lane: 0, dialect: .rest)
            _ = hub.ask(client, .observe("r", query: query, style: .countStream, hash: ""))
            let answer = hub.ask(.make(), .count("r", query: query)).first
            let snap = metres / 500 * 200
            live.append((client, centre.snapped(toMetres: snap), metres, i % 2 != 0, Int(answer?.split(separator: " ").last ?? "") ?? -1))
        }
        var changes = 0
        for step in 0..<300 {
            let moved = random.below(80)
            places[moved] = Self.place(&random)
            _ = hub.ask(.make(), .put(Path([Key("r"), Key("c\(moved)")]), child(moved)))
            for i in live.indices {
                for line in hub.take(live[i].client) {
                    live[i].told = Int(line.split(separator: " ").last ?? "") ?? -1
                    changes += 1
                }
                let inside = try places.indices.count { number in
                    guard !live[i].isFiltered || number < 40 else { return false }
                    return try Self.geo(places[number]).snapped(toMetres: 200).metres(to: live[i].centre) <= live[i].metres
                }
                #expect(live[i].told == (inside < 2 ? 0 : inside), "step \(step), circle \(i)")
            }
        }
        #expect(changes > 200, "\(changes)")
    }

    @Test func smallCounts_areToldAsNone_onceAndLive() throws {
        let rules = try RuleSet(
            parsing: #"""
                {"rules":{".write":true,"r":{".read":"auth != null",".geoIndex":{"lat":"lat","lng":"lng","filter":["at"]},
                  ".count":{"if":"true","radius":1000,"least":3}},"v":{".count":{"if":"true","least":3}}}}
                """#)
        func child(_ at: Int64) -> Node { ["lat": 1, "lng": 1, "at": .int(at)] }
        let hub = EngineHarness(rules: rules, root: ["r": ["a": child(1), "b": child(2)], "v": ["a": 1, "b": 1]])
        let centre = try #require(GeoPoint(latitude: 1, longitude: 1))
        let circle = try Query(TreeQuery(), near: NearQuery(centre: centre, metres: 1_000, limit: nil))
        let user = Client(lane: 0, dialect: .observe, identity: Identity(auth: ["uid": "u", "provider": "password"]))
        let stranger = Client(lane: 0, dialect: .observe)
        let window = Query(TreeQuery(index: .value, limit: 2))
        for (path, query) in [("r", circle), ("r", nil), ("v", nil), ("v", window)] as [(Path, Query?)] {
            #expect(hub.ask(stranger, .count(path, query: query)) == ["counted 0 0"], "\(path)")
            #expect(hub.ask(user, .count(path, query: query)) == ["counted 0 2"], "\(path)")
        }
        // A bound of an order would single out a child.
        let bound = TreeQuery(index: .value, start: .init(value: 1), end: .init(value: 1))
        #expect(hub.ask(stranger, .count("v", query: Query(bound))) == ["error 0 permission_denied"])
        let live = [("r", circle), ("r", nil), ("v", nil)].map { (path: Path, query: Query?) in
            let client = Client(lane: 0, dialect: .rest)
            let told = hub.ask(client, .observe(path, query: query, style: .countStream, hash: ""))
            #expect(!told.contains { $0.contains("fail") }, "\(path)")
            return client
        }
        _ = hub.ask(.make(), .put("r/c", child(3)), .put("v/c", 1))
        #expect(live.map { hub.take($0) } == [["count 3"], ["count 3"], ["count 3"]])
        _ = hub.ask(.make(), .put("r/c", .null), .put("v/c", .null))
        #expect(live.map { hub.take($0) } == [["count 0"], ["count 0"], ["count 0"]])
        _ = hub.ask(.make(), .put("r/b", .null), .put("v/b", .null))
        #expect(live.map { hub.take($0) } == [[], [], []], "2 and 1 are both told as 0")
    }
}
