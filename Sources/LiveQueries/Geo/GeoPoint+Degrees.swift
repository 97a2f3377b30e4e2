import Glibc

extension GeoPoint {
    /// Degrees, -90…90. Equal to the original latitude, if that has up to 11 decimals (a micrometre).
    public var latitude: Double { Self.degrees(atan2(z, (x * x + y * y).squareRoot())) }

    /// Degrees, -180…180; 180 for 180° west, and 0 at a pole.
    public var longitude: Double { Self.degrees(atan2(y, x)) }

    /// Vectors keep their angles to about 1e-14 of a circle.
    private static func degrees(_ angle: Double) -> Double { (angle * (180 / .pi) * 1e11).rounded() / 1e11 }
}

extension GeoPoint {
    /// The nearest point of a grid. Its rows, and the points within a row, are `metres` apart or slightly more. The result is at most about 0.7
    /// `metres` away, and less than `metres` at a pole. A grid point is its own nearest.
    public func snapped(toMetres metres: Double) -> GeoPoint {
        let row = metres / Self.earthRadius * (180 / .pi)
        let latitude = min(90, max(-90, (self.latitude / row).rounded() * row))
        // As many points as fit into the row, so that the last is one step from the first.
        let count = max(1, (360 * cos(latitude * (.pi / 180)) / row).rounded(.down))
        let step = 360 / count
        let index = (self.longitude / step).rounded()
        // 180° west is 180° east.
        let longitude = (index * 2 <= -count ? index + count : index) * step
        return GeoPoint(latitude: latitude, longitude: min(180, longitude)) ?? self
    }
}
