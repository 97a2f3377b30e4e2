import JSONTree
import SecurityRules
import Testing
import TestSupport

/// Searching for expiring nodes in parts finds the same as searching all at once.
@Suite(.timeLimit(.minutes(30))) struct ExpiryWalkTests {
    private static let rules = #"""
        {"rules": {
          "a": {"$x": {".expire": "1", "in": {".expire": "written", "$y": {".expire": "1"}}, "by": {"z": {"$q": {".expire": "1"}}}}},
          "b": {"p": {".expire": "1"}, "q": {"$y": {".expire": "1"}}, "$x": {"v": {".expire": "1"}}, "w": {"$x": {".read": true}}},
          "c": {"$x": {"$y": {".read": true}}}}}
        """#

    private static func path(_ random: inout SeededRandom) -> Path {
        let keys: [[Key]] = [["a", "b", "c"], ["p", "q", "r", "s", "w"], ["in", "by", "v", "p", "z"], ["p", "q", "z"], ["p", "q"]]
        return Path(keys.prefix(random.below(6)).map { random.pick($0) })
    }

    @Test(arguments: Array(1...300) as [UInt64]) func parts_haveTheNodesOfTheWhole(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let rules = try RuleSet(parsing: Self.rules)
        var old = Node.null
        for _ in 0..<random.below(40) { old.set(.int(Int64(random.below(9))), at: Self.path(&random)) }
        var (new, places, paths) = (old, WrittenPlaces(), [Path]())
        for _ in 0..<random.below(8) {
            let path = Self.path(&random)
            new.set(random.chance(30) ? .null : ["p": 1, "q": ["p": 2, "z": ["q": 1]]], at: path)
            places.insert(path)
            paths.append(path)
        }
        var (expected, left) = (Set<Path>(), Int.max)
        // Nodes above that exist in neither tree do not matter.
        func isThere(_ path: Path) -> Bool { old.node(at: path).exists || new.node(at: path).exists }
        for path in paths { rules.visitExpiring(path, old: old, new: new, atMost: &left) { if isThere($0) { expected.insert($0) } } }
        for most in [2, 3, 7, 10_000] {
            var (walk, found) = (ExpiryWalk(rules, places, old: old, new: new), [Path]())
            while walk.next != nil {
                let part = walk.nodes(lookingAt: most)
                #expect(part.count <= most + 5)
                found += part
            }
            #expect(found == expected.sorted(), "\(most) at once: \(places.tree.json)")
        }
        for path in expected { #expect(paths.contains { rules.mayExpire(around: $0) && ($0.contains(path) || path.contains($0)) }) }
    }
}
