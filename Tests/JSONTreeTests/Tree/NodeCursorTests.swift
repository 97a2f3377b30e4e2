import Testing

@testable import JSONTree

/// A cursor gives the same results as the node itself.
@Suite(.timeLimit(.minutes(30))) struct NodeCursorTests {
    @Test func layout_isTheOneThatCursorsExpect() { #expect(NodeCursor.hasKnownLayout) }

    private func withCursor<R>(_ node: Node, _ body: (NodeCursor) -> R) -> R { withUnsafePointer(to: node) { body(NodeCursor($0)) } }
    private func child(_ cursor: NodeCursor, _ key: Key) -> Node? { withUnsafePointer(to: key) { cursor.child(TextCursor($0))?.node } }

    /// Flat objects, paged ones, and those between.
    @Test(arguments: [1, 2, 8, 12, 13, 32, 33, 200, 5000]) func child_isFound_inObjectsOfEverySize(_ count: Int) {
        let names = (0..<count).map { i in
            [Key("k\(i)"), Key(index: i), Key("a name of more than fifteen bytes \(i)"), Key("é\(i)")][i % 4]
        }
        let node = Node.object(names.enumerated().map { ($1, Node.int(Int64($0))) })
        withCursor(node) { cursor in
            for (i, name) in names.enumerated() { #expect(child(cursor, name) == .int(Int64(i))) }
            for missing: Key in ["", "k", "zz", "a name of more than fifteen bytes", "-1", "\u{1F600}"] {
                #expect(child(cursor, missing) == nil)
            }
            var seen: [Key] = []
            #expect(cursor.allChildren { key, child in
                seen.append(key.key)
                return child.node == node.child(key.key)
            })
            #expect(seen == node.children.map(\.key))
            #expect(!cursor.allChildren { _, _ in false })
        }
    }

    @Test func kind_isTheNodes() {
        func kind(_ node: Node) -> String {
            withCursor(node) { cursor in
                switch cursor.kind {
                case .null: "null"
                case .bool(let value): "\(value)"
                case .int(let value): "\(value)"
                case .double(let value): "\(value)"
                case .text(let text): "'\(text.string)'"
                case .object: "object"
                case .prioritized: "prioritized"
                }
            }
        }
        let long = String(repeating: "x", count: 40)
        #expect(kind(.null) == "null" && kind(true) == "true" && kind(5) == "5" && kind(1.5) == "1.5" && kind("a") == "'a'")
        #expect(kind(.string(long)) == "'\(long)'" && kind(["a": 1]) == "object" && kind(Node("a").with(priority: 1)) == "prioritized")
        #expect(withCursor("leaf") { child($0, "a") } == nil)
    }

    @Test func hasChildren_isTheNodes_atPlacesOfEveryForm() {
        let long = Node.string(String(repeating: "x", count: 40))
        let many = Node.object((0..<5_000).map { (Key("k\($0)"), ["a": .int(Int64($0))] as Node) })
        let tree: Node = ["few": ["a": ["b": 1], "long": long, "first": Node("a").with(priority: 1)], "many": many, "leaf": 5]
        let paths: [Path] = [
            .root, "few", "few/a", "few/a/b", "few/a/b/c", "few/long", "few/first", "few/none", "many", "many/k17", "many/k4999/a", "many/none",
            "leaf", "leaf/a", "none/a",
        ]
        for root in [tree, .null, "text", many] {
            for path in paths { #expect(root.hasChildren(at: path) == root.node(at: path).hasChildren, "\(path)") }
        }
    }

    @Test func leafAndPriority_areTheNodes() {
        let object: Node = ["a": 1]
        let all: [Node] = [.null, true, 5, 1.5, "a", Node("a").with(priority: 1), object, object.with(priority: "p")]
        for node in all {
            withCursor(node) { #expect($0.leaf == node.leaf && $0.priority == node.priority && $0.node == node) }
        }
    }

    /// Calls `body` with a text as stored in a node, as a key, and as plain bytes.
    private func withForms(_ string: String, _ body: (TextCursor) -> Void) {
        withUnsafePointer(to: Text(string)) { body(TextCursor($0)) }
        withUnsafePointer(to: Key(string)) { body(TextCursor($0)) }
        Array(string.utf8).withUnsafeBufferPointer { body(TextCursor($0)) }
    }

    private static let texts = [
        "", "a", "fifteen bytes..", "sixteen bytes...", "a name of more than fifteen bytes", "é", "\u{FFFD}", "\u{1F600} and more than 15",
    ]

    @Test(arguments: texts) func text_equalsItself_whereverItIsStored(_ text: String) {
        var built = ""
        built.reserveCapacity(64)
        for scalar in text.unicodeScalars { built.unicodeScalars.append(scalar) }
        withForms(text) { a in
            withForms(built) { b in
                #expect(a.isEqual(to: b) && b.isEqual(to: a) && a.fingerprint == b.fingerprint)
                #expect(!a.isBelow(b) && !b.isBelow(a))
            }
            withForms(text + "x") { b in #expect(!a.isEqual(to: b) && !b.isEqual(to: a) && a.isBelow(b) && !b.isBelow(a)) }
            #expect(a.string == text && a.text == Text(text) && a.key == Key(text))
            #expect(a.utf8Count == text.utf8.count && a.utf16Count == text.utf16.count)
            #expect(a.withBytes { Array($0) } == Array(text.utf8))
            #expect(a.segment == (text.isEmpty ? nil : a))
        }
        withForms(text + "/") { #expect($0.segment == nil) }
        withForms(text + String(repeating: "x", count: Key.maxBytes + 1)) { #expect($0.segment == nil) }
    }

    /// U+1F600 is two surrogates and comes before U+FFFD in UTF-16, but not in UTF-8.
    @Test func texts_areOrderedByUTF16_inEveryForm() {
        for a in Self.texts {
            for b in Self.texts { withForms(a) { x in withForms(b) { y in #expect(x.isBelow(y) == (Text(a) < Text(b)), "\(a) \(b)") } } }
        }
    }

    /// A key given as bytes, from a path or from a longer text.
    @Test func child_isFound_byAKeyInBytes() {
        for count in [1, 12, 13, 200] {
            let node = Node.object((0..<count).map { (Key("key \($0)"), Node.int(Int64($0))) })
            withCursor(node) { cursor in
                for i in 0..<count { withForms("key \(i)") { #expect(cursor.child($0)?.node == .int(Int64(i))) } }
                withForms("key") { #expect(cursor.child($0) == nil) }
            }
        }
    }
}
