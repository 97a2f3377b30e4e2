@testable import JSONTree
import Testing
import TestSupport

/// Writes (contract §4.1–§4.2) compared with a tree of dictionaries.
@Suite(.timeLimit(.minutes(30))) struct NodeWriteTests {
    private func keys(_ random: inout SeededRandom) -> [String] {
        (0..<random.below(6)).map { _ in random.pick(["a", "b", "c", "1", "02", "wide"]) }
    }

    private func path(_ keys: [String]) -> Path { Path(keys.map { Key($0) }) }

    private func value(_ random: inout SeededRandom, _ depth: Int = 2) -> Node {
        var node: Node = random.leaf()
        if depth > 0, random.chance(40) {
            node = .object((0...random.below(3)).map { _ in (Key(random.pick(["a", "b", "c", "1"])), value(&random, depth - 1)) })
        }
        return random.chance(20) ? node.with(priority: random.priority()) : node
    }

    @Test(arguments: 1...6) func randomWrites_anyPlace_agreeWithTheModel(seed: Int) {
        var random = SeededRandom(UInt64(seed))
        var root: Node = .null
        var model: NaiveTree?
        var kept: [(root: Node, model: NaiveTree?)] = []
        for step in 0..<1500 {
            let keys = keys(&random)
            switch random.below(10) {
            case 0...4:
                let value = value(&random)
                root.set(value, at: path(keys))
                model = NaiveTree.setting(model, keys[...], NaiveTree(value))
            case 5...7:
                root.set(.null, at: path(keys))
                model = NaiveTree.setting(model, keys[...], nil)
            case 8:
                let priority: Node = random.chance(30) ? .null : random.priority()
                root.setPriority(priority, at: path(keys))
                model = NaiveTree.settingPriority(model, keys[...], priority)
            default:
                // Fills one node until it is stored in several pages.
                let key = ["wide", "w\(random.below(200))"]
                root.set(.int(Int64(step)), at: path(key))
                model = NaiveTree.setting(model, key[...], NaiveTree(leaf: .int(Int64(step))))
            }
            if random.chance(25) { _ = root.hash }
            #expect(NaiveTree(root) == model, "step \(step)")
            let probe = self.keys(&random)
            #expect(NaiveTree(root.node(at: path(probe))) == model?.at(probe[...]))
            if step % 61 == 0 { kept.append((root, model)) }
        }
        for old in kept { #expect(NaiveTree(old.root) == old.model) }
    }

    /// In trees of all kinds: packed, in pages, with a leaf on the path.
    @Test(arguments: 1...6) func oneValueAtEachOfSeveralPlaces_isThatAtOneAfterTheOther(seed: Int) {
        var random = SeededRandom(UInt64(seed))
        var root = Node.null
        for step in 0..<1500 {
            let keys: [Key] = ["a", "b", "c", "1"] + (0..<random.pick([2, 200])).map { Key("k\($0)") }
            if random.chance(30) { root.set(random.chance(20) ? .null : value(&random), at: path(self.keys(&random))) }
            var paths: [Path] = []
            for _ in 0..<random.below(7) {
                let path = Path((0...random.below(4)).map { _ in random.pick(keys) })
                if !paths.contains(where: { $0.contains(path) || path.contains($0) }) { paths.append(path) }
            }
            let (before, new) = (root, random.chance(10) ? Node.null : value(&random))
            var one = before
            for path in paths { one.set(new, at: path) }
            root.set(new, atEach: paths)
            #expect(root == one, "step \(step): \(paths)")
            for path in paths { #expect(root.node(at: path) == new && root.exists(at: path) == new.exists) }
            if random.chance(1) { root = .null }
        }
    }

    @Test(arguments: 1...3) func hash_afterRandomWrites_isThatOfAFreshTree(seed: Int) throws {
        var random = SeededRandom(50 + UInt64(seed))
        var root: Node = .null
        for _ in 0..<400 {
            let keys = keys(&random)
            if random.chance(15) {
                root.setPriority(random.priority(), at: path(keys))
            } else {
                root.set(random.chance(25) ? .null : value(&random), at: path(keys))
            }
            let fresh = try Node(json: root.json)
            #expect(root.hash == fresh.hash)
            #expect(root == fresh)
        }
    }

    @Test func removal_ofTheLastChild_prunesUpwards() {
        var root: Node = ["a": ["b": ["c": ["d": 1]]], "x": 2]
        root.set(.null, at: "a/b/c/d")
        #expect(root == ["x": 2])
        root.set(.null, at: "x")
        #expect(root.isNull)
    }

    @Test func removal_ofTheLastChild_takesThePriorityOfTheObjectWithIt() {
        var root: Node = ["a": (["b": 1] as Node).with(priority: 5), "x": 2]
        root.set(.null, at: "a/b")
        #expect(root == ["x": 2])
    }

    @Test func write_belowALeaf_makesAnObjectThatKeepsThePriority() {
        var root: Node = ["a": Node.int(1).with(priority: "p")]
        root.set("x", at: "a/b/c")
        #expect(root == ["a": (["b": ["c": "x"]] as Node).with(priority: "p")])
    }

    @Test func removal_belowALeafOrMissing_changesNothing() {
        for start: Node in [.null, 1, ["a": Node.int(1).with(priority: "p")], ["a": ["b": 1]]] {
            var root = start
            root.set(.null, at: "a/b/c")
            root.set(.null, at: "q/r")
            #expect(root == start)
        }
    }

    @Test func removal_ofNothing_keepsTheSharedTree() {
        let start: Node = ["a": ["b": ["c": 1]]]
        var root = start
        root.set(.null, at: "a/b/d")
        root.set(.null, at: "x/y")
        root.setPriority(1, at: "a/q")
        #expect(root.isIdentical(to: start))
    }

    @Test func put_withoutPriority_clearsIt() {
        var root: Node = ["a": Node.int(1).with(priority: 5), "b": (["c": 1] as Node).with(priority: 6)]
        root.set(2, at: "a")
        root.set(["c": 2], at: "b")
        #expect(root == ["a": 2, "b": ["c": 2]])
    }

    @Test func write_toAChild_keepsThePriorityOfItsParents() {
        var root = (["b": (["c": 1] as Node).with(priority: 6)] as Node).with(priority: "top")
        root.set(2, at: "b/c")
        #expect(root.priority == "top" && root.node(at: "b").priority == 6 && root.node(at: "b/c") == 2)
    }

    @Test func priority_setAndRemoved_touchesNothingElse() {
        var root: Node = ["a": 1, "b": ["c": 2]]
        let before = root
        root.setPriority(1.5, at: "a")
        root.setPriority("z", at: "b")
        root.setPriority(9, at: "missing/place")
        root.setPriority(9, at: "a/below")
        #expect(root == ["a": Node.int(1).with(priority: 1.5), "b": (["c": 2] as Node).with(priority: "z")])
        root.setPriority(.null, at: "a")
        root.setPriority(.null, at: "b")
        #expect(root == before)
    }

    @Test func merge_ofChildren_replacesTheseAndKeepsTheOthersAndThePriority() {
        var root: Node = ["a": (["x": 1, "y": ["z": 2]] as Node).with(priority: 3), "leaf": Node.int(1).with(priority: 4)]
        let old = root
        _ = root.hash
        root.merge(["y": 5, "w": 6], at: "a")
        root.merge(["k": 7], at: "leaf")
        root.merge(["k": 8], at: "new/place")
        root.merge(9, at: "a")
        #expect(root == [
            "a": (["x": 1, "y": 5, "w": 6] as Node).with(priority: 3), "leaf": (["k": 7] as Node).with(priority: 4),
            "new": ["place": ["k": 8]],
        ])
        #expect(root.hash == (try? Node(json: root.json))?.hash)
        #expect(old == ["a": (["x": 1, "y": ["z": 2]] as Node).with(priority: 3), "leaf": Node.int(1).with(priority: 4)])
    }

    @Test func oldRoot_afterWrites_sharesWhatDidNotChange() throws {
        let old: Node = ["a": ["x": ["deep": 1]], "b": ["y": 2]]
        var new = old
        new.set(3, at: "b/y")
        #expect(old == ["a": ["x": ["deep": 1]], "b": ["y": 2]])
        #expect(new.child("a").isIdentical(to: old.child("a")))
        #expect(!new.child("b").isIdentical(to: old.child("b")))
    }

    @Test func ownedObject_written_staysInPlace() throws {
        var root = Node.object((0..<500).map { (Key("k\($0)"), ["b": 1000]) })
        func place() -> (ObjectIdentifier, ObjectIdentifier)? {
            guard case .object(let object) = root, let leaf = object.children.root?.leaves.first else { return nil }
            return (ObjectIdentifier(object), ObjectIdentifier(leaf))
        }
        let before = try #require(place())
        root.set(2000, at: "k0/b")
        #expect(try #require(place()) == before)
        #expect(root.node(at: "k0/b") == 2000)
    }

    @Test func equality_valueTypePriority_allCount() {
        #expect(Node.int(1) != 2 && Node.int(1) != "1" && Node.int(1) != true && Node.null != false)
        #expect(Node.int(1) != Node.int(1).with(priority: 1) && Node.int(1).with(priority: 1) != Node.int(1).with(priority: 2))
        #expect((["a": 1] as Node) != (["a": 1] as Node).with(priority: 1))
        #expect((["a": 1] as Node) != ["a": 1, "b": 1] && (["a": 1] as Node) != ["b": 1])
        #expect(Node.string("é") != Node.string("e\u{301}"))
        #expect(Node.number(1.0) == .int(1) && Node.number(.nan).isNull && Node.number(.infinity).isNull)
    }
}
