import JSONTree
import TestSupport

@testable import LiveQueries

/// A place with live queries, compared with full recomputation of each and with a client's list built from the events.
final class PlaceModel {
    /// The client's state of one view.
    final class Client {
        var keys: [Key] = []
        var values: [Key: Node] = [:]
        var distances: [Key: Double] = [:]
        var count = 0
    }

    static let orders: [TreeQuery.Index] = [.key, .value, .priority, .child("rating"), .child("author/uid")]

    var records: RandomRecords
    let queries: QuerySet
    var place = Node.null
    /// An earlier state, from which windows are computed as if in the background.
    var earlier = Node.null
    var indexes: [TreeQuery.Index: OrderedIndex] = [:]
    var views: [(view: LiveQueryView, client: Client)] = []
    let settings: WindowSettings
    let keys: Int
    var faults: [String] = []

    init(_ seed: UInt64, keys: Int = 40) {
        records = RandomRecords(seed)
        var settings = WindowSettings()
        settings.reserve = records.random.pick([0, 1, 4, 64])
        settings.complete = records.random.pick([0, 5, 1_000])
        settings.visits = records.random.pick([1, 3, 10, 2_000])
        self.settings = settings
        self.keys = keys
        queries = QuerySet(settings)
        queries.adopt(GeoIndex(GeoIndexTests.fields))
        for order in Self.orders where order != .key { indexes[order] = OrderedIndex(order, of: .null) }
    }

    func ordered(_ order: TreeQuery.Index) -> OrderedChildren? {
        order == .key ? .byKey(place.children) : indexes[order].map { .indexed($0, of: place.children) }
    }

    // MARK: Random things

    func child() -> Node {
        let record = records.record()
        guard record.hasChildren, records.random.chance(85) else { return record }
        // Few spots, so that distances are sometimes equal.
        let spot: (latitude: Double, longitude: Double) =
            records.random.chance(60)
            ? (37.97 + Double(records.random.below(7)) / 500, 23.72 + Double(records.random.below(7)) / 500)
            : GeoIndexTests.position(&records.random)
        var children = record.children
        children.set("position", ["lat": .number(spot.latitude), "lng": .number(spot.longitude)])
        return .object(children.map { ($0.key, $0.node) }, priority: record.priority)
    }

    func centre() -> GeoPoint {
        let spot =
            records.random.chance(70) ? (latitude: 37.975, longitude: 23.725 + Double(records.random.below(5)) / 1_000)
            : GeoIndexTests.position(&records.random)
        return GeoPoint(latitude: spot.latitude, longitude: spot.longitude) ?? GeoPoint(latitude: 0, longitude: 0)!
    }

    func query() -> Query? {
        let filter = Filter(records.conditions())
        let limit = records.random.chance(60) ? 1 + records.random.below(8) : nil
        if records.random.chance(10) {
            var tree = TreeQuery()
            if limit != nil { (tree.limit, tree.viewFrom) = (limit, records.random.chance(50) ? .first : .last) }
            return try? Query(tree, where: filter, within: region()).located(by: GeoIndexTests.fields)
        }
        if records.random.chance(30) {
            let metres: Double? = records.random.chance(70) ? records.random.pick([400, 1_500, 5_000, 2e6]) : nil
            let near = NearQuery(centre: centre(), metres: metres, limit: limit)
            return try? Query(TreeQuery(), where: filter, near: near).located(by: GeoIndexTests.fields)
        }
        var tree = TreeQuery(index: records.random.pick(Self.orders))
        tree.limit = limit
        if limit != nil { tree.viewFrom = records.random.chance(50) ? .first : .last }
        func bound() -> TreeQuery.Bound {
            let isKey = tree.orderedBy == .key
            let value: Node = isKey ? .string("k\(records.random.below(keys))") : records.constant().value
            let key = !isKey && records.random.chance(30) ? Key("k\(records.random.below(keys))") : nil
            return TreeQuery.Bound(value: value, key: key, inclusive: records.random.chance(50) ? nil : records.random.chance(50))
        }
        if records.random.chance(30) { tree.start = bound() }
        if records.random.chance(30) { tree.end = records.random.chance(30) ? tree.start : bound() }
        let near = records.random.chance(20) ? NearQuery(centre: centre(), metres: 2_000, limit: nil) : nil
        let within = near == nil && records.random.chance(20) ? region() : nil
        return try? Query(tree, where: filter, near: near, within: within).located(by: GeoIndexTests.fields)
    }

