@testable import JSONTree
import Testing
import TestSupport

/// The size of a query's selection, computed without selecting, compared with a selection.
@Suite(.timeLimit(.minutes(30))) struct QueryExtentTests {
    @Test(arguments: Array(1...20) as [UInt64])
    func extent_isThatOfASelection(seed: UInt64) {
        var random = SeededRandom(seed)
        for _ in 0..<40 {
            var map = ChildMap()
            // Added and removed one by one, so that pages and chunks have any size.
            for _ in 0..<Int.random(in: 0..<[5, 40, 3_000][Int(seed % 3)], using: &random) {
                let value = Int.random(in: 0..<5, using: &random) == 0 ? Node.null : .int(Int64.random(in: 0..<60, using: &random))
                map.set(Key("k\(Int.random(in: 0..<2_000, using: &random))"), value)
            }
            let node = Node.object(map.map { ($0.key, $0.node) })
            let isByKey = Bool.random(using: &random)
            let children: OrderedChildren
            if isByKey {
                children = .byKey(map)
            } else {
                var index = OrderedIndex(.value, of: .null)
                for (key, child) in map { index.insert(TreeQuery.Index.value.place(key, child)) }
                children = .indexed(index, of: map)
            }
            for _ in 0..<20 {
                func bound() -> TreeQuery.Bound? {
                    guard Bool.random(using: &random) else { return nil }
                    let key = ["[MIN_NAME]", "[MAX_NAME]", "k\(Int.random(in: 0..<2_100, using: &random))"].randomElement(using: &random)!
                    let isInclusive: Bool? = [nil, true, false].randomElement(using: &random)!
                    if isByKey { return TreeQuery.Bound(value: .string(Text(key)), inclusive: isInclusive) }
                    let value = Node.int(Int64.random(in: -5..<70, using: &random))
                    return TreeQuery.Bound(value: value, key: Bool.random(using: &random) ? Key(key) : nil, inclusive: isInclusive)
                }
                let query = TreeQuery(
                    index: isByKey ? .key : .value, start: bound(), end: bound(), limit: [nil, 1, 7, 500].randomElement(using: &random)!,
                    viewFrom: Bool.random(using: &random) ? .first : .last)
                let selected = query.select(from: children)
                let extent = query.extent(in: children)
                #expect(extent.count == selected.count, "\(query) \(node.json)")
                let edge = query.keeps == .first ? selected.last : selected.first
                #expect(extent.edge?.key == edge?.key, "\(query) \(node.json)")
            }
        }
    }

    /// Hardly any child has a value at first, and then more and more.
    @Test(arguments: Array(1...20) as [UInt64])
    func indexOfFewValues_selectsAsAllChildrenSorted(seed: UInt64) {
        var random = SeededRandom(seed)
        let ordering = TreeQuery.Index.child("of/x")
        func child(_ share: Int) -> Node { random.below(100) < share ? ["of": ["x": .int(Int64(random.below(4)))], "n": 1] : ["n": 1] }
        let count = [1, 20, 400][Int(seed % 3)]
        var map = ChildMap()
        for i in 0..<count { map.set(Key("k\(i)"), child(4)) }
        var index = OrderedIndex(ordering, of: .object(map.map { ($0.key, $0.node) }))
        #expect(seed % 3 != 2 || index.isSparse)
        for step in 0..<60 {
            let key = Key("k\(random.below(count + 5))")
            let (old, new) = (map[key], random.chance(10) ? Node.null : child(step))
            map.set(key, new)
            index.move(ChildMap.Change(key: key, old: old, new: new.exists ? new : nil))
            let all = map.map { ordering.place($0.key, $0.node) }.sorted { $0.order($1) < 0 }
            func bound() -> TreeQuery.Bound? {
                if random.chance(40) { return nil }
                let key: Key? = random.pick([nil, "[MIN_NAME]", "[MAX_NAME]", Key("k\(random.below(count))")])
                return TreeQuery.Bound(value: random.pick([.null, .int(1), .int(2)]), key: key, inclusive: random.pick([nil, true, false]))
            }
            let query = TreeQuery(
                index: ordering, start: bound(), end: bound(), limit: random.pick([nil, 1, 7]), viewFrom: random.pick([.first, .last]))
            let range = all.filter { query.admits($0) }
            let expected = query.keeps == .first ? range.prefix(query.limit ?? .max) : range.suffix(query.limit ?? .max)
            let children = OrderedChildren.indexed(index, of: map)
            #expect(query.select(from: children).map(\.key) == expected.map(\.key), "\(query)")
            let extent = query.extent(in: children)
            #expect(extent.count == expected.count, "\(query)")
            #expect(extent.edge?.key == (query.keeps == .first ? expected.last : expected.first)?.key, "\(query)")
        }
    }
}
