import Foundation
import JSONTree
import TestSupport
import Testing

@testable import LiveQueries

struct GeoIndexTests {
    static let fields = GeoFields(latitude: "position/lat", longitude: "position/lng")

    /// Difficult positions: poles, the antimeridian, one place with many children, cities.
    static func position(_ random: inout SeededRandom) -> (latitude: Double, longitude: Double) {
        func unit() -> Double { Double(random.below(1_000_001)) / 1_000_000 }
        switch random.below(8) {
        case 0: return (unit() * 180 - 90, unit() * 360 - 180)
        case 1: return (90 - unit() * 0.01, unit() * 360 - 180)
        case 2: return (-90 + unit() * 0.01, unit() * 360 - 180)
        case 3: return (unit() * 0.02, random.pick([180, -180, 180 - unit() * 0.01, unit() * 0.01 - 180]))
        case 4: return (37.975, 23.735)
        case 5: return (random.chance(50) ? 90 : -90, unit() * 360 - 180)
        default: return (37.97 + unit() * 0.02, 23.72 + unit() * 0.02)
        }
    }

    static func record(_ latitude: Double, _ longitude: Double) -> Node {
        ["position": ["lat": .number(latitude), "lng": .number(longitude)], "name": "x"]
    }

    /// The haversine formula, the usual way to compute distances.
    static func haversine(_ a: (latitude: Double, longitude: Double), _ b: (latitude: Double, longitude: Double)) -> Double {
        let r = Double.pi / 180
        let (dp, dl) = ((b.latitude - a.latitude) * r, (b.longitude - a.longitude) * r)
        let h = pow(sin(dp / 2), 2) + cos(a.latitude * r) * cos(b.latitude * r) * pow(sin(dl / 2), 2)
        return 2 * 6_371_009 * asin(min(1, h.squareRoot()))
    }

    @Test func distance_isThatOfTheHaversineFormula_everywhere() throws {
        var random = SeededRandom(5)
        for _ in 0..<5_000 {
            let (a, b) = (Self.position(&random), Self.position(&random))
            let one = try #require(GeoPoint(latitude: a.latitude, longitude: a.longitude))
            let other = try #require(GeoPoint(latitude: b.latitude, longitude: b.longitude))
            let metres = Self.haversine(a, b)
            #expect((one.metres(to: other) - metres).magnitude < 0.001 + (metres > 19_000_000 ? 0.3 : 0))
        }
        let athens = try #require(GeoPoint(latitude: 37.9838, longitude: 23.7275))
        let berlin = try #require(GeoPoint(latitude: 52.52, longitude: 13.405))
        #expect((athens.metres(to: berlin) - 1_803_000).magnitude < 2_000)
        #expect(GeoPoint(latitude: 10, longitude: 180) == GeoPoint(latitude: 10, longitude: -180))
        #expect(GeoPoint(latitude: 90, longitude: 12) == GeoPoint(latitude: 90, longitude: -100))
    }

    @Test func position_saysWhyAChildIsNotInTheIndex() throws {
        func position(_ json: String) throws -> String { try Self.fields.position(of: Node(json: json)).description }
        #expect(try position(#"{"position":{"lat":1,"lng":2.5}}"#) == "in the index")
        #expect(try position(#"{"position":{"lat":{".value":1,".priority":3},"lng":2}}"#) == "in the index")
        #expect(try position(#"{"position":{"lng":2}}"#) == "not in the index: \"position/lat\" is missing")
        #expect(try position(#"{"position":{"lat":"1","lng":2}}"#) == "not in the index: \"position/lat\" is no number")
        #expect(try position(#"{"position":{"lat":1,"lng":{"a":1}}}"#) == "not in the index: \"position/lng\" is no number")
        #expect(try position(#"{"position":{"lat":90.0001,"lng":2}}"#).hasPrefix("not in the index: \"position/lat\" is out of range"))
        #expect(try position(#"{"position":{"lat":-90,"lng":180.5}}"#).hasPrefix("not in the index: \"position/lng\" is out of range"))
        #expect(GeoPoint(latitude: .nan, longitude: 0) == nil)
        #expect(GeoPoint(latitude: 0, longitude: .infinity) == nil)
        #expect(Self.fields.position(of: .null).point == nil)
    }

