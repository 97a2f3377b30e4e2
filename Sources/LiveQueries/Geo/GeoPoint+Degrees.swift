import Glibc

extension GeoPoint {
    /// Degrees, -90…90; what the point was made of, as far as that has up to 11 decimals (a micrometre).
    public var latitude: Double { Self.degrees(atan2(z, (x * x + y * y).squareRoot())) }

    /// Degrees, -180…180; 180 for 180° west, and 0 at a pole.
    public var longitude: Double { Self.degrees(atan2(y, x)) }

    /// A vector holds its angles up to some 1e-14 of a circle.
    private static func degrees(_ angle: Double) -> Double { (angle * (180 / .pi) * 1e11).rounded() / 1e11 }
}

extension GeoPoint {
    /// The nearest point of a grid whose rows, and points of a row, are so many metres apart or a little more: some 0.7 of that away at
    /// most, and less than that distance at a pole. A point of the grid is its own nearest.
    public func snapped(toMetres metres: Double) -> GeoPoint {
        let row = metres / Self.earthRadius * (180 / .pi)
        let latitude = min(90, max(-90, (self.latitude / row).rounded() * row))
        // As many in a row as there is room for, so that the last is a step from the first.
        let count = max(1, (360 * cos(latitude * (.pi / 180)) / row).rounded(.down))
        let step = 360 / count
        let index = (self.longitude / step).rounded()
        // 180° west is 180° east.
        let longitude = (index * 2 <= -count ? index + count : index) * step
        return GeoPoint(latitude: latitude, longitude: min(180, longitude)) ?? self
    }
}
