import CLinux
import Glibc
import JSONTree
import LiveQueries

/// The cost of near queries over many points, compared with a scan of all points in the same run.
struct NearMeasurement {
    var points = 1_000_000
    /// Edge of the square that contains them.
    var kilometres = 300.0
    var queries = 2_000
    var circles = 2_000
    var distant = 100_000

    private static let fields = GeoFields(latitude: "position/lat", longitude: "position/lng")

    func run(_ show: (String) -> Void) throws {
        var random = SplitMix(1)
        let (children, keys) = place(&random)
        show("\(points) points on a square of \(Int(kilometres)) km")

        let before = HeapMeter.allocated
        var index = GeoIndex(Self.fields)
        let build = microseconds { index = GeoIndex(Self.fields, of: children) }
        let bytes = Double(HeapMeter.allocated - before) / Double(points)
        let each = build * 1_000 / Double(points)
        show("  index built in \((build / 1_000).fixed(0)) ms; \(each.fixed(0)) ns and \(bytes.fixed(0)) bytes for a point")

        let centres = (0..<queries).compactMap { _ in GeoPoint(random: &random, kilometres) }
        var found = 0
        let near = microseconds {
            for centre in centres {
                var left = 20
                index.nearest(to: centre, within: 1_000) { _, _ in
                    left -= 1
                    found += 1
                    return left > 0
                }
            }
        }
        let all = keys.compactMap { key in Self.fields.position(of: children.child(key)).point }
        var scanned = 0
        let scans = centres.prefix(20)
        let scan = microseconds {
            for centre in scans { scanned += all.nearest(20, to: centre, within: 1_000) }
        }
        show(
            "  20 nearest within 1 km: \((near / Double(queries)).fixed(1)) µs, \((Double(found) / Double(queries)).fixed(1)) found; "
                + "a scan \((scan / Double(scans.count)).fixed(0)) µs")
        guard index.nearestCount(scans) == scanned else { throw BenchError.unexpected("the scan finds other points") }

        try filtered(children, index, centres, show)
        moves(children, keys, index, &random, show)
        try nearestViews(children, keys, index, centres, &random, show)
        try movingPoint(show)
    }

    /// Live queries of the 20 nearest over all points while some points move in and out of the views.
    private func nearestViews(
        _ children: Node, _ keys: [Key], _ index: GeoIndex, _ centres: [GeoPoint], _ random: inout SplitMix, _ show: (String) -> Void
    ) throws {
        let views = QuerySet()
        views.adopt(index)
        var lists: [LiveQueryView] = []
        for centre in centres {
            let query = try Query(TreeQuery(), near: NearQuery(centre: centre, metres: nil, limit: 20))
            lists.append(views.add(Window(query, over: children, from: .points(index))))
        }
        var near: [Key] = []
        for centre in centres {
            index.nearest(to: centre) { key, _ in
                near.append(key)
                return false
            }
        }
        var (events, writes) = (0, ContiguousArray<ContiguousArray<ChildWrite>>())
        var states: [Key: Node] = [:]
        for key in near {
            let new = record(0, &random)
            writes.append([ChildWrite(key, old: states[key] ?? children.child(key), new: new)])
            states[key] = new
        }
        let time = microseconds {
            for write in writes { views.apply(write, over: children, in: { _ in nil }) { _, change in events += change.events.count } }
        }
        let each = Double(near.count)
        show(
            "  the nearest point of one of \(centres.count) live queries for 20 moves away: \((time / each).fixed(1)) µs, "
                + "\((Double(events) / each).fixed(1)) events")
        var moved = 0
        let moves = microseconds {
            for i in lists.indices {
                guard let centre = GeoPoint(random: &random, kilometres) else { continue }
                guard let there = lists[i].query.moved(to: .centre(centre)) else { continue }
                let window = Window(there, over: children, from: .points(index))
                let view = views.add(window)
                moved += views.difference(from: lists[i], to: view, over: children)?.events.count ?? 0
                views.remove(lists[i])
                lists[i] = view
            }
        }
        show(
            "  the centre of one of them moves anywhere: \((moves / Double(lists.count)).fixed(1)) µs, "
                + "\((Double(moved) / Double(lists.count)).fixed(1)) events")
        for write in writes.reversed() { index.move(write[0].key, old: write[0].new, new: write[0].old) }
    }

    /// Creates a view with a filter that one of three points passes.
    private func filtered(_ children: Node, _ index: GeoIndex, _ centres: [GeoPoint], _ show: (String) -> Void) throws {
        let filter = Filter([Condition("status", .equal("s1"))])
        var settings = WindowSettings()
        settings.reserve = 0
        var shown = 0
        let time = try microseconds {
            for centre in centres {
                let query = try Query(TreeQuery(), where: filter, near: NearQuery(centre: centre, metres: 1_000, limit: 20))
                shown += Window(query, over: children, from: .points(index), settings).count
            }
        }
        show("  the same where status == s1, as a view: \((time / Double(queries)).fixed(1)) µs")
    }