    /// Boxes and polygons over some of the spots, at a pole or across the antimeridian, and over the whole earth.
    func region() -> WithinQuery {
        let size = Double(1 + records.random.below(8)) / 700
        let at = (latitude: 37.97 + Double(records.random.below(7)) / 500, longitude: 23.72 + Double(records.random.below(7)) / 500)
        let json: JSONValue =
            switch records.random.below(6) {
            case 0: .array([.double(at.latitude - size), .double(at.longitude - size), .double(at.latitude), .double(at.longitude + size)])
            case 1:
                .array([
                    .array([.double(at.latitude - size), .double(at.longitude)]), .array([.double(at.latitude), .double(at.longitude + size)]),
                    .array([.double(at.latitude + size), .double(at.longitude - size)]),
                ])
            case 2: .array([.double(-0.01), .double(179.99), .double(0.01), .double(-179.995)])
            case 3: .array([.array([.int(89), .int(0)]), .array([.int(88), .int(120)]), .array([.int(89), .int(-120)])])
            case 4: .array([.int(-90), .int(-180), .int(records.random.chance(50) ? 90 : 38), .int(180)])
            default: ["lat": .double(at.latitude), "lng": .double(at.longitude), "radius": .double(size * 100_000)]
            }
        return (try? WithinQuery(json)) ?? WithinQuery(.region(.circle(GeoCircle(centre: centre(), metres: 500))))
    }

    // MARK: Steps

    func step() {
        let random = records.random.below(100)
        if random < 8, views.count < 40 {
            observe()
        } else if random < 10, !views.isEmpty {
            queries.remove(views.remove(at: records.random.below(views.count)).view)
        } else if random < 14, let at = views.indices.filter({ views[$0].view.query.hasArea }).randomElement(using: &records.random) {
            move(at)
        } else if random < 15 {
            replace()
        } else {
            commit()
        }
    }

    func observe() {
        guard let query = query() else { return }
        let showing: LiveQueryView.Showing = records.random.chance(25) ? .count : .children
        guard queries.existingView(query, showing) == nil else { return }
        let client = Client()
        let view: LiveQueryView
        if showing == .count {
            let children = records.random.chance(50) ? ordered(query.tree.orderedBy) : nil
            let around = records.random.chance(50) ? queries.index.flatMap { query.matches(over: place, around: $0) } : nil
            view = queries.add(countOf: query, matches: around ?? query.matches(over: place, in: children))
            client.count = view.count
        } else if query.isByPosition, let index = queries.index, let window = near(query, index) {
            view = queries.add(window)
            tell(view, client, .children(window.initial(over: place, index)))
        } else if let children = ordered(query.tree.orderedBy) {
            let made =
                records.random.chance(70) ? Window(query, over: place, from: .order(children), settings) : window(query)
            guard var window = made else { return faults.append("too many") }
            if records.random.chance(30) {
                let before = OrderedChildren.indexed(OrderedIndex(query.tree.orderedBy, of: earlier), of: earlier.children)
                let isByKey = query.tree.orderedBy == .key
                window = Window(query, over: earlier, from: .order(isByKey ? .byKey(earlier.children) : before), settings)
                if !window.follow(from: earlier, to: place, from: .order(children), atMost: 100_000) { faults.append("does not follow") }
                while window.isShort { window.fillAlone(over: place, from: .order(children), visits: settings.visits) }
            }
            view = queries.add(window)
            tell(view, client, .children(window.initial(over: place, queries.index)))
        } else {
            return
        }
        views.append((view, client))
        check(view, client)
    }

    /// Keys that include all matching ones: those of the circle, or all.
    private func window(_ query: Query) -> Window? {
        if query.hasArea, let index = queries.index, records.random.chance(50) {
            return Window(query, over: place, from: .points(index), settings)
        }
        let holdsAll = records.random.chance(50)
        return Window(query, over: place, among: place.children.map(\.key), holdsAll: holdsAll, settings)
    }

    private func near(_ query: Query, _ index: GeoIndex) -> Window? {
        if records.random.chance(20) {
            return Window(query, over: place, among: place.children.map(\.key), settings)
        }
        guard records.random.chance(30) else {
            let holdsAll = records.random.chance(50)
            let found = Window.searched(query, over: place, from: .points(index), holdsAll: holdsAll, visits: .max, settings)
            guard case .found(let window) = found else { return nil }
            return window
        }
        var window = Window(query, over: earlier, from: .points(GeoIndex(GeoIndexTests.fields, of: earlier)), settings)
        if !window.follow(from: earlier, to: place, from: .points(index), atMost: 100_000) { faults.append("does not follow") }
        while window.isShort { window.fillAlone(over: place, from: .points(index), visits: settings.visits) }
        return window
    }

