/// The positions within a distance of a centre, along great circles.
public struct GeoCircle: Sendable, Hashable {
    public let centre: GeoPoint
    /// Greater than 0. From half of the earth's circumference on, the circle is the whole earth.
    public let metres: Double

    /// The squared chord of the radius.
    let reach: Double

    public init(centre: GeoPoint, metres: Double) {
        (self.centre, self.metres) = (centre, metres)
        reach = GeoPoint.chordSquared(metres: metres)
    }
}
