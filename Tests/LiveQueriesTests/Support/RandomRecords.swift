import JSONTree
import TestSupport

@testable import LiveQueries

/// Records and conditions with few different values, so that they often match.
struct RandomRecords {
    var random: SeededRandom

    init(_ seed: UInt64) { random = SeededRandom(seed) }

    static let paths: [Path] = ["status", "rating", "types", "author/uid", "name", Path.root]

    mutating func leaf() -> Node {
        switch random.below(12) {
        case 0: .bool(random.chance(50))
        case 1...4: .int(Int64(random.below(9)) - 2)
        case 5: .double(Double(random.below(9)) / 2 + 0.25)
        case 6: .int(random.chance(50) ? 9_007_199_254_740_993 : 9_007_199_254_740_992)
        case 7: .double(9.3e18)
        default: .string(random.pick(["open", "closed", "op", "", "a", "an", "Ana", "é", "e\u{301}", "\u{1F600}", "\u{FF5E}"]))
        }
    }

    mutating func record() -> Node {
        if random.chance(6) { return leaf() }
        var fields: [(Key, Node)] = []
        for name in ["status", "rating", "name"] where random.chance(75) {
            var value = leaf()
            if random.chance(8) { value = value.with(priority: 3) }
            if random.chance(4) { value = .object([(Key("x"), Node.int(1))]) }
            fields.append((Key(name), value))
        }
        if random.chance(70) {
            let names = ["food", "music", "art", "5"].filter { _ in random.chance(40) }
            fields.append(("types", .object(names.map { (Key($0), Node.bool(random.chance(70))) })))
        }
        if random.chance(60) { fields.append(("author", .object([(Key("uid"), Node.string("u\(random.below(6))"))]))) }
        return .object(fields, priority: random.chance(10) ? 2 : .null)
    }

    mutating func constant() -> Constant { random.chance(8) ? .null : (Constant(leaf()) ?? .null) }

    mutating func condition() -> Condition {
        let path = random.pick(Self.paths)
        switch random.below(9) {
        case 0, 1: return Condition(path, .equal(constant()))
        case 2: return Condition(path, .notEqual(constant()))
        case 3, 4: return Condition(path, .above(constant(), orEqual: random.chance(50)))
        case 5: return Condition(path, .below(constant(), orEqual: random.chance(50)))
        case 6: return Condition(path, .oneOf(ContiguousArray((0...random.below(4)).map { _ in constant() })))
        case 7: return Condition(random.chance(80) ? "types" : path, .has(Key(random.pick(["food", "music", "5", "x"]))))
        default: return Condition(path, .prefix(Text(random.pick(["", "o", "op", "An", "e"]))))
        }
    }

    mutating func conditions() -> [Condition] { (0..<random.below(4)).map { _ in condition() } }
}

/// The meaning of conditions, implemented independently over nodes.
enum FilterModel {
    static func admits(_ conditions: [Condition], _ child: Node) -> Bool {
        child.exists && conditions.allSatisfy { admits($0, child.node(at: $0.path)) }
    }

    static func admits(_ condition: Condition, _ value: Node) -> Bool {
        switch condition.test {
        case .equal(let constant): value.valueOrder(constant.value) == 0
        case .notEqual(let constant): value.valueOrder(constant.value) != 0
        case .above(let constant, let orEqual): value.valueOrder(constant.value) >= (orEqual ? 0 : 1)
        case .below(let constant, let orEqual): value.valueOrder(constant.value) <= (orEqual ? 0 : -1)
        case .oneOf(let constants): constants.contains { value.valueOrder($0.value) == 0 }
        case .has(let key): value.child(key).exists
        case .prefix(let text):
            if case .string(let whole) = value.leaf { Array(whole.string.utf8).starts(with: Array(text.string.utf8)) } else { false }
        }
    }
}

/// Steps of a model test: a fixed number in the suite, `VIGLA_LIVE_QUERY_STEPS` of them in a long run.
enum Steps {
    static func count(_ usual: Int) -> Int {
        longRun.map { max($0, usual) } ?? usual
    }
}
