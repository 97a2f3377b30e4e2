import Glibc

/// The positions between two parallels and two meridians, its edges included: the viewport of a map.
///
/// `west` beyond `east` crosses the antimeridian: from 170 to -170 it is 20° wide. From -180 to 180 it goes round the earth. A box that
/// reaches a pole contains the pole, which has every longitude.
public struct GeoBox: Sendable, Hashable {
    /// Billionths of a degree.
    let south: Int64
    let north: Int64
    /// -180°…180°, without 180°.
    let west: Int64
    /// 0°…360°.
    let width: Int64

    init(south: Int64, north: Int64, west: Int64, width: Int64) {
        (self.south, self.north, self.width) = (south, north, min(width, GeoDegrees.turn))
        self.west = GeoDegrees.eastward(west + GeoDegrees.halfTurn) - GeoDegrees.halfTurn
    }

    /// - Parameters: degrees, compared in billionths. Latitudes are -90…90 with `south` not beyond `north`, longitudes -180…180.
    /// - Returns: nil if out of range or not a number.
    public init?(south: Double, west: Double, north: Double, east: Double) {
        guard let low = GeoDegrees(latitude: south, longitude: west), let high = GeoDegrees(latitude: north, longitude: east),
            low.latitude <= high.latitude
        else { return nil }
        let width = high.longitude - low.longitude
        self.init(
            south: low.latitude, north: high.latitude, west: low.longitude,
            width: width == GeoDegrees.turn ? width : GeoDegrees.eastward(width))
    }

    /// The four edges in degrees. A box round the earth is from -180 to 180.
    public var edges: (south: Double, west: Double, north: Double, east: Double) {
        let isRound = width == GeoDegrees.turn
        let from = isRound ? -GeoDegrees.halfTurn : west
        let end = isRound ? GeoDegrees.halfTurn : west + width
        let east = end > GeoDegrees.halfTurn ? end - GeoDegrees.turn : end
        return (GeoDegrees.degrees(south), GeoDegrees.degrees(from), GeoDegrees.degrees(north), GeoDegrees.degrees(east))
    }

    @inline(__always)
    func contains(_ at: GeoDegrees) -> Bool {
        guard at.latitude >= south, at.latitude <= north else { return false }
        if at.latitude.magnitude == GeoDegrees.pole { return true }
        return GeoDegrees.eastward(at.longitude - west) <= width
    }

    /// How much of a cell of an index lies in the box.
    /// - Parameter cell: a box around it, which is as wide as the earth if it reaches a pole.
    func coverage(of cell: GeoBox) -> RegionCoverage {
        guard cell.south <= north, cell.north >= south else { return .none }
        let offset = GeoDegrees.eastward(cell.west - west)
        guard offset <= width || offset + cell.width >= GeoDegrees.turn else { return .none }
        guard cell.south >= south, cell.north <= north else { return .part }
        return width == GeoDegrees.turn || offset + cell.width <= width ? .all : .part
    }

    /// A circle around the box: around its middle, or around a pole where that is smaller. Of a small box its radius is half of the
    /// diagonal.
    var circle: GeoCircle {
        let toRadians = Double.pi / 180 / Double(GeoDegrees.degree)
        let (low, high, half) = (Double(south) * toRadians, Double(north) * toRadians, Double(width) * toRadians / 2)
        let middle = (low + high) / 2
        // Along a meridian the distance is largest at an end, or, from a centre on the other side of the earth, in between.
        var farthest = [low, high]
        let nearest = atan2(sin(middle), cos(middle) * cos(half))
        for turned in [nearest - .pi, nearest + .pi] where turned > low && turned < high { farthest.append(turned) }
        let chordSquared = farthest.map { latitude in
            let (a, b) = (sin((latitude - middle) / 2), sin(half / 2))
            return 4 * (a * a + cos(latitude) * cos(middle) * b * b)
        }.max() ?? 4
        // So that rounding leaves no corner outside.
        let around = GeoPoint.metres(chordSquared: chordSquared) * (1 + 1e-9) + 0.001
        let (toNorth, toSouth) = ((.pi / 2 - low) * GeoPoint.earthRadius, (.pi / 2 + high) * GeoPoint.earthRadius)
        let centre = GeoDegrees.eastward(west + width / 2 + GeoDegrees.halfTurn) - GeoDegrees.halfTurn
        let places = [
            (around, GeoDegrees.degrees((south + north) / 2), GeoDegrees.degrees(centre)), (toNorth + 0.001, 90, 0),
            (toSouth + 0.001, -90, 0),
        ]
        let best = places.min { $0.0 < $1.0 } ?? places[0]
        return GeoCircle(centre: GeoPoint(latitude: best.1, longitude: best.2) ?? .northPole, metres: best.0)
    }
}

/// How much of a cell of an index lies in a region.
enum RegionCoverage {
    /// No point of the cell.
    case none
    /// Perhaps some; each point must be tested.
    case part
    /// Every point of the cell.
    case all
}

extension SphereCap {
    /// A box around the cap, widened by what rounding may take away. One that reaches a pole is as wide as the earth.
    var bounds: GeoBox {
        let toBillionths = 180 / Double.pi * Double(GeoDegrees.degree)
        // Two billionths of a degree, more than the conversions lose.
        let slack = 2.0
        let angle = self.angle
        let latitude = atan2(z, (x * x + y * y).squareRoot())
        let pole = Double(GeoDegrees.pole)
        let south = (latitude - angle) * toBillionths - slack
        let north = (latitude + angle) * toBillionths + slack
        let low = Int64(max(-pole, south.rounded(.down)))
        let high = Int64(min(pole, north.rounded(.up)))
        // The meridians that touch the cap.
        let ratio = sin(angle) / cos(latitude)
        guard south > -pole, north < pole, ratio < 1 else {
            return GeoBox(south: low, north: high, west: -GeoDegrees.halfTurn, width: GeoDegrees.turn)
        }
        let half = Int64((asin(ratio) * (1 + 1e-12) * toBillionths + slack).rounded(.up))
        let middle = Int64((atan2(y, x) * toBillionths).rounded())
        return GeoBox(south: low, north: high, west: middle - half, width: 2 * half)
    }
}
