import Glibc
import HubEngine
import Journal
import JSONTree
import LiveQueries
import SecurityRules
import Testing
import TestSupport

/// Watches under random writes, removals, restarts and deploys, compared with a model that scans all watches and all children at each
/// commit. Positions lie in a city, on both sides of the antimeridian, and around the poles.
///
/// `VIGLA_WATCH_STEPS` is the total number of steps; `VIGLA_MODEL_SEED` selects the seeds.
@Suite(.timeLimit(.minutes(240))) struct WatchModelTests {
    private static func number(_ name: String) -> UInt64? { getenv(name).flatMap { UInt64(String(cString: $0)) } }
    private static let seeds: [UInt64] = (0..<6).map { $0 + (number("VIGLA_MODEL_SEED") ?? 1) }
    private static let steps = Int(number("VIGLA_WATCH_STEPS") ?? 900) / seeds.count
    /// Steps per hub, before another one with different limits.
    private static let stepsOfHub = 150

    @Test(arguments: seeds) func randomHistory_isAsScanned(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var left = Self.steps
        while left > 0 {
            var world = try WatchWorld(&random)
            for step in 0..<min(left, Self.stepsOfHub) { try world.step("seed \(seed), step \(Self.steps - left + step)", &random) }
            left -= Self.stepsOfHub
        }
    }
}

