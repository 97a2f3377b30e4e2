import JSONTree
import SecurityRules
import Testing
import TestSupport

/// `.drop` and `.default` against a model that scans all places of the trees for each rule of the file.
@Suite(.timeLimit(.minutes(30))) struct ShapingModelTests {
    /// `keep` and `follow` are kept defaults: a value, and the value of the sibling `d`.
    private enum Meaning { case none, drop, dropNumbers, put(Node), keep(Node), follow }
    private typealias Rule = (pattern: [String], meaning: Meaning)

    /// The meaning of the rule nodes. A literal name hides a wildcard at the same level.
    private struct Table {
        private var meanings: [[String]: [Meaning]] = [:]

        init(_ rules: [Rule]) { for rule in rules { meanings[rule.pattern, default: []].append(rule.meaning) } }

        private subscript(path: Path) -> [Meaning] {
            var pattern: [String] = []
            for key in path.keys {
                let (literal, wildcard) = (pattern + [key.string], pattern + ["$\(pattern.count)"])
                guard let next = [literal, wildcard].first(where: { meanings[$0] != nil }) else { return [] }
                pattern = next
            }
            return meanings[pattern] ?? []
        }

        func drops(_ place: Path, in tree: Node) -> Bool {
            self[place].contains { meaning in
                switch meaning {
                case .drop, .keep, .follow: true
                case .dropNumbers: if case .int = tree.node(at: place) { true } else { false }
                default: false
                }
            }
        }

        func isKept(_ place: Path) -> Bool {
            self[place].contains { meaning in
                switch meaning {
                case .keep, .follow: true
                default: false
                }
            }
        }

        /// The value that a default puts at a place; nil without one.
        func value(_ place: Path) -> Node? {
            for case .put(let value) in self[place] { return value }
            return nil
        }

        /// The value of a kept default.
        func keptValue(_ place: Path, in tree: Node) -> Node {
            for meaning in self[place] {
                switch meaning {
                case .keep(let value): return value
                case .follow:
                    let source = tree.node(at: place.parent).child("d")
                    return source.hasChildren ? .null : source.leaf
                default: continue
                }
            }
            return .null
        }
    }

    @Test(arguments: Array(1...60) as [UInt64]) func randomWrites_areShapedLikeTheModel(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let (text, rules) = Self.file(&random)
        let set = try RuleSet(parsing: text)
        var old = Node.null
        for step in 0..<60 {
            var writes: [(path: Path, value: Node)] = []
            for _ in 0...random.below(3) {
                let path = Path((0..<random.below(5)).map { _ in Self.key(&random) })
                if writes.contains(where: { $0.path.contains(path) || path.contains($0.path) }) { continue }
                writes.append((path, Self.value(&random, 4 - min(4, path.depth))))
            }
            let shaped = set.shape(writes, on: old, auth: .null, now: 0)
            let (expected, ignored) = Self.model(rules, writes, old)
            guard shaped.tree == expected, shaped.ignored == ignored else {
                let sent = writes.map { "\($0.path) \($0.value.json)" }
                Issue.record("step \(step): \(text)\n\(old.json)\n\(sent)\n\(shaped.tree.json)\n\(expected.json)")
                return
            }
            old = shaped.tree
        }
    }

    // MARK: Random input

    private static func key(_ random: inout SeededRandom) -> Key { Key(random.pick(["a", "b", "c", "d"])) }

    private static func value(_ random: inout SeededRandom, _ depth: Int) -> Node {
        switch random.below(depth > 0 ? 7 : 3) {
        case 0: .null
        case 1: .int(Int64(random.below(3)))
        case 2: .string("t")
        default: .object((0...random.below(3)).map { _ in (key(&random), value(&random, depth - 1)) }.unique)
        }
    }

    private static func file(_ random: inout SeededRandom) -> (String, [Rule]) {
        var rules: [Rule] = []
        func node(_ pattern: [String], _ random: inout SeededRandom) -> String {
            var members: [String] = []
            rules.append((pattern, .none))
            if !pattern.isEmpty, random.chance(20) {
                let isTrue = random.chance(50)
                members.append(isTrue ? "\".drop\":true" : "\".drop\":\"newData.isNumber()\"")
                rules.append((pattern, isTrue ? .drop : .dropNumbers))
            }
            if let last = pattern.last, !last.hasPrefix("$"), random.chance(30) {
                let value: Node = random.chance(50) ? ["d": 1] : 7
                if random.chance(40), !members.contains(where: { $0.contains(".drop") }) {
                    let follows = random.chance(60)
                    let text = follows ? "\"newData.parent().child('d').val()\"" : value.json
                    members.append("\".default\":{\"value\":\(text),\"always\":true}")
                    rules.append((pattern, follows ? .follow : .keep(value)))
                } else {
                    members.append("\".default\":" + (random.chance(50) && !value.hasChildren ? "\"3 + 4\"" : value.json))
                    rules.append((pattern, .put(value)))
                }
            }
            if pattern.count < 4 {
                for name in ["a", "b", "c"] where random.chance(45) { members.append("\"\(name)\":\(node(pattern + [name], &random))") }
                if random.chance(40) {
                    let name = "$\(pattern.count)"
                    members.append("\"\(name)\":\(node(pattern + [name], &random))")
                }
            }
            return "{\(members.joined(separator: ","))}"
        }
        let text = node([], &random)
        return ("{\"rules\":\(text)}", rules)
    }

    // MARK: The model

    private static func model(_ rules: [Rule], _ writes: [(path: Path, value: Node)], _ old: Node) -> (Node, [Int]) {
        let table = Table(rules)
        var ignored: [Int] = []
        let sent = writes.after(old)
        for (i, write) in writes.enumerated() {
            let isDropped = (1...4).contains { depth in
                let place = Path(write.path.keys.prefix(depth))
                // A removal is not dropped, except of a kept default.
                let mayDrop = sent.node(at: write.path).exists || table.isKept(place)
                return depth <= write.path.depth && mayDrop && table.drops(place, in: sent)
            }
            if isDropped { ignored.append(i) }
        }
        var tree = writes.after(old, without: ignored)
        let written = writes.enumerated().filter { !ignored.contains($0.offset) }.map(\.element.path)
        // Outer places first: a dropped place has no children.
        while let place = places(tree).first(where: { place in
            written.contains { $0.contains(place) && $0 != place } && table.drops(place, in: tree)
        }) { tree.set(.null, at: place) }
        fill(table, &tree, old, written)
        // Kept defaults, of the innermost parents first. Each follows what is written at, above and below its parent.
        let parents = (places(tree) + [.root]).filter { parent in written.contains { $0.contains(parent) || parent.contains($0) } }
        for parent in parents.sorted(by: { $0.depth > $1.depth }) where tree.node(at: parent).hasChildren {
            let kept = ["a", "b", "c"].map { parent.appending(Key($0)) }.filter(table.isKept)
            let isAlone = tree.node(at: parent).children.allSatisfy { key, _ in kept.contains(parent.appending(key)) }
            for place in kept {
                tree.set(.null, at: place)
                let value = isAlone ? .null : table.keptValue(place, in: tree)
                if value.exists { tree.set(value, at: place) }
                fill(table, &tree, old, [place], below: place)
            }
        }
        return (tree, ignored)
    }

    private static func fill(_ table: Table, _ tree: inout Node, _ old: Node, _ written: [Path], below: Path = .root) {
        var put: [Path] = []
        while let (place, value) = absent(table, tree, old, written, put, below) {
            tree.set(value, at: place)
            put.append(place)
        }
    }

    /// The first place where a default is missing.
    private static func absent(
        _ table: Table, _ tree: Node, _ old: Node, _ written: [Path], _ put: [Path], _ below: Path
    ) -> (Path, Node)? {
        for parent in places(tree) + [.root] where tree.node(at: parent).hasChildren && below.contains(parent) {
            let isWritten = (written + put).contains { location in
                if location.contains(parent) { return true }
                return parent.contains(location) && (location.depth == parent.depth + 1 || old.node(at: parent).isNull)
            }
            guard isWritten else { continue }
            for key in ["a", "b", "c"] {
                let place = parent.appending(Key(key))
                if tree.node(at: place).isNull, let value = table.value(place) { return (place, value) }
            }
        }
        return nil
    }

    /// All existing places except the root.
    private static func places(_ tree: Node, at path: Path = .root) -> [Path] {
        tree.hasChildren ? tree.children.flatMap { key, child in [path.appending(key)] + places(child, at: path.appending(key)) } : []
    }
}

extension [(Key, Node)] {
    fileprivate var unique: [(Key, Node)] {
        var seen: Set<Key> = []
        return filter { seen.insert($0.0).inserted }
    }
}
