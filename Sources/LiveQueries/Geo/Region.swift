/// A part of the earth's surface that a position is in or not: a circle, a box, or a polygon. Its edge belongs to it.
///
/// A region is correct at the poles and across the antimeridian. It is a plain value; `Region(json)` reads one from a request, and
/// `Region(stored:)` from the tree.
public enum Region: Sendable, Hashable {
    case circle(GeoCircle)
    case box(GeoBox)
    case polygon(GeoPolygon)

    /// `circle`, `box` or `polygon`, as rules see it in `query.within`.
    public var kind: String {
        switch self {
        case .circle: "circle"
        case .box: "box"
        case .polygon: "polygon"
        }
    }

    /// True if a position is in the region. O(1); of a polygon O(its points), about 1 ns each.
    public func contains(_ point: GeoPoint) -> Bool {
        switch self {
        case .circle(let circle): point.chordSquared(circle.centre) <= circle.reach
        case .box(let box): box.contains(GeoDegrees(point))
        case .polygon(let polygon): polygon.contains(GeoDegrees(point))
        }
    }

    /// A circle that contains the region: of a box and of a polygon, the one around its (bounding) box. Its radius says how large a region
    /// is at most, so rules get it as `query.radius`. At most half of the earth's circumference, and a few centimetres for rounding.
    public var enclosingCircle: GeoCircle {
        switch self {
        case .circle(let circle): GeoCircle(centre: circle.centre, metres: min(circle.metres, GeoPoint.earthRadius * .pi))
        case .box(let box): box.circle
        case .polygon(let polygon): polygon.bounds.circle
        }
    }

    /// How much of a cell of an index lies in the region.
    func coverage(of cap: SphereCap) -> RegionCoverage {
        switch self {
        case .circle(let circle):
            cap.least(circle.centre) > circle.reach ? .none : cap.most(circle.centre) <= circle.reach ? .all : .part
        case .box(let box): box.coverage(of: cap.bounds)
        case .polygon(let polygon): polygon.coverage(of: cap.bounds)
        }
    }

    /// The cost of a test of a point or a cell, in visits of an index (about 50 ns).
    var visits: Int {
        switch self {
        case .circle: 1
        case .box: 2
        case .polygon(let polygon): 2 + polygon.path.count / 32
        }
    }
}
