@testable import JSONTree
import Testing
import TestSupport

/// The B+ tree compared with a sorted array.
@Suite(.timeLimit(.minutes(30))) struct ChildMapTests {
    /// A sorted array of pairs.
    struct Model {
        var entries: [(key: Key, node: Node)] = []

        func index(_ key: Key) -> Int {
            var (low, high) = (0, entries.count)
            while low < high {
                let middle = (low + high) / 2
                if entries[middle].key < key { low = middle + 1 } else { high = middle }
            }
            return low
        }

        func node(_ key: Key) -> Node? {
            let i = index(key)
            return i < entries.count && entries[i].key == key ? entries[i].node : nil
        }

        mutating func set(_ key: Key, _ node: Node) {
            let i = index(key)
            let found = i < entries.count && entries[i].key == key
            if found, node.isNull { entries.remove(at: i) }
            if found, !node.isNull { entries[i].node = node }
            if !found, !node.isNull { entries.insert((key, node), at: i) }
        }
    }

    static func agree(_ map: ChildMap, _ model: Model) -> Bool {
        guard map.count == model.entries.count, map.isEmpty == model.entries.isEmpty else { return false }
        var i = 0
        for (key, node) in map {
            guard i < model.entries.count, model.entries[i].key == key, model.entries[i].node == node else { return false }
            i += 1
        }
        return i == model.entries.count
    }

    private func key(_ random: inout SeededRandom, _ space: Int) -> Key {
        let n = random.below(space)
        switch n % 4 {
        case 0: return Key(String(n))
        case 1: return Key("-K" + String(n * 7919))
        case 2: return Key("a key that is long enough for the heap \(n)")
        default: return Key("é\(n)")
        }
    }

    private func churn(seed: UInt64, steps: Int, space: Int, removing: (Int) -> Int, checkEvery: Int) {
        var random = SeededRandom(seed)
        var map = ChildMap()
        var model = Model()
        for step in 0..<steps {
            let key = key(&random, space)
            let node: Node = random.chance(removing(step)) ? .null : .int(Int64(step))
            map.set(key, node)
            model.set(key, node)
            #expect(map.count == model.entries.count)
            let probe = self.key(&random, space)
            #expect(map[probe] == model.node(probe))
            let i = model.index(probe)
            #expect(map.key(before: probe) == (i > 0 ? model.entries[i - 1].key : nil))
            if step % checkEvery == 0 {
                #expect(map.invariantFault() == nil)
                #expect(Self.agree(map, model))
                #expect(map.ascending(from: probe).map(\.key) == model.entries[i...].map(\.key))
                #expect(map.ascending(from: probe).prefix(3).map(\.node) == model.entries[i...].prefix(3).map(\.node))
            }
        }
        #expect(map.invariantFault() == nil && Self.agree(map, model))
    }

    @Test(arguments: 1...8) func randomChanges_smallMaps_agreeAtEveryStep(seed: Int) {
        churn(seed: UInt64(seed), steps: 700, space: 20 * seed, removing: { _ in 45 }, checkEvery: 1)
    }

    @Test(arguments: 1...3) func randomChanges_growingAndShrinking_agreeAtEveryStep(seed: Int) {
        churn(seed: 100 + UInt64(seed), steps: 1500, space: 900, removing: { $0 < 800 ? 10 : 85 }, checkEvery: 7)
    }

    @Test func randomChanges_tensOfThousands_agree() {
        churn(seed: 7, steps: 60_000, space: 40_000, removing: { $0 < 40_000 ? 15 : 60 }, checkEvery: 9_973)
    }

    @Test func removingAll_inEveryDirection_leavesAnEmptyMap() {
        let keys = (0..<3000).map { Key("k\(100_000 + $0)") }
        var random = SeededRandom(5)
        for order in [keys, keys.reversed(), keys.shuffled(using: &random)] {
            var map = ChildMap()
            for key in keys { map.set(key, 1) }
            for (i, key) in order.enumerated() {
                map.set(key, .null)
                if i % 97 == 0 || i > 2900 { #expect(map.invariantFault() == nil) }
            }
            #expect(map.isEmpty && map.count == 0 && map.root == nil && Array(map.map(\.key)).isEmpty)
        }
    }

    @Test func removingMissing_anywhere_changesNothing() {
        var map = ChildMap()
        map.set("x", .null)
        #expect(map.isEmpty)
        for i in 0..<200 { map.set(Key("k\(i)"), .int(Int64(i))) }
        let before = map.map(\.key)
        for i in 0..<200 { map.set(Key("m\(i)"), .null) }
        #expect(map.map(\.key) == before && map.invariantFault() == nil)
    }

    @Test func copies_whileTheOriginalChanges_stayAsTheyWere() {
        var random = SeededRandom(11)
        var map = ChildMap()
        var model = Model()
        var copies: [(map: ChildMap, model: Model)] = []
        for step in 0..<6000 {
            let key = key(&random, 1500)
            let node: Node = random.chance(step < 3000 ? 15 : 60) ? .null : .int(Int64(step))
            map.set(key, node)
            model.set(key, node)
            if step % 211 == 0 { copies.append((map, model)) }
        }
        for copy in copies {
            #expect(Self.agree(copy.map, copy.model))
            #expect(copy.map.invariantFault() == nil)
        }
    }

    @Test func copies_bothChanged_goTheirOwnWays() {
        var a = ChildMap()
        for i in 0..<500 { a.set(Key("k\(i)"), 1) }
        var b = a
        for i in 0..<500 where i % 2 == 0 {
            a.set(Key("k\(i)"), .null)
            b.set(Key("k\(i)"), 2)
        }
        #expect(a.count == 250 && b.count == 500)
        #expect(a.allSatisfy { $0.node == 1 })
        #expect(b.filter { $0.node == 2 }.count == 250)
        #expect(a.invariantFault() == nil && b.invariantFault() == nil)
    }

    @Test func appends_inOrder_fillTheirPages() {
        var map = ChildMap()
        for i in 0..<20_000 { map.set(Key("-K\(1_000_000 + i)"), .int(Int64(i))) }
        #expect(map.invariantFault() == nil)
        var leaves: [Int] = []
        func collect(_ page: ChildPage) {
            leaves += page.leaves.map(\.byteCount)
            page.pages.forEach(collect)
        }
        if let root = map.root { collect(root) }
        // Less room than one more entry takes.
        let full = leaves.filter { $0 > PackedLimits.pageBytes - 24 }.count
        #expect(Double(full) >= 0.95 * Double(leaves.count), "\(full) of \(leaves.count) pages are full")
    }

    /// Only the last page of the tree is left full: elsewhere, keys are inserted between existing ones.
    @Test func keysBetween_fullPages_leaveRoomInAll() {
        var map = ChildMap()
        for i in 0..<20_000 { map.set(Key("-K\(1_000_000 + 2 * i)"), .int(Int64(i))) }
        var random = SeededRandom(21)
        for i in (0..<19_000).shuffled(using: &random) { map.set(Key("-K\(1_000_000 + 2 * i + 1)"), .int(Int64(i))) }
        #expect(map.count == 39_000 && map.invariantFault() == nil)
        var (leaves, widths): ([Int], [Int]) = ([], [])
        func collect(_ page: ChildPage) {
            leaves += page.leaves.map(\.byteCount)
            widths.append(max(page.leaves.count, page.pages.count))
            page.pages.forEach(collect)
        }
        if let root = map.root { collect(root) }
        #expect(leaves.dropLast().allSatisfy { $0 > PackedLimits.pageBytes / 3 }, "\(leaves.dropLast().min() ?? 0) bytes")
        #expect(widths.count > 3 && widths.dropFirst().dropLast().allSatisfy { $0 > ChildMap.pageCapacity / 4 }, "\(widths)")
    }

    @Test func equality_ofTwoVersions_visitsOnlyWhatDiffers() {
        var old = ChildMap()
        for i in 0..<50_000 { old.set(Key("-K\(1_000_000 + i)"), ["n": .int(Int64(i))]) }
        var new = old
        for i in 0..<10 { new.set(Key("-K\(1_000_000 + i * 4_321)"), ["n": .int(Int64(i * 4_321))]) }
        var visits = 0
        #expect(old.isEqual(to: new, &visits))
        // For each copied page, its neighbours below the same inner pages.
        #expect(visits > 10 && visits < 10 * 4 * ChildMap.pageCapacity, "\(visits)")
        new.set("-K1049999", ["n": 0])
        #expect(!old.isEqual(to: new, &visits))
        new.set("-K1049999", .null)
        new.set("-K1050000", ["n": 49_999])
        #expect(old.count == new.count && old != new && new != old)
        // Pages with other boundaries.
        var random = SeededRandom(22)
        var other = ChildMap()
        for i in (0..<50_000).shuffled(using: &random) { other.set(Key("-K\(1_000_000 + i)"), ["n": .int(Int64(i))]) }
        #expect(old == other && other == old)
    }

    @Test(arguments: [0, 1, 24, 31, 32, 33, 48, 49, 150, 250, 767, 768, 769, 800, 4_000, 20_000])
    func buildingSorted_anySize_isAValidMap(size: Int) {
        let entries = (0..<size).map { (Key(index: $0), Node.int(Int64($0))) }
        var map = Node.object(entries).children
        #expect(map.count == size && map.invariantFault() == nil)
        #expect(map.map(\.key) == entries.map(\.0))
        map.set("zz", 1)
        map.set("0", .null)
        #expect(map.count == max(1, size) && map.invariantFault() == nil)
    }

    @Test func equality_differentHistories_isByContent() {
        var random = SeededRandom(3)
        let keys = (0..<400).map { Key("k\($0)") }
        var a = ChildMap()
        var b = ChildMap()
        for key in keys { a.set(key, 1) }
        for key in keys.shuffled(using: &random) { b.set(key, 1) }
        #expect(a == b)
        b.set("k7", 2)
        #expect(a != b)
        b.set("k7", .null)
        #expect(a != b)
        b.set("k7x", 1)
        #expect(a.count == b.count && a != b)
    }

    // MARK: Arrays

    @Test(arguments: 1...6) func numberedChildren_areAnArray_asTheirKeysSay(seed: UInt64) {
        var random = SeededRandom(seed)
        let count = random.pick([30, 400, 3_000])
        var map = ChildMap(Node.object((0..<count).map { (Key(index: $0), .int(1)) }))
        var model = Model()
        for i in 0..<count { model.set(Key(index: i), .int(1)) }
        var seen = (arrays: 0, others: 0)
        for step in 0..<600 {
            let number = random.below(count + 20)
            // Keys that do not belong to an array are mostly removed again.
            if let strange = model.entries.first(where: { Self.index($0.key) == nil })?.key, random.chance(50) {
                map.set(strange, .null)
                model.set(strange, .null)
            } else {
                let key = Key((random.chance(85) ? "" : random.pick(["0", "00", "-", "k"])) + String(number))
                let node: Node = random.chance(step % 200 < 100 ? 30 : 70) ? .null : .int(Int64(step))
                map.set(key, node)
                model.set(key, node)
            }
            let indexes = model.entries.map { Self.index($0.key) }
            let isArray = indexes.allSatisfy { $0 != nil } && (indexes.compactMap(\.self).max() ?? .max) < 2 * model.entries.count
            #expect(map.isArray == isArray)
            if isArray { seen.arrays += 1 } else { seen.others += 1 }
            if step % 100 == 99 { #expect(map.invariantFault() == nil && Self.agree(map, model)) }
        }
        #expect(seen.arrays > 20 && seen.others > 20)
    }

    private static func index(_ key: Key) -> Int? { Int(key.string).flatMap { $0 >= 0 && String($0) == key.string ? $0 : nil } }

    /// Answers call this in the middle of their bodies, on a net loop.
    @Test func arrayOfAnyLength_isKnownAsOneByItsTopmostPage() throws {
        let map = ChildMap(Node.object((0..<100_000).map { (Key(index: $0), .int(1)) }))
        #expect(map.isArray)
        // Nothing below is visited: the topmost page alone decides.
        let root = try #require(map.root)
        root.named = 1
        #expect(!map.isArray)
    }
}

extension ChildMap {
    fileprivate init(_ node: Node) { self = node.children }
}