    func commit() {
        if records.random.chance(20) { earlier = place }
        var writes: ContiguousArray<ChildWrite> = []
        var children = place.children
        for _ in 0..<(records.random.chance(70) ? 1 : 1 + records.random.below(6)) {
            let key = Key("k\(records.random.below(keys))")
            if writes.contains(where: { $0.key == key }) { continue }
            let old = children[key] ?? .null
            let new = records.random.chance(25) ? .null : child()
            if old == new { continue }
            children.set(key, new)
            writes.append(ChildWrite(key, old: old, new: new))
        }
        if writes.isEmpty { return }
        place = .object(children.map { ($0.key, $0.node) })
        for write in writes {
            for order in indexes.keys {
                let change = ChildMap.Change(
                    key: write.key, old: write.old.exists ? write.old : nil, new: write.new.exists ? write.new : nil)
                indexes[order]?.move(change)
            }
        }
        told { queries.apply(writes, over: place, in: ordered, $0) }
    }

    /// A view that another client already has is shared from then on, so this client leaves.
    private func move(_ at: Int) {
        let (view, client) = views[at]
        let move = view.query.near == nil ? QueryMove.within(region()) : .centre(centre())
        guard let query = view.query.moved(to: move), query != view.query, !view.isShort else { return }
        guard let moved = queries.existingView(query, view.showing) ?? made(query, view.showing) else { return }
        if moved.isShort { return queries.remove(moved) }
        if let change = queries.difference(from: view, to: moved, over: place) { tell(moved, client, change) }
        check(moved, client)
        queries.remove(view)
        if views.contains(where: { $0.view === moved }) { views.remove(at: at) } else { views[at].view = moved }
    }

    private func made(_ query: Query, _ showing: LiveQueryView.Showing) -> LiveQueryView? {
        guard let index = queries.index else { return nil }
        if showing == .count { return query.matches(over: place, around: index).map { queries.add(countOf: query, matches: $0) } }
        if query.isByPosition { return near(query, index).map { queries.add($0) } }
        return window(query).map { queries.add($0) }
    }

    /// The place is overwritten as a whole: all differences are one commit.
    func replace() {
        let old = place
        place = .object((0..<records.random.below(keys)).map { (Key("k\($0)"), records.random.chance(50) ? old.child(Key("k\($0)")) : child()) })
        for order in indexes.keys { indexes[order] = OrderedIndex(order, of: place) }
        let changes = place.children.changes(since: old.children, atMost: .max) ?? []
        let writes = ContiguousArray(changes.map { ChildWrite($0.key, old: $0.old ?? .null, new: $0.new ?? .null) })
        told { queries.apply(writes, over: place, in: ordered, $0) }
    }

    private func told(_ commit: (QuerySet.Notify) -> Void) {
        var changes: [(LiveQueryView, LiveQueryView.Change)] = []
        commit { changes.append(($0, $1)) }
        if Set(changes.map { ObjectIdentifier($0.0) }).count != changes.count { faults.append("a view is told twice") }
        for (view, change) in changes {
            guard let client = views.first(where: { $0.view === view })?.client else { return faults.append("a view that is gone") }
            tell(view, client, change)
        }
        for (view, client) in views {
            var rounds = 0
            // Some are left to the next commit.
            if view.isShort, records.random.chance(60) { continue }
            while view.isShort, rounds < 2_000 {
                rounds += 1
                if view.needsBackgroundSearch { search(view, client) }
                if let change = queries.fill(view, over: place, in: ordered) { tell(view, client, change) }
            }
            check(view, client)
        }
    }

    /// As if off the queue: with the points of an earlier state, and then updated.
    private func search(_ view: LiveQueryView, _ client: Client) {
        guard let index = queries.index else { return }
        queries.beginSearch(view)
        let isCurrent = records.random.chance(50)
        let (state, points) = isCurrent ? (place, index.snapshot()) : (earlier, GeoIndex(GeoIndexTests.fields, of: earlier))
        guard case .found(var window) = Window.searched(view.query, over: state, from: .points(points), visits: .max, settings) else {
            return faults.append("not found")
        }
        if !window.follow(from: state, to: place, from: .points(index), atMost: 100_000) { faults.append("does not follow") }
        queries.endSearch(view)
        if let change = queries.replace(view, with: window, over: place) { tell(view, client, change) }
    }

    // MARK: The client

