import JSONTree
import TestSupport

/// One step of a random run. Steps are valid in any order and number, so that a failing run can be shrunk.
enum ModelStep {
    struct Write {
        var path: [String]
        var part = TreeWrite.Part.node
        var node: Node
        /// Server values, relative to the path.
        var deferred: [(path: [String], isPriority: Bool, increment: Node?)] = []

        var isRemoval: Bool { part == .node && node.isNull && deferred.isEmpty }
    }

    case listen(client: Int, path: [String], query: TreeQuery?)
    case unlisten(client: Int, number: Int)
    case write(client: Int, [Write])
    case transaction(client: Int, Write, isStale: Bool)
    case pend(client: Int, [Write])
    case cancel(client: Int, path: [String])
    case identify(client: Int, as: Int)
    case replaceRules(Int)
    /// The client disconnects, and another takes its number.
    case end(client: Int)
    /// The client reconnects with a new session and its cache.
    case reconnect(client: Int)
}

extension ModelStep.Write {
    var treeWrite: TreeWrite {
        var value = WriteValue(node)
        for item in deferred {
            value.deferred.append(
                WriteValue.Deferred(
                    path: Path(item.path.map { Key($0) }), target: item.isPriority ? .priority : .value,
                    value: item.increment.map { .increment($0) } ?? .timestamp))
        }
        return TreeWrite(Path(path.map { Key($0) }), part: part, value)
    }

    /// The written value, given the stored one (contract §5).
    func resolved(_ stored: Plain, now: Int64) -> Plain {
        func value(_ increment: Node?, _ old: Node) -> Node {
            guard let increment else { return .int(now) }
            switch (old, increment) {
            case (.int(let a), .int(let b)): return .int(a + b)
            case (.int(let a), .double(let b)): return .number(Double(a) + b)
            case (.double(let a), .int(let b)): return .number(a + Double(b))
            case (.double(let a), .double(let b)): return .number(a + b)
            default: return increment
            }
        }
        var result = Plain(node)
        for item in deferred {
            let old = stored[item.path[...]]
            if item.isPriority {
                result = result.settingPriority(item.path[...], to: value(item.increment, old.priority))
            } else {
                var leaf = Plain(value(item.increment, old.leaf))
                leaf.priority = result[item.path[...]].priority
                result = result.setting(item.path[...], to: leaf)
            }
        }
        return result
    }
}

/// Random steps over a small world: few keys, so that steps conflict, and one list long enough for several pages of the tree.
struct ModelScript {
    private var random: SeededRandom
    private let keys = ["a", "b", "1", "2", "10", "é"]
    private let longKeys = (0..<45).map { "k\($0)" }

    init(seed: UInt64) { random = SeededRandom(seed) }

    mutating func steps(_ count: Int) -> [ModelStep] {
        let list = Node.object(longKeys.map { (Key($0), child()) })
        return [.write(client: 0, [.init(path: ["a", "l"], node: list)])] + (0..<count).map { _ in step() }
    }

    private mutating func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &random) }
    private mutating func pick<T>(_ list: [T]) -> T { list[roll(list.count)] }

    private mutating func step() -> ModelStep {
        let client = roll(5)
        switch roll(100) {
        case 0..<12: return .listen(client: client, path: place(), query: roll(3) == 0 ? nil : query())
        case 12..<16: return .unlisten(client: client, number: roll(4))
        case 16..<50: return .write(client: client, [write()])
        case 50..<70: return .write(client: client, writes())
        case 70..<78: return .transaction(client: client, write(), isStale: roll(3) == 0)
        case 78..<84: return .pend(client: client, roll(2) == 0 ? [write()] : writes())
        case 84..<86: return .cancel(client: client, path: path())
        case 86..<91: return .identify(client: client, as: roll(4))
        case 91: return .replaceRules(roll(3))
        case 92..<95: return .end(client: client)
        default: return .reconnect(client: client)
        }
    }

    private mutating func place() -> [String] {
        pick([["a"], ["a", "l"], ["a", "l"], ["a", "b"], ["a", "b", "1"], ["s"], ["s", "d"], ["m"], []])
    }

    private mutating func path() -> [String] {
        switch roll(10) {
        case 0: return pick([[], ["x"], ["s"], ["a"], ["m"], ["a", "l"]])
        case 1, 2: return ["m", pick(["u1", "u2"])]
        case 3: return ["s", "d"] + (roll(2) == 0 ? [] : [pick(keys)])
        case 4...6: return ["a", "l", pick(longKeys)] + (roll(2) == 0 ? [] : [pick(["v", "z"])])
        default: return ["a"] + (0..<roll(4)).map { _ in pick(keys) }
        }
    }

    private mutating func write() -> ModelStep.Write {
        let path = path()
        if roll(10) == 0 { return .init(path: path, part: .priority, node: pick([.null, 1, 2, "p"])) }
        if roll(10) == 0 {
            let increment: Node? = roll(2) == 0 ? nil : pick([1, -2, 0.5])
            return .init(path: path, node: 0, deferred: [(path: [], isPriority: false, increment: increment)])
        }
        if roll(20) == 0 { return .init(path: path, node: ["v": 0, "z": 1], deferred: [(path: ["v"], isPriority: false, increment: 3)]) }
        return .init(path: path, node: path.count < 2 && roll(4) > 0 ? ["b": child(), "open": 1] : child())
    }

    /// Places of which none contains another.
    private mutating func writes() -> [ModelStep.Write] {
        var result: [ModelStep.Write] = []
        // Writes of more than 8 places are prepared in the background.
        let isLarge = roll(10) == 0
        for _ in 0..<(1 + roll(isLarge ? 30 : 5)) {
            let next = write()
            if next.path.isEmpty || result.contains(where: { $0.path.starts(with: next.path) || next.path.starts(with: $0.path) }) {
                continue
            }
            result.append(next)
        }
        return result
    }

    private mutating func leaf() -> Node { pick([false, true, 1, 2, 1.5, "s", "t", "é"]) }

    private mutating func child() -> Node {
        switch roll(8) {
        case 0, 1: .null
        case 2: leaf()
        case 3: leaf().with(priority: pick([1, 2, "p"]))
        case 4: ["v": ["w": leaf()], "z": 1]
        case 5: (["v": leaf()] as Node).with(priority: pick([1, 2, "p"]))
        default: ["v": leaf(), "z": .int(Int64(roll(3)))]
        }
    }

    private mutating func query() -> TreeQuery {
        let index: TreeQuery.Index? = pick([nil, .key, .value, .priority, .child("v"), .child("v/w")])
        var query = TreeQuery(index: index)
        if roll(2) == 0 { query.start = bound(index == .key) }
        if roll(2) == 0 { query.end = bound(index == .key) }
        if query.isDefault || roll(3) > 0 {
            query.limit = pick([1, 2, 3, 5, 10])
            query.viewFrom = pick([nil, .first, .last])
        }
        return query
    }

    private mutating func bound(_ isKey: Bool) -> TreeQuery.Bound {
        if isKey { return .init(value: .string(pick(keys + ["k2", "k30"])), inclusive: pick([nil, true, false])) }
        return .init(
            value: roll(5) == 0 ? .null : leaf(), key: pick([nil, Key(pick(keys)), "k7", "[MIN_NAME]", "[MAX_NAME]"]),
            inclusive: pick([nil, true, false]))
    }
}