/// A hub and its model, side by side.
private struct WatchWorld {
    private static let rules = #"""
        {"rules":{".read":true,".write":true,
          "items":{".geoIndex":{"lat":"lat","lng":"lng"}},
          "own":{"$u":{".geoIndex":{"lat":"lat","lng":"lng"}}},
          "live":{".geoIndex":{"lat":"lat","lng":"lng"}},
          "circles":{"$u":{"$w":{".watch":{
            "circle":{"at":"live/$u","lat":"lat","lng":"lng","radius":"data.child('r').val()"},"on":["items","own/$u"],
            "if":"!data.hasChild('kind') || item.child('kind').val() == data.child('kind').val()","to":"near/$u/$w/{item}",
            "value":{"at":"now","n":"item.child('n').val()","d":"distance == null ? -1 : 1"},
            "cooldown":"data.child('pause').val()","until":"data.child('until').val()"}}}},
          "events":{"$e":{".watch":[
            {"circle":{"lat":"lat","lng":"lng","radius":"root.child('kinds').child(data.child('kind').val()).val()"},"on":"live",
              "to":"met/$e/{item}","value":"now"},
            {"within":"shapes/{shape}","on":["live","items"],"to":"in/$e/{item}","value":"now","cooldown":3}]}}}}
        """#

    private let hub: RestartHarness
    private var root: Node
    /// Until when pairs are silent.
    private var muted: [WatchPair: Int64] = [:]
    private var last = ""

    init(_ random: inout SeededRandom) throws {
        var limits = EngineLimits()
        (limits.largeWritePlaces, limits.followedPlaces) = random.pick([(8, 4), (1_000, 1_000)])
        // With few writes in a commit, most rows follow in commits of their own.
        (limits.watchUpdates, limits.systemWrites) = (random.pick([3, 30, 1_000]), random.pick([2, 1_000, 1_000]))
        limits.continuedAtOnce = random.pick([1, 5, 100])
        limits.watchSweepMs = random.pick([1_000, 600_000])
        (limits.systemWriteKeys, limits.systemWriteQuestions) = (1_000_000, 1_000_000)
        root = .null
        // More children than are scanned without an index of their own.
        if random.chance(40) {
            for i in 0..<80 { root.set(Self.item(&random), at: Path(relative: "items/f\(i)")) }
            for i in 0..<30 { root.set(Self.circle(&random), at: Path(relative: "circles/u\(i % 3)/f\(i)")) }
        }
        hub = try RestartHarness(Self.rules, root: root, limits: limits, now: 1_000_000)
    }

    // MARK: Random content

    private static let centres = [(37.97, 23.73), (10, 180), (-10, -180), (89.995, 20), (-89.995, -170), (90, 0), (0, 0)]

    private static func position(_ random: inout SeededRandom) -> (latitude: Double, longitude: Double) {
        let (latitude, longitude) = random.pick(centres)
        func offset() -> Double { Double(random.below(2_001) - 1_000) / 100_000 }
        let wide = latitude.magnitude > 80 ? Double(random.below(36_000)) / 100 : offset()
        let east = (longitude + wide + 540).truncatingRemainder(dividingBy: 360) - 180
        return (min(90, max(-90, latitude + offset())), east)
    }

    private static func item(_ random: inout SeededRandom) -> Node {
        let (latitude, longitude) = position(&random)
        var node: Node = ["lat": .double(latitude), "lng": .double(longitude), "n": .int(Int64(random.below(3)))]
        if random.chance(50) { node.set(.string(Text(random.pick(["a", "b"]))), at: "kind") }
        if random.chance(5) { node.set("none", at: "lat") }
        return node
    }

    private static func circle(_ random: inout SeededRandom) -> Node {
        var node: Node = ["r": .int(Int64(random.pick([0, 300, 1_000, 2_000, 5_000, 1_000_001])))]
        if random.chance(60) { node.set(.int(Int64(random.below(9))), at: "pause") }
        if random.chance(30) { node.set(.int(Int64(1_000_000 + random.below(200_000))), at: "until") }
        if random.chance(40) { node.set(.string(Text(random.pick(["a", "b"]))), at: "kind") }
        return node
    }

    private static func event(_ random: inout SeededRandom) -> Node {
        let (latitude, longitude) = position(&random)
        return [
            "lat": .double(latitude), "lng": .double(longitude), "kind": .string(Text(random.pick(["a", "b", "none"]))),
            "shape": .string(Text("s\(random.below(4))")),
        ]
    }

    private static func shape(_ random: inout SeededRandom) -> Node {
        let (latitude, longitude) = position(&random)
        func east(_ offset: Double) -> Double { (longitude + offset + 540).truncatingRemainder(dividingBy: 360) - 180 }
        switch random.below(5) {
        case 0: return "none"
        case 1, 2:
            let wide = random.pick([0.005, 1, 170])
            return [
                "south": .double(max(-90, latitude - 0.005)), "north": .double(min(90, latitude + 0.005)),
                "west": .double(east(-wide)), "east": .double(east(wide)),
            ]
        default:
            let points: [(Double, Double)] = [(-0.008, -0.007), (0.008, -0.002), (0.001, 0.009)]
            return .object(points.enumerated().map { i, offset in
                (Key(index: i), ["lat": .double(min(90, max(-90, latitude + offset.0))), "lng": .double(east(offset.1))])
            })
        }
    }

    private func write(_ random: inout SeededRandom) -> (Path, Node) {
        let (u, w) = ("u\(random.below(3))", "w\(random.below(4))")
        let isGone = random.chance(12)
        switch random.below(22) {
        case 0...5: return (Path(relative: "live/\(u)"), isGone ? .null : Self.item(&random))
        case 6: return (Path(relative: "live/\(u)/\(random.pick(["lat", "n", "lng"]))"), isGone ? .null : .int(Int64(random.below(3))))
        case 7...10: return (Path(relative: "items/i\(random.below(12))"), isGone ? .null : Self.item(&random))
        case 11: return (Path(relative: "own/\(u)/i\(random.below(5))"), isGone ? .null : Self.item(&random))
        case 12...14: return (Path(relative: "circles/\(u)/\(w)"), isGone ? .null : Self.circle(&random))
        case 15: return (Path(relative: "circles/\(u)/\(w)/r"), isGone ? .null : .int(Int64(random.pick([300, 5_000]))))
        case 16...17: return (Path(relative: "events/e\(random.below(5))"), isGone ? .null : Self.event(&random))
        case 18: return (Path(relative: "kinds/\(random.pick(["a", "b"]))"), isGone ? .null : .int(Int64(random.pick([500, 2_000, -1]))))
        case 19: return (Path(relative: "shapes/s\(random.below(4))"), isGone ? .null : Self.shape(&random))
        case 20:
            // A place as a whole.
            let name = random.pick(["live", "items", "circles/\(u)", "events", "shapes"])
            var node = root.node(at: Path(relative: name))
            for (key, _) in node.children where random.chance(30) { node.set(.null, at: Path([key])) }
            for i in 0..<random.below(8) {
                let child = switch name {
                case "live", "items": Self.item(&random)
                case "events": Self.event(&random)
                case "shapes": Self.shape(&random)
                default: Self.circle(&random)
                }
                node.set(child, at: Path(relative: "\(name == "live" ? "u" : name == "shapes" ? "s" : "g")\(i)"))
            }
            return (Path(relative: name), isGone ? .null : node)
        default:
            guard random.chance(10) else { return (Path(relative: "other/\(w)"), .int(Int64(random.below(9)))) }
            var node = root
            for name in ["items", "events"] where random.chance(50) { node.set(.null, at: Path(relative: name)) }
            return (.root, node)
        }
    }

    // MARK: Steps

    private var now: Int64 { hub.hub.time.ms }

    mutating func step(_ name: String, _ random: inout SeededRandom) throws {
        switch random.below(20) {
        case 0:
            last = "restart"
            hub.restart(afterMs: Int64(random.below(2_000)))
        case 1:
            last = "deploy"
            try hub.deploy(random.chance(80) ? Self.rules : Self.rules + " ")
        case 2...4:
            last = "advance"
            hub.advance(ms: Int64(random.below(3_000)))
        default:
            var writes: [(Path, Node)] = []
            for _ in 0..<(random.chance(25) ? 1 + random.below(12) : 1) {
                let (path, value) = write(&random)
                if !writes.contains(where: { $0.0.contains(path) || path.contains($0.0) }) { writes.append((path, value)) }
            }
            last = writes.map { "\($0.0) \($0.1.json)" }.joined(separator: "; ")
            let client = Client.make()
            let told = hub.hub.ask(client, .write(writes.map { TreeWrite($0.0, WriteValue($0.1)) }))
            hub.settle()
            let answer = (told + hub.hub.take(client)).joined()
            commit(writes)
            #expect(answer == "ok 0", "\(name): \(last)")
        }
        check(name)
    }

    private func check(_ name: String) {
        let stored = hub.stored
        let snapshot = hub.root
        #expect(snapshot == root, "\(name): \(last)\n is \(difference(snapshot))")
        var known: [WatchPair: Int64] = [:]
        stored.watchHits.forEach { known[WatchPair(watch: $0.watch, number: $0.number, item: $0.item)] = $0.until }
        let (silent, expected) = (known.filter { $0.value > now }, muted.filter { $0.value > now })
        #expect(silent == expected, "\(name): \(last)")
    }

    private func difference(_ other: Node) -> String {
        ["near", "met", "in"].map { "\($0) \(other.child(Key($0)).json)\n of \(root.child(Key($0)).json)" }.joined(separator: "\n")
    }

    // MARK: The model

    /// One watch of a node.
    private struct Watch: Equatable {
        let path: Path
        let number: Int
        let node: Node
        let region: Region?
        let places: [Path]
        let to: String
    }

    private static func point(_ node: Node) -> GeoPoint? {
        func number(_ node: Node) -> Double? {
            switch node.leaf {
            case .int(let number): Double(number)
            case .double(let number): number
            default: nil
            }
        }
        guard let latitude = number(node.child("lat")), let longitude = number(node.child("lng")) else { return nil }
        return GeoPoint(latitude: latitude, longitude: longitude)
    }

    private static func circle(_ centre: Node, _ radius: Node) -> Region? {
        guard let point = point(centre), case .int(let metres) = radius, metres > 0, metres <= 1_000_000 else { return nil }
        return .circle(GeoCircle(centre: point, metres: Double(metres)))
    }

    private static func watches(in tree: Node) -> [Watch] {
        var all: [Watch] = []
        for (u, circles) in tree.child("circles").children {
            for (w, node) in circles.children {
                let region = circle(tree.child("live").child(u), node.child("r"))
                let path = Path(["circles", u, w] as [Key])
                all.append(Watch(
                    path: path, number: 0, node: node, region: region, places: ["items", Path(["own", u] as [Key])],
                    to: "near/\(u.string)/\(w.string)"))
            }
        }
        for (e, node) in tree.child("events").children {
            let path = Path(["events", e] as [Key])
            var radius = Node.null
            if case .string(let kind) = node.child("kind") { radius = tree.child("kinds").child(Key(kind.string)) }
            all.append(Watch(
                path: path, number: 0, node: node, region: circle(node, radius), places: ["live"], to: "met/\(e.string)"))
            var (region, visits): (Region?, Int) = (nil, 0)
            if case .string(let shape) = node.child("shape") {
                region = try? Region(stored: tree.child("shapes").child(Key(shape.string)), visits: &visits)
            }
            all.append(Watch(path: path, number: 1, node: node, region: region, places: ["live", "items"], to: "in/\(e.string)"))
        }
        return all
    }

    private mutating func commit(_ writes: [(Path, Node)]) {
        var new = root
        for (path, value) in writes { new.set(value, at: path) }
        let former = Dictionary(uniqueKeysWithValues: Self.watches(in: root).map { ("\($0.path)#\($0.number)", $0) })
        var (rows, hits): ([(Path, Node)], [WatchPair: Int64]) = ([], [:])
        for watch in Self.watches(in: new) {
            guard let region = watch.region else { continue }
            let before = former["\(watch.path)#\(watch.number)"]
            let hasChanged = before?.node != watch.node || before?.region != region
            for place in watch.places {
                for (key, item) in new.node(at: place).children {
                    let path = place.appending(key)
                    guard hasChanged || root.node(at: path) != item, let point = Self.point(item), region.contains(point),
                        (muted[WatchPair(watch: watch.path, number: watch.number, item: path)] ?? 0) <= now
                    else { continue }
                    guard let (row, until) = hit(watch, item) else { continue }
                    rows.append((Path(relative: watch.to).appending(key), row))
                    hits[WatchPair(watch: watch.path, number: watch.number, item: path)] = until
                }
            }
        }
        root = new
        // Rows of two places with one key overwrite each other, the later place last.
        for (path, row) in rows { root.set(row, at: path) }
        muted.merge(hits) { $1 }
        muted = muted.filter { root.exists(at: $0.key.watch) && root.exists(at: $0.key.item) }
    }

    private func hit(_ watch: Watch, _ item: Node) -> (Node, Int64)? {
        if watch.to.hasPrefix("met") { return (.int(now), .max) }
        if watch.to.hasPrefix("in") { return (.int(now), now + 3_000) }
        if watch.node.child("kind").exists, watch.node.child("kind") != item.child("kind") { return nil }
        if case .int(let until) = watch.node.child("until"), now > until { return nil }
        var row: Node = ["at": .int(now), "d": 1]
        row.set(item.child("n"), at: "n")
        guard case .int(let pause) = watch.node.child("pause") else { return (row, .max) }
        return (row, now + pause * 1_000)
    }
}
