@testable import JSONTree
import Testing
import TestSupport

/// Objects on both sides of every size at which the storage form changes, compared with the plain model.
@Suite(.timeLimit(.minutes(30))) struct PackedTreeTests {
    private func text(_ random: inout SeededRandom) -> Node {
        // Around the lengths at which a text's storage form changes.
        let lengths = [0, 15, 16, 63, 64, 255, 256, PackedLimits.textBytes, PackedLimits.textBytes + 1, 2_000]
        return .string(String(repeating: random.chance(50) ? "x" : "é", count: random.pick(lengths)) + String(random.below(10)))
    }

    private func value(_ random: inout SeededRandom, _ step: Int) -> Node {
        switch random.below(12) {
        case 0...3: .null
        case 4: text(&random)
        case 5: text(&random).with(priority: random.chance(50) ? text(&random) : 1)
        case 6: .object((0..<random.below(40)).map { (Key("m\($0)"), .int(Int64(step))) })
        case 7: .object((0..<random.below(400)).map { (Key("w\($0)"), ["v": .int(Int64(step)), "t": text(&random)]) })
        case 8: random.node(depth: 3).with(priority: random.priority())
        default: .int(Int64(step &* 997))
        }
    }

    private func path(_ random: inout SeededRandom) -> Path {
        var keys: [Key] = [Key("k\(random.below(30))")]
        for _ in 0..<random.below(3) { keys.append(Key("\(random.pick(["m", "w", "k"]))\(random.below(60))")) }
        return Path(ContiguousArray(keys))
    }

    private func fault(_ node: Node) -> String? {
        if let fault = node.children.invariantFault() { return fault }
        if case .packed(let object) = node {
            if object.value.size > PackedLimits.objectBytes { return "a packed object of \(object.value.size) bytes" }
            if object.count == 0 { return "an empty object" }
        }
        for (_, child) in node.children { if let fault = fault(child) { return fault } }
        return nil
    }

    @Test(arguments: 1...12) func writes_ofEverySize_areAsTheModel(seed: Int) throws {
        var random = SeededRandom(UInt64(seed))
        var root = Node.null
        var model: NaiveTree?
        var earlier: [(Node, NaiveTree?)] = []
        for step in 0..<400 {
            let (path, value) = (path(&random), value(&random, step))
            let keys = path.keys.map(\.string)
            switch random.below(8) {
            case 0:
                let priority = random.chance(30) ? Node.null : random.priority()
                root.setPriority(priority, at: path)
                model = NaiveTree.settingPriority(model, keys[...], priority)
            case 1:
                root.merge(value, at: path)
                for (key, child) in value.children { model = NaiveTree.setting(model, keys[...] + [key.string], NaiveTree(child)) }
            default:
                root.set(value, at: path)
                model = NaiveTree.setting(model, keys[...], NaiveTree(value))
            }
            if step % 20 == 0 {
                try #require(NaiveTree(root) == model, "step \(step)")
                #expect(fault(root) == nil)
                #expect(root.hash == (try Node(json: root.json)).hash)
                earlier.append((root, model))
            }
            #expect(NaiveTree(root.node(at: path)) == model?.at(keys[...]))
        }
        // Old versions stay unchanged.
        for (old, model) in earlier { #expect(NaiveTree(old) == model) }
    }

    @Test(arguments: 1...12) func members_inAnyOrder_areAsTheModel(seed: Int) throws {
        var random = SeededRandom(UInt64(100 + seed))
        for count in [1, 2, 7, 8, 9, 30, 120, 300, 1_500] {
            var text = "{"
            var model: NaiveTree?
            let isAscending = random.chance(30)
            for i in 0..<count {
                var key = isAscending ? String(100_000 + i) : random.chance(30) ? random.storedKey().string : "k\(random.below(2 * count))"
                // The model's dictionary takes this for "é".
                if key.utf8.elementsEqual("e\u{301}".utf8) { key = "e" }
                let value = random.chance(15) ? .null : random.chance(10) ? self.text(&random) : random.node(depth: 2)
                var name = JSONWriter()
                name.string(key)
                text += (i > 0 ? "," : "") + String(decoding: name.bytes, as: UTF8.self) + ":" + value.json
                model = NaiveTree.setting(model, [key], NaiveTree(value))
            }
            let node = try Node(json: text + "}")
            #expect(NaiveTree(node) == model, "\(count) members")
            #expect(fault(node) == nil)
        }
    }

    @Test func equalObjects_ofDifferentHistories_areEqualAndHashAlike() {
        let small: Node = ["a": ["b": 1, "c": "text"], "d": true]
        var shrunk = small
        for i in 0..<500 { shrunk.set(["x": .int(Int64(i))], at: Path([Key("more\(i)")])) }
        #expect(shrunk != small && !shrunk.isIdentical(to: small))
        for i in 0..<500 { shrunk.set(.null, at: Path([Key("more\(i)")])) }
        #expect(shrunk == small && shrunk.isIdentical(to: small) && shrunk.hash == small.hash && shrunk.json == small.json)
        let prioritised = small.with(priority: 5)
        var other = shrunk
        other.setPriority(5, at: Path())
        #expect(prioritised == other && prioritised != small && prioritised.hash == other.hash)
        #expect(prioritised.with(priority: .null) == small)
    }

    @Test func object_thatHasBecomeSmall_isPackedAgain() {
        func isPacked(_ node: Node) -> Bool { if case .packed = node { true } else { false } }
        let small: Node = ["a": ["b": 1], "c": "text"]
        let long = Node.string(String(repeating: "x", count: PackedLimits.textBytes + 1))
        let prioritised = small.with(priority: long)
        #expect(!isPacked(prioritised) && prioritised.priority == long)
        #expect(isPacked(prioritised.with(priority: .null)) && prioritised.with(priority: .null) == small)
        #expect(isPacked(prioritised.with(priority: 5)) && prioritised.with(priority: 5) == small.with(priority: 5))

        var merged = small.with(priority: 5)
        merged.merge(["d": 2], at: Path())
        let both: Node = ["a": ["b": 1], "c": "text", "d": 2]
        #expect(isPacked(merged) && merged == both.with(priority: 5))
        var shrunk = Node.object((0..<500).map { (Key("k\($0)"), 1) }, priority: "p")
        for i in 1..<500 { shrunk.set(.null, at: Path([Key("k\(i)")])) }
        let one: Node = ["k0": 1]
        #expect(isPacked(shrunk) && shrunk == one.with(priority: "p"))
    }

    @Test func smallObject_isInOneAllocation_andALargeOneIsNot() {
        func isPacked(_ node: Node) -> Bool { if case .packed = node { true } else { false } }
        let record: Node = ["lat": 37.98, "lng": 23.72, "name": "Andreas", "friends": ["u1": true, "u2": true]]
        #expect(isPacked(record) && isPacked(record.child("friends")))
        let wide = Node.object((0..<500).map { (Key("k\($0)"), record) })
        #expect(!isPacked(wide) && isPacked(wide.child("k7")))
        #expect(!isPacked(["text": .string(String(repeating: "x", count: PackedLimits.textBytes + 1))]))
    }

    /// Hashes cached by a page save hashing its children, but not the text of the whole.
    @Test func hashWork_ofALargeObject_isBounded_whateverPagesKeep() {
        var plain = Node.object((0..<20_000).map { (Key("k\($0)"), ["n": .int(Int64($0))]) })
        var prioritised = plain
        prioritised.setPriority(1, at: "k19999")
        #expect(!plain.isHashed(within: 1_000))
        _ = (plain.hash, prioritised.hash)
        #expect(plain.isHashed(within: 0))
        plain.set(-1, at: "k7/n")
        prioritised.set(-1, at: "k7/n")
        #expect(!plain.isHashed(within: 1_000) && !prioritised.isHashed(within: 1_000))
        #expect(plain.isHashed(within: 21_000), "only the children of one page are looked into")
        #expect(!prioritised.isHashed(within: 21_000))
    }

    @Test func repairedText_thatBecomesLong_isCharged() throws {
        let bytes = Array("[\"".utf8) + [UInt8](repeating: 0xFF, count: 400) + Array("\"]".utf8)
        let allowance = NodeAllowance()
        let node = try bytes.withUnsafeBytes { bytes in
            var reader = JSONReader(bytes)
            return try reader.writeValue(allowance: allowance).node
        }
        #expect(node.child("0") == .string(String(repeating: "\u{FFFD}", count: 400)))
        #expect(allowance.bytes > 1_200)
    }

    @Test func copiedBytes_areAboutThoseOfTheSelection() {
        let node = Node.object((0..<5_000).map { (Key("-Nx8sKq2Ld0aB\(1_000_000 + $0)"), ["n": .int(Int64($0)), "t": "some text of a record"]) })
        let selected = node.children.map { OrderedChild(value: .null, key: $0.key) }
        let copied = TreeQuery.copiedBytes(of: selected, in: node) - 5_000 * NodeCost.text(20)
        let made = TreeQuery.value(of: selected, in: node).memoryBytes
        #expect(copied > made * 8 / 10 && copied < made * 14 / 10, "\(copied) for \(made)")
    }

    @Test func claims_haveNamesOfUpTo768Bytes() throws {
        func claims(_ count: Int) throws -> Node {
            var text = #"{"\#(String(repeating: "x", count: count))":1}"#
            return try text.withUTF8 { bytes in
                var reader = JSONReader(UnsafeRawBufferPointer(bytes))
                return try reader.claims()
            }
        }
        #expect(try claims(768).child(Key(String(repeating: "x", count: 768))) == 1)
        #expect(throws: JSONError.self) { _ = try claims(769) }
    }

    /// A page is copied with each change, and each slot is counted.
    @Test func pages_haveFewSlots() {
        let long = Node.string(String(repeating: "x", count: 1_000))
        var map = ChildMap()
        for i in 0..<2_000 { map.set(Key("k\(i &* 7919 % 2_000)"), long) }
        #expect(map.count == 2_000 && map.invariantFault() == nil)
        func look(_ page: ChildPage) {
            for leaf in page.leaves { #expect(leaf.slotCount <= PackedLimits.pageSlots) }
            page.pages.forEach(look)
        }
        if let root = map.root { look(root) }
    }

    @Test func hash_ofALargeObject_followsEachWrite() throws {
        var root = Node.object((0..<300).map { (Key("k\($0)"), ["n": .int(Int64($0))]) })
        for i in 0..<40 {
            _ = root.hash
            let old = root
            root.set(.int(Int64(1_000 + i)), at: Path([Key("k\(i * 7)"), "n"]))
            if i % 5 == 0 { root.setPriority(.int(Int64(i)), at: Path([Key("k\(i)")])) }
            #expect(root.hash == (try Node(json: root.json)).hash)
            #expect(root.hash != old.hash)
        }
    }
}
