import JSONTree
import Testing

/// The simple hash (contract §4.5).
@Suite(.timeLimit(.minutes(30))) struct HashTests {
    @Test(arguments: [
        (true, "E5z61QM0lN/U2WsOnusszCTkR8M="),
        (false, "aSSNoqcS4oQwJ2xxH20rvpp3zP0="),
        (500, "Ajg9bohDwTVmqR14o1bVJnneryM="),
        ("Hello World", "B8HWXc7zXMjrsnJxPRj7wrNGqt4="),
        (["foo": "bar"], "XnLeTeWQmzTHImTbSMDLg/qMrKY="),
        (["z": 1, "a": "2", "b": "true", "c": false], "8qk5vmuZGXWJx+77SGwjYRM0yPA="),
        (Node.string("primitive").with(priority: 200), "R9u8hs9fhRzuQ2M/3BQ0uhxz5ys="),
        (Node.int(42).with(priority: "high"), "d/2FMFWchvDsa06RLXZhzvM9aQc="),
        ((["someKey": "value"] as Node).with(priority: 128.256), "WYR8kBGna+a7E5x75zvhPhzACOQ="),
        ((["someKey": "value"] as Node).with(priority: "high"), "/KquMIGoCuKO/ipoLoQzqnU0BcI="),
        (.null, ""),
    ] as [(Node, String)])
    func hash_contractVector_matches(node: Node, hash: String) { #expect(node.hash == hash) }

    @Test func hash_numbers_areDoubles() throws {
        #expect(try Node(json: "1").hash == Node(json: "1.0").hash)
        #expect(Node.int(9_007_199_254_740_993).hash == Node.double(9_007_199_254_740_992).hash)
        #expect(Node.int(1).hash != Node.int(2).hash && Node.int(1).hash != Node.string("1").hash)
    }

    @Test func hash_childPriorities_orderTheChildren() {
        // a and b hash alike in either order of insertion, but not with their priorities exchanged.
        let plain: Node = ["a": 1, "b": 1]
        let ordered: Node = ["a": Node.int(1).with(priority: 1), "b": Node.int(1).with(priority: 2)]
        let exchanged: Node = ["a": Node.int(1).with(priority: 2), "b": Node.int(1).with(priority: 1)]
        #expect(Set([plain.hash, ordered.hash, exchanged.hash]).count == 3)
    }

    /// The text of §4.5 for one object, in the order that its priorities give.
    @Test func hash_mixedPriorities_isOverNullThenNumbersThenStringsThenKeys() {
        let children: [(Key, Node)] = [
            ("a", Node.int(1).with(priority: "s")), ("b", Node.int(2).with(priority: 10)), ("c", Node.int(3)),
            ("d", (["x": 4] as Node).with(priority: 9.5)), ("e", Node.int(5).with(priority: 10)), ("f", "plain"),
        ]
        var text = ""
        for key in ["c", "f", "d", "b", "e", "a"] as [Key] {
            text += ":\(key):\(children.first { $0.0 == key }?.1.hash ?? "")"
        }
        #expect(Node.object(children).hash == sha1Base64(text))
        #expect(Node.object(children, priority: 7).hash == sha1Base64("priority:number:401c000000000000:" + text))
    }

    @Test func hash_manyChildren_isInKeyOrder() {
        let node = Node.object((0..<300).reversed().map { (Key(index: $0), Node.int(Int64($0))) })
        let text = (0..<300).map { ":\($0):\(Node.int(Int64($0)).hash)" }.joined()
        #expect(node.hash == sha1Base64(text))
    }

    @Test func hash_afterAWriteInPlace_isNotTheOldOne() {
        var root: Node = ["a": ["b": 1]]
        let old = root.hash
        root.set(2, at: "a/b")
        #expect(root.hash != old)
        #expect(root.hash == (["a": ["b": 2]] as Node).hash)
        root.setPriority(1, at: "a")
        #expect(root.hash == (["a": (["b": 2] as Node).with(priority: 1)] as Node).hash)
        root.set(1, at: "a/b")
        root.setPriority(.null, at: "a")
        #expect(root.hash == old)
    }
}

/// Known deviations of SDKs from the contract's hash (contract §4.5).
@Suite(.timeLimit(.minutes(30))) struct HashToleranceTests {
    @Test func javaScriptsDoubles_belowAPowerOfTwo_areTolerated() {
        let value = Node.double(63.99999999999999)
        #expect(value.hash != Node.int(64).hash)
        #expect(value.hasHash(Node.int(64).hash), "taken for 64 there")
        #expect((["a": value, "b": -7.999999999999999] as Node).hasHash((["a": 64, "b": -8] as Node).hash))
        #expect(!Node.double(63.9).hasHash(Node.int(64).hash) && !Node.int(64).hasHash(value.hash))
        for other in [0.1, 1.5, -2.25, 1e300, 3] as [Double] { #expect(Node.number(other).hasHash(Node.number(other).hash)) }
    }

    @Test func applesOrder_whenAllChildrenHavePriorities_isTolerated() {
        // The text of an object in key order, hashed by hand, as the SDK sends it when all children have priorities.
        let (a, b) = (Node.int(1).with(priority: 2), Node.int(2).with(priority: 1))
        let text = ":a:\(a.hash):b:\(b.hash)"
        let sent = sha1Base64(text)
        #expect((["a": a, "b": b] as Node).hash != sent)
        #expect((["a": a, "b": b] as Node).hasHash(sent))
        #expect(
            !(["a": a, "b": b, "c": 3] as Node).hasHash(sha1Base64("\(text):c:\(Node.int(3).hash)")), "one without: the contract's order")
    }
}