    func tell(_ view: LiveQueryView, _ client: Client, _ change: LiveQueryView.Change) {
        switch change {
        case .count(let count):
            if count == client.count { faults.append("a count that does not differ") }
            client.count = count
        case .child, .children: for event in change.events { apply(event, view, client) }
        }
    }

    private func apply(_ event: LiveEvent, _ view: LiveQueryView, _ client: Client) {
        func fault(_ text: String) { faults.append("\(text): \(event) of \(client.keys) \(view.query)") }
        let isKnown = client.values[event.key] != nil
        if isKnown == (event.kind == .added) { fault("added or not") }
        let was = client.values[event.key]
        client.keys.removeAll { $0 == event.key }
        if event.kind == .removed {
            if event.value != was { fault("what it was") }
            if (event.why == .deleted) != place.child(event.key).isNull { fault("why") }
            client.values[event.key] = nil
            return
        }
        if event.value != place.child(event.key) { fault("value") }
        if event.kind == .moved, view.query.isByPosition, view.query.near == nil { fault("moved without an order") }
        if event.kind == .moved, was != event.value { fault("moved with another value") }
        client.values[event.key] = event.value
        client.distances[event.key] = event.distance
        if view.query.isByPosition {
            if event.previous != nil || (event.distance == nil) != (view.query.near == nil) { fault("order") }
            return client.keys.append(event.key)
        }
        if let previous = event.previous {
            guard let at = client.keys.firstIndex(of: previous) else { return fault("no previous") }
            client.keys.insert(event.key, at: at + 1)
        } else {
            client.keys.insert(event.key, at: 0)
        }
    }

    // MARK: The recomputation

    func check(_ view: LiveQueryView, _ client: Client) {
        let query = view.query
        var matches: [(key: Key, rank: OrderedChild?, near: ChildPlace?)] = []
        for (key, child) in place.children where FilterModel.admits(Array(query.filter.conditions), child) {
            var near: ChildPlace?
            if let circle = query.near {
                guard let point = GeoIndexTests.fields.position(of: child).point else { continue }
                if let metres = circle.metres, point.chordSquared(circle.centre) > GeoPoint.chordSquared(metres: metres) { continue }
                near = ChildPlace(chordSquared: point.chordSquared(circle.centre), key: key)
            }
            if let region = query.within?.region {
                guard let point = GeoIndexTests.fields.position(of: child).point, region.contains(point) else { continue }
            }
            let rank = query.isByPosition ? nil : query.tree.orderedBy.place(key, child)
            if let rank, !query.tree.admits(rank) { continue }
            matches.append((key, rank, near))
        }
        matches.sort { a, b in
            if let x = a.rank, let y = b.rank { return x.order(y) < 0 }
            if let x = a.near, let y = b.near { return x.order(y) < 0 }
            return false
        }
        if let limit = query.tree.limit { matches = query.tree.keeps == .first ? Array(matches.prefix(limit)) : matches.suffix(limit) }
        if view.showing == .count {
            if client.count != matches.count { faults.append("count \(client.count), \(matches.count) match: \(query)") }
            return
        }
        if view.count != matches.count { faults.append("view counts \(view.count), \(matches.count) match: \(query)") }
        let isSame = query.isByPosition ? Set(client.keys) == Set(matches.map(\.key)) : client.keys == matches.map(\.key)
        if !isSame || client.keys.count != matches.count { faults.append("shows \(client.keys), should \(matches.map(\.key)): \(query)") }
        for match in matches {
            if let value = client.values[match.key], value != place.child(match.key) { faults.append("stale value of \(match.key)") }
            let metres = match.near.map { GeoPoint.metres(chordSquared: $0.chordSquared) }
            if let told = client.distances[match.key] ?? nil, let metres, (told - metres).magnitude > 1e-6 + metres * 1e-9 {
                faults.append("distance of \(match.key): \(told), not \(metres): \(query)")
            }
            if metres != nil, client.distances[match.key] == nil { faults.append("no distance of \(match.key)") }
        }
    }
}

extension Window {
    fileprivate mutating func fillAlone(over place: Node, from source: Source, visits most: Int) {
        var events: ContiguousArray<LiveEvent> = []
        var visits = most
        fill(over: place, from: source, visits: &visits, &events)
    }

    /// The shown children as events for a new observer.
    fileprivate func initial(over place: Node, _ index: GeoIndex?) -> ContiguousArray<LiveEvent> {
        Window(query, over: .null, among: []).map { difference(from: $0, over: place, index) } ?? []
    }
}
