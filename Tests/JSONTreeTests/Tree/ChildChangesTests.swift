@testable import JSONTree
import Testing
import TestSupport

/// The differences between two states of a child map.
@Suite(.timeLimit(.minutes(30))) struct ChildChangesTests {
    private static func map(_ count: Int) -> ChildMap {
        var map = ChildMap()
        for i in 0..<count { map.set(Key("k\(i)"), .int(Int64(i))) }
        return map
    }

    @Test(arguments: Array(1...20) as [UInt64])
    func changes_areThoseOfAScan(seed: UInt64) throws {
        var random = SeededRandom(seed)
        for _ in 0..<30 {
            let old = Self.map(Int.random(in: 0..<400, using: &random))
            var new = old
            for _ in 0..<Int.random(in: 0..<[3, 60, 400][Int.random(in: 0..<3, using: &random)], using: &random) {
                let isOld = Bool.random(using: &random)
                let key = Key(isOld ? "k\(Int.random(in: 0..<450, using: &random))" : "x\(Int.random(in: 0..<90, using: &random))")
                new.set(key, Int.random(in: 0..<3, using: &random) == 0 ? .null : .int(Int64.random(in: 0..<500, using: &random)))
            }
            let changes = try #require(new.changes(since: old, atMost: .max))
            var keys: Set<Key> = []
            for (key, _) in old { keys.insert(key) }
            for (key, _) in new { keys.insert(key) }
            let expected = keys.filter { old[$0] != new[$0] }.sorted()
            #expect(changes.map(\.key) == expected)
            for change in changes { #expect(change.old == old[change.key] && change.new == new[change.key]) }
        }
    }

    @Test func changes_followWhatWasWritten_notTheSize() {
        let old = Self.map(100_000)
        var new = old
        for i in 0..<10 { new.set(Key("k\(i * 9_999)"), .int(-1)) }
        for i in 0..<5 { new.set(Key("new\(i)"), .int(1)) }
        #expect(new.changes(since: old, atMost: 2_000)?.count == 15)
        #expect(old.changes(since: new, atMost: 2_000)?.count == 15)
        #expect(old.changes(since: old, atMost: 1)?.isEmpty == true)
    }

    @Test func changes_giveUp_whereNothingIsShared() {
        let (one, other) = (Self.map(5_000), Self.map(5_000))
        #expect(one.changes(since: other, atMost: 1_000) == nil)
        #expect(one.changes(since: other, atMost: 20_000)?.isEmpty == true)
    }

    @Test func index_thatFollows_isAsIfBuiltAnew() throws {
        var random = SeededRandom(7)
        let ordering = TreeQuery.Index.child("v")
        func child() -> Node { ["v": .int(Int64.random(in: 0..<50, using: &random))] }
        let old = Node.object((0..<3_000).map { (Key("k\($0)"), child()) })
        var new = old
        for i in 0..<40 { new.set(i % 3 == 0 ? .null : child(), at: Path([Key("k\(i * 70)")])) }
        var index = OrderedIndex(ordering, of: old)
        let isUpToDate = index.follow(from: old, to: new, atMost: 10_000)
        #expect(isUpToDate)
        let anew = OrderedIndex(ordering, of: new)
        func keys(_ index: OrderedIndex) -> [Key] { TreeQuery().select(from: .indexed(index, of: new.children)).map(\.key) }
        #expect(keys(index) == keys(anew))
        let isTooMuch = index.follow(from: new, to: Node.object((0..<3_000).map { (Key("k\($0)"), child()) }), atMost: 100)
        #expect(!isTooMuch && index.count == anew.count)
    }

    @Test func select_looksAtNoMoreThanItMay() {
        let children = OrderedChildren.byKey(Self.map(50))
        #expect(TreeQuery(index: .key).select(from: children, atMost: 49) == nil)
        #expect(TreeQuery(index: .key).select(from: children, atMost: 50)?.count == 50)
        #expect(TreeQuery(index: .key, limit: 3).select(from: children, atMost: 3)?.count == 3)
        #expect(TreeQuery(index: .key, limit: 4).select(from: children, atMost: 3) == nil)
    }
}
