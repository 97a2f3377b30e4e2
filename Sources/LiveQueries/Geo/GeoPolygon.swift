import Glibc

/// The positions inside a ring of points, its edges and corners included.
///
/// ```
///    180°W        0°        180°E        edges are straight lines in longitude and latitude, as in GeoJSON (RFC 7946 §3.1.1):
///      ├─────────────────────┤           an edge along a parallel follows it, and a ring of a box's corners is that box.
///      │ b              a    │           An edge goes the shorter way: a ─ b here crosses the antimeridian. For a longer one
///      ├─┼──────────────┼────┤           points are put in between.
/// ```
/// A ring that goes round the earth divides it in two: the polygon is the smaller part, with the pole in it. The direction of a ring does
/// not matter. A ring may also reach a pole by corners with a latitude of ±90: then it contains the pole as one of its edge points, and the edge
/// between two such corners runs along ±90 as written, so that a map's whole width from -180 to 180 is possible.
public struct GeoPolygon: Sendable, Hashable {
    /// A corner in billionths of a degree. Longitudes continue from corner to corner, beyond ±180° if need be.
    struct Corner: Sendable, Hashable {
        let x: Int64
        let y: Int64
    }

    /// The corners, and the first again; a turn away from itself if the ring goes round the earth.
    let path: ContiguousArray<Corner>
    /// A box around the polygon.
    let bounds: GeoBox
    /// The smallest and the largest longitude of the path.
    private let minX: Int64
    private let maxX: Int64
    private let holdsNorthPole: Bool
    private let holdsSouthPole: Bool
    /// True if a ring round the earth contains the north pole.
    private let isAroundNorthPole: Bool

    /// Most points of a ring, without its end if that repeats the first.
    public static let mostPoints = 1_000

    /// - Parameters:
    ///   - ring: at least 3 points in degrees, -90…90 and -180…180. The last may repeat the first; points that repeat the one before are left
    ///     out.
    ///   - name: how errors name the ring.
    /// - Throws: `QueryFault`, which names the point, counted from 0. `tooBig` with more than `mostPoints` points or `mostPairs` pairs of edges
    ///   that may cross. Usually O(n log n), with many such pairs up to 1 ms.
    public init(_ ring: [(latitude: Double, longitude: Double)], named name: String = "polygon") throws(QueryFault) {
        var visits = 0
        try self.init(ring, named: name, visits: &visits)
    }

    /// - Parameter visits: counts the work, in visits of an index (about 50 ns), also for a refused ring.
    init(_ ring: [(latitude: Double, longitude: Double)], named name: String, visits: inout Int) throws(QueryFault) {
        // A closed ring has one more.
        guard ring.count <= Self.mostPoints + 1 else { throw .tooBig(name, "has more than \(Self.mostPoints) points") }
        visits += ring.count
        let corners = try Self.corners(ring, name)
        guard corners.count > 3 else { throw .malformed(name, "must have at least 3 different points") }
        guard corners.count <= Self.mostPoints + 1 else { throw .tooBig(name, "has more than \(Self.mostPoints) points") }
        path = ContiguousArray(corners.map(\.corner))
        (minX, maxX) = (path.map(\.x).min() ?? 0, path.map(\.x).max() ?? 0)
        let (south, north) = (path.map(\.y).min() ?? 0, path.map(\.y).max() ?? 0)
        let turns = path[path.count - 1].x - path[0].x
        let reachesPole = max(north, -south) == GeoDegrees.pole
        guard turns.magnitude <= GeoDegrees.turn else { throw .malformed(name, "goes round the earth more than once") }
        if let (a, b) = try Self.crossing(path, named: name, visits: &visits) {
            let (i, j) = (corners[a].index, corners[b].index)
            throw .malformed(name, "crosses or touches itself: the edges after points \(min(i, j)) and \(max(i, j)), counted from 0")
        }
        if turns == 0 {
            guard maxX - minX <= GeoDegrees.turn else { throw .malformed(name, "spans more than 360 degrees of longitude") }
            (holdsNorthPole, holdsSouthPole) = (north == GeoDegrees.pole, south == -GeoDegrees.pole)
            isAroundNorthPole = false
            bounds = GeoBox(south: south, north: north, west: minX, width: maxX - minX)
            return
        }
        if reachesPole { throw .malformed(name, "goes round the earth, and has a point at a pole") }
        let lean = Self.lean(path)
        guard lean.magnitude > 1e-9 else {
            throw .malformed(name, "goes round the earth in the middle: which half is meant is not defined")
        }
        isAroundNorthPole = lean > 0
        (holdsNorthPole, holdsSouthPole) = (lean > 0, lean < 0)
        bounds = GeoBox(
            south: lean > 0 ? south : -GeoDegrees.pole, north: lean > 0 ? GeoDegrees.pole : north, west: minX, width: GeoDegrees.turn)
    }

