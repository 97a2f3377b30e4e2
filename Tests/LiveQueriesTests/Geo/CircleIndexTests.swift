import TestSupport
import Testing

@testable import LiveQueries

struct CircleIndexTests {
    @Test func index_findsWhatAScanFinds_whileCirclesComeGoAndMove() throws {
        var random = SeededRandom(11)
        var index = CircleIndex()
        var circles: [Int: (centre: GeoPoint, reach: Double)] = [:]
        func point() throws -> GeoPoint {
            let at = GeoIndexTests.position(&random)
            return try #require(GeoPoint(latitude: at.latitude, longitude: at.longitude))
        }
        for _ in 0..<Steps.count(2_000) {
            let slot = random.below(250)
            if circles[slot] != nil { index.remove(slot) }
            circles[slot] = nil
            if random.chance(70) {
                let metres = random.pick([0.5, 20, 90, 900, 5_000, 80_000, 1e6, 7e6, 1.9e7, 3e7])
                let circle = (centre: try point(), reach: GeoPoint.chordSquared(metres: metres))
                circles[slot] = circle
                index.insert(slot, at: circle.centre, reach: circle.reach)
            }
            let old = random.chance(20) ? nil : try point()
            let new = random.chance(20) ? nil : (random.chance(20) ? old : try point())
            var found: [Int] = []
            index.concerned(old: old, new: new) { slot, before, after in
                found.append(slot)
                if let circle = circles[slot] {
                    #expect(before == old.map { $0.chordSquared(circle.centre) } ?? .infinity)
                    #expect(after == new.map { $0.chordSquared(circle.centre) } ?? .infinity)
                }
            }
            let expected = circles.filter { _, circle in
                [old, new].contains { point in point.map { $0.chordSquared(circle.centre) <= circle.reach } ?? false }
            }
            #expect(found.sorted() == expected.keys.sorted())
        }
    }

    @Test func distantCircles_areNotLookedAt() throws {
        var index = CircleIndex()
        let athens = try #require(GeoPoint(latitude: 37.975, longitude: 23.735))
        let berlin = try #require(GeoPoint(latitude: 52.52, longitude: 13.405))
        for slot in 0..<20_000 { index.insert(slot, at: berlin, reach: GeoPoint.chordSquared(metres: 1_000)) }
        index.insert(20_000, at: athens, reach: GeoPoint.chordSquared(metres: 1_000))
        var found: [Int] = []
        index.concerned(old: nil, new: athens) { slot, _, _ in found.append(slot) }
        #expect(found == [20_000])
        #expect(index.listed(at: athens) == 1)
    }
}
