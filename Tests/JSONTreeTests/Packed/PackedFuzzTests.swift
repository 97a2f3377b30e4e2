@testable import JSONTree
import Testing
import TestSupport

/// Random operations on trees of every shape, compared with the plain model. An input is a tree and 200 operations on it, so `VIGLA_FUZZ_COUNT=5000`
/// runs a million.
///
/// External bytes never become packed pages: journal rows, snapshot chunks and messages are JSON, which `JSONFuzzTests` covers.
@Suite(.timeLimit(.fuzzing)) struct PackedFuzzTests {
    @Test func operations_onTreesOfEveryShape_areAsTheModel() throws {
        let done = try FuzzLoop("packed", count: 40).run(saying: { " of 200 operations" }) { seed in
            var run = Run(seed)
            return try run.fault()
        }
        #expect(done > 0)
    }

    /// One tree with its model.
    private struct Run {
        private var random: SeededRandom
        /// Numbers of children of the tree's objects, by depth: hardly any, a page, some pages, many.
        private let spaces: [Int]
        /// The length limit of this tree's texts.
        private let textBytes: Int
        private var root = Node.null
        private var model: NaiveTree?
        private var earlier: [(root: Node, model: NaiveTree?)] = []

        init(_ seed: UInt64) {
            random = SeededRandom(seed)
            spaces = [random.pick([3, 30, 300, 3_000]), random.pick([3, 30, 300]), random.pick([3, 30])]
            textBytes = random.pick([4, 40, PackedLimits.textBytes + 20, 3_000])
        }

        mutating func fault() throws -> String? {
            if random.chance(60) {
                let start = random.chance(30) ? array() : object(depth: 0, most: random.pick([5, 50, 1_500]))
                root = try Node(json: start.json)
                model = NaiveTree(start)
            }
            for step in 0..<200 {
                let keys = write()
                if NaiveTree(root.node(at: Path(ContiguousArray(keys.map { Key($0) })))) != model?.at(keys[...]) { return "step \(step)" }
                if step % 50 == 49, let fault = try look() { return "step \(step): \(fault)" }
            }
            for version in earlier where NaiveTree(version.root) != version.model { return "an earlier version has changed" }
            return nil
        }

        /// Changes tree and model.
        /// - Returns: the place.
        private mutating func write() -> [String] {
            let keys = (0...random.below(3)).map { key($0) }
            let path = Path(ContiguousArray(keys.map { Key($0) }))
            switch random.below(10) {
            case 0:
                let priority = random.chance(30) ? Node.null : random.chance(50) ? text() : .int(Int64(random.below(9)))
                root.setPriority(priority, at: path)
                model = NaiveTree.settingPriority(model, keys[...], priority)
            case 1:
                let value = object(depth: keys.count, most: 60)
                root.merge(value, at: path)
                for (key, child) in value.children { model = NaiveTree.setting(model, keys[...] + [key.string], NaiveTree(child)) }
            case 2...3:
                root.set(.null, at: path)
                model = NaiveTree.setting(model, keys[...], nil)
            default:
                let value = value(depth: keys.count)
                root.set(value, at: path)
                model = NaiveTree.setting(model, keys[...], NaiveTree(value))
            }
            return keys
        }

        // MARK: Invariants

        private mutating func look() throws -> String? {
            if NaiveTree(root) != model { return "another tree than the model" }
            if let fault = Self.fault(root) { return fault }
            let read = try Node(json: root.json)
            if read != root || read.hash != root.hash { return "its JSON is another tree" }
            let keys = root.children.map(\.key)
            if root.children.descending().map(\.key) != keys.reversed() { return "another order backwards" }
            if let at = keys.indices.randomElement(using: &random) {
                if root.children.rank(of: keys[at]) != at || root.children.key(at: at) != keys[at] { return "rank of \(keys[at])" }
            }
            for (old, was) in earlier {
                if (old == root) != (was == model) { return "equality with an earlier version" }
                guard let changes = root.children.changes(since: old.children, atMost: .max) else { return "no end of changes" }
                var children = old.children
                for change in changes {
                    if (old.child(change.key)) != (change.old ?? .null) { return "the old value of \(change.key)" }
                    children.set(change.key, change.new ?? .null)
                }
                if children != root.children { return "the changes since an earlier version" }
            }
            earlier.append((root, model))
            return nil
        }

        private static func fault(_ node: Node) -> String? {
            if let fault = node.children.invariantFault() { return fault }
            switch node {
            case .packed(let object):
                if object.value.size > PackedLimits.objectBytes { return "a packed object of \(object.value.size) bytes" }
                if object.count == 0 { return "an empty object" }
            case .object(let object):
                if object.children.isEmpty { return "an empty object" }
                if object.priority.isNull, object.children.packed?.page.isWhole == true { return "a small object that is not packed" }
            default: break
            }
            for (_, child) in node.children { if let fault = fault(child) { return fault } }
            return nil
        }

        // MARK: Written values

        /// Arrays of objects; long ones are stored in pages without keys. Later writes use keys within the range, outside it, and other spellings of
        /// the same numbers.
        private mutating func array() -> Node {
            let (first, count) = (random.chance(80) ? 0 : random.below(2_000), random.below(3_000))
            return .object((0..<count).map { i in
                (Key(index: first + i), random.chance(98) ? .int(Int64(i & 1)) : value(depth: 1))
            })
        }

        private mutating func key(_ depth: Int) -> String {
            let number = random.below(spaces[min(depth, spaces.count - 1)])
            return switch number % 5 {
            case 0: (number % 25 == 0 ? "0" : "") + String(number)
            case 1: "-K\(number &* 7919)"
            case 2: "a name that is longer than fifteen bytes \(number)"
            case 3: "é\(number)"
            default: "k\(number)" + String(repeating: "-", count: number % 7 == 0 ? 140 : 0)
            }
        }

        private mutating func text() -> Node {
            .string(String(repeating: random.chance(80) ? "x" : "é", count: random.below(textBytes)) + String(random.below(10)))
        }

        private mutating func object(depth: Int, most: Int) -> Node {
            .object((0..<random.below(most + 1)).map { _ in (Key(key(depth)), value(depth: depth + 1)) })
        }

        private mutating func value(depth: Int) -> Node {
            let value: Node = switch random.below(10) {
            case 0...2 where depth < 4: object(depth: depth, most: random.pick([3, 8, 40]))
            case 3...5: text()
            case 6: .bool(random.chance(50))
            case 7: .double(Double(random.below(1_000)) / 8 + 0.0625)
            default: .int(Int64(bitPattern: random.next()) >> Int64(random.below(64)))
            }
            return random.chance(8) ? value.with(priority: random.chance(30) ? text() : .int(Int64(random.below(5)))) : value
        }
    }
}