    /// The corners in degrees, each once.
    public var points: [(latitude: Double, longitude: Double)] {
        path.dropLast().map { corner in
            let east = GeoDegrees.eastward(corner.x)
            return (GeoDegrees.degrees(corner.y), GeoDegrees.degrees(east > GeoDegrees.halfTurn ? east - GeoDegrees.turn : east))
        }
    }

    public static func == (a: GeoPolygon, b: GeoPolygon) -> Bool { a.path == b.path }
    public func hash(into hasher: inout Hasher) { hasher.combine(path) }

    // MARK: Reading a ring

    /// The corners with the longitudes of the path and the indexes of their points; the first is repeated at the end.
    private static func corners(
        _ ring: [(latitude: Double, longitude: Double)], _ name: String
    ) throws(QueryFault) -> ContiguousArray<(corner: Corner, index: Int)> {
        var corners: ContiguousArray<(corner: Corner, index: Int)> = []
        var last: GeoDegrees?
        for i in 0...ring.count where !ring.isEmpty {
            let point = ring[i % ring.count]
            guard let at = GeoDegrees(latitude: point.latitude, longitude: point.longitude) else {
                throw .malformed("\(name)[\(i)]", "must be from -90 to 90 in latitude, and from -180 to 180 in longitude")
            }
            defer { last = at }
            guard let before = last, let corner = corners.last?.corner else {
                corners.append((Corner(x: at.longitude, y: at.latitude), i))
                continue
            }
            var way = at.longitude - before.longitude
            // Along ±90 an edge runs as written.
            if before.latitude != at.latitude || at.latitude.magnitude != GeoDegrees.pole {
                way = GeoDegrees.eastward(way)
                guard way != GeoDegrees.halfTurn else {
                    throw .malformed(
                        "\(name)[\(i % ring.count)]", "is half a turn of longitude away from the point before it: put a point in between")
                }
                if way > GeoDegrees.halfTurn { way -= GeoDegrees.turn }
            }
            if way == 0, at.latitude == before.latitude {
                // The end is dropped below, so it is appended even where the ring repeats its first point.
                if i == ring.count, corners.count > 1 { corners.removeLast() } else { continue }
            }
            corners.append((Corner(x: corner.x + way, y: at.latitude), i))
        }
        return corners
    }

    /// The integral of the sine of the latitude along a ring round the earth: positive if its northern side is the smaller one.
    private static func lean(_ path: ContiguousArray<Corner>) -> Double {
        let toRadians = Double.pi / 180 / Double(GeoDegrees.degree)
        var sum = 0.0
        for i in 1..<path.count {
            let (a, b) = (Double(path[i - 1].y) * toRadians, Double(path[i].y) * toRadians)
            let way = Double(path[i].x - path[i - 1].x) * toRadians
            let isLevel = (b - a).magnitude < 1e-6
            sum += way * (isLevel ? sin((a + b) / 2) : (cos(a) - cos(b)) / (b - a))
        }
        return path[path.count - 1].x > path[0].x ? sum : -sum
    }

    // MARK: Testing

