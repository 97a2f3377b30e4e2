extension GeoPolygon {
    /// Two edges of a ring that cross or touch, other than neighbours in their common corner; nil if there are none. An edge is named by the
    /// index of its first corner.
    ///
    /// Compares the edges that overlap in latitude.
    static func crossing(_ path: ContiguousArray<Corner>) -> (Int, Int)? {
        let count = path.count - 1
        let edges = (0..<count).map { i in
            Edge(index: i, a: path[i], b: path[i + 1])
        }.sorted { $0.south < $1.south }
        let turns = path[count].x - path[0].x
        for i in 0..<count {
            let one = edges[i]
            for other in edges[(i + 1)...] {
                if other.south > one.north { break }
                // Longitudes a turn apart are compared only in a ring round the earth. Others are at most a turn wide.
                var shift: Int64 = 0
                var last: Int64 = 0
                if turns != 0 {
                    shift = GeoDegrees.turn * divided(one.west - other.east)
                    last = one.east - other.west
                }
                while shift <= last {
                    if one.meets(other, shifted: shift, count, turns) { return (one.index, other.index) }
                    shift += GeoDegrees.turn
                }
            }
        }
        return nil
    }

    private struct Edge {
        let index: Int
        let a: Corner
        let b: Corner
        let south: Int64
        let north: Int64
        let west: Int64
        let east: Int64

        init(index: Int, a: Corner, b: Corner) {
            (self.index, self.a, self.b) = (index, a, b)
            (south, north, west, east) = (min(a.y, b.y), max(a.y, b.y), min(a.x, b.x), max(a.x, b.x))
        }

        /// True if it crosses or touches another edge of its ring.
        /// - Parameters:
        ///   - shift: added to the other's longitudes.
        ///   - count: number of the ring's edges.
        ///   - turns: the longitude from the ring's first corner to its end.
        @inline(__always)
        func meets(_ other: Edge, shifted shift: Int64, _ count: Int, _ turns: Int64) -> Bool {
            guard west <= other.east + shift, other.west + shift <= east else { return false }
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
