import JSONTree
import Testing

/// A cursor sees what the node itself tells.
@Suite(.timeLimit(.minutes(30))) struct NodeCursorTests {
    @Test func layout_isTheOneThatCursorsExpect() { #expect(NodeCursor.hasKnownLayout) }

    private func withCursor<R>(_ node: Node, _ body: (NodeCursor) -> R) -> R { withUnsafePointer(to: node) { body(NodeCursor($0)) } }
    private func child(_ cursor: NodeCursor, _ key: Key) -> Node? { withUnsafePointer(to: key) { cursor.child($0)?.node.pointee } }

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
                seen.append(key.pointee)
                return child.node.pointee == node.child(key.pointee)
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
                case .text(let text): "'\(text.pointee)'"
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

    @Test(arguments: ["", "a", "fifteen bytes..", "sixteen bytes...", "a name of more than fifteen bytes", "é"])
    func text_equalsItself_whereverItIsStored(_ text: String) {
        var built = ""
        built.reserveCapacity(64)
        for scalar in text.unicodeScalars { built.unicodeScalars.append(scalar) }
        withUnsafePointer(to: Text(text)) { a in
            withUnsafePointer(to: Text(built)) { b in #expect(a.isEqual(to: b)) }
            withUnsafePointer(to: Text(text + "x")) { b in #expect(!a.isEqual(to: b)) }
        }
        withUnsafePointer(to: Key(text)) { a in
            withUnsafePointer(to: Key(built)) { b in #expect(a.fingerprint == b.fingerprint && a.text.isEqual(to: b.text)) }
        }
        withUnsafePointer(to: Text(text)) { #expect(($0.segment != nil) == !text.isEmpty) }
        withUnsafePointer(to: Text(text + "/")) { #expect($0.segment == nil) }
    }
}
