import Glibc

/// A position on the earth, taken as a sphere of 6,371,009 m: a unit vector from its centre.
///
/// Vectors need no special cases at the poles or the antimeridian: the distance of two positions follows from their vectors alone. Distances are
/// compared as squared chords, which is exact to less than a millimetre and needs no trigonometry. Metres are computed only for output.
public struct GeoPoint: Sendable, Hashable {
    let x: Double
    let y: Double
    let z: Double

    /// The mean radius of the earth in metres.
    public static let earthRadius = 6_371_009.0

    /// - Parameters: degrees; -90…90 and -180…180.
    /// - Returns: nil if out of range or not a number.
    /// Not inlined: one piece of code must give one position the same bits everywhere, since points are found again by their bits.
    @inline(never)
    public init?(latitude: Double, longitude: Double) {
        guard latitude.magnitude <= 90, longitude.magnitude <= 180 else { return nil }
        // 180° west is 180° east, and all meridians meet at a pole: one position must have one vector.
        let longitude = longitude == -180 ? 180 : (latitude.magnitude == 90 ? 0 : longitude)
        let (phi, lambda) = (latitude * (.pi / 180), longitude * (.pi / 180))
        let across = latitude.magnitude == 90 ? 0 : cos(phi)
        x = across * cos(lambda)
        y = across * sin(lambda)
        z = sin(phi)
    }

    private init(z: Double) { (x, y, self.z) = (0, 0, z) }

    static let northPole = GeoPoint(z: 1)

    /// The squared chord to another position: 0…4.
    @inline(__always)
    func chordSquared(_ other: GeoPoint) -> Double {
        let (a, b, c) = (x - other.x, y - other.y, z - other.z)
        return a * a + b * b + c * c
    }

    /// The great-circle distance in metres.
    public func metres(to other: GeoPoint) -> Double { Self.metres(chordSquared: chordSquared(other)) }

    /// The great-circle distance for a chord, in metres; exact to 0.2 m at the antipode and far better elsewhere.
    static func metres(chordSquared: Double) -> Double { 2 * earthRadius * asin(min(1, chordSquared.squareRoot() / 2)) }

    /// The squared chord for a distance. Infinite from half of the earth's circumference on, which reaches every position.
    static func chordSquared(metres: Double) -> Double {
        let half = metres / earthRadius / 2
        if half >= .pi / 2 { return .infinity }
        let chord = 2 * sin(half)
        return chord * chord
    }
}
