import HubEngine
import Journal
import JSONTree
import SecurityRules
import TestSupport
import Testing

/// Nodes expire as in a model that recomputes all of them from the whole content each time, with random writes, times, clocks and restarts.
@Suite(.timeLimit(.minutes(30))) struct ExpiryModelTests {
    private static let rules = #"""
        {"rules": {".read": true, ".write": true,
          "a": {"$x": {".expire": "data.child('at').val()", "in": {"$y": {".expire": "data.val()"}}}},
          "b": {"$x": {"$y": {
            ".expire": [{"at": "data.child('at').val()", "if": "data.child('s').val() == 'on'", "patch": {"s": "'late'"},
                         "log": "log/b/$x", "value": {"y": "$y", "at": "data.child('at').val()"}},
                        {"at": "data.child('at').val() + 700", "if": "data.child('s').val() == 'late'"}]}}},
          "c": {"$x": {".expire": {"at": "written + 500", "log": "log/c", "value": {"x": "$x", "w": "written"}}}},
          "d": {"$x": {".expire": "data.val()", ".removes": "a/$x"}}}}
        """#

    /// The tree, and when the nodes of `c` were written. Log rows are counted; their keys are ignored.
    private struct Model {
        var root: Node = .null
        var written: [Path: Int64] = [:]
        var rows: [String: Int] = [:]

        mutating func write(_ path: Path, _ value: Node, now: Int64) {
            let goes = path.depth == 2 && path.keys[0] == "d" && value.isNull && root.node(at: path).exists
            root.set(value, at: path)
            if goes { root.set(.null, at: Path([Key("a"), path.keys[1]])) }
            for (key, _) in root.node(at: "c").children {
                let node: Path = Path([Key("c"), key])
                if node.contains(path) || path.contains(node) { written[node] = now }
            }
            written = written.filter { root.node(at: $0.key).exists }
        }

        /// Expires all nodes that are due, the earliest first.
        mutating func pass(now: Int64) {
            while let (_, path, kind) = due.filter({ $0.0 <= now }).min(by: { ($0.0, $0.1) < ($1.0, $1.1) }) {
                let node = root.node(at: path)
                switch kind {
                case "late":
                    rows["b \(path.keys[1]) \(path.keys[2]) \(node.child("at").json)", default: 0] += 1
                    write(path.appending(Key("s")), "late", now: now)
                case "old":
                    rows["c \(path.keys[1]) \(written[path] ?? -1)", default: 0] += 1
                    write(path, .null, now: now)
                default: write(path, .null, now: now)
                }
            }
        }

        private var due: [(Int64, Path, String)] {
            var found: [(Int64, Path, String)] = []
            func add(_ time: Node, _ more: Int64, _ path: Path, _ kind: String) {
                if case .int(let ms) = time.leaf { found.append((ms + more, path, kind)) }
            }
            for (x, node) in root.node(at: "a").children {
                add(node.child("at"), 0, Path([Key("a"), x]), "end")
                for (y, time) in node.child("in").children { add(time, 0, Path([Key("a"), x, Key("in"), y]), "end") }
            }
            for (x, many) in root.node(at: "b").children {
                for (y, node) in many.children {
                    let path = Path([Key("b"), x, y])
                    if node.child("s") == "on" { add(node.child("at"), 0, path, "late") }
                    if node.child("s") == "late" { add(node.child("at"), 700, path, "end") }
                }
            }
            for (x, node) in root.node(at: "c").children {
                let path = Path([Key("c"), x])
                if node.exists, let ms = written[path] { found.append((ms + 500, path, "old")) }
            }
            for (x, node) in root.node(at: "d").children { add(node, 0, Path([Key("d"), x]), "with") }
            return found
        }
    }

    private func compare(_ it: RestartHarness, _ model: Model, _ step: Int) throws {
        var (snapshot, rows) = (it.snapshot, [String: Int]())
        for (x, log) in snapshot.root.node(at: "log/b").children {
            for (_, row) in log.children {
                rows["b \(x) \(row.child("y").leaf.json.filter { $0 != "\"" }) \(row.child("at").json)", default: 0] += 1
            }
        }
        for (_, row) in snapshot.root.node(at: "log/c").children {
            rows["c \(row.child("x").json.filter { $0 != "\"" }) \(row.child("w").json)", default: 0] += 1
        }
        snapshot.root.set(.null, at: "log")
        let isSame = snapshot.root == model.root && rows == model.rows
        try #require(isSame, "step \(step), \(it.hub.time.ms): \(snapshot.root.json) is to be \(model.root.json); \(rows) \(model.rows)")
        for (path, ms) in model.written { try #require(snapshot.written[path] == ms, "step \(step): \(path)") }
        try #require(snapshot.written.count == model.written.count, "step \(step)")
        let stored = it.stored
        try #require(stored.written == snapshot.written && stored.root.node(at: "a") == snapshot.root.node(at: "a"), "step \(step)")
    }

    @Test(arguments: Array(1...60) as [UInt64]) func randomHistory_endsNodesAsRecomputed(seed: UInt64) throws {
        var random = SeededRandom(seed)
        var limits = EngineLimits()
        // The rest is found in the background; few nodes expire in a turn.
        (limits.inlineChildren, limits.expiredAtOnce, limits.expiringNodes) = (random.pick([3, 1_000]), 2, random.pick([4, 1_000]))
        let it = try RestartHarness(Self.rules, limits: limits, now: 1_000_000_000)
        var model = Model()
        for step in 0..<150 {
            let (x, y, now) = (Key(random.pick(["p", "q", "r"])), Key(random.pick(["s", "t", "u"])), it.hub.time.ms)
            func time() -> Node { random.chance(15) ? .null : .int(now + Int64(random.below(1_500)) - 200) }
            func late() -> Node { ["at": time(), "s": .string(random.pick(["on", "late", "off"])), "n": .int(Int64(step))] }
            let write: (Path, Node)? = switch random.below(14) {
            case 0, 1: (Path([Key("a"), x]), random.chance(20) ? .null : ["at": time(), "n": .int(Int64(step))])
            case 2: (Path([Key("a"), x, Key("at")]), time())
            case 3, 4: (Path([Key("b"), x, y]), random.chance(20) ? .null : late())
            case 5: (Path([Key("b")]), ["p": ["s": late(), "t": late()], "q": ["u": late()]])
            case 6, 7: (Path([Key("c"), x, y]), random.chance(20) ? .null : .int(Int64(step)))
            case 8: (Path([Key("a"), x, Key("in"), y]), time())
            case 9: (Path([Key("c")]), random.chance(30) ? .null : ["p": ["n": 1], "q": ["n": 2], "z": 1])
            case 10: (Path([Key("d"), x]), time())
            default: nil
            }
            if let (path, value) = write {
                try #require(it.put(path, value) == "ok 0")
                model.write(path, value, now: now)
            } else {
                switch random.below(6) {
                case 0: it.hub.time.step(seconds: random.chance(50) ? 86_400 : -86_400)
                case 1: it.restart(afterMs: Int64(random.below(2_000)))
                case 2: try it.deploy(Self.rules)
                default: it.advance(ms: Int64(random.below(600)))
                }
            }
            // The hub notices the changed clock within a second.
            it.settle()
            for _ in 0..<2 { it.advance(ms: 0) }
            if write == nil { it.advance(ms: limits.clockCheckMs) }
            model.pass(now: it.hub.time.ms)
            try compare(it, model, step)
        }
    }
}
