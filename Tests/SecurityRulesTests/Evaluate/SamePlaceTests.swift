import JSONTree
import TestSupport
import Testing

@testable import SecurityRules

/// Places with the same value and rules, such as copies of a node, are validated once, with the same result as one by one.
@Suite(.timeLimit(.minutes(30))) struct SamePlaceTests {
    private static let values: [Node] = [1, 2, "a", "b", true, ["a": 1, "b": "x"], ["a": 1, "b": "y"], ["0": true, "b": ["a": 1]]]
    private static func value(_ random: inout SeededRandom) -> Node { random.pick(values) }

    private static func tree(_ random: inout SeededRandom) -> Node {
        var tree = Node.null
        for _ in 0..<random.below(20) {
            tree.set(value(&random), at: Path((0...random.below(3)).map { _ in random.pick(["a", "b", "0", "k"] as [Key]) }))
        }
        return tree
    }

    /// With random rules over the whole expression language; a recorder forces each place to be validated.
    @Test(arguments: Array(1...40) as [UInt64]) func validity_isThatOfEachPlaceAlone_withRandomRules(round: UInt64) throws {
        var random = SeededRandom(round)
        for _ in 0..<60 {
            let rules = try RuleSet(parsing: #"{"rules":\#(ModelRules(&random, depth: 3).json)}"#)
            let old = Self.tree(&random)
            for _ in 0..<20 {
                var new = old
                let (depth, value) = (1 + random.below(3), Self.value(&random))
                let paths = (0..<2 + random.below(4)).map { _ in
                    Path((0..<depth).map { _ in random.pick(["a", "b", "0", "k", "l"] as [Key]) })
                }
                for path in paths { new.set(random.chance(90) ? value : Self.value(&random), at: path) }
                let isValid = rules.isValidSystemWrite(paths, old: old, new: new, now: 7)
                let all = paths.allSatisfy { rules.isValidSystemWrite([$0], old: old, new: new, now: 7) }
                #expect(isValid == all, "\(paths) of \(new.json) before \(old.json): \(rules.text)")
                #expect(isValid == rules.explainSystemWrite(paths, old: old, new: new, now: 7, fault: nil).isAllowed)
            }
        }
    }

    /// The values of a commit's consequences are known, so none is looked up.
    @Test(arguments: Array(1...40) as [UInt64]) func consequences_areAsValidAsEachPlaceAlone(round: UInt64) throws {
        var random = SeededRandom(round)
        for _ in 0..<60 {
            let rules = try RuleSet(parsing: #"{"rules":\#(ModelRules(&random, depth: 3).json)}"#)
            let old = Self.tree(&random)
            for _ in 0..<20 {
                var found = Consequences(tree: old)
                let (depth, value) = (1 + random.below(3), Self.value(&random))
                for _ in 0..<2 + random.below(5) {
                    let path = Path((0..<depth + (random.chance(5) ? 1 : 0)).map { _ in random.pick(["a", "b", "0", "k", "l"] as [Key]) })
                    let value = random.chance(90) ? value : random.chance(50) ? .null : Self.value(&random)
                    found.tree.set(value, at: path)
                    found.writes.append(SystemWrite(path: path, value: value, kind: .copy, pattern: .root))
                }
                found.findPlaces()
                var work = Int.max
                let isValid = rules.admits(found, old: old, now: 7, textWork: &work)
                let all = found.writes.allSatisfy { rules.isValidSystemWrite([$0.path], old: old, new: found.tree, now: 7) }
                #expect(isValid == all, "\(found.writes.map(\.path)) of \(found.tree.json) before \(old.json): \(rules.text)")
            }
        }
    }

    /// Data other than the value that differs between places: each of these rules allows `/t/a/k` and refuses `/t/b/k`.
    @Test(arguments: [
        "$u == 'a'", "newData.parent().child('x').exists()", "data.parent().child('x').exists()", "!data.exists()",
        "root.child('m').child($u).exists()", "newRoot.child('m/' + $u).exists()", "data.val() != 5",
        "newRoot.child('t').child($u).child('x').exists()", "newData.child('v').parent().parent().child('x').exists()",
        "root.child('n').child(newRoot.child('m').child($u).val() + '').parent().child('in').exists()",
    ]) func whatDiffers_isAskedEachTime(_ rule: String) throws {
        let old: Node = ["t": ["a": ["x": 1], "b": ["k": 5, "y": 1]], "m": ["a": "in"], "n": ["in": 1]]
        var new = old
        for path in ["t/a/k", "t/b/k"] as [Path] { new.set(["v": 1], at: path) }
        for text in [rule, "(\(rule)) && newData.exists()"] {
            let rules = try RuleSet(parsing: #"{"rules":{"t":{"$u":{"$k":{".validate":"\#(text)"}}}}}"#)
            #expect(rules.isValidSystemWrite(["t/a/k", "t/a/k"], old: old, new: new, now: 1), "\(text)")
            #expect(!rules.isValidSystemWrite(["t/a/k", "t/b/k"], old: old, new: new, now: 1), "\(text)")
        }
    }

    /// The bound on text work of one operation is the same with it as without.
    @Test(arguments: 1...60) func textWork_isCountedForEachPlace(_ most: Int) throws {
        let rules = try RuleSet(
            parsing: #"{"rules":{"t":{"$u":{"$k":{".validate":"newData.val().contains('b')","$x":{".validate":true}}}}}}"#, textWork: most)
        var new = Node.null
        let paths = ["t/a/k", "t/b/k", "t/c/k"] as [Path]
        for path in paths { new.set("aaaaaaaab", at: path) }
        let isValid = rules.isValidSystemWrite(paths, old: .null, new: new, now: 1)
        var found = Consequences(tree: .null)
        let value: Node = ["v": "aaaaaaaab"]
        for path in paths {
            found.tree.set(value, at: path)
            found.writes.append(SystemWrite(path: path, value: value, kind: .copy, pattern: .root))
        }
        found.findPlaces()
        let same = try RuleSet(
            parsing: #"{"rules":{"t":{"$u":{"$k":{".validate":"newData.child('v').val().contains('b')"}}}}}"#, textWork: most)
        var work = Int.max
        #expect(same.admits(found, old: .null, now: 1, textWork: &work) == (most >= 30))
        #expect(isValid == (most >= 30) && isValid == rules.explainSystemWrite(paths, old: .null, new: new, now: 1, fault: nil).isAllowed)
    }

    @Test(arguments: Array(1...40) as [UInt64]) func dues_areThoseOfEachNodeAlone(round: UInt64) throws {
        var random = SeededRandom(round)
        let rules = try RuleSet(parsing: """
            {"rules":{
              "a":{"$x":{".expire":"data.child('a').val()","$y":{".expire":[{"at":"written + 5","if":"$y != 'b'"},{"at":"data.val()"}]}}},
              "b":{"$x":{"$y":{".expire":"$x == 'a' ? 7 : data.child('a').val() * 3"}}},
              "0":{"$x":{"$y":{".expire":{"at":"data.child('a').val()","patch":{"b":"'x'"}}}}}
            }}
            """)
        for _ in 0..<100 {
            var tree = Node.null
            let keys = ["a", "b", "0"] as [Key]
            for x in keys { for y in keys { for z in keys where random.chance(70) { tree.set(Self.value(&random), at: Path([x, y, z])) } } }
            var paths = keys.flatMap { x in keys.flatMap { y in [Path([x, y])] + keys.map { Path([x, y, $0]) } } }
            if random.chance(50) { paths.shuffle(using: &random) }
            let written = Dictionary(uniqueKeysWithValues: paths.map { ($0, random.chance(50) ? Int64(random.below(2)) : nil) })
            let dues = rules.dues(at: paths, in: tree) { written[$0] ?? nil }
            // A commit knows the values that it has written there.
            let values = paths.map { path in random.chance(70) ? Self.values.first { $0 == tree.node(at: path) } : nil }
            let known = rules.dues(of: zip(paths, values).map { (path: $0, value: $1) }, in: tree) { written[$0] ?? nil }
            #expect(dues == known, "\(tree.json)")
            #expect(dues == paths.map { rules.due(at: $0, in: tree, written: written[$0] ?? nil) }, "\(tree.json)")
        }
    }
}
