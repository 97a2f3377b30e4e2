@testable import JSONTree
import Testing
import TestSupport

/// The REST form, encoded in pieces, compared with the simplest encoder.
@Suite(.timeLimit(.minutes(30))) struct NodeEncoderTests {
    @Test(arguments: 1...6) func pieces_areTheWhole_asTheModelWritesIt(seed: UInt64) throws {
        var random = SeededRandom(seed)
        for _ in 0..<150 {
            var node = random.node()
            // Arrays, and objects that almost are; large ones are stored in pages.
            if random.chance(30) {
                let count = random.chance(20) ? 200 : 1 + random.below(6)
                node = .object(
                    (0..<count).map { (Key(random.chance(95) ? "\($0 * (random.chance(85) ? 1 : 2))" : "0\($0)"), random.node(depth: 1)) })
            }
            for (priorities, arrays) in [(false, true), (true, false), (true, true)] {
                let form = NodeEncoder.Form(showsPriorities: priorities, arrays: arrays ? .everywhere : .never)
                var encoder = NodeEncoder(node, form)
                var text: [UInt8] = []
                while !encoder.isDone {
                    var piece = JSONWriter()
                    encoder.write(to: &piece, atLeast: 1 + random.below(40))
                    text += piece.bytes
                }
                #expect(String(decoding: text, as: UTF8.self) == Self.model(node, priorities, arrays))
            }
            // An object at the root, and arrays in it.
            let isObject = node.hasChildren && Self.model(node, false, true).hasPrefix("[")
            let members = node.children.map { "\(Node.string($0.key.string).json):\(Self.model($0.node, false, true))" }
            let below = isObject ? "{" + members.joined(separator: ",") + "}" : Self.model(node, false, true)
            var ordered = JSONWriter()
            ordered.rest(node, NodeEncoder.Form(arrays: .belowRoot))
            #expect(String(decoding: ordered.bytes, as: UTF8.self) == below)
            var pretty = JSONWriter()
            pretty.rest(node, NodeEncoder.Form(showsPriorities: true, arrays: .never, isPretty: true))
            #expect(try Node(json: String(decoding: pretty.bytes, as: UTF8.self)) == node)
        }
    }

    private static func model(_ node: Node, _ priorities: Bool, _ arrays: Bool) -> String {
        let priority = priorities && node.priority.exists ? "\".priority\":\(node.priority.json)" : nil
        guard node.hasChildren else {
            return priority.map { "{\".value\":\(node.leaf.json),\($0)}" } ?? node.leaf.json
        }
        let children = node.children.map { (key: $0.key.string, text: model($0.node, priorities, arrays)) }
        if arrays, priority == nil, children.allSatisfy({ $0.key.wholeMatch(of: /0|[1-9][0-9]*/) != nil }),
            let last = children.compactMap({ Int($0.key) }).max(), last < 2 * children.count, children.allSatisfy({ Int($0.key) != nil })
        {
            let texts = Dictionary(uniqueKeysWithValues: children.map { (Int($0.key)!, $0.text) })
            return "[" + (0...last).map { texts[$0] ?? "null" }.joined(separator: ",") + "]"
        }
        let members = children.map { "\(Node.string($0.key).json):\($0.text)" } + (priority.map { [$0] } ?? [])
        return "{" + members.joined(separator: ",") + "}"
    }

    @Test func encoder_keepsItsTree_whileOthersWrite() {
        var root: Node = .object((0..<500).map { (Key("k\($0)"), .object([("a", .int(Int64($0)))])) })
        let before = Self.model(root, false, true)
        var encoder = NodeEncoder(root)
        var writer = JSONWriter()
        encoder.write(to: &writer, atLeast: 100)
        for i in 0..<500 { root.set(i % 3 == 0 ? .null : "new and longer than any string in place", at: Path([Key("k\(i)")])) }
        encoder.write(to: &writer, atLeast: .max)
        #expect(String(decoding: writer.bytes, as: UTF8.self) == before)
    }

    @Test func isLarger_isAboutTheText() {
        var random = SeededRandom(3)
        for _ in 0..<200 {
            let node = random.node()
            var writer = JSONWriter()
            writer.rest(node)
            let size = writer.bytes.count
            // Numbers are only estimated, and escapes not counted.
            #expect(node.isLarger(than: size * 6 + 100) == false)
            if size > 40 { #expect(node.isLarger(than: size / 20 - 2)) }
        }
    }

    private func names(_ node: Node, _ range: NameEncoder.Range = .init(), isPretty: Bool = false, pieces: Int = .max) -> String {
        var encoder = NameEncoder(node, range, isPretty: isPretty)
        var text: [UInt8] = []
        while !encoder.isDone {
            var piece = JSONWriter()
            encoder.write(to: &piece, atLeast: pieces)
            text += piece.bytes
        }
        return String(decoding: text, as: UTF8.self)
    }

    @Test func names_areEveryKey_withinTheLimits() {
        let node: Node = .object((0..<100).map { (Key("k\(100 + $0)"), .object([("a", 1)])) })
        #expect(names(node, .init(after: "k197")) == #"{"k198":true,"k199":true}"#)
        #expect(names(node, .init(after: "k1", limit: 2)) == #"{"k100":true,"k101":true}"#)
        #expect(names(node, .init(limit: 2, keepsLast: true)) == #"{"k198":true,"k199":true}"#)
        #expect(names(node, .init(after: "k198", limit: 2, keepsLast: true)) == #"{"k199":true}"#)
        #expect(names(node, .init(limit: 1), isPretty: true) == "{\n  \"k100\" : true\n}")
        #expect(names(node, .init(after: "z")) == "null" && names(5) == "5" && names(.null) == "null")
    }

    @Test(arguments: [0, 1, 5, 40, 3000]) func names_inPieces_areThoseOfTheModel(count: Int) {
        var random = SeededRandom(UInt64(count) + 7)
        let keys = (0..<count).map { Key("k\(10_000 + 2 * $0)") }
        let node: Node = .object(keys.map { ($0, 1) })
        for _ in 0..<60 {
            let after = random.chance(60) ? Key("k\(9_999 + random.below(2 * count + 4))") : nil
            let limit = random.chance(60) ? 1 + random.below(count + 3) : nil
            let keepsLast = random.chance(50)
            var expected = keys.filter { key in after.map { $0 < key } ?? true }
            if let limit { expected = Array(keepsLast ? expected.suffix(limit) : expected.prefix(limit)) }
            let text = expected.isEmpty ? "null" : "{" + expected.map { "\"\($0.text.string)\":true" }.joined(separator: ",") + "}"
            let range = NameEncoder.Range(after: after, limit: limit, keepsLast: keepsLast)
            #expect(names(node, range, pieces: 1 + random.below(200)) == text)
            let size = NameEncoder(node, range).size(upTo: .max) ?? 0
            #expect(abs(size - text.utf8.count) <= 2)
            #expect(NameEncoder(node, range).size(upTo: size - 1) == nil || expected.isEmpty)
        }
    }

    @Test func doubles_areTheirShortestForm() {
        var random = SeededRandom(4)
        func check(_ value: Double) {
            var writer = JSONWriter()
            writer.double(value)
            #expect(String(decoding: writer.bytes, as: UTF8.self) == value.description)
        }
        for value in [
            0.001, 0.00099, 0.1, 0.3, 1.5, -2.25, 37.9553, -0.0000001, 99999999.9999999, 100000000.5, 1e15 + 0.5, 5, 1e22,
            .leastNonzeroMagnitude, 0.0012345, 123456.7890123,
        ] { check(value) }
        for _ in 0..<20_000 {
            check(Double(Int64(random.below(2_000_000_000)) - 1_000_000_000) / [10, 100, 1e3, 1e5, 1e6, 1e7, 1e8][random.below(7)])
            let value = Double(bitPattern: random.next())
            if value.isFinite { check(value) }
            check(Double.random(in: -1000...1000, using: &random))
        }
    }
}
