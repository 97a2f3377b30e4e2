import TestSupport
import Testing

@testable import LiveQueries

/// The grid to which centres of circles are snapped.
struct GeoGridTests {
    @Test func snappedPoint_isNear_andItsOwnNearest() throws {
        var random = SeededRandom(71)
        for _ in 0..<20_000 {
            let (latitude, longitude) = GeoIndexTests.position(&random)
            let point = try #require(GeoPoint(latitude: latitude, longitude: longitude))
            let size = random.pick([1.0, 10, 100, 1_000, 12_345.6, 250_000])
            let snapped = point.snapped(toMetres: size)
            #expect(snapped.snapped(toMetres: size) == snapped, "\(latitude) \(longitude) by \(size)")
            #expect(snapped.metres(to: point) <= size, "\(latitude) \(longitude) by \(size)")
        }
    }

    /// All requests from within a cell count the same circle: few circles, however many callers.
    @Test func manyPoints_haveFewPlaces() throws {
        var (random, found) = (SeededRandom(72), Set<GeoPoint>())
        for _ in 0..<5_000 {
            let offset = { Double(random.below(1_000)) / 1_000 * 0.0045 }
            found.insert(try #require(GeoPoint(latitude: 37.97 + offset(), longitude: 23.73 + offset())).snapped(toMetres: 100))
        }
        // 500 m by 394 m.
        #expect(found.count >= 20 && found.count <= 36, "\(found.count)")
    }
}
