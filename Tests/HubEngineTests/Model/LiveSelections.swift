import HubEngine
import JSONTree
import LiveQueries
import TestSupport

/// Random live queries of children `{"v":…,"w":…,"at":{"lat":…,"lng":…}}`, and the selection of each, found by a full scan.
enum LiveSelections {
    static let rules = #"""
        {"rules":{".read":true,".write":true,
        "p":{"l":{".indexOn":["v"],".geoIndex":{"lat":"at/lat","lng":"at/lng"}}}}}
        """#
    private static let fields = GeoFields(latitude: "at/lat", longitude: "at/lng")

    static func position(_ random: inout SeededRandom) -> Node {
        // Few spots, so that distances are sometimes equal; some positions are invalid.
        if random.chance(10) { return random.pick([.null, ["lat": 91, "lng": 0], ["lat": "x", "lng": 0], ["lat": 1]]) }
        return ["lat": .number(37.97 + Double(random.below(5)) / 500), "lng": .number(23.72 + Double(random.below(5)) / 500)]
    }

    static func centre(_ random: inout SeededRandom) -> GeoPoint? {
        GeoPoint(latitude: 37.97 + Double(random.below(6)) / 600, longitude: 23.72 + Double(random.below(6)) / 600)
    }

    /// Over some of the spots.
    static let triangle = polygon([(37.97, 23.72), (37.975, 23.72), (37.97, 23.725)])

    private static func polygon(_ ring: [(latitude: Double, longitude: Double)]) -> GeoPolygon {
        guard let polygon = try? GeoPolygon(ring) else { preconditionFailure("a triangle is a polygon") }
        return polygon
    }

    /// A box or a triangle over some of the spots.
    static func region(_ random: inout SeededRandom) -> Region {
        let (south, west) = (37.97 + Double(random.below(6)) / 600, 23.72 + Double(random.below(6)) / 600)
        let (high, wide) = (Double(random.below(6)) / 500, Double(random.below(6)) / 500)
        if random.chance(50), let box = GeoBox(south: south, west: west, north: south + high, east: west + wide) { return .box(box) }
        return .polygon(polygon([(south, west), (south + high + 0.001, west), (south, west + wide + 0.001)]))
    }

    /// - Parameter tree: order, range and limit.
    static func query(_ tree: TreeQuery, _ random: inout SeededRandom) -> Query? {
        var conditions: [LiveQueries.Condition] = []
        for _ in 0..<(1 + random.below(2)) {
            let path: Path = random.pick(["v", "v", "w", "at/lat"])
            conditions.append(LiveQueries.Condition(path, random.pick([
                .equal(1), .equal(2), .equal("s"), .equal(.null), .notEqual(1), .above(1, orEqual: true), .below(2, orEqual: false),
                .oneOf([1, 2]), .oneOf([2, "s"]), .has("lat"), .prefix("s"), .above(37.974, orEqual: false),
            ])))
        }
        if random.chance(10) { conditions.append(LiveQueries.Condition("at", .has("lat"))) }
        guard random.chance(50), let centre = centre(&random) else { return try? Query(tree, where: Filter(conditions)) }
        let filter = random.chance(50) ? Filter.all : Filter(conditions)
        if random.chance(40) {
            let region = WithinQuery(.region(region(&random)))
            return try? Query(random.chance(50) ? TreeQuery(index: nil) : tree, where: filter, within: region)
        }
        switch random.below(4) {
        case 0: return try? Query(TreeQuery(index: nil), where: filter, near: NearQuery(centre: centre, metres: 600, limit: nil))
        case 1: return try? Query(TreeQuery(index: nil), where: filter, near: NearQuery(centre: centre, metres: nil, limit: 3))
        case 2: return try? Query(TreeQuery(index: nil), where: filter, near: NearQuery(centre: centre, metres: 800, limit: 4))
        default: return try? Query(tree, where: filter, near: NearQuery(centre: centre, metres: 700, limit: nil))
        }
    }

    /// The keys in the order of the query, with metres from its centre.
    static func selection(_ query: Query, _ node: Node) -> [(key: Key, metres: Double?)] {
        var found: [(key: Key, child: Node, metres: Double?)] = []
        for (key, child) in node.children where query.filter.admits(child) {
            if let region = query.within?.region {
                guard let point = fields.position(of: child).point, region.contains(point) else { continue }
            }
            guard let near = query.near else {
                found.append((key, child, nil))
                continue
            }
            guard let metres = fields.position(of: child).point?.metres(to: near.centre), metres <= near.metres ?? .infinity else { continue }
            found.append((key, child, metres))
        }
        if query.isByPosition {
            let sorted = found.sorted { ($0.metres ?? 0, $0.key) < ($1.metres ?? 0, $1.key) }
            return sorted.prefix(query.tree.limit ?? .max).map { ($0.key, $0.metres) }
        }
        let metres = Dictionary(uniqueKeysWithValues: found.map { ($0.key, $0.metres) })
        let places = found.map { query.tree.orderedBy.place($0.key, $0.child) }.filter { query.tree.admits($0) }
        let sorted = places.sorted { $0.order($1) < 0 }.map { ($0.key, metres[$0.key] ?? nil) }
        guard let limit = query.tree.limit else { return sorted }
        return query.tree.keeps == .first ? Array(sorted.prefix(limit)) : Array(sorted.suffix(limit))
    }
}

/// Requests of tests that observe a window.
extension Request {
    static func observe(_ path: Path, query: TreeQuery?, style: ObserverStyle, hash: String, since: Position? = nil) -> Request {
        .observe(path, query: query.map { Query($0) }, style: style, hash: hash, since: since)
    }

    static func get(_ path: Path, query: TreeQuery?) -> Request { .get(path, query: query.map { Query($0) }) }
    static func count(_ path: Path, query: TreeQuery?) -> Request { .count(path, query: query.map { Query($0) }) }
}
