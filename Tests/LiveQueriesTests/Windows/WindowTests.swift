import JSONTree
import Testing

@testable import LiveQueries

struct WindowTests {
    private let odd = Filter([Condition("odd", .equal(true))])

    private func place(_ count: Int, odd: (Int) -> Bool) -> Node {
        .object((0..<count).map { i -> (Key, Node) in (Key(index: i), ["odd": .bool(odd(i)), "n": .int(Int64(i))]) })
    }

    private func remove(_ key: Key, from place: inout Node, _ queries: QuerySet) -> ContiguousArray<LiveEvent> {
        let old = place.child(key)
        let after = Node.object(place.children.filter { $0.key != key }.map { ($0.key, $0.node) })
        place = after
        var events: ContiguousArray<LiveEvent> = []
        queries.apply([ChildWrite(key, old: old, new: .null)], over: place, in: { _ in .byKey(after.children) }) {
            events += $1.events
        }
        return events
    }

    @Test func window_holdsItsReserve_andNoMore() throws {
        let place = place(500) { _ in true }
        let query = try Query(TreeQuery(index: .key, limit: 10, viewFrom: .first), where: odd)
        var settings = WindowSettings()
        settings.reserve = 20
        let window = Window(query, over: place, from: .order(.byKey(place.children)), settings)
        #expect(window.count == 10)
        #expect(window.heldCount == 30)
        settings.reserve = 0
        #expect(Window(query, over: place, from: .order(.byKey(place.children)), settings).heldCount == 10)
    }

    @Test func window_letsGoOfWhatIsFar_beyondWhatIsHeldAsAWhole() throws {
        var settings = WindowSettings()
        (settings.reserve, settings.complete) = (4, 50)
        let queries = QuerySet(settings)
        let query = try Query(TreeQuery(index: .key, limit: 2, viewFrom: .first), where: odd)
        let view = queries.add(Window(query, over: .null, from: .order(.byKey(ChildMap())), settings))
        var children = ChildMap()
        for i in 0..<51 {
            #expect(view.window?.heldCount == i)
            children.set(Key(index: i), ["odd": true])
            let place = Node.object(children.map { ($0.key, $0.node) })
            let write = ChildWrite(Key(index: i), old: .null, new: ["odd": true])
            queries.apply([write], over: place, in: { _ in .byKey(place.children) }) { _, _ in }
        }
        #expect(view.window?.heldCount == 6)
    }

    @Test func window_looksAtSoManyChildren_andGoesOnLater() throws {
        // Only the first and the last of 102 match: after the first, 100 and the last have to be visited.
        for (visits, rounds) in [(101, 0), (100, 1), (10, 10), (1, 100)] {
            var settings = WindowSettings()
            (settings.reserve, settings.visits) = (0, visits)
            let queries = QuerySet(settings)
            var place = place(102) { $0 == 0 || $0 == 101 }
            let query = try Query(TreeQuery(index: .key, limit: 1, viewFrom: .first), where: odd)
            let view = queries.add(Window(query, over: place, from: .order(.byKey(place.children)), settings))
            var events = remove("0", from: &place, queries)
            #expect(events.first?.kind == .removed)
            #expect(events.first?.why == .deleted)
            var filled = 0
            while view.isShort {
                filled += 1
                events += queries.fill(view, over: place, in: { [place] _ in .byKey(place.children) })?.events ?? []
            }
            #expect(filled == rounds)
            #expect(events.map(\.key) == ["0", "101"])
            #expect(view.count == 1)
        }
    }

    @Test func removed_saysWhy_andHowFar() throws {
        let queries = QuerySet()
        queries.adopt(GeoIndex(GeoIndexTests.fields))
        let index = try #require(queries.index)
        let centre = try #require(GeoPoint(latitude: 37, longitude: 23))
        let query = try Query(TreeQuery(), near: NearQuery(centre: centre, metres: 1_000, limit: nil))
        let window = Window(query, over: .null, from: .points(index))
        _ = queries.add(window)
        var old = Node.null
        func write(_ new: Node) -> LiveEvent? {
            var event: LiveEvent?
            queries.apply([ChildWrite("a", old: old, new: new)], over: .object([(Key("a"), new)]), in: { _ in nil }) {
                event = $1.events.first
            }
            old = new
            return event
        }
        #expect(write(GeoIndexTests.record(38, 23)) == nil)
        let near = write(GeoIndexTests.record(37.001, 23))
        #expect(near?.kind == .added)
        #expect((near?.distance).map { ($0 - 111.2).magnitude < 0.1 } ?? false)
        let inside = write(GeoIndexTests.record(37.002, 23))
        #expect(inside?.kind == .changed && inside?.hasMoved == true)
        let out = write(GeoIndexTests.record(37.1, 23))
        #expect(out?.why == .left)
        #expect(out?.value == GeoIndexTests.record(37.002, 23))
        #expect((out?.distance).map { $0 > 11_000 } ?? false)
        _ = write(GeoIndexTests.record(37.001, 23))
        #expect(write("no place")?.why == .left)
        _ = write(GeoIndexTests.record(37.001, 23))
        #expect(write(.null)?.why == .deleted)
    }

    @Test func write_asksTheFiltersThatItConcerns_ofTenThousandQueries() throws {
        let queries = QuerySet()
        for i in 0..<10_000 {
            let filter = Filter([Condition("status", .equal("open")), Condition("uid", .equal(Constant(stringLiteral: "u\(i)")))])
            let query = try Query(TreeQuery(index: .key), where: filter)
            _ = queries.add(Window(query, over: .null, from: .order(.byKey(ChildMap()))))
            // The same filter in another order, and its count: evaluated once for all of them.
            let last = try Query(TreeQuery(index: .child("at"), limit: 1), where: filter)
            _ = queries.add(Window(last, over: .null, from: .order(.byKey(ChildMap()))))
            _ = queries.add(countOf: query, matches: 0)
        }
        let child: Node = ["status": "open", "uid": "u5000"]
        var told: [LiveQueryView] = []
        queries.apply([ChildWrite("a", old: .null, new: child)], over: ["a": child], in: { _ in nil }) { view, _ in told.append(view) }
        #expect(told.count == 3)
        #expect(told.allSatisfy { $0.query.filter.admits(child) && $0.count == 1 })
        #expect(queries.evaluations <= 4)
        for view in queries.all { queries.remove(view) }
        queries.apply([ChildWrite("a", old: child, new: .null)], over: .null, in: { _ in nil }) { _, _ in told = [] }
        #expect(told.count == 3)
        #expect(queries.evaluations <= 4)
    }
}
