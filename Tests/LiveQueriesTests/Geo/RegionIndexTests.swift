import Glibc
import TestSupport
import Testing

@testable import LiveQueries

@Suite(.timeLimit(.minutes(60))) struct RegionIndexTests {
    /// Random steps against a scan; 1,000,000 with `VIGLA_LIVE_QUERY_STEPS=1000000`.
    @Test func index_findsWhatAScanFinds_whileRegionsComeAndGo() throws {
        var regions = RandomRegions(21)
        var index = RegionIndex()
        var stored: [Int: Region] = [:]
        var found = 0
        for step in 0..<Steps.count(4_000) {
            let id = regions.random.below(300) * 1_000_003
            switch regions.random.below(10) {
            case 0...2:
                guard let region = regions.region() else { continue }
                index.insert(id, region)
                stored[id] = region
            case 3:
                index.remove(id)
                stored[id] = nil
            default: break
            }
            let old = regions.random.chance(30) ? nil : regions.geoPoint()
            let new = regions.random.chance(20) ? nil : regions.random.chance(10) ? old : regions.geoPoint()
            var reported: [Int: (Bool, Bool)] = [:]
            index.concerned(old: old, new: new) { id, was, now in
                #expect(reported[id] == nil, "twice")
                reported[id] = (was, now)
            }
            var expected = 0
            for (id, region) in stored {
                let (was, now) = (old.map(region.contains) ?? false, new.map(region.contains) ?? false)
                if was || now { expected += 1 }
                let isSame = was || now ? reported[id].map { $0 == (was, now) } ?? false : reported[id] == nil
                if !isSame { Issue.record("step \(step): \(region) has \(String(describing: old)) \(String(describing: new))") }
            }
            #expect(reported.count == expected)
            found += expected
            if let new, step % 16 == 0 { #expect(Set(index.regions(containing: new)) == Set(stored.filter { $1.contains(new) }.keys)) }
        }
        #expect(index.count == stored.count && found > 2_000)
        #expect(stored.allSatisfy { index[$0] == $1 })
        for id in stored.keys { index.remove(id) }
        #expect(index.count == 0 && index.listedCells == 0)
    }

    @Test func distantRegions_areNotTested_andHugeOnesTakeFewCells() throws {
        var index = RegionIndex()
        let berlin = try #require(GeoPoint(latitude: 52.52, longitude: 13.405))
        let athens = try #require(GeoPoint(latitude: 37.975, longitude: 23.735))
        for id in 0..<2_000 { index.insert(id, .circle(GeoCircle(centre: berlin, metres: 1_000))) }
        index.insert(2_000, .circle(GeoCircle(centre: athens, metres: 1_000)))
        var found: [Int] = []
        #expect(index.forEach(containing: athens) { found.append($0) } <= 1)
        #expect(found == [2_000])
        for id in 0..<2_001 { index.remove(id) }
        let earth = try #require(GeoBox(south: -90, west: -180, north: 90, east: 180))
        let north = try GeoPolygon([(0.5, 0), (0.5, 100), (0.7, 170), (0.5, -100)])
        let circles = [9e6, 3e7].map { Region.circle(GeoCircle(centre: athens, metres: $0)) }
        for region in [Region.box(earth), .polygon(north)] + circles {
            index.insert(1, region)
            #expect(index.listedCells <= RegionIndex.cellsOfRegion && index.listedCells > 0)
        }
        index.remove(1)
        // A cell inside of a huge region costs no test.
        index.insert(2, .polygon(try GeoPolygon((0..<900).map { (latitude: $0 % 2 == 0 ? 5 : 4.9, longitude: Double($0) * 0.4 - 180) })))
        let south = try #require(GeoPoint(latitude: -40, longitude: 0))
        #expect(index.regions(containing: athens) == [2] && index.regions(containing: south) == [])
    }

    /// A test of a point takes as long as 33 visits in a polygon of 1,000 points, and listing it examines its edges for each cell.
    @Test func largePolygons_costMore() throws {
        let ring = (0..<GeoPolygon.mostPoints).map { i in
            let angle = Double(i) / Double(GeoPolygon.mostPoints) * 2 * Double.pi
            return (latitude: 10 + sin(angle), longitude: 10 + cos(angle))
        }
        let edge = try #require(GeoPoint(latitude: 10, longitude: 10.99))
        func costs(_ region: Region) -> (insert: Int, test: Int, both: Int) {
            var index = RegionIndex()
            let insert = index.insert(1, region)
            return (insert, index.forEach(containing: edge) { _ in }, index.concerned(old: edge, new: edge) { _, _, _ in })
        }
        let polygon = costs(.polygon(try GeoPolygon(ring)))
        let box = costs(.box(try #require(GeoBox(south: 9, west: 9, north: 11, east: 11))))
        #expect(polygon.test >= 33 && polygon.both > polygon.test && polygon.insert >= 16 * 33, "\(polygon)")
        #expect(box.test <= 2 && box.insert <= 2 * 8 * RegionIndex.cellsOfRegion + 2, "\(box)")
    }

    /// Tests follow the regions nearby, not their number.
    @Test func tests_followTheRegionsNearby() throws {
        var random = SeededRandom(23)
        var index = RegionIndex()
        func spot() -> (latitude: Double, longitude: Double) {
            (37 + Double(random.below(1_000_000)) / 1e6, 23 + Double(random.below(1_000_000)) / 1e6)
        }
        for id in 0..<8_000 {
            let (at, size) = (spot(), 0.002 + Double(random.below(1_000)) / 500_000)
            let ring = [(at.latitude - size, at.longitude), (at.latitude, at.longitude + size), (at.latitude + size, at.longitude - size)]
            index.insert(id, .polygon(try GeoPolygon(ring)))
        }
        var (found, visits) = (0, 0)
        for _ in 0..<1_000 {
            let at = spot()
            visits += index.forEach(containing: try #require(GeoPoint(latitude: at.latitude, longitude: at.longitude))) { _ in found += 1 }
        }
        // A triangle covers a part of its cells.
        #expect(found > 50 && visits < 24 * found, "\(visits) visits for \(found)")
        #expect(index.listedCells < 8_000 * RegionIndex.cellsOfRegion)
    }
}
