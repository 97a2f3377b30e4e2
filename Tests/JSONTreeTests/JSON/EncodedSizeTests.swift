import JSONTree
import Testing

/// The size of a node's JSON, computed without encoding it.
@Suite(.timeLimit(.minutes(30))) struct EncodedSizeTests {
    private let nodes: [Node] = [
        .null, true, false, 0, 12_345, .int(.min), 0.5, -1.25e-9, "", "plain", .string("é\u{1F600} \"\\ \n\r\t \u{1} \u{1F}"),
        (5 as Node).with(priority: "p\"q"), ("text" as Node).with(priority: 1.5), (true as Node).with(priority: 2),
        ["a": 1], ["a": ["b": ["c": "d"]], "e": true, "\u{E9}": 1.5],
        (["a": ["b": 2], "c": .null] as Node).with(priority: "first"),
        .object((0..<5_000).map { (Key("k\($0)"), Node.int(Int64($0))) }),
    ]

    @Test func size_isThatOfTheText_andNilJustBelow() {
        for node in nodes {
            let size = node.json.utf8.count
            #expect(node.encodedSize(upTo: size) == size, "\(node.json.prefix(60))")
            #expect(node.encodedSize(upTo: .max / 2) == size)
            #expect(node.encodedSize(upTo: size - 1) == nil, "\(node.json.prefix(60))")
        }
    }

    @Test func extent_isTheTextsBytes_andTheKeysOfAllLevels() {
        func keys(_ node: Node) -> Int { node.children.reduce(0) { $0 + 1 + keys($1.1) } }
        for node in nodes {
            #expect(node.extent.bytes == (node.exists ? node.json.utf8.count : 0), "\(node.json.prefix(60))")
            #expect(node.extent.keys == keys(node), "\(node.json.prefix(60))")
        }
        #expect((["a": ["b": ["c": "d"]], "e": true] as Node).extent.keys == 4)
    }

    @Test func leafWithAPriority_isAsLargeAsItsText() {
        let node = Node.string(String(repeating: "x", count: 1000)).with(priority: 1)
        #expect(node.isLarger(than: 1000) && !node.isLarger(than: 1100))
    }

    @Test func sum_ofSeveralNodes_stopsAtTheBound() {
        var left = 10
        #expect(("1234" as Node).isWithin(&left) && left == 4)
        #expect(!("1234" as Node).isWithin(&left))
    }
}
