import Glibc
import TestSupport

@testable import LiveQueries

/// Rings in whole millionths of a degree, and which points lie in them: computed in integers, and by another method than `GeoPolygon` uses.
struct RingModel {
    /// Longitudes continue from point to point; the first is not repeated.
    var points: [(x: Int, y: Int)]
    /// The longitude from the first point to the end of the ring: 0, or a turn.
    var turns = 0
    static let turn = 360_000_000

    var ring: [(latitude: Double, longitude: Double)] {
        points.map { (Double($0.y) / 1e6, Double(Self.wrapped($0.x)) / 1e6) }
    }

    static func wrapped(_ x: Int) -> Int {
        let rest = ((x + turn / 2) % turn + turn) % turn
        return rest - turn / 2
    }

    /// The winding number of the ring around the point, and of its copies a turn away; a ring round the earth is closed along the pole of its side.
    func contains(x: Int, y: Int) -> Bool {
        var path = points
        if turns != 0 {
            path.append((points[0].x + turns, points[0].y))
            let pole = mean > 0 ? 90_000_000 : -90_000_000
            if y == pole { return true }
            path += [(points[0].x + turns, pole), (points[0].x, pole)]
        }
        if y.magnitude == 90_000_000, turns == 0 { return points.contains { $0.y == y } }
        return (-2...2).contains { copy in
            let x = x + copy * Self.turn
            var winding = 0
            for i in path.indices {
                let (a, b) = (path[i], path[(i + 1) % path.count])
                let side = (b.x - a.x) * (y - a.y) - (b.y - a.y) * (x - a.x)
                let isInside = min(a.x, b.x) <= x && x <= max(a.x, b.x) && min(a.y, b.y) <= y && y <= max(a.y, b.y)
                if side == 0, isInside { return true }
                if a.y <= y, b.y > y, side > 0 { winding += 1 }
                if a.y > y, b.y <= y, side < 0 { winding -= 1 }
            }
            return winding != 0
        }
    }

    /// Positive if the ring lies more in the north.
    private var mean: Int { points.reduce(0) { $0 + $1.y } }

    /// Whether two edges cross or touch, by comparing all pairs.
    var crosses: Bool {
        let count = points.count
        func edge(_ i: Int) -> ((x: Int, y: Int), (x: Int, y: Int)) {
            (points[i], i + 1 < count ? points[i + 1] : (points[0].x + turns, points[0].y))
        }
        func side(_ a: (x: Int, y: Int), _ b: (x: Int, y: Int), _ c: (x: Int, y: Int)) -> Int {
            ((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x)).signum()
        }
        func isOn(_ a: (x: Int, y: Int), _ b: (x: Int, y: Int), _ c: (x: Int, y: Int)) -> Bool {
            side(a, b, c) == 0 && min(a.x, b.x) <= c.x && c.x <= max(a.x, b.x) && min(a.y, b.y) <= c.y && c.y <= max(a.y, b.y)
        }
        for i in 0..<count {
            for j in 0..<count where i < j {
                for shift in turns == 0 ? [0] : [-2 * Self.turn, -Self.turn, 0, Self.turn, 2 * Self.turn] {
                    let ((a, b), (c0, d0)) = (edge(i), edge(j))
                    let (c, d) = ((x: c0.x + shift, y: c0.y), (x: d0.x + shift, y: d0.y))
                    if j == i + 1, b == c {
                        if isOn(a, b, d) || isOn(c, d, a) { return true }
                    } else if (j + 1) % count == i, d == a {
                        if isOn(c, d, b) || isOn(a, b, c) { return true }
                    } else if isOn(a, b, c) || isOn(a, b, d) || isOn(c, d, a) || isOn(c, d, b) {
                        return true
                    } else if side(a, b, c) * side(a, b, d) < 0, side(c, d, a) * side(c, d, b) < 0 {
                        return true
                    }
                }
            }
        }
        return false
    }
}

/// Random regions everywhere, many of them at the poles and the antimeridian.
struct RandomRegions {
    var random: SeededRandom
    /// Corners and points lie on a grid of so many millionths of a degree, so that points often lie on edges.
    var grid = 1