    /// The number of edges north of a position decides. O(points): about 1 ns each
    func contains(_ at: GeoDegrees) -> Bool {
        guard bounds.contains(at) else { return false }
        if at.latitude == GeoDegrees.pole { return holdsNorthPole }
        if at.latitude == -GeoDegrees.pole { return holdsSouthPole }
        // The same meridian may occur twice on the path.
        var x = minX + GeoDegrees.eastward(at.longitude - minX)
        var isInside = isAroundNorthPole
        while x <= maxX {
            switch path.withUnsafeBufferPointer({ Self.edges(of: $0, northOf: Corner(x: x, y: at.latitude)) }) {
            case nil: return true
            case let count?: if count & 1 == 1 { isInside.toggle() }
            }
            x += GeoDegrees.turn
        }
        return isInside
    }

    /// The number of edges of a path north of a position; nil if it is on one of them.
    private static func edges(of path: UnsafeBufferPointer<Corner>, northOf at: Corner) -> Int? {
        var count = 0
        var a = path[0]
        for i in 1..<path.count {
            let b = path[i]
            defer { a = b }
            if (a.x < at.x && b.x < at.x) || (a.x > at.x && b.x > at.x) || (a.y < at.y && b.y < at.y) { continue }
            if a.x == b.x {
                if min(a.y, b.y) <= at.y { return nil }
                continue
            }
            let (west, east) = a.x < b.x ? (a, b) : (b, a)
            let side = side(west, east, at)
            if side == 0 { return nil }
            if side < 0, at.x < east.x { count += 1 }
        }
        return count
    }

    /// How much of a cell of an index lies in the polygon. O(points): about 3 ns each
    func coverage(of cell: GeoBox) -> RegionCoverage {
        guard bounds.coverage(of: cell) != .none else { return .none }
        for i in 1..<path.count where Self.meets(path[i - 1], path[i], cell) { return .part }
        // No edge meets the cell, so one of its points decides for all.
        let latitude = cell.south > -GeoDegrees.pole ? cell.south : cell.north
        return contains(GeoDegrees(latitude: latitude, longitude: cell.west)) ? .all : .none
    }

    /// True if an edge has a point in a cell.
    private static func meets(_ a: Corner, _ b: Corner, _ cell: GeoBox) -> Bool {
        guard min(a.y, b.y) <= cell.north, max(a.y, b.y) >= cell.south else { return false }
        let (west, east) = a.x <= b.x ? (a, b) : (b, a)
        // The first place of the cell, turned around the earth, whose end is not west of the edge.
        var from = cell.west + GeoDegrees.turn * divided(west.x - cell.west - cell.width)
        while from <= east.x {
            if a.y == b.y || a.x == b.x { return true }
            let corners = [
                Corner(x: from, y: cell.south), Corner(x: from + cell.width, y: cell.south), Corner(x: from, y: cell.north),
                Corner(x: from + cell.width, y: cell.north),
            ]
            let first = side(west, east, corners[0])
            // The cell is on one side of the edge's line, or the two meet.
            if first == 0 || corners.contains(where: { side(west, east, $0) != first }) { return true }
            from += GeoDegrees.turn
        }
        return false
    }

    /// The smallest number of turns that is at least a difference of longitudes.
    static func divided(_ difference: Int64) -> Int64 {
        let rest = GeoDegrees.eastward(difference)
        return (difference - rest) / GeoDegrees.turn + (rest > 0 ? 1 : 0)
    }

    /// On which side of the line from `a` to `b` a corner lies: 1 left, -1 right, 0 on it. Exact.
    @inline(__always)
    static func side(_ a: Corner, _ b: Corner, _ c: Corner) -> Int {
        let (abX, abY, acX, acY) = (b.x - a.x, b.y - a.y, c.x - a.x, c.y - a.y)
        // A product of differences has up to 80 bits; doubles decide unless it is close.
        let (left, right) = (Double(abX) * Double(acY), Double(abY) * Double(acX))
        let error = (left.magnitude + right.magnitude) * 4e-16
        if left - right > error { return 1 }
        if right - left > error { return -1 }
        return Int((Int128(abX) * Int128(acY) - Int128(abY) * Int128(acX)).signum())
    }
}