    private func moves(_ children: Node, _ keys: [Key], _ index: GeoIndex, _ random: inout SplitMix, _ show: (String) -> Void) {
        var steps: [(key: Key, old: Node, new: Node)] = []
        for i in 0..<queries { steps.append((keys[i], children.child(keys[i]), record(i, &random))) }
        let time = microseconds { for step in steps { index.move(step.key, old: step.old, new: step.new) } }
        for step in steps { index.move(step.key, old: step.new, new: step.old) }
        show("  a point moved anywhere: \((time / Double(queries)).fixed(2)) µs")
    }

    /// One child moves within many circles, all of which contain it.
    func movingPoint(_ show: (String) -> Void) throws {
        for (overlapping, far) in [(circles, 0), (circles, distant), (0, 0), (0, distant)] {
            let queries = QuerySet()
            queries.adopt(GeoIndex(Self.fields))
            let before = HeapMeter.allocated
            for i in 0..<(overlapping + far) {
                let isFar = i >= overlapping
                // Overlapping centres lie within 300 m; distant ones are spread over another country.
                let latitude = isFar ? 50 + Double(i % 1_000) / 200 : 37.97 + Double(i % 50) / 20_000
                let longitude = isFar ? 8 + Double(i / 1_000) / 20 : 23.73 + Double(i / 50) / 20_000
                guard let centre = GeoPoint(latitude: latitude, longitude: longitude), let index = queries.index else { continue }
                let query = try Query(TreeQuery(), near: NearQuery(centre: centre, metres: 1_000, limit: nil))
                _ = queries.add(Window(query, over: .null, from: .points(index)))
            }
            let bytes = (HeapMeter.allocated - before) / max(1, overlapping + far)
            var (old, events) = (Node.null, 0)
            let steps = 500
            let states = (0..<steps).map { i in Self.record(37.9705 + Double(i % 7) / 50_000, 23.7305 + Double(i % 5) / 50_000, i) }
            let time = microseconds {
                for new in states {
                    let place = Node.object([(Key("danae"), new)])
                    queries.apply([ChildWrite("danae", old: old, new: new)], over: place, in: { _ in nil }) { _, change in
                        if case .child = change { events += 1 }
                    }
                    old = new
                }
            }
            show(
                "  a point moves under \(overlapping) overlapping and \(far) distant circles: \((time / Double(steps)).fixed(1)) µs, "
                    + "\(events / steps) events; \(bytes) bytes for a circle")
        }
    }

    // MARK: Data

    private func place(_ random: inout SplitMix) -> (Node, [Key]) {
        var names = PushIDGenerator()
        let keys = (0..<points).map { names.next(now: 1_790_000_000_000 + Int64($0)) }
        var children: [(Key, Node)] = []
        for i in keys.indices { children.append((keys[i], record(i, &random))) }
        return (.object(children), keys)
    }

    private func record(_ i: Int, _ random: inout SplitMix) -> Node {
        let (latitude, longitude) = SplitMix.position(&random, kilometres)
        return Self.record(latitude, longitude, i)
    }

    private static func record(_ latitude: Double, _ longitude: Double, _ i: Int) -> Node {
        ["position": ["lat": .number(latitude), "lng": .number(longitude)], "status": .string("s\(i % 3)"), "rating": .int(Int64(i % 50))]
    }
}

/// SplitMix64, so that each run has the same data.
struct SplitMix {
    private var state: UInt64
    init(_ seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// 0..<1
    mutating func unit() -> Double { Double(next() >> 11) / 0x1p53 }

    static func position(_ random: inout SplitMix, _ kilometres: Double) -> (latitude: Double, longitude: Double) {
        let degrees = kilometres / 111.2
        return (37 + random.unit() * degrees, 22 + random.unit() * degrees / 0.8)
    }
}

extension GeoPoint {
    fileprivate init?(random: inout SplitMix, _ kilometres: Double) {
        let (latitude, longitude) = SplitMix.position(&random, kilometres)
        self.init(latitude: latitude, longitude: longitude)
    }
}

extension [GeoPoint] {
    /// Number of the nearest points, by a scan: all distances, then sorting those within the limit.
    fileprivate func nearest(_ count: Int, to centre: GeoPoint, within metres: Double) -> Int {
        var within: [Double] = []
        for point in self {
            let distance = point.metres(to: centre)
            if distance <= metres { within.append(distance) }
        }
        within.sort()
        return Swift.min(count, within.count)
    }
}

extension GeoIndex {
    fileprivate func nearestCount(_ centres: some Sequence<GeoPoint>) -> Int {
        centres.reduce(0) { $0 + min(20, count(in: NearQuery(centre: $1, metres: 1_000, limit: nil)) ?? 0) }
    }
}

/// CPU time of the process for a closure, in microseconds.
func microseconds(_ body: () throws -> Void) rethrows -> Double {
    func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e6 + Double(time.tv_nsec) / 1e3
    }
    let start = now()
    try body()
    return now() - start
}
