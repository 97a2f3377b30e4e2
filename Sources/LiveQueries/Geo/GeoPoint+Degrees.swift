import Glibc

extension GeoPoint {
    /// Degrees, -90…90; what the point was made of, as far as that has up to 11 decimals (a micrometre).
    public var latitude: Double { Self.degrees(atan2(z, (x * x + y * y).squareRoot())) }

    /// Degrees, -180…180; 180 for 180° west, and 0 at a pole.
    public var longitude: Double { Self.degrees(atan2(y, x)) }

    /// A vector holds its angles up to some 1e-14 of a circle.
    private static func degrees(_ angle: Double) -> Double { (angle * (180 / .pi) * 1e11).rounded() / 1e11 }
}
