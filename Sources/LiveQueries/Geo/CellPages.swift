import Glibc

/// The cells of a `GeoIndex` in small pages. A copy shares them; a change copies only the pages that it writes.
struct CellPages {
    private var pages: ContiguousArray<ContiguousArray<GeoIndex.Cell>> = []
    private(set) var count = 0

    /// Cells per page, as a power of two: about 6 KB.
    private static let bits = 5

    subscript(_ i: Int) -> GeoIndex.Cell {
        @inline(__always) _read { yield pages[i >> Self.bits][i & (1 << Self.bits - 1)] }
        @inline(__always) _modify { yield &pages[i >> Self.bits][i & (1 << Self.bits - 1)] }
    }

    mutating func append(_ cell: GeoIndex.Cell) {
        if count >> Self.bits == pages.count {
            pages.append([])
            pages[pages.count - 1].reserveCapacity(1 << Self.bits)
        }
        pages[count >> Self.bits].append(cell)
        count += 1
    }
}

/// A bound on the part of the sphere in a cell: all points within an angle of a direction.
///
/// The cell's own box distinguishes far cells poorly. Seen from the antipode, all boxes of a country are equally far, since their corners stick out
/// of the sphere. Angles on the sphere distinguish them as well as near ones.
struct SphereCap {
    let x: Double
    let y: Double
    let z: Double
    /// Cosine and sine of half of the angle.
    private let cosine: Double
    private let sine: Double

    /// What rounding may add to a chord: about 25 nanometres.
    private static let rounding = 4e-15

    /// - Parameters: the centre of a cube, and half of its edge length.
    init(_ x: Double, _ y: Double, _ z: Double, _ half: Double) {
        let length = (x * x + y * y + z * z).squareRoot()
        // The squared chord from the direction to the farthest point of the sphere in the cube.
        let chordSquared = length < 1e-9 ? 4 : (3 * half * half - (1 - length) * (1 - length)) / length
        guard chordSquared < 4 else {
            (self.x, self.y, self.z, cosine, sine) = (1, 0, 0, 0, 1)
            return
        }
        (self.x, self.y, self.z) = (x / length, y / length, z / length)
        sine = (max(0, chordSquared) / 4).squareRoot()
        cosine = (1 - sine * sine).squareRoot()
    }

    /// In radians: 0…π.
    var angle: Double { 2 * atan2(sine, cosine) }

    /// The chords from a point to the direction, and to its antipode: 2 sin and 2 cos of half of the angle between them.
    @inline(__always)
    private func chords(_ point: GeoPoint) -> (near: Double, far: Double) {
        let (a, b, c) = (point.x - x, point.y - y, point.z - z)
        let (d, e, f) = (point.x + x, point.y + y, point.z + z)
        return ((a * a + b * b + c * c).squareRoot(), (d * d + e * e + f * f).squareRoot())
    }

    /// The square of the smallest chord from a point to the cap.
    @inline(__always)
    func least(_ point: GeoPoint) -> Double {
        let (near, far) = chords(point)
        let chord = max(0, near * cosine - far * sine - Self.rounding)
        return chord * chord
    }

    /// The square of the largest chord from a point to the cap.
    @inline(__always)
    func most(_ point: GeoPoint) -> Double {
        let (near, far) = chords(point)
        if far * cosine - near * sine <= Self.rounding { return 4 * (1 + 1e-12) }
        let chord = near * cosine + far * sine + Self.rounding
        return chord * chord
    }
}