    init(_ seed: UInt64) { random = SeededRandom(seed) }

    mutating func spot() -> (x: Int, y: Int) {
        let near = random.pick([(0, 89_900_000), (0, -89_900_000), (180_000_000, 0), (-180_000_000, 60_000_000), (23_735_000, 37_975_000)])
        let any = (x: random.below(360_000_001) - 180_000_000, y: random.below(180_000_001) - 90_000_000)
        return random.chance(30) ? any : (near.0, near.1)
    }

    /// A star around a spot, or around a pole.
    mutating func ring() -> RingModel {
        let count = 3 + random.below(20)
        if random.chance(25) {
            let isNorth = random.chance(50)
            let start = snapped(random.below(RingModel.turn) - RingModel.turn / 2)
            let points = (0..<max(count, 4)).map { i in
                let y = snapped(random.pick([89_999_000, 80_000_000, 20_000_000, 1_000_000]) - random.below(900_000))
                return (x: start + snapped(i * (RingModel.turn / max(count, 4))), y: isNorth ? y : -y)
            }
            return RingModel(points: random.chance(50) ? points : points.reversed()).directed
        }
        let (centre, size) = (spot(), random.pick([300, 20_000, 900_000, 60_000_000]))
        let points = (0..<count).map { i in
            let angle = (Double(i) + 0.8 * Double(random.below(1_000)) / 1_000) / Double(count) * 2 * .pi
            let reach = Double(size) * (0.2 + 0.8 * Double(random.below(1_000)) / 1_000)
            let (x, y) = (centre.x + Int(reach * cos(angle)), centre.y + Int(reach * sin(angle)))
            return (x: snapped(x), y: snapped(min(89_999_999, max(-89_999_999, y))))
        }
        return RingModel(points: random.chance(50) ? points : points.reversed())
    }

    mutating func snapped(_ value: Int) -> Int { value / grid * grid }

    mutating func region() -> Region? {
        switch random.below(3) {
        case 0:
            let at = spot()
            let centre = GeoPoint(latitude: Double(at.y) / 1e6, longitude: Double(RingModel.wrapped(at.x)) / 1e6)
            return centre.map { .circle(GeoCircle(centre: $0, metres: random.pick([5, 900, 20_000, 3e6, 1.2e7, 3e7]))) }
        case 1: return box().map { .box($0) }
        default: return (try? GeoPolygon(ring().ring)).map { .polygon($0) }
        }
    }

    mutating func box() -> GeoBox? {
        let (at, size) = (spot(), random.pick([0, 300, 40_000, 3_000_000, 70_000_000, 360_000_000]))
        let (south, north) = (max(-90_000_000, at.y - random.below(size + 1)), min(90_000_000, at.y + random.below(size + 1)))
        let (west, east) = (RingModel.wrapped(at.x - random.below(size + 1)), RingModel.wrapped(at.x + random.below(size + 1)))
        if size == 360_000_000, random.chance(50) {
            return GeoBox(south: Double(south) / 1e6, west: -180, north: Double(north) / 1e6, east: 180)
        }
        return GeoBox(south: Double(south) / 1e6, west: Double(west) / 1e6, north: Double(north) / 1e6, east: Double(east) / 1e6)
    }

    /// A point near a spot, often on the grid.
    mutating func point() -> (x: Int, y: Int) {
        let (at, size) = (spot(), random.pick([1, 400, 30_000, 2_000_000, 80_000_000]))
        let y = min(90_000_000, max(-90_000_000, at.y + random.below(2 * size + 1) - size))
        return (RingModel.wrapped(snapped(at.x + random.below(2 * size + 1) - size)), snapped(y))
    }

    mutating func geoPoint() -> GeoPoint {
        let at = point()
        return GeoPoint(latitude: Double(at.y) / 1e6, longitude: Double(at.x) / 1e6) ?? .northPole
    }
}

extension RingModel {
    /// The same as a ring round the earth, eastward or westward.
    fileprivate var directed: RingModel {
        RingModel(points: points, turns: points[1].x > points[0].x ? Self.turn : -Self.turn)
    }
}
