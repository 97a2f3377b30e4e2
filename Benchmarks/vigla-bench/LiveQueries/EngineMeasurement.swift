import HubEngine
import JSONTree
import LiveQueries

/// The cost of live queries within the engine: a write with its rules, its commit, the affected views and the sent events,
/// compared with the same write under one query.
struct EngineMeasurement {
    var writes: Int

    /// Queries with different constants; a write affects one of them or none.
    func constants(queries: Int, children: Int, _ show: (String) -> Void) throws {
        let root: Node = ["m": .object((0..<children).map { (Self.key($0), ["status": .string("s\($0 % queries)"), "rating": 0]) })]
        for count in [1, queries] {
            let hub = try BenchHub(root: root, declared: #"".indexOn":["status"]"#)
            hub.observe(try (0..<count).map { i in
                try Query(TreeQuery(index: .key), where: Filter([Condition("status", .equal(Constant(stringLiteral: "s\(i)")))]))
            })
            try hub.expectNothingRefused()
            let before = hub.format.changes
            let one = hub.microsPerWrite(writes) { i in
                TreeWrite(Path(["m", Self.key(i % count), "rating"]), WriteValue(.int(Int64(i + 1))))
            }
            let told = Double(hub.format.changes - before) / Double(writes)
            let none = hub.microsPerWrite(writes) { i in
                TreeWrite(Path(["m", "other", "rating"]), WriteValue(.int(Int64(i + 1))))
            }
            try hub.expectNothingRefused()
            show(
                "  within the engine, under \(count) live queries: a write that one matches \(one.fixed(2)) µs (\(told.fixed(2)) told), "
                    + "that none matches \(none.fixed(2)) µs")
        }
    }

    /// One child moves within many circles, all of which contain it, and with many others that do not.
    func circles(overlapping: Int, distant: Int, _ show: (String) -> Void) throws {
        let fields = #"".geoIndex":{"lat":"at/lat","lng":"at/lng"}"#
        for (near, far) in [(1, 0), (overlapping, 0), (1, distant)] {
            let hub = try BenchHub(root: ["m": ["danae": Self.position(0)]], declared: fields)
            hub.observe(try (0..<(near + far)).map { i in
                let isFar = i >= near
                let latitude = isFar ? 50 + Double(i % 1_000) / 200 : 37.97 + Double(i % 50) / 20_000
                let longitude = isFar ? 8 + Double(i / 1_000) / 20 : 23.73 + Double(i / 50) / 20_000
                guard let centre = GeoPoint(latitude: latitude, longitude: longitude) else {
                    throw BenchError.unexpected("that is no place on the earth")
                }
                return try Query(TreeQuery(), near: NearQuery(centre: centre, metres: 1_000, limit: nil))
            })
            try hub.expectNothingRefused()
            let before = hub.format.changes
            let moves = min(writes, 500)
            let each = hub.microsPerWrite(moves) { i in TreeWrite("m/danae", WriteValue(Self.position(i + 1))) }
            try hub.expectNothingRefused()
            let told = (hub.format.changes - before) / moves
            show(
                "  within the engine, a point moves under \(near) overlapping and \(far) distant circles: \(each.fixed(1)) µs, "
                    + "\(told) told")
        }
    }

    private static func key(_ i: Int) -> Key { Key("c\(i)") }

    private static func position(_ i: Int) -> Node {
        ["at": ["lat": .number(37.9705 + Double(i % 7) / 50_000), "lng": .number(23.7305 + Double(i % 5) / 50_000)], "n": .int(Int64(i))]
    }
}