    @Test func fields_areReadFromTheRulesFile_andFaultsNamed() throws {
        func read(_ json: String) throws -> GeoFields { try GeoFields(JSONValue(Array(json.utf8))) }
        let full = #"{"lat":"position/lat","lng":"position/lng","filter":["status","types/*"],"order":["rating"]}"#
        #expect(try read(full) == Self.fields)
        for (json, message) in [
            (#"5"#, ".geoIndex: must be an object, as {\"lat\":\"position/lat\",\"lng\":\"position/lng\"}"),
            (#"{"lat":"a"}"#, ".geoIndex: \"lng\" is missing: the path of the longitude"),
            (#"{"lat":"a.b","lng":"c"}"#, ".geoIndex.lat: \"a.b\" is no path"),
            (#"{"lat":"a","lng":""}"#, ".geoIndex.lng: the path is empty"),
            (#"{"lat":"a","lng":"b","filter":"c"}"#, ".geoIndex.filter: must be a list of paths"),
            (#"{"lat":"a","lng":"b","radius":1}"#, ".geoIndex: has no member \"radius\""),
        ] {
            #expect(#expect(throws: QueryFault.self) { try read(json) }?.description == message)
        }
    }

    @Test func index_findsWhatAScanFinds_whileChildrenMove() throws {
        var random = SeededRandom(7)
        let index = GeoIndex(Self.fields)
        var children: [Key: Node] = [:]
        for step in 0..<Steps.count(3_000) {
            // Mostly growing at first, so that cells are split, and shrinking at the end of each thousand, so that they are joined.
            let key = Key("k\(random.below(step % 1_000 < 600 ? 600 : 40))")
            let old = children[key] ?? .null
            var new = Node.null
            if !random.chance(step % 1_000 < 600 ? 10 : 60) {
                let place = Self.position(&random)
                new = random.chance(5) ? .string("nowhere") : Self.record(place.latitude, place.longitude)
            }
            children[key] = new.exists ? new : nil
            index.move(key, old: old, new: new)
            guard step % 4 == 0 else { continue }

            let near = Self.position(&random)
            let centre = try #require(GeoPoint(latitude: near.latitude, longitude: near.longitude))
            let radius: Double? = random.chance(10) ? nil : random.pick([1, 50, 900, 5_000, 1e6, 1.9e7, 3e7])
            let reach = radius.map { GeoPoint.chordSquared(metres: $0) } ?? .infinity
            let all = children.compactMap { key, child -> ChildPlace? in
                guard let point = Self.fields.point(of: child) else { return nil }
                let place = ChildPlace(chordSquared: point.chordSquared(centre), key: key)
                return place.chordSquared <= reach ? place : nil
            }.sorted { $0.order($1) < 0 }
            var found: Set<Key> = []
            index.within(radius, of: centre) { key, _ in found.insert(key).inserted }
            #expect(found == Set(all.map(\.key)))
            #expect(index.count(in: NearQuery(centre: centre, metres: radius, limit: nil)) == all.count)
            var nearest: [Key] = []
            let most = random.below(30)
            index.nearest(to: centre, within: radius) { key, _ in
                if nearest.count == most { return false }
                nearest.append(key)
                return true
            }
            #expect(nearest == all.prefix(most).map(\.key))
            if let last = all.prefix(most).last {
                var rest: [Key] = []
                index.nearest(to: centre, within: reach, after: last) { place in
                    rest.append(place.key)
                    return rest.count < 10
                }
                #expect(rest == all.dropFirst(min(most, all.count)).prefix(10).map(\.key))
            }
        }
        #expect(index.count == children.values.count { Self.fields.point(of: $0) != nil })
        for (key, child) in children { index.move(key, old: child, new: .null) }
        #expect(index.count == 0)
    }

    @Test func index_staysFlat_withThousandsAtOneAddress() throws {
        let index = GeoIndex(Self.fields)
        let child = Self.record(37.975, 23.735)
        for i in 0..<20_000 { index.move(Key("k\(i)"), old: .null, new: child) }
        #expect((0..<index.cells.count).map { index.cells[$0] }.allSatisfy { $0.entries.count <= GeoIndex.capacity })
        let cells = index.cells.count
        for i in 0..<20_000 { index.move(Key("k\(i)"), old: child, new: .null) }
        #expect(index.count == 0)
        for i in 0..<20_000 { index.move(Key("k\(i)"), old: .null, new: child) }
        #expect(index.cells.count <= cells + 8, "cells are used again")
    }

    @Test func index_followsATree_fromOneStateToAnother() throws {
        var random = SeededRandom(9)
        var place = Node.object((0..<3_000).map { i -> (Key, Node) in
            let at = Self.position(&random)
            return (Key("k\(i)"), Self.record(at.latitude, at.longitude))
        })
        let index = GeoIndex(Self.fields, of: place)
        let before = place
        for i in 0..<20 { place = Node.object(place.children.filter { $0.key != Key("k\(i * 7)") }.map { ($0.key, $0.node) }) }
        #expect(!index.follow(from: before, to: place, atMost: 3))
        #expect(index.count == 3_000)
        #expect(index.follow(from: before, to: place, atMost: 100_000))
        #expect(index.count == 2_980)
    }

    private static func town(_ count: Int, _ random: inout SeededRandom) -> [(key: Key, child: Node)] {
        (0..<count).map { i in
            let (lat, lng) = (37 + Double(random.below(2_000_000)) / 1_000_000, 23 + Double(random.below(2_000_000)) / 1_000_000)
            return (Key("k\(i)"), record(lat, lng))
        }
    }

    /// From the other side of the earth a country is a small spot, and its boxes are all equally far.
    @Test func nearest_looksAtFew_fromWhereverItIsAsked() throws {
        var random = SeededRandom(11)
        let children = Self.town(20_000, &random)
        let index = GeoIndex(Self.fields, of: .object(children))
        for (latitude, longitude) in [(-38.0, -156.0), (-37.9, -155.7), (-38.5, 23), (38, 24), (90, 0), (0, -67), (-37, -157), (38, -156)] {
            let centre = try #require(GeoPoint(latitude: latitude, longitude: longitude))
            let expected = children.map { child in
                ChildPlace(chordSquared: Self.fields.point(of: child.child)?.chordSquared(centre) ?? .infinity, key: child.key)
            }.sorted { $0.order($1) < 0 }.prefix(20)
            let before = index.visits
            var found: [Key] = []
            index.nearest(to: centre) { key, _ in
                found.append(key)
                return found.count < 20
            }
            #expect(found == expected.map(\.key), "\(latitude), \(longitude)")
            #expect(index.visits - before < 2_000, "\(latitude), \(longitude): \(index.visits - before)")
            // A circle that cuts the country: only cells at its edge are opened.
            let reach = GeoPoint.metres(chordSquared: expected[19].chordSquared)
            let counted = index.visits
            #expect(index.count(in: NearQuery(centre: centre, metres: reach * (1 + 1e-12), limit: nil)) == 20)
            #expect(index.visits - counted < 2_000, "\(latitude), \(longitude): \(index.visits - counted)")
        }
    }

    @Test func looks_areBounded_whateverIsSearched() throws {
        var random = SeededRandom(12)
        let index = GeoIndex(Self.fields, of: .object(Self.town(2_000, &random)))
        let centre = try #require(GeoPoint(latitude: 38, longitude: 24))
        let reach = GeoPoint.chordSquared(metres: 50_000)
        func visits(_ search: () -> Void) -> Int {
            let before = index.visits
            search()
            return index.visits - before
        }
        var all = 0
        let visited = visits { index.visit(centre, reach) { _, _ in all += 1; return true } }
        #expect(index.visit(centre, reach, visits: visited) { _, _ in true })
        #expect(!index.visit(centre, reach, visits: visited - 1) { _, _ in true })
        let walked = visits { index.nearest(to: centre, within: reach, after: nil) { _ in true } }
        #expect(index.nearest(to: centre, within: reach, after: nil, visits: walked) { _ in true })
        var found: [ChildPlace] = []
        #expect(!index.nearest(to: centre, within: reach, after: nil, visits: walked / 2) { found.append($0); return true })
        // The results are the nearest.
        var nearest: [ChildPlace] = []
        index.nearest(to: centre, within: reach, after: nil) { nearest.append($0); return nearest.count < found.count }
        #expect(!found.isEmpty && found.count < all && found.map(\.key) == nearest.map(\.key))
        let counted = visits { _ = index.count(in: NearQuery(centre: centre, metres: 50_000, limit: nil)) }
        #expect(index.count(in: NearQuery(centre: centre, metres: 50_000, limit: nil), visits: counted) == all)
        #expect(index.count(in: NearQuery(centre: centre, metres: 50_000, limit: nil), visits: counted / 2) == nil)
        for most in [0, 1, 10, counted / 2] {
            let estimate = index.estimate(in: NearQuery(centre: centre, metres: 50_000, limit: nil), visits: most)
            #expect(estimate.count >= all && estimate.count <= 2_000 && !estimate.isExact)
        }
    }

    @Test func snapshot_staysAsItWas() throws {
        var random = SeededRandom(13)
        let children = Self.town(3_000, &random)
        let index = GeoIndex(Self.fields, of: .object(children))
        let centre = try #require(GeoPoint(latitude: 38, longitude: 24))
        func keys(_ index: GeoIndex) -> [Key] {
            var keys: [Key] = []
            index.nearest(to: centre) { key, _ in keys.append(key); return true }
            return keys
        }
        let (before, snapshot) = (keys(index), index.snapshot())
        for (key, child) in children.prefix(2_000) { index.move(key, old: child, new: .null) }
        for (key, child) in children.suffix(500) { index.move(key, old: child, new: Self.record(38, 24)) }
        #expect(keys(snapshot) == before && snapshot.count == 3_000 && index.count == 1_000)
        #expect(Set(keys(index)) == Set(children.suffix(1_000).map(\.key)))
    }
}
