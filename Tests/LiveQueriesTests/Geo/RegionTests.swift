import TestSupport
import Testing

@testable import LiveQueries

/// Circles, boxes and polygons against other ways to compute them, everywhere on the earth.
@Suite(.timeLimit(.minutes(30))) struct RegionTests {
    private static func degrees(_ at: (x: Int, y: Int)) -> (latitude: Double, longitude: Double) { (Double(at.y) / 1e6, Double(at.x) / 1e6) }

    private static func point(_ at: (x: Int, y: Int)) throws -> GeoPoint {
        try #require(GeoPoint(latitude: Double(at.y) / 1e6, longitude: Double(at.x) / 1e6))
    }

    @Test(arguments: [1, 1_000, 100_000]) func polygon_containsWhatTheWindingNumberSays(_ grid: Int) throws {
        var regions = RandomRegions(UInt64(grid))
        regions.grid = grid
        var (inside, around, edges) = (0, 0, 0)
        for _ in 0..<Steps.count(1_500) {
            let ring = regions.ring()
            guard let polygon = try? GeoPolygon(ring.ring) else { continue }
            if ring.turns != 0 { around += 1 }
            for _ in 0..<12 {
                // A corner, a point between two corners, or any.
                let (a, b) = (regions.random.pick(ring.points), regions.random.pick(ring.points))
                let at: (x: Int, y: Int)
                switch regions.random.below(4) {
                case 0: at = (RingModel.wrapped(a.x), a.y)
                case 1: at = (RingModel.wrapped((a.x + b.x) / 2), (a.y + b.y) / 2)
                default: at = regions.point()
                }
                let expected = ring.contains(x: at.x, y: at.y)
                #expect(try Region.polygon(polygon).contains(Self.point(at)) == expected, "\(ring) \(at)")
                if expected { inside += 1 }
                if at == (RingModel.wrapped(a.x), a.y) { edges += 1 }
            }
        }
        #expect(inside > 2_000 && around > 50 && edges > 1_000)
    }

    @Test func ring_isRefused_whereTwoEdgesMeet() throws {
        var random = SeededRandom(3)
        var (refused, accepted) = (0, 0)
        for _ in 0..<Steps.count(4_000) {
            let (grid, left) = (random.pick([1, 50, 500]), random.pick([0, 179_999_000]))
            let points = (0..<(3 + random.below(5))).map { _ in (x: left + random.below(2_000) / grid * grid, y: random.below(2_000) / grid * grid) }
            // Repeated points are left out, and have tests of their own.
            if zip(points, points.dropFirst() + [points[0]]).contains(where: { $0 == $1 }) { continue }
            let ring = RingModel(points: points)
            let isRefused = (try? GeoPolygon(ring.ring)) == nil
            #expect(isRefused == ring.crosses, "\(points)")
            if isRefused { refused += 1 } else { accepted += 1 }
        }
        #expect(refused > 500 && accepted > 500)
    }

    @Test func ringAroundTheEarth_isRefused_whereTwoEdgesMeet() throws {
        var random = SeededRandom(4)
        var (refused, accepted) = (0, 0)
        for _ in 0..<Steps.count(2_000) {
            var points: [(x: Int, y: Int)] = []
            var x = random.below(360_000_000) - 180_000_000
            let start = x
            while x < start + 360_000_000 {
                points.append((x, 60_000_000 + random.below(20_000_000)))
                x += random.below(100_000_000) - (random.chance(40) ? 50_000_000 : 0)
            }
            let ring = RingModel(points: points, turns: RingModel.turn)
            // The last edge must go on eastward, and no edge may be half a turn.
            guard let last = points.last, last.x > start + 190_000_000 else { continue }
            if zip(points, points.dropFirst()).contains(where: { $0 == $1 }) { continue }
            let isRefused = (try? GeoPolygon(ring.ring)) == nil
            #expect(isRefused == ring.crosses, "\(points)")
            if isRefused { refused += 1 } else { accepted += 1 }
        }
        #expect(refused > 100 && accepted > 100)
    }

    @Test func box_containsWhatItsEdgesSay() throws {
        var regions = RandomRegions(6)
        var inside = 0
        for _ in 0..<Steps.count(3_000) {
            guard let box = regions.box() else { continue }
            let edges = box.edges
            for _ in 0..<8 {
                var at = regions.point()
                if regions.random.chance(30) { at.x = Int((edges.west * 1e6).rounded()) }
                if regions.random.chance(30) { at.y = Int((edges.north * 1e6).rounded()) }
                let (latitude, longitude) = Self.degrees(at)
                let isBetween = [longitude, longitude == -180 ? 180 : longitude == 180 ? -180 : longitude].contains {
                    edges.west <= edges.east ? $0 >= edges.west && $0 <= edges.east : $0 >= edges.west || $0 <= edges.east
                }
                let expected = latitude >= edges.south && latitude <= edges.north && (isBetween || latitude.magnitude == 90)
                #expect(try Region.box(box).contains(Self.point(at)) == expected, "\(edges) \(at)")
                if expected { inside += 1 }
            }
        }
        #expect(inside > 2_000)
    }

    /// A ring of a box's corners is that box, because edges are straight in longitude and latitude.
    @Test func polygonOfABoxsCorners_isTheBox() throws {
        var regions = RandomRegions(8)
        var compared = 0
        for _ in 0..<Steps.count(1_000) {
            guard let box = regions.box(), box.width > 0, box.width < GeoDegrees.halfTurn, box.north > box.south else { continue }
            let edges = box.edges
            // Along ±90 an edge runs as written, so not across the antimeridian.
            if edges.west > edges.east, edges.north == 90 || edges.south == -90 { continue }
            let polygon = try GeoPolygon([
                (edges.south, edges.west), (edges.north, edges.west), (edges.north, edges.east), (edges.south, edges.east),
            ])
            for _ in 0..<20 {
                let point = regions.geoPoint()
                #expect(Region.polygon(polygon).contains(point) == Region.box(box).contains(point), "\(edges) \(point)")
            }
            compared += 1
        }
        #expect(compared > 200)
    }

    @Test func polesAndTheWholeEarth_areContained() throws {
        func polygon(_ ring: [(Double, Double)]) throws -> Region { .polygon(try GeoPolygon(ring.map { (latitude: $0.0, longitude: $0.1) })) }
        func at(_ latitude: Double, _ longitude: Double) throws -> GeoPoint { try #require(GeoPoint(latitude: latitude, longitude: longitude)) }
        // A cap without the pole among its corners, in both directions.
        for ring in [[(60.0, 0.0), (60, 120), (60, -120)], [(60, -120), (60, 120), (60, 0)]] {
            let cap = try polygon(ring)
            #expect(try cap.contains(at(90, 0)) && cap.contains(at(60, 77)) && cap.contains(at(75, 180)) && !cap.contains(at(59.9, 1)))
            #expect(try !cap.contains(at(-90, 0)))
        }
        // A part with the pole as a corner, and Antarctica as maps have it.
        let wedge = try polygon([(60, 0), (60, 90), (90, 90), (90, 0)])
        #expect(try wedge.contains(at(90, 5)) && wedge.contains(at(75, 45)) && !wedge.contains(at(75, -45)) && !wedge.contains(at(-90, 0)))
        let south = try polygon([(-90, -180), (-60, -180), (-60, -90), (-70, 0), (-60, 90), (-60, 180), (-90, 180)])
        #expect(try south.contains(at(-90, 0)) && south.contains(at(-80, 180)) && south.contains(at(-60, 180)) && !south.contains(at(-65, 0)))
        let earth = try polygon([(-90, -180), (90, -180), (90, 180), (-90, 180)])
        for point in [(90.0, 0.0), (-90, 0), (0, 180), (0, -180), (12, 34)] { #expect(try earth.contains(at(point.0, point.1))) }
        #expect(GeoBox(south: -90, west: -180, north: 90, east: 180)?.width == GeoDegrees.turn)
        let line = try #require(GeoBox(south: 0, west: 180, north: 10, east: -180))
        #expect(try Region.box(line).contains(at(5, 180)) && !Region.box(line).contains(at(5, 179.999)))
        #expect(GeoBox(south: 1, west: 0, north: 0, east: 1) == nil && GeoBox(south: .nan, west: 0, north: 0, east: 1) == nil)
    }

    @Test func faults_nameTheRingAndThePoint() throws {
        func fault(_ ring: [(Double, Double)]) -> String? {
            let points = ring.map { (latitude: $0.0, longitude: $0.1) }
            do throws(QueryFault) { _ = try GeoPolygon(points, named: "ring") } catch { return error.description }
            return nil
        }
        #expect(fault([]) == "ring: must have at least 3 different points")
        #expect(fault([(0, 0), (0, 0), (1, 1), (0, 0)]) == "ring: must have at least 3 different points")
        #expect(fault([(0, 0), (0, 1), (1, 1), (1, 1), (0, 0)]) == nil)
        #expect(fault([(0, 0), (1, 1), (0, 1), (1, 0)]) == "ring: crosses or touches itself: the edges after points 0 and 2, counted from 0")
        #expect(fault([(0, 0), (0, 2), (0, 1)])?.hasPrefix("ring: crosses or touches itself") == true)
        #expect(fault([(0, 0), (91, 2), (0, 1)])?.hasPrefix("ring[1]: must be from -90") == true)
        #expect(fault([(0, 0), (0, 180), (1, 1)])?.hasPrefix("ring[1]: is half a turn") == true)
        #expect(fault([(0, 0), (0, 120), (0, -120)])?.contains("which half is meant") == true)
        #expect(fault([(10, 0), (20, 120), (90, -120)])?.contains("a point at a pole") == true)
        let spiral = (0..<9).map { (Double($0), Double($0 * 100 % 360 - 180)) }
        #expect(fault(spiral)?.hasPrefix("ring: goes round the earth") == true)
        let circle = (0..<GeoPolygon.mostPoints).map { i in
            let t = Double(i) / Double(GeoPolygon.mostPoints) * 2 * Double.pi
            return (10 + 5 * t.remainder(dividingBy: 2), Double(i) / 100)
        }
        #expect(fault(circle + [circle[0], circle[0]]) == "ring: has more than 1000 points")
        #expect(fault(Array(repeating: (1, 1), count: 10_000)) == "ring: has more than 1000 points")
    }

    /// All pairs of a zigzag's edges overlap in latitude and longitude.
    @Test func intricateRing_isRefused() throws {
        func zigzag(_ edges: Int) -> [(latitude: Double, longitude: Double)] {
            var ring: [(latitude: Double, longitude: Double)] = [(-5, -5)]
            for i in 0...edges {
                let (far, step) = (Double(i % 2), Double(i) / 1_000)
                ring.append((far + step, far - step))
            }
            return ring
        }
        func read(_ ring: [(latitude: Double, longitude: Double)]) -> (fault: QueryFault?, visits: Int) {
            var visits = 0
            do throws(QueryFault) { _ = try GeoPolygon(ring, named: "ring", visits: &visits) } catch { return (error, visits) }
            return (nil, visits)
        }
        let (accepted, refused, largest) = (read(zigzag(200)), read(zigzag(202)), read(zigzag(998)))
        #expect(accepted.fault == nil, "19,900 pairs, and a few of the other two edges")
        #expect(refused.fault?.description
            == "ring: is too intricate: more than 20000 pairs of its edges overlap in latitude and longitude")
        #expect(refused.fault?.reason == .tooBig && largest.fault?.reason == .tooBig)
        #expect(accepted.visits > 9_000 && largest.visits < 30_000, "\(accepted.visits), \(largest.visits)")
        // The teeth of an upright comb overlap in latitude only.
        var comb: [(latitude: Double, longitude: Double)] = [(-5, 0.5)]
        for i in 0...998 { comb.append((Double(i % 2), Double(i) / 1_000)) }
        #expect(read(comb).fault == nil)
    }

    @Test func cells_areCoveredAsTheirPointsAre() throws {
        var regions = RandomRegions(10)
        var (none, all) = (0, 0)
        for _ in 0..<Steps.count(1_500) {
            guard let region = regions.region() else { continue }
            for _ in 0..<4 {
                let centre = regions.geoPoint()
                let half = regions.random.pick([1e-5, 1e-3, 0.02, 0.2, 0.7])
                let cap = SphereCap(centre.x, centre.y, centre.z, half)
                let coverage = region.coverage(of: cap)
                if coverage == .none { none += 1 }
                if coverage == .all { all += 1 }
                if coverage == .part { continue }
                for _ in 0..<6 {
                    let point = regions.geoPoint()
                    guard max((point.x - centre.x).magnitude, (point.y - centre.y).magnitude, (point.z - centre.z).magnitude) <= half else { continue }
                    #expect(region.contains(point) == (coverage == .all), "\(region) \(cap) \(point)")
                }
                #expect(region.contains(centre) == (coverage == .all), "\(region) \(cap)")
            }
        }
        #expect(none > 500 && all > 50)
    }

    @Test func enclosingCircle_containsTheRegion() throws {
        var regions = RandomRegions(12)
        var inside = 0
        for _ in 0..<Steps.count(6_000) {
            guard let region = regions.region() else { continue }
            let circle = region.enclosingCircle
            for _ in 0..<10 {
                let point = regions.geoPoint()
                guard region.contains(point) else { continue }
                inside += 1
                #expect(point.metres(to: circle.centre) <= circle.metres * (1 + 1e-9) + 0.5, "\(region) \(circle) \(point)")
            }
        }
        #expect(inside > 2_000)
        // Of a small box it is half of the diagonal.
        let box = try #require(GeoBox(south: 0, west: 0, north: 0.003, east: 0.004))
        let half = 0.0025 * Double.pi / 180 * GeoPoint.earthRadius
        #expect((box.circle.metres - half).magnitude < 0.01)
        let (earth, cap) = (GeoBox(south: -90, west: -180, north: 90, east: 180), GeoBox(south: 80, west: -180, north: 90, east: 180))
        #expect(try #require(earth).circle.metres >= GeoPoint.earthRadius * .pi)
        #expect(try #require(cap).circle.metres < 1_120_000)
    }
}
