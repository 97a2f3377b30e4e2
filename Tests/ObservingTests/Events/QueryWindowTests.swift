import Commits
import JSONTree
import Observing
import Testing
import TestSupport

/// Windows updated by commits of one, few and very many changes, compared with a selection from scratch.
@Suite(.timeLimit(.minutes(30))) struct QueryWindowTests {
    @Test(arguments: Array(1...40) as [UInt64])
    func window_showsWhatASelectionShows_afterManyChangesAtOnce(seed: UInt64) throws {
        var random = SeededRandom(seed)
        let ordering: TreeQuery.Index = seed.isMultiple(of: 2) ? .value : .key
        let query = TreeQuery(
            index: ordering, start: seed.isMultiple(of: 3) ? TreeQuery.Bound(value: ordering == .key ? .string("k2") : .int(20)) : nil,
            limit: [1, 7, 40, 300][Int(seed / 4 % 4)], viewFrom: seed.isMultiple(of: 5) ? .first : .last)
        var values: [Key: Int] = [:]
        for _ in 0..<200 { values[Key("k\(Int.random(in: 0..<400, using: &random))")] = Int.random(in: 0..<100, using: &random) }
        func node() -> Node { .object(values.map { ($0.key, Node.int(Int64($0.value))) }) }
        func children(_ node: Node) -> OrderedChildren {
            ordering == .key ? .byKey(node.children) : .indexed(OrderedIndex(ordering, of: node), of: node.children)
        }
        var window = QueryWindow(query, over: children(node()))
        for _ in 0..<30 {
            let before = node()
            let shown = Set(query.select(from: children(before)).map(\.key))
            let count = [1, 3, 17, 120, 390].randomElement(using: &random) ?? 1
            var changed: Set<Key> = []
            for _ in 0..<count {
                let key = Key("k\(Int.random(in: 0..<400, using: &random))")
                guard changed.insert(key).inserted else { continue }
                values[key] = Bool.random(using: &random) ? Int.random(in: 0..<100, using: &random) : nil
            }
            let after = node()
            let changes = changed.sorted().map { key in
                PlacedChild(
                    key: key, old: before.child(key).exists ? ordering.place(key, before.child(key)) : nil,
                    new: after.child(key).exists ? ordering.place(key, after.child(key)) : nil)
            }
            let difference = window.apply(changes, over: children(after))
            let expected = query.select(from: children(after)).map(\.key)
            #expect(window.query.select(from: children(after)).map(\.key) == expected)
            #expect(Set(difference.entered) == Set(expected).subtracting(shown))
            #expect(Set(difference.left) == shown.subtracting(expected))
            #expect(Set(difference.stayed) == shown.intersection(expected).intersection(changed))
            #expect(Set(difference.entered).count == difference.entered.count && Set(difference.left).count == difference.left.count)
        }
    }
}
