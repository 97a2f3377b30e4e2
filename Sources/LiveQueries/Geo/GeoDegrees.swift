import Glibc

/// A position in whole billionths of a degree, which are at most 0.11 mm. Regions are compared in these, so that the tests of edges are
/// exact: a point on the edge of a box, or at a corner of a polygon, is always found to be there if its degrees have up to nine decimals.
/// Others are rounded to nine.
struct GeoDegrees: Sendable, Hashable {
    /// -90°…90°.
    let latitude: Int64
    /// -180°…180°; any at a pole.
    let longitude: Int64

    static let degree: Int64 = 1_000_000_000
    static let pole = 90 * degree
    static let halfTurn = 180 * degree
    static let turn = 360 * degree

    /// - Parameters: billionths of a degree.
    init(latitude: Int64, longitude: Int64) { (self.latitude, self.longitude) = (latitude, longitude) }

    /// - Parameters: degrees.
    /// - Returns: nil if out of range or not a number.
    init?(latitude: Double, longitude: Double) {
        guard latitude.magnitude <= 90, longitude.magnitude <= 180 else { return nil }
        self.init(latitude: Self.billionths(latitude), longitude: Self.billionths(longitude))
    }

    /// Two atan2: about 60 ns.
    init(_ point: GeoPoint) {
        let toDegrees = 180 / Double.pi
        latitude = Self.billionths(atan2(point.z, (point.x * point.x + point.y * point.y).squareRoot()) * toDegrees)
        longitude = Self.billionths(atan2(point.y, point.x) * toDegrees)
    }

    static func billionths(_ degrees: Double) -> Int64 { Int64((degrees * Double(degree)).rounded()) }
    /// Equal to the original number of degrees, if that has up to nine decimals.
    static func degrees(_ billionths: Int64) -> Double { Double(billionths) / Double(degree) }

    /// A difference of longitudes as the way east: 0°…360°, without 360°.
    @inline(__always)
    static func eastward(_ difference: Int64) -> Int64 {
        let rest = difference % turn
        return rest < 0 ? rest + turn : rest
    }
}
