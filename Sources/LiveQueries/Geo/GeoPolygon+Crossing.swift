extension GeoPolygon {
    /// Two edges of a ring that cross or touch, other than neighbours in their common corner; nil if there are none. An edge is named by the
    /// index of its first corner.
    ///
    /// Visits the pairs that overlap in latitude, about 1 ns each, and compares those that overlap in longitude as well, about 20 ns each.
    /// O(n log n), at most 500,500 such visits, and at most `mostPairs` comparisons.
    /// - Parameters:
    ///   - name: how errors name the ring.
    ///   - visits: counts the work, in visits of an index (about 50 ns).
    /// - Throws: `tooBig` with more than `mostPairs` pairs to compare.
    static func crossing(_ path: ContiguousArray<Corner>, named name: String, visits: inout Int) throws(QueryFault) -> (Int, Int)? {
        var (passed, compared) = (0, 0)
        defer { visits += passed / passedForVisit + compared / comparedForVisit }
        let count = path.count - 1
        let edges = ContiguousArray((0..<count).map { Edge(index: $0, a: path[$0], b: path[$0 + 1]) }.sorted { $0.south < $1.south })
        let turns = path[count].x - path[0].x
        for i in 0..<count {
            let one = edges[i]
            var j = i + 1
            while let next = edges.withUnsafeBufferPointer({ overlap(of: one, $0, from: j, turns, &passed) }) {
                j = next + 1
                let other = edges[next]
                // Longitudes a turn apart are compared only in a ring round the earth. Others are at most a turn wide.
                var shift = turns == 0 ? 0 : GeoDegrees.turn * divided(one.west - other.east)
                while one.overlapsInLongitude(other, shifted: shift) {
                    compared += 1
                    guard compared <= mostPairs else {
                        throw .tooBig(name, "is too intricate: more than \(mostPairs) pairs of its edges overlap in latitude and longitude")
                    }
                    if one.meets(other, shifted: shift, count, turns) { return (one.index, other.index) }
                    if turns == 0 { break }
                    shift += GeoDegrees.turn
                }
            }
        }
        return nil
    }

    /// The next edge, sorted by their southern ends, that overlaps one before it; nil if there is no other.
    private static func overlap(
        of one: Edge, _ edges: UnsafeBufferPointer<Edge>, from first: Int, _ turns: Int64, _ passed: inout Int
    ) -> Int? {
        var i = first
        defer { passed += i - first }
        while i < edges.count, edges[i].south <= one.north {
            if turns == 0 ? one.overlapsInLongitude(edges[i], shifted: 0) : one.overlapsAround(edges[i]) { return i }
            i += 1
        }
        return nil
    }

    /// Most pairs of edges of a ring that overlap in latitude and longitude. A ring of 200 points has no more in any case.
    public static let mostPairs = 20_000
    /// Pairs that take as long as a visit: those that overlap in latitude only, and those that are compared.
    private static let passedForVisit = 32
    private static let comparedForVisit = 2

    private struct Edge {
        let index: Int
        let a: Corner
        let b: Corner
        let south: Int64
        let north: Int64
        let west: Int64
        let east: Int64
        /// `west` as 0°…360°.
        let start: Int64

        init(index: Int, a: Corner, b: Corner) {
            (self.index, self.a, self.b) = (index, a, b)
            (south, north, west, east) = (min(a.y, b.y), max(a.y, b.y), min(a.x, b.x), max(a.x, b.x))
            start = GeoDegrees.eastward(west)
        }

        /// True if its longitudes overlap those of another edge, with `shift` added to these.
        @inline(__always)
        func overlapsInLongitude(_ other: Edge, shifted shift: Int64) -> Bool { west <= other.east + shift && other.west + shift <= east }

        /// True if its longitudes overlap those of another edge, with any number of turns between them.
        @inline(__always)
        func overlapsAround(_ other: Edge) -> Bool {
            let offset = other.start - start
            let eastward = offset < 0 ? offset + GeoDegrees.turn : offset
            return eastward <= east - west || eastward + other.east - other.west >= GeoDegrees.turn
        }

        /// True if it crosses or touches another edge of its ring, which overlaps it in latitude and longitude.
        /// - Parameters:
        ///   - shift: added to the other's longitudes.
        ///   - count: number of the ring's edges.
        ///   - turns: the longitude from the ring's first corner to its end.
        @inline(__always)
        func meets(_ other: Edge, shifted shift: Int64, _ count: Int, _ turns: Int64) -> Bool {
            let c = Corner(x: other.a.x + shift, y: other.a.y)
            let d = Corner(x: other.b.x + shift, y: other.b.y)
            let isNext = other.index == (index + 1) % count
            let isBefore = index == (other.index + 1) % count
            // Neighbours share a corner, and must not lie on each other there.
            if isNext, c == b { return GeoPolygon.isSpike(a, b, d) }
            if isBefore, d == a { return GeoPolygon.isSpike(c, a, b) }
            let (first, second) = (GeoPolygon.side(a, b, c), GeoPolygon.side(a, b, d))
            let (third, fourth) = (GeoPolygon.side(c, d, a), GeoPolygon.side(c, d, b))
            if first != second, third != fourth { return true }
            // On one line, and their boxes overlap.
            return first == 0 && second == 0
        }
    }

    /// True if the way from `a` to `b` and on to `c` turns back on itself.
    private static func isSpike(_ a: Corner, _ b: Corner, _ c: Corner) -> Bool {
        guard side(a, b, c) == 0 else { return false }
        return Double(a.x - b.x) * Double(c.x - b.x) + Double(a.y - b.y) * Double(c.y - b.y) > 0
    }
}
